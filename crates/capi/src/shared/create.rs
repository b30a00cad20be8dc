//! Creating, opening and repairing segments.

use core::ffi::CStr;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use heapwright_shared::{Access, Error, Place, Settings, SharedHeap, Strangers};

use super::failure::Failure;
use super::types::{SharedAccess, SharedSettings};
use crate::handle::{Handle, SharedHandle};

fn place_of(name: &CStr) -> Result<Place, Failure> {
    Ok(Place::new(OsStr::from_bytes(name.to_bytes()))?)
}

fn access_of(access: Option<&SharedAccess>) -> Result<Access, Failure> {
    access.copied().unwrap_or_default().decoded()
}

fn handle_of(heap: SharedHeap) -> Result<*mut Handle, Failure> {
    Ok(SharedHandle::shared(heap).boxed()?)
}

/// Creates a segment by `make`, which may also open one that is there; `None` stands for the default settings.
pub(crate) fn create(
    make: fn(&Place, &Settings) -> Result<SharedHeap, Error>,
    name: &CStr,
    settings: Option<&SharedSettings>,
) -> Result<*mut Handle, Failure> {
    let settings = settings.copied().unwrap_or_default().decoded()?;
    handle_of(make(&place_of(name)?, &settings)?)
}

pub(crate) fn open(name: &CStr, access: Option<&SharedAccess>) -> Result<*mut Handle, Failure> {
    let access = access_of(access)?;
    handle_of(SharedHeap::open_with(&place_of(name)?, &access)?)
}

pub(crate) fn unlink(name: &CStr) -> Result<(), Failure> {
    Ok(SharedHeap::unlink(&place_of(name)?)?)
}

pub(crate) fn repair(name: &CStr, access: Option<&SharedAccess>, strangers: u32) -> Result<(), Failure> {
    let strangers = match strangers {
        0 => Strangers::Respect,
        1 => Strangers::Displace,
        _ => return Err(Failure::option("strangers is HW_STRANGERS_RESPECT or HW_STRANGERS_DISPLACE")),
    };
    SharedHeap::repair(&place_of(name)?, &access_of(access)?, strangers)?;
    Ok(())
}
