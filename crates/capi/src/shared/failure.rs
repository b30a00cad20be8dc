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
            Error::Corrupted { .. } | Error::BeyondRepair { .. } | Error::RootOfNoBlock { .. } => Status::Damaged,
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

    /// Every error with its status. Errors that share one differ in their text.
    fn every_error() -> Vec<(Error, Status)> {
        let place = Place::new("heapwright-test").expect("a place");
        let at = || place.clone();
        vec![
            (Error::BadName { why: "" }, Status::BadName),
            (Error::BadSettings { why: "" }, Status::BadOptions),
            (Error::Exists { place: at() }, Status::Exists),
            (Error::NotFound { place: at() }, Status::NotFound),
            (Error::NoDirectory { place: at() }, Status::NotFound),
            (Error::NotOurs { place: at(), owner: 7 }, Status::NotOurs),
            (Error::NotASegment { place: at(), why: "" }, Status::NotASegment),
            (Error::OtherVersion { place: at(), found: 2, known: 1 }, Status::OtherVersion),
            (Error::WrongLength { place: at(), expected: 2, found: 1 }, Status::WrongLength),
            (Error::Corrupted { what: "", offset: 0 }, Status::Damaged),
            (Error::BeyondRepair { what: "", offset: 0 }, Status::Damaged),
            (Error::OtherNamespace { place: at() }, Status::OtherNamespace),
            (Error::TooManyProcesses { most: 1 }, Status::TooManyProcesses),
            (Error::TimedOut { holder: 1 }, Status::TimedOut),
            (Error::MutexHeld { holder: Some(1) }, Status::TimedOut),
            (Error::HolderUnknown { place: Some(at()), holder: 1, why: "it is" }, Status::HolderUnknown),
            (Error::Restless { place: at() }, Status::Refused),
            (Error::NoSpace { bytes: 1 }, Status::OutOfMemory),
            (Error::System { place: at(), reason: FileError::Denied }, Status::Refused),
            (Error::DescriptorReplaced { place: at() }, Status::Refused),
            (Error::InUse { place: at(), by: 1 }, Status::InUse),
            (Error::Full { bytes: 1 }, Status::Full),
            (Error::BadAlignment { align: 3, most: 4096 }, Status::BadAlignment),
            (Error::NotABlock { offset: 1 }, Status::NotABlock),
            (Error::NotAWord { offset: 1 }, Status::NotABlock),
            (Error::AlreadyFree { offset: 1 }, Status::AlreadyFree),
            (Error::NoRoom { bytes: 1 }, Status::NoRoom),
            (Error::BeyondMaximum { bytes: 2, most: 1 }, Status::BeyondMaximum),
            (Error::BadRootName, Status::BadRootName),
            (Error::RootOfNoBlock { name: "orders".into(), offset: 0 }, Status::Damaged),
            (Error::RootsFull { most: 0 }, Status::RootsFull),
            (Error::RootDiffers { found: None }, Status::RootDiffers),
            (Error::NotTheHolder, Status::NotTheHolder),
        ]
    }

    /// The names of the variants in the enum's source: another crate cannot match them exhaustively.
    fn variants() -> Vec<&'static str> {
        let source = include_str!("../../../shared/src/terms/error.rs");
        let (_, rest) = source.split_once("pub enum Error {").expect("the enum");
        let (body, _) = rest.split_once("\n}").expect("its end");
        let names = body.lines().filter_map(|line| line.strip_prefix("    "));
        names
            .filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()))
            .map(|line| line.trim_end_matches([' ', '{', ',']))
            .collect()
    }

    #[test]
    fn every_error_has_its_status() {
        let (mut named, mut expected) = (Vec::new(), variants());
        for (error, status) in every_error() {
            assert_eq!(Status::from(&error), status, "{error:?}");
            let name = format!("{error:?}");
            named.push(name.split(' ').next().expect("a name").to_owned());
        }
        named.sort_unstable();
        expected.sort_unstable();
        assert_eq!(named, expected);
    }

    #[test]
    fn the_words_are_those_of_the_last_failure_of_the_thread() {
        // SAFETY: the text ends with a zero and is valid until this thread calls `last` again.
        let words = || unsafe { CStr::from_ptr(last()) }.to_str().expect("text").to_owned();
        assert_eq!((words().as_str(), last_status()), ("", Status::Ok));
        for (error, status) in every_error() {
            let expected = error.to_string();
            assert_eq!(reported(Err(error.into())), status);
            assert_eq!((words(), last_status()), (expected, status));
        }
        assert_eq!(value_or(3, Err(Status::NullPointer.into())), 3);
        assert_eq!(words(), Status::NullPointer.text().to_str().expect("text"));
        assert_eq!(std::thread::spawn(words).join().expect("a thread"), "");
    }
}
