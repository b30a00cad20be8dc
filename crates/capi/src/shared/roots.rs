//! Named roots.

use core::ffi::{CStr, c_char};

use heapwright_shared::{Error, Offset, SharedHeap};

use super::answer::{answer, answer_if_wanted};
use super::failure::Failure;
use crate::handle::{Handle, open_shared};
use crate::types::Status;

/// A root's name.
///
/// # Safety
/// `name` is null or ends with a zero, and stays as it is for as long as it is used.
unsafe fn text<'n>(name: *const c_char) -> Result<&'n str, Failure> {
    if name.is_null() {
        return Err(Status::NullPointer.into());
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    Ok(name.to_str().map_err(|_| Error::BadRootName)?)
}

/// Where a root points, as C sees it: 0 when it is not set.
fn number(root: Option<Offset>) -> u64 {
    root.map_or(0, Offset::get)
}

/// # Safety
/// `name` as for [`text`]; else as [`answer`].
pub(crate) unsafe fn get(handle: *const Handle, name: *const c_char, out: *mut u64) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { answer(handle, out, |heap| Ok::<_, Failure>(number(heap.root(text(name)?)?))) }
}

/// # Safety
/// As [`get`].
pub(crate) unsafe fn set(handle: *const Handle, name: *const c_char, new: u64, old: *mut u64) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe {
        answer_if_wanted(handle, old, |heap| {
            let new = Offset::new(new).ok_or(Status::NotABlock)?;
            Ok::<_, Failure>(number(heap.set_root(text(name)?, new)?))
        })
    }
}

/// # Safety
/// As [`get`].
pub(crate) unsafe fn remove(handle: *const Handle, name: *const c_char, old: *mut u64) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { answer_if_wanted(handle, old, |heap| Ok::<_, Failure>(number(unset(heap, text(name)?)?))) }
}

/// Removes the root wherever it points, and returns where that was. Whoever changes it in between is not disturbed.
fn unset(heap: &SharedHeap, name: &str) -> Result<Option<Offset>, Error> {
    let mut expected = heap.root(name)?;
    loop {
        match heap.replace_root(name, expected, None) {
            Err(Error::RootDiffers { found }) => expected = found.and_then(Offset::new),
            replaced => return replaced.map(|()| expected),
        }
    }
}

/// # Safety
/// `name` as for [`text`]; else as [`open_shared`].
pub(crate) unsafe fn replace(
    handle: *const Handle,
    name: *const c_char,
    expected: u64,
    new: u64,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let (heap, name) = unsafe { (open_shared(handle)?, text(name)?) };
    Ok(heap.replace_root(name, Offset::new(expected), Offset::new(new))?)
}
