//! Opening segments that others made: nothing in them is believed before it was looked at.

use heapwright_os::{FileStatus, SegmentFile, effective_user, fork_count, is_one_user};

use crate::format::fixed::{Fixed, Unfit, VERSION};
use crate::format::header::FIXED_WORDS;
use crate::format::layout::Layout;
use crate::handle::heap::SharedHeap;
use crate::mapped::mapping::Mapping;
use crate::order::view::View;
use crate::terms::error::{Error, HEADER_FAULTS};
use crate::terms::place::Place;
use crate::terms::settings::{Access, Owner};

impl SharedHeap {
    /// Attaches to the segment at `place`, which belongs to the effective user or the superuser.
    ///
    /// Time: constant while others are attached; else proportional to the heap's metadata.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NotOurs`], [`Error::NotASegment`], [`Error::OtherVersion`],
    /// [`Error::WrongLength`], [`Error::Corrupted`] and [`Error::OtherNamespace`] for what is not believed;
    /// [`Error::TooManyProcesses`]; [`Error::TimedOut`]; or what the system says.
    pub fn open(place: &Place) -> Result<SharedHeap, Error> {
        Self::open_with(place, &Access::default())
    }

    /// As [`SharedHeap::open`], with a patience of one's own, or for segments of others.
    ///
    /// # Errors
    /// As [`SharedHeap::open`].
    pub fn open_with(place: &Place, access: &Access) -> Result<SharedHeap, Error> {
        let mapping = map(place, access.owner)?.0;
        Self::attach(mapping, access)
    }

    /// Takes the lock of a segment that may be used here, and a place among its processes.
    fn attach(mapping: Mapping, access: &Access) -> Result<SharedHeap, Error> {
        let (forks, me) = (fork_count(), mapping.identify()?);
        let (held, taken) = mapping.lock(me, access.patience)?;
        let view = View::enter(&mapping, taken, me)?;
        drop(held);
        Ok(SharedHeap::new(mapping, access.patience, forks, me, view))
    }
}

/// Maps the segment at `place` once the fixed part of its header was found in order. The header and the tables can be
/// touched.
pub(crate) fn map(place: &Place, owner: Owner) -> Result<(Mapping, FileStatus), Error> {
    let file = SegmentFile::open(place.c_path()).map_err(|reason| Error::refused(place, 0, reason))?;
    let (status, layout) = examine(place, owner, &file)?;
    let segment = file.map(layout.length()).map_err(|reason| Error::refused(place, layout.length(), reason))?;
    let mapping = Mapping::of(place, segment, layout);
    mapping.back_again(&[(0, layout.owners)])?;
    Ok((mapping, status))
}

/// Refuses what is at `place` unless it begins like a segment.
pub(crate) fn recognize(place: &Place) -> Result<(), Error> {
    let file = SegmentFile::open_read_only(place.c_path()).map_err(|reason| Error::refused(place, 0, reason))?;
    read_fixed(place, &file).map(|_| ())
}

/// Examines the file at `place`: its owner, and where the sections of the segment in it lie.
pub(crate) fn examine(place: &Place, owner: Owner, file: &SegmentFile) -> Result<(FileStatus, Layout), Error> {
    let status = file.status().map_err(|reason| Error::refused(place, 0, reason))?;
    trust(place, owner, file, &status)?;
    let (fixed, layout) = read_fixed(place, file)?;
    if status.length != fixed.length() {
        return Err(Error::WrongLength { place: place.clone(), expected: fixed.length(), found: status.length });
    }
    Ok((status, layout))
}

/// In a user namespace, all users that have no number in it appear under the same one, which therefore proves nothing.
fn trust(place: &Place, owner: Owner, file: &SegmentFile, status: &FileStatus) -> Result<(), Error> {
    let wanted = match owner {
        Owner::Anybody => return Ok(()),
        Owner::User(user) if user == status.owner => true,
        _ => status.owner == effective_user() || status.owner == 0,
    };
    let trusted = wanted && (is_one_user(status.owner) || file.is_own());
    if trusted { Ok(()) } else { Err(Error::NotOurs { place: place.clone(), owner: status.owner }) }
}

/// Reads the fixed part from the file, not from a mapping, which a file that is too short does not back.
fn read_fixed(place: &Place, file: &SegmentFile) -> Result<(Fixed, Layout), Error> {
    let mut bytes = [0; FIXED_WORDS * 8];
    let read = file.read_at(0, &mut bytes).map_err(|reason| Error::refused(place, 0, reason))?;
    let not_one = |why| Error::NotASegment { place: place.clone(), why };
    let mut words = [0; FIXED_WORDS];
    for (word, part) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(part.try_into().unwrap_or_default());
    }
    let [cut, differs, contradicts] = HEADER_FAULTS;
    Fixed::decode(&words).map_err(|unfit| match unfit {
        Unfit::Magic if read < bytes.len() => not_one("it is too short"),
        _ if read < bytes.len() => Error::Corrupted { what: cut, offset: read as u64 },
        Unfit::Magic => not_one("it does not begin like one"),
        Unfit::Version(found) => Error::OtherVersion { place: place.clone(), found, known: VERSION },
        Unfit::Checksum => Error::Corrupted { what: differs, offset: 0 },
        Unfit::Contents => Error::Corrupted { what: contradicts, offset: 0 },
    })
}
