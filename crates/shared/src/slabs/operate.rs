//! Allocation and free of small blocks.

use super::bitmap::NotLive;
use super::lane::{Outcome, Owned};
use super::slab::{SLAB, Slab, Tenure};
use crate::error::Error;
use crate::heap::SharedHeap;
use crate::offset::Offset;

/// Among so many slabs that a process wants, it looks once for those of processes that left.
const WANTED_PER_SEARCH: usize = 64;
/// How many places it looks at then.
const SEARCHED: usize = 4096;

impl SharedHeap {
    /// Takes a block from a slab of this process; `None` when the request is not for slabs, or the heap has no room for
    /// one.
    #[inline(always)]
    pub(crate) fn allocate_small(&self, bytes: usize, align: usize) -> Result<Option<Offset>, Error> {
        let Some(shape) = self.mapping.layout.shape else { return Ok(None) };
        // A block lies at a multiple of its length in its slab.
        let bytes = if align <= self.granule() { bytes } else { bytes.max(1).next_multiple_of(align) };
        let Some(class) = shape.class_for(bytes) else { return Ok(None) };
        if align > self.granule() && !shape.size(class).is_multiple_of(align) {
            return Ok(None);
        }
        self.attached()?;
        let Some(mut owned) = self.lane.enter() else { return Ok(None) };
        let slot = self.lane.slot();
        loop {
            if let Some(place) = owned.classes[class].take(&self.mapping, slot) {
                // SAFETY: data does not begin at 0.
                return Ok(Some(unsafe { Offset::new_unchecked((self.mapping.layout.data + place) as u64) }));
            }
            if !self.refill(&mut owned, class)? {
                return Ok(None);
            }
        }
    }

    /// Sees to it that a slab of `class` has a free block. Returns whether one has.
    #[cold]
    #[inline(never)]
    fn refill(&self, owned: &mut Owned, class: usize) -> Result<bool, Error> {
        let slot = self.lane.slot();
        let mut section = self.enter()?;
        owned.refills += 1;
        if owned.refills % WANTED_PER_SEARCH == 1 {
            section.adopt_slabs(owned, SEARCHED)?;
        }
        if owned.classes[class].find_room(&self.mapping, slot) {
            return Ok(true);
        }
        let unit = match section.begin_slab(class)? {
            Some(unit) => unit,
            None => {
                section.adopt_slabs(owned, SEARCHED)?;
                section.end_empty_slabs(owned)?;
                if owned.classes[class].find_room(&self.mapping, slot) {
                    return Ok(true);
                }
                match section.begin_slab(class)? {
                    Some(unit) => unit,
                    None => return Ok(false),
                }
            }
        };
        self.lane.set_reach(section.heap_size());
        if let Some(slab) = self.mapping.slab(unit) {
            owned.classes[class].add(slab, unit, 0);
        }
        Ok(true)
    }

    /// The slab in which `offset` lies, and the number of the block that begins there; `None` when it lies in no slab.
    #[inline(always)]
    fn small_block(&self, offset: Offset) -> Result<Option<Small<'_>>, Error> {
        if self.mapping.layout.shape.is_none() {
            return Ok(None);
        }
        let place = (offset.get() as usize).wrapping_sub(self.mapping.layout.data);
        if place >= self.lane.reach() && !self.reaches(place)? {
            return Ok(None);
        }
        let unit = place / SLAB;
        let Some(slab) = self.mapping.slab(unit) else { return Ok(None) };
        let Some(tenure) = slab.tenure() else { return Ok(None) };
        match slab.shape.index(usize::from(tenure.class), place % SLAB) {
            Some(index) => Ok(Some(Small { slab, tenure, unit, index })),
            None => Err(Error::NotABlock { offset: offset.get() }),
        }
    }

    /// Whether the heap, which may have grown, has a place.
    #[cold]
    #[inline(never)]
    fn reaches(&self, place: usize) -> Result<bool, Error> {
        let size = self.enter()?.heap_size();
        self.lane.set_reach(size);
        Ok(place < size)
    }

    /// Frees the block at `offset` if it lies in a slab. Returns whether it does.
    #[inline(always)]
    pub(crate) fn deallocate_small(&self, offset: Offset) -> Result<bool, Error> {
        if self.mapping.layout.shape.is_none() {
            return Ok(false);
        }
        self.attached()?;
        let Some(Small { slab, tenure, unit, index }) = self.small_block(offset)? else { return Ok(false) };
        let slot = self.lane.slot();
        let owned = if tenure.slot == slot { self.lane.enter() } else { None };
        let freed = match owned {
            Some(mut owned) => {
                let outcome = owned.classes[usize::from(tenure.class)].put_back(slab, unit, index);
                if outcome == Ok(Outcome::Spare) {
                    self.end_spare(&mut owned, usize::from(tenure.class), unit);
                }
                outcome.map(drop)
            }
            None => slab.words(index / 64).ok_or(NotLive).and_then(|words| words.give(1 << (index % 64))),
        };
        freed.map_err(|NotLive| Error::AlreadyFree { offset: offset.get() })?;
        if let Some(flight) = self.mapping.flight(slot) {
            flight.count_freed();
        }
        Ok(true)
    }

    /// Gives a slab back that is empty and not needed. The block is freed already: what fails here leaves the slab where it
    /// was, and is found by the next operation that needs the lock.
    #[cold]
    #[inline(never)]
    fn end_spare(&self, owned: &mut Owned, class: usize, unit: usize) {
        if let Ok(mut section) = self.enter()
            && section.end_slab(unit) == Ok(true)
        {
            owned.classes[class].remove(unit);
        }
    }

    /// The length of the live block at `offset` in a slab; `None` when it lies in no slab.
    pub(crate) fn small_size(&self, offset: Offset) -> Result<Option<usize>, Error> {
        if self.mapping.layout.shape.is_none() {
            return Ok(None);
        }
        self.attached()?;
        let Some(Small { slab, tenure, index, .. }) = self.small_block(offset)? else { return Ok(None) };
        match slab.is_live(index) {
            true => Ok(Some(slab.shape.size(usize::from(tenure.class)))),
            false => Err(Error::NotABlock { offset: offset.get() }),
        }
    }

    /// Gives back the empty slabs of this handle, which is about to leave; others adopt the rest.
    pub(crate) fn leave_slabs(&self) -> Result<(), Error> {
        match self.lane.enter() {
            Some(mut owned) if self.mapping.layout.shape.is_some() => self.enter()?.end_empty_slabs(&mut owned),
            _ => Ok(()),
        }
    }

    /// Adopts what slabs those who left have, and gives empty ones back to the engine. Returns whether it could.
    pub(crate) fn tidy_slabs(&self) -> Result<bool, Error> {
        if self.mapping.layout.shape.is_none() {
            return Ok(false);
        }
        self.attached()?;
        let Some(mut owned) = self.lane.enter() else { return Ok(false) };
        loop {
            let mut section = self.enter()?;
            let all = section.adopt_slabs(&mut owned, usize::MAX)?;
            section.end_empty_slabs(&mut owned)?;
            if all {
                return Ok(true);
            }
        }
    }
}

/// A block of a slab, live or not.
struct Small<'s> {
    slab: Slab<'s>,
    tenure: Tenure,
    unit: usize,
    index: usize,
}
