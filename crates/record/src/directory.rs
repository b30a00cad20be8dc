//! The directory for streams, as the environment named it when the process began. A program may clear or change its
//! environment before it forks, and its children begin streams of their own.

use core::ffi::CStr;

use heapwright_os::{Lock, variable};
use heapwright_stream::{PATH_LENGTH, VARIABLE};

/// The path, which ends with a zero byte; empty when there is none.
///
/// The lock is taken by a thread that holds that of the recording, which is held across forks.
static DIRECTORY: Lock<[u8; PATH_LENGTH]> = Lock::new([0; PATH_LENGTH]);

/// Reads the path from the environment. One in which no stream could be opened, because it is too long, is not kept.
pub(crate) fn keep() {
    variable(VARIABLE, |directory| {
        let path = directory.to_bytes_with_nul();
        if let Some(room) = DIRECTORY.lock().get_mut(..path.len()) {
            room.copy_from_slice(path);
        }
    });
}

/// Passes the path to `see`; returns `None` when there is none.
pub(crate) fn with<R>(see: impl FnOnce(&CStr) -> R) -> Option<R> {
    let path = DIRECTORY.lock();
    let directory = CStr::from_bytes_until_nul(&*path).ok().filter(|directory| !directory.is_empty())?;
    Some(see(directory))
}
