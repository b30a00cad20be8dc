//! The sections of a segment as this process has them mapped.

use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use heapwright_os::{Identity, Segment, Taken, TimedOut};

use crate::error::Error;
use crate::header::Header;
use crate::layout::Layout;
use crate::place::Place;
use crate::processes::ProcessSlot;
use crate::roots::RootSlot;

/// A segment of which the fixed part of the header was found in order.
pub(crate) struct Mapping {
    pub(crate) place: Place,
    pub(crate) layout: Layout,
    pub(crate) segment: Segment,
}

impl Mapping {
    #[inline(always)]
    fn at<T>(&self, offset: usize) -> NonNull<T> {
        debug_assert!(offset <= self.segment.length());
        // SAFETY: all sections lie within the segment, whose length was compared with the layout's.
        unsafe { self.segment.base().add(offset).cast() }
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the header lies at the start, is backed from the start, and consists of atomic integers.
        unsafe { self.at(0).as_ref() }
    }

    pub(crate) fn slots(&self) -> &[ProcessSlot] {
        // SAFETY: the section is so long, aligned to 8, backed from the start, and consists of atomic integers.
        unsafe { slice::from_raw_parts(self.at(self.layout.slots).as_ptr(), self.layout.plan.processes) }
    }

    pub(crate) fn roots(&self) -> &[RootSlot] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts(self.at(self.layout.roots).as_ptr(), self.layout.plan.roots) }
    }

    /// The owners of all granules; only those of granules of the heap may be touched.
    #[inline(always)]
    fn owners(&self) -> &[AtomicU8] {
        let granules = self.layout.plan.max_size >> self.layout.shift;
        // SAFETY: as above, for bytes; what is not backed is not touched.
        unsafe { slice::from_raw_parts(self.at(self.layout.owners).as_ptr(), granules) }
    }

    /// The owner of the block at `place`, in bytes from the data's start.
    #[inline(always)]
    pub(crate) fn owner(&self, place: usize) -> Option<&AtomicU8> {
        self.owners().get(place >> self.layout.shift)
    }

    pub(crate) fn metadata(&self) -> NonNull<u64> {
        self.at(self.layout.metadata)
    }

    /// Backs all that a heap of `size` bytes within an engine's `capacity` touches, but what one of `had` bytes within
    /// `had_capacity` has.
    pub(crate) fn back(&self, had: (usize, usize), (size, capacity): (usize, usize)) -> Result<(), Error> {
        let before = self.layout.backed(had.0, had.1)?;
        let after = self.layout.backed(size, capacity)?;
        before.into_iter().zip(after).try_for_each(|((_, from), (_, to))| self.back_range(from, to))
    }

    pub(crate) fn back_range(&self, from: usize, to: usize) -> Result<(), Error> {
        if from >= to {
            return Ok(());
        }
        self.segment.back(from, to).map_err(|reason| Error::refused(&self.place, to - from, reason))
    }

    /// Takes the lock.
    pub(crate) fn lock(&self, me: Identity, patience: Duration) -> Result<(Held<'_>, Taken), Error> {
        match self.header().lock.acquire(me, patience) {
            Ok(taken) => Ok((Held { mapping: self }, taken)),
            Err(TimedOut { holder }) => Err(Error::TimedOut { holder: holder.pid }),
        }
    }
}

/// The lock, released when dropped.
pub(crate) struct Held<'m> {
    mapping: &'m Mapping,
}

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: whoever made this took the lock.
        unsafe { self.mapping.header().lock.release() };
    }
}
