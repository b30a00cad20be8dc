//! Failures: their status, and their description in words, which each thread can ask for.

use core::cell::Cell;
use core::ffi::c_char;
use std::ffi::CString;

use heapwright_shared::Error;

use crate::types::Status;

/// Why something was not done.
pub(crate) enum Failure {
    /// An argument is invalid.
    Misuse(Status),
    /// The heap's error.
    Refused(Error),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Failure::Misuse(status)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Refused(error)
    }
}

impl From<&Error> for Status {
    fn from(error: &Error) -> Self {
        match error {
            Error::BadName { .. } => Status::BadName,
            Error::BadSettings { .. } => Status::BadOptions,
            Error::Exists { .. } => Status::Exists,
            Error::NotFound { .. } | Error::NoDirectory { .. } => Status::NotFound,
            Error::NotOurs { .. } => Status::NotOurs,
            Error::NotASegment { .. } => Status::NotASegment,
            Error::OtherVersion { .. } => Status::OtherVersion,
            Error::WrongLength { .. } => Status::WrongLength,
            Error::Corrupted { .. } | Error::BeyondRepair { .. } => Status::Damaged,
            Error::OtherNamespace { .. } => Status::OtherNamespace,
            Error::TooManyProcesses { .. } => Status::TooManyProcesses,
            Error::TimedOut { .. } | Error::MutexHeld { .. } => Status::TimedOut,
            Error::HolderUnknown { .. } => Status::HolderUnknown,
            Error::NoSpace { .. } => Status::OutOfMemory,
            Error::Full { .. } => Status::Full,
            Error::BadAlignment { .. } => Status::BadAlignment,
            Error::NotABlock { .. } | Error::NotAWord { .. } => Status::NotABlock,
            Error::AlreadyFree { .. } => Status::AlreadyFree,
            Error::NoRoom { .. } => Status::NoRoom,
            Error::BeyondMaximum { .. } => Status::BeyondMaximum,
            Error::BadRootName => Status::BadRootName,
            Error::RootsFull { .. } => Status::RootsFull,
            Error::RootDiffers { .. } => Status::RootDiffers,
            Error::NotTheHolder => Status::NotTheHolder,
            Error::InUse { .. } => Status::InUse,
            // Errors of the system, and variants of later versions of the library: the text says which.
            _ => Status::Refused,
        }
    }
}

impl Failure {
    /// An option, which `why` names, is out of range.
    pub(crate) fn option(why: &'static str) -> Failure {
        Failure::Refused(Error::BadSettings { why })
    }

    fn status(&self) -> Status {
        match self {
            Failure::Misuse(status) => *status,
            Failure::Refused(error) => error.into(),
        }
    }

    /// Describes what failed, where, and what to do next.
    fn text(&self) -> CString {
        match self {
            Failure::Misuse(status) => status.text().to_owned(),
            // The names of places have no NUL in them.
            Failure::Refused(error) => CString::new(error.to_string()).unwrap_or_default(),
        }
    }
}

/// A thread's last failure, and the text that was returned for it.
struct Last {
    failure: Cell<Option<Failure>>,
    text: Cell<Option<CString>>,
}

thread_local! {
    static LAST: Last = const { Last { failure: Cell::new(None), text: Cell::new(None) } };
}

/// The status of an operation without a result. Remembers the failure for this thread.
#[inline(always)]
pub(crate) fn reported(result: Result<(), Failure>) -> Status {
    match result {
        Ok(()) => Status::Ok,
        Err(failure) => remember_status(failure),
    }
}

#[cold]
#[inline(never)]
fn remember_status(failure: Failure) -> Status {
    let status = failure.status();
    remember(failure);
    status
}

/// The result of an operation, or `instead` when it failed. Remembers the failure for this thread.
pub(crate) fn value_or<T>(instead: T, result: Result<T, Failure>) -> T {
    result.unwrap_or_else(|failure| {
        remember(failure);
        instead
    })
}

/// Does nothing in a thread whose thread-local values are already destroyed.
#[cold]
fn remember(failure: Failure) {
    let _ = LAST.try_with(|last| last.failure.set(Some(failure)));
}

/// The description of this thread's last failure, valid until the thread's next call; empty before the first failure.
pub(crate) fn last() -> *const c_char {
    let words = LAST.try_with(|last| {
        let failure = last.failure.take()?;
        let text = failure.text();
        let words = text.as_ptr();
        last.failure.set(Some(failure));
        last.text.set(Some(text));
        Some(words)
    });
    words.ok().flatten().unwrap_or(c"".as_ptr())
}

/// The status of this thread's last failure; that of success before the first.
pub(crate) fn last_status() -> Status {
    let status = LAST.try_with(|last| {
        let failure = last.failure.take()?;
        let status = failure.status();
        last.failure.set(Some(failure));
        Some(status)
    });
    status.ok().flatten().unwrap_or(Status::Ok)
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use heapwright_shared::{FileError, Place};

    use super::*;

    fn every_error() -> Vec<Error> {
        let place = Place::new("heapwright-test").expect("a place");
        vec![
            Error::BadName { why: "" },
            Error::BadSettings { why: "" },
            Error::Exists { place: place.clone() },
            Error::NotFound { place: place.clone() },
            Error::NotOurs { place: place.clone(), owner: 7 },
            Error::NotASegment { place: place.clone(), why: "" },
            Error::OtherVersion { place: place.clone(), found: 2, known: 1 },
            Error::WrongLength { place: place.clone(), expected: 2, found: 1 },
            Error::Corrupted { what: "", offset: 0 },
            Error::OtherNamespace { place: place.clone() },
            Error::TooManyProcesses { most: 1 },
            Error::TimedOut { holder: 1 },
            Error::HolderUnknown { place: Some(place.clone()), holder: 1, why: "it is" },
            Error::NoSpace { bytes: 1 },
            Error::System { place, reason: FileError::Denied },
            Error::Full { bytes: 1 },
            Error::BadAlignment { align: 3, most: 4096 },
            Error::NotABlock { offset: 1 },
            Error::AlreadyFree { offset: 1 },
            Error::NoRoom { bytes: 1 },
            Error::BeyondMaximum { bytes: 2, most: 1 },
            Error::BadRootName,
            Error::RootsFull { most: 0 },
            Error::RootDiffers { found: None },
            Error::InUse { place: Place::new("heapwright-test").expect("a place"), by: 1 },
        ]
    }

    #[test]
    fn every_error_has_a_status_of_its_own() {
        let mut statuses: Vec<i32> = every_error().iter().map(|error| Status::from(error) as i32).collect();
        let errors = statuses.len();
        statuses.sort_unstable();
        statuses.dedup();
        assert_eq!(statuses.len(), errors);
        assert!(statuses[0] > 0);
    }

    #[test]
    fn the_words_are_those_of_the_last_failure_of_the_thread() {
        // SAFETY: the text ends with a zero and is valid until this thread calls `last` again.
        let words = || unsafe { CStr::from_ptr(last()) }.to_str().expect("text").to_owned();
        assert_eq!((words().as_str(), last_status()), ("", Status::Ok));
        for error in every_error() {
            let expected = error.to_string();
            let status = reported(Err(error.into()));
            assert_eq!((words(), last_status()), (expected, status));
        }
        assert_eq!(value_or(3, Err(Status::NullPointer.into())), 3);
        assert_eq!(words(), Status::NullPointer.text().to_str().expect("text"));
        assert_eq!(std::thread::spawn(words).join().expect("a thread"), "");
    }
}
