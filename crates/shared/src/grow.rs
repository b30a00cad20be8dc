//! Growth while others use the heap.
//!
//! Every process has mapped the whole file, as long as it can become, so that nobody needs to be told: memory is put behind a longer
//! prefix of each section, then the heap's end moves. When the heap outgrows what its engine's metadata is laid out for, that is
//! laid out anew for twice as much, by the same means by which a heap is recovered.

use heapwright_os::page_size;
use heapwright_placement::{AllocateError, Engine, Noted, PolicyKind};

use crate::error::Error;
use crate::heap::{Section, SharedHeap};
use crate::offset::Offset;
use crate::recover::lay_out;

/// A heap grows by this many bytes at least.
const LEAST_STEP: usize = 64 << 10;
/// A heap grows by this part of its size at least.
const LEAST_SHARE: usize = 8;

impl SharedHeap {
    /// Makes the heap at least `bytes` long. Heaps grow by themselves; this is for those who want the memory now.
    ///
    /// # Errors
    /// [`Error::BeyondMaximum`], [`Error::NoSpace`], [`Error::TimedOut`], [`Error::Corrupted`].
    pub fn grow(&self, bytes: usize) -> Result<(), Error> {
        let most = self.max_size();
        if bytes > most {
            return Err(Error::BeyondMaximum { bytes, most });
        }
        self.enter()?.grow(bytes)
    }

    /// How many bytes of blocks the heap holds now, used and free.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Corrupted`].
    pub fn size(&self) -> Result<usize, Error> {
        Ok(self.enter()?.engine().heap_size())
    }
}

impl Section<'_> {
    /// As `allocate` in a heap none of whose holes fits.
    #[cold]
    #[inline(never)]
    pub(crate) fn allocate_grown(&mut self, bytes: usize, align: usize) -> Result<Offset, Error> {
        let full = Error::Full { bytes };
        let size = self.engine().heap_size();
        let most = self.mapping().layout.plan.max_size;
        let least =
            self.size_to_hold(bytes, align).filter(|&least| least <= most && size < most).ok_or(full.clone())?;
        let ample = (size + (size / LEAST_SHARE).max(LEAST_STEP)).clamp(least, most.max(least));
        // Where the system is short of memory, as much as the request needs may still be had.
        match self.grow(ample) {
            Err(Error::NoSpace { .. }) => self.grow(least)?,
            grown => grown?,
        }
        match self.place(bytes, align) {
            Ok(place) => Ok(self.offset_at(place)),
            Err(AllocateError::RegionFull | AllocateError::BadAlignment) => Err(full),
        }
    }

    /// A size at which the heap's new tail surely holds the request, or its largest if that is less and may do.
    fn size_to_hold(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let layout = &self.mapping().layout;
        let (granule, most) = (layout.plan.granule as usize, layout.plan.max_size);
        let need = bytes.max(1).checked_next_multiple_of(granule)?;
        if need > most {
            return None;
        }
        let top = match layout.plan.policy {
            PolicyKind::Buddy => {
                let length = need.max(align).checked_next_power_of_two()?;
                return self.engine().heap_size().checked_next_multiple_of(length)?.checked_add(length);
            }
            _ => self.engine().top(),
        };
        Some(top.checked_add(need)?.checked_add(align)?.min(most))
    }

    /// Makes the heap `size` bytes long, rounded up to pages, unless it is.
    fn grow(&mut self, size: usize) -> Result<(), Error> {
        let mapping = self.mapping();
        let most = mapping.layout.plan.max_size;
        let size = size.next_multiple_of(page_size().max(1 << mapping.layout.shift)).min(most);
        let (had_size, had_capacity) = (self.engine().heap_size(), self.engine().capacity());
        if size <= had_size {
            return Ok(());
        }
        let capacity = if size <= had_capacity { had_capacity } else { size.max(2 * had_capacity).min(most) };
        // Memory first: whatever happens from here on, all that anybody touches is backed.
        mapping.back((had_size, had_capacity), (size, capacity))?;
        if capacity != had_capacity {
            self.lay_out_for(capacity)?;
        }
        let record = self.record();
        let extended = self.engine().extend(size, |change| record.write(change));
        record.clear();
        extended.map_err(|_| Error::BeyondMaximum { bytes: size, most })
    }

    /// Lays out the engine's metadata for `capacity`. The store of the capacity is the commit: whoever comes after a death before it
    /// finds the old layout in order, and whoever comes after one behind it does the same as here.
    fn lay_out_for(&mut self, capacity: usize) -> Result<(), Error> {
        let mapping = self.mapping();
        mapping.header().live.set_capacity(capacity);
        let engine = lay_out(mapping)?;
        let view = self.view();
        (view.engine, view.epoch) = (engine, mapping.header().live.epoch());
        Ok(())
    }
}
