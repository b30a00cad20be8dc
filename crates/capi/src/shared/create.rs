//! Making, opening, leaving and repairing segments.

use core::ffi::{CStr, c_char};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use heapwright_shared::{Access, Error, Place, Settings, SharedHeap, Strangers};

use super::failure::Failure;
use super::types::{SharedAccess, SharedSettings};
use crate::create::hand_over;
use crate::handle::{Handle, SharedHandle, take_shared};
use crate::types::Status;

/// # Safety
/// `name` is null or ends with a zero.
unsafe fn place_of(name: *const c_char) -> Result<Place, Failure> {
    if name.is_null() {
        return Err(Status::NullPointer.into());
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    Ok(Place::new(OsStr::from_bytes(name.to_bytes()))?)
}

/// # Safety
/// `access` is null or may be read.
unsafe fn access_of(access: *const SharedAccess) -> Result<Access, Status> {
    // SAFETY: the caller's promise.
    unsafe { access.as_ref() }.copied().unwrap_or_default().try_into()
}

fn handle_of(heap: SharedHeap) -> Result<*mut Handle, Failure> {
    Ok(SharedHandle::shared(heap).boxed()?)
}

/// Stores what `make` makes of the settings in `out`, or null.
///
/// # Safety
/// `name` is null or ends with a zero; `settings` is null or may be read, `out` is null or may be written.
pub(crate) unsafe fn create(
    make: fn(&Place, &Settings) -> Result<SharedHeap, Error>,
    name: *const c_char,
    settings: *const SharedSettings,
    out: *mut *mut Handle,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe {
        hand_over(out, || {
            let settings = settings.as_ref().copied().unwrap_or_default().try_into()?;
            handle_of(make(&place_of(name)?, &settings)?)
        })
    }
}

/// # Safety
/// As [`create`].
pub(crate) unsafe fn open(
    name: *const c_char,
    access: *const SharedAccess,
    out: *mut *mut Handle,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe {
        hand_over(out, || {
            let access = access_of(access)?;
            handle_of(SharedHeap::open_with(&place_of(name)?, &access)?)
        })
    }
}

/// # Safety
/// As [`take_shared`].
pub(crate) unsafe fn close(handle: *mut Handle) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    Ok(unsafe { take_shared(handle) }?.close()?)
}

/// # Safety
/// `name` is null or ends with a zero.
pub(crate) unsafe fn unlink(name: *const c_char) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    Ok(SharedHeap::unlink(&unsafe { place_of(name) }?)?)
}

/// # Safety
/// `name` is null or ends with a zero; `access` is null or may be read.
pub(crate) unsafe fn repair(name: *const c_char, access: *const SharedAccess, strangers: u32) -> Result<(), Failure> {
    let strangers = match strangers {
        0 => Strangers::Respect,
        1 => Strangers::Displace,
        _ => return Err(Status::BadOptions.into()),
    };
    // SAFETY: the caller's promise.
    let (place, access) = unsafe { (place_of(name)?, access_of(access)?) };
    SharedHeap::repair(&place, &access, strangers)?;
    Ok(())
}
