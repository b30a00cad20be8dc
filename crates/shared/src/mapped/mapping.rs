//! A segment as this process has it mapped.

use std::ffi::CString;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::time::Duration;

use heapwright_os::{Announcement, FileError, Identity, Numbers, Segment, SegmentFile, SharedLock, Taken, TimedOut};

use crate::format::layout::Layout;
use crate::mapped::contents;
use crate::mapped::sections::Sections;
use crate::terms::error::Error;
use crate::terms::place::Place;

/// A segment of which the fixed part of the header was found in order.
pub(crate) struct Mapping {
    pub(crate) place: Place,
    /// The file's path from the root directory, also when the process works in another directory later.
    absolute: CString,
    announcement: Announcement,
    pub(crate) segment: Segment,
    sections: Sections,
}

impl Deref for Mapping {
    type Target = Sections;

    #[inline(always)]
    fn deref(&self) -> &Sections {
        &self.sections
    }
}

impl Mapping {
    /// Returns the segment that `segment`, as long as `layout` says, holds.
    pub(crate) fn of(place: &Place, segment: Segment, layout: Layout) -> Mapping {
        // SAFETY: the sections go with the mapping, and what processes may do to them is the trust that is documented.
        let sections = unsafe { Sections::at_base(segment.base(), layout, segment.file()) };
        Mapping {
            place: place.clone(),
            absolute: place.absolute(),
            announcement: Announcement::default(),
            segment,
            sections,
        }
    }

    /// Opens the file again by its name, which the program may have closed.
    pub(crate) fn open_again(&self) -> Result<SegmentFile, FileError> {
        let open = |path| self.segment.file().open_again(path);
        open(self.place.c_path()).or_else(|_| open(&self.absolute))
    }

    /// Announces this process to the others. Returns its identity.
    ///
    /// A process that cannot announce itself is known by its number, and therefore to those of its namespace only.
    pub(crate) fn identify(&self) -> Result<Identity, Error> {
        let (header, mine) = (self.header(), Identity::mine());
        let announced = mine.announced(Numbers::of(header.namespace()));
        match self.announcement.make(self.segment.file(), self.place.c_path(), announced) {
            Some(me) => Ok(me),
            None if header.is_of_our_namespace() => Ok(mine),
            None => Err(Error::OtherNamespace { place: self.place.clone() }),
        }
    }

    /// Backs all that a heap of `size` bytes within an engine's `capacity` touches, but what one of `had` bytes within
    /// `had_capacity` has. The data first, which is the longest: where there is no room for it, nothing else is taken.
    pub(crate) fn back(&self, had: (usize, usize), (size, capacity): (usize, usize)) -> Result<(), Error> {
        let before = self.layout.backed(had.0, had.1)?;
        let after = self.layout.backed(size, capacity)?;
        before.into_iter().zip(after).rev().try_for_each(|((_, from), (_, to))| self.back_range(from, to))
    }

    /// Sees to it that what was backed once still is: a segment may be a sparse copy of one.
    pub(crate) fn back_again(&self, ranges: &[(usize, usize)]) -> Result<(), Error> {
        let back = |&(from, to): &(usize, usize)| {
            self.segment.back_again(from, to).map_err(|reason| Error::refused(&self.place, to - from, reason))
        };
        ranges.iter().try_for_each(back)
    }

    /// Verifies that the file is as long as it was made: a file that was cut would become as long again by growth,
    /// without its contents.
    pub(crate) fn verify_length(&self) -> Result<(), Error> {
        contents::verify_length(&self.place, self.segment.file(), self.layout.length())
    }

    /// Returns how many bytes the system holds for the segment.
    pub(crate) fn allocated(&self) -> Result<u64, Error> {
        let status = self.segment.file().status();
        status.map(|status| status.allocated).map_err(|reason| Error::refused(&self.place, 0, reason))
    }

    pub(crate) fn back_range(&self, from: usize, to: usize) -> Result<(), Error> {
        if from >= to {
            return Ok(());
        }
        self.segment.back(from, to).map_err(|reason| Error::refused(&self.place, to - from, reason))
    }

    /// Takes the lock.
    pub(crate) fn lock(&self, me: Identity, patience: Duration) -> Result<(Held<'_>, Taken), Error> {
        let taken = if self.header().lock.try_acquire(me) { Taken::Clean } else { self.wait_for_lock(me, patience)? };
        Ok((Held { mapping: self }, taken))
    }

    /// Takes the lock, which was not free a moment ago.
    pub(crate) fn wait_for_lock(&self, me: Identity, patience: Duration) -> Result<Taken, Error> {
        self.wait_for(&self.header().lock, me, patience)
    }

    /// Takes a lock in the segment, which was not free a moment ago.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_for(&self, lock: &SharedLock, me: Identity, patience: Duration) -> Result<Taken, Error> {
        let deaths = self.deaths();
        lock.wait(me, patience, deaths).map_err(|TimedOut { holder }| match deaths.doubt_about(holder) {
            None => Error::TimedOut { holder: holder.pid },
            Some(why) => Error::HolderUnknown { place: Some(self.place.clone()), holder: holder.pid, why },
        })
    }

    /// Takes the lock from any holder.
    ///
    /// # Safety
    /// No process that lives holds it.
    pub(crate) unsafe fn seize(&self, me: Identity) -> (Held<'_>, Taken) {
        // SAFETY: the caller's promise.
        let taken = unsafe { self.header().lock.seize(me) }.map_or(Taken::Clean, Taken::FromTheDead);
        (Held { mapping: self }, taken)
    }
}

/// The lock, released when dropped.
pub(crate) struct Held<'m> {
    mapping: &'m Mapping,
}

impl Held<'_> {
    /// Gives the lock back to the dead one that it was taken from.
    pub(crate) fn return_to(self, dead: Identity) {
        let held = ManuallyDrop::new(self);
        // SAFETY: this was made after taking the lock, and the caller says from which process.
        unsafe { held.mapping.header().lock.return_to(dead) };
    }
}

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: this was made after taking the lock.
        unsafe { self.mapping.header().lock.release() };
    }
}
