//! Growth while others use the heap.
//!
//! Every process has mapped the whole file, as long as it can become, so that growth needs no message: memory is put
//! behind a longer prefix of each section, then the heap's end moves. When the heap outgrows what its engine's metadata
//! is laid out for, that is laid out anew for twice as much, by the same means by which a heap is recovered.

use heapwright_os::page_size;
use heapwright_placement::{Engine, Growth, Noted, PolicyKind, buddy_end};

use crate::handle::heap::{Section, SharedHeap};
use crate::order::recover::{NOTHING, lay_out};
use crate::terms::error::Error;
use crate::terms::offset::Offset;

/// A heap grows by this many bytes at least.
const LEAST_STEP: usize = 64 << 10;
/// A heap grows by this part of its size at least.
const LEAST_SHARE: usize = 8;

impl SharedHeap {
    /// Makes the heap at least `bytes` long. Heaps grow by themselves; this is for programs that need the memory now.
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

    /// Returns how many bytes of blocks the heap holds now, used and free.
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
        self.make_room(bytes, align)?;
        self.place(bytes, align).map(|place| self.mapping().offset_at(place)).map_err(|_| Error::Full { bytes })
    }

    /// Makes the heap long enough for a block, none of its holes being.
    pub(crate) fn make_room(&mut self, bytes: usize, align: usize) -> Result<(), Error> {
        let least = self.size_to_hold(bytes, align).ok_or(Error::Full { bytes })?;
        self.grow_amply(least)
    }

    /// Returns the size above the present one from which on the heap's tail holds the request; `None` when that is more
    /// than it may have.
    fn size_to_hold(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let plan = &self.mapping().layout.plan;
        let (size, most) = (self.engine().heap_size(), plan.max_size);
        let need = bytes.max(1).checked_next_multiple_of(plan.granule as usize).filter(|&need| need <= most)?;
        let wanted = match plan.policy {
            PolicyKind::Buddy => {
                let length = need.max(align).checked_next_power_of_two()?;
                let engine = &*self.engine();
                buddy_end(size, length, Growth::Extend, |offset| engine.block_containing(offset))?
            }
            // Where the alignment leaves a gap, the last bytes below the maximum may do or not.
            _ => self.engine().top().checked_add(need).filter(|&end| end <= most)?.saturating_add(align).min(most),
        };
        (wanted > size && wanted <= most).then_some(wanted)
    }

    /// Makes the heap at least `least` bytes long, and longer so that it need not grow soon if the system has the
    /// memory.
    fn grow_amply(&mut self, least: usize) -> Result<(), Error> {
        let size = self.engine().heap_size();
        let most = self.mapping().layout.plan.max_size;
        let ample = (size + (size / LEAST_SHARE).max(LEAST_STEP)).clamp(least, most.max(least));
        match self.grow(ample) {
            Err(Error::NoSpace { .. }) => self.grow(least),
            grown => grown,
        }
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
        mapping.verify_length()?;
        // Memory first: whatever happens from here on, all that any process touches is backed.
        mapping.back((had_size, had_capacity), (size, capacity))?;
        if capacity != had_capacity {
            self.lay_out_for(capacity)?;
        }
        let record = self.record();
        let extended = self.engine().extend(size, |change| record.write(change));
        record.clear();
        extended.map_err(|_| Error::BeyondMaximum { bytes: size, most })
    }

    /// Lays out the engine's metadata for `capacity`. The store of the capacity is the commit: after a death before
    /// it, the next process finds the old layout in order; after a death behind it, the next one does the same as here.
    fn lay_out_for(&mut self, capacity: usize) -> Result<(), Error> {
        let mapping = self.mapping();
        mapping.header().live.set_capacity(capacity);
        let engine = lay_out(mapping, NOTHING)?;
        let view = self.view();
        (view.engine, view.epoch) = (engine, mapping.header().live.epoch());
        Ok(())
    }
}
