//! Named roots.

use core::ffi::CStr;

use heapwright_shared::{Error, Offset, SharedHeap};

use super::failure::Failure;
use crate::types::Status;

fn text(name: &CStr) -> Result<&str, Failure> {
    Ok(name.to_str().map_err(|_| Error::BadRootName)?)
}

/// Where a root points, as C sees it: 0 when it is not set.
fn number(root: Option<Offset>) -> u64 {
    root.map_or(0, Offset::get)
}

pub(crate) fn get(heap: &SharedHeap, name: &CStr) -> Result<u64, Failure> {
    Ok(number(heap.root(text(name)?)?))
}

/// Sets the root; returns where it pointed before.
pub(crate) fn set(heap: &SharedHeap, name: &CStr, new: u64) -> Result<u64, Failure> {
    let new = Offset::new(new).ok_or(Status::NotABlock)?;
    Ok(number(heap.set_root(text(name)?, new)?))
}

/// Removes the root wherever it points, and returns where that was. A change that another thread makes meanwhile
/// happens either before the removal or after it.
pub(crate) fn remove(heap: &SharedHeap, name: &CStr) -> Result<u64, Failure> {
    let name = text(name)?;
    let mut expected = heap.root(name)?;
    loop {
        match heap.replace_root(name, expected, None) {
            Err(Error::RootDiffers { found }) => expected = found.and_then(Offset::new),
            replaced => return Ok(replaced.map(|()| number(expected))?),
        }
    }
}

pub(crate) fn replace(heap: &SharedHeap, name: &CStr, expected: u64, new: u64) -> Result<(), Failure> {
    Ok(heap.replace_root(text(name)?, Offset::new(expected), Offset::new(new))?)
}
