//! Allocation and free of small blocks.

use super::tenures::Sweep;
use crate::format::bitmap::NotLive;
use crate::format::slab::SLAB;
use crate::handle::heap::{Section, SharedHeap};
use crate::slabs::lane::Entered;
use crate::slabs::owned::Owned;
use crate::slabs::owned_class::{FreeBlock, FreedIn, Outcome};
use crate::slabs::parts::Small;
use crate::terms::error::Error;
use crate::terms::offset::Offset;

/// Among so many slabs that a process wants, it looks once for those of processes that left.
const WANTED_PER_SEARCH: usize = 64;
/// How many places it looks at then.
const SEARCHED: usize = 4096;
/// How many of its slabs a process that leaves looks at while it has the lock once.
const LEFT_AT_ONCE: usize = 256;

impl SharedHeap {
    /// Takes a block from the word of a slab that is its class's current one, and returns its place; `None` when there
    /// is more to do.
    #[inline(always)]
    pub(crate) fn take_known(&self, bytes: usize) -> Option<usize> {
        self.lane.enter_under(self.forks_now())?.take_for(bytes)
    }

    /// Frees the block at `place` if it is a live one in a slab of this process. Returns whether it was.
    #[inline(always)]
    pub(crate) fn put_back_own(&self, place: usize) -> bool {
        let Some(mut owned) = self.lane.enter_under(self.forks_now()) else { return false };
        match owned.put_back(place) {
            None => false,
            Some((_, FreedIn::Current)) => true,
            Some((class, FreedIn::Another)) => {
                self.note_freed(owned, class, place / SLAB);
                true
            }
        }
    }

    /// Notes that a block of the slab at `unit`, which is not its class's current one, is free.
    #[inline(never)]
    fn note_freed(&self, mut owned: Entered<'_>, class: usize, unit: usize) {
        let Some(slab) = self.mapping.slab(unit) else { return };
        if owned.classes[class].count_freed(slab, unit) == Outcome::Spare {
            self.end_spare(&mut owned, class, unit);
        }
    }

    /// Takes a block from a slab of this process; `None` when the request is not for slabs, or the heap has no room for
    /// one.
    pub(crate) fn allocate_small(&self, bytes: usize, align: usize) -> Result<Option<Offset>, Error> {
        let Some(class) = self.mapping.layout.shape.and_then(|shape| shape.class_for(bytes, align)) else {
            return Ok(None);
        };
        self.believed()?;
        let Some(mut owned) = self.lane.enter() else { return Ok(None) };
        loop {
            if let Some(place) = owned.take(class) {
                return Ok(Some(self.mapping.offset_at(place)));
            }
            let has_room = owned.find_room(&self.mapping, class)
                || owned.is_worth_a_slab(class) && self.refill(&mut owned, class)?;
            if !has_room {
                return Ok(None);
            }
        }
    }

    /// Attaches this process, and refuses what is to be done without the lock where a check found the heap damaged.
    fn believed(&self) -> Result<(), Error> {
        self.attached()?;
        if self.lane.is_refused() { self.enter().map(drop) } else { Ok(()) }
    }

    /// Sees to it that a slab of `class` has a free block. Returns whether one has.
    #[cold]
    #[inline(never)]
    fn refill(&self, owned: &mut Owned, class: usize) -> Result<bool, Error> {
        let mut section = self.enter()?;
        let has_room = section.refill(owned, class)?;
        self.lane.set_reach(section.heap_size());
        Ok(has_room)
    }

    /// Returns the slab in which `offset` lies, and the number of the block that begins there; `None` when it lies in
    /// no slab.
    #[inline(always)]
    fn small_block(&self, offset: Offset) -> Result<Option<Small<'_>>, Error> {
        if self.mapping.layout.shape.is_none() {
            return Ok(None);
        }
        let place = (offset.get() as usize).wrapping_sub(self.mapping.layout.data);
        if place >= self.lane.reach() && !self.reaches(place)? {
            return Ok(None);
        }
        Small::at(&self.mapping, place).map_err(|NotLive| Error::NotABlock { offset: offset.get() })
    }

    /// Returns whether the heap, which may have grown, has a place.
    #[cold]
    #[inline(never)]
    fn reaches(&self, place: usize) -> Result<bool, Error> {
        let size = self.enter()?.heap_size();
        self.lane.set_reach(size);
        Ok(place < size)
    }

    /// Frees the block at `offset` if it lies in a slab, whose owner another process is, or a thread works on the slabs
    /// of this one. Returns whether it does.
    pub(crate) fn give_small(&self, offset: Offset) -> Result<bool, Error> {
        if self.mapping.layout.shape.is_none() {
            return Ok(false);
        }
        self.believed()?;
        let Some(small) = self.small_block(offset)? else { return Ok(false) };
        small.give(&self.mapping, self.lane.slot()).map_err(|NotLive| Error::AlreadyFree { offset: offset.get() })?;
        Ok(true)
    }

    /// Gives a slab back that is empty and not needed, unless another process has the lock: a free does not wait. The
    /// slab is given back after a later free then, with all others that are empty.
    #[cold]
    #[inline(never)]
    fn end_spare(&self, owned: &mut Owned, class: usize, unit: usize) {
        let Ok(Some(mut section)) = self.try_enter() else {
            owned.has_spare = true;
            return;
        };
        if std::mem::take(&mut owned.has_spare) {
            // The block is freed already: what fails here leaves slabs where they are.
            let _ = section.end_empty_slabs(owned, &mut Sweep::default(), usize::MAX);
        } else if section.end_slab(unit) == Ok(true) {
            owned.classes[class].remove(&self.mapping, unit);
        }
    }

    /// Returns the length of the live block at `offset` in a slab; `None` when it lies in no slab.
    pub(crate) fn small_size(&self, offset: Offset) -> Result<Option<usize>, Error> {
        if self.mapping.layout.shape.is_none() {
            return Ok(None);
        }
        self.believed()?;
        let Some(small) = self.small_block(offset)? else { return Ok(None) };
        match small.is_live() {
            true => Ok(Some(small.size())),
            false => Err(Error::AlreadyFree { offset: offset.get() }),
        }
    }

    /// Gives back the empty slabs of this handle, which is about to leave; others adopt the rest.
    pub(crate) fn leave_slabs(&self) -> Result<(), Error> {
        match self.lane.enter() {
            Some(mut owned) if self.mapping.layout.shape.is_some() => {
                let mut sweep = Sweep::default();
                while sweep.goes_on(&owned) {
                    self.enter()?.end_empty_slabs(&mut owned, &mut sweep, LEFT_AT_ONCE)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adopts the slabs of processes that left, and gives empty ones back to the engine. Returns whether there were
    /// any.
    pub(crate) fn tidy_slabs(&self) -> Result<bool, Error> {
        if self.mapping.layout.shape.is_none() {
            return Ok(false);
        }
        self.attached()?;
        let Some(mut owned) = self.lane.enter() else { return Ok(false) };
        let mut found = false;
        loop {
            let mut section = self.enter()?;
            if section.is_fruitless(&owned) {
                return Ok(found);
            }
            // Few at a time. One's own slabs are looked at once, behind all that were adopted.
            if section.adopt_slabs(&mut owned, usize::MAX)? == 0 {
                return Ok(section.search_slabs(&mut owned)? || found);
            }
            found = true;
        }
    }
}

impl Section<'_> {
    /// Sees to it that a slab of this process of `class` has a free block. Returns whether one has.
    pub(crate) fn refill(&mut self, owned: &mut Owned, class: usize) -> Result<bool, Error> {
        let mapping = self.mapping();
        owned.refills += 1;
        owned.set_reach(self.heap_size());
        if owned.refills % WANTED_PER_SEARCH == 1 && !self.is_fruitless(owned) {
            self.adopt_slabs(owned, SEARCHED)?;
        }
        if owned.find_room(mapping, class) {
            return Ok(true);
        }
        let unit = match self.begin_slab(class)? {
            Some(unit) => unit,
            None => {
                if !self.search_slabs(owned)? {
                    return Ok(false);
                }
                if owned.find_room(mapping, class) {
                    return Ok(true);
                }
                match self.begin_slab(class)? {
                    Some(unit) => unit,
                    None => return Ok(false),
                }
            }
        };
        owned.set_reach(self.heap_size());
        if let Some(slab) = mapping.slab(unit) {
            owned.classes[class].add(slab, unit, 0);
        }
        Ok(true)
    }

    /// Returns the block that this process takes next for `bytes`; `None` when the request is not for slabs, or the
    /// heap has no room for one.
    pub(crate) fn choose_small(
        &mut self,
        owned: &mut Owned,
        bytes: usize,
        align: usize,
    ) -> Result<Option<(usize, FreeBlock)>, Error> {
        let mapping = self.mapping();
        let Some(class) = mapping.layout.shape.and_then(|shape| shape.class_for(bytes, align)) else { return Ok(None) };
        loop {
            if let Some(free) = owned.choose(mapping, class) {
                return Ok(Some((class, free)));
            }
            if !owned.is_worth_a_slab(class) || !self.refill(owned, class)? {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::classes::LONGEST;
    use crate::slabs::lane::tests::heap_with_slabs;

    /// The number of blocks of a slab of the longest class.
    const A_SLAB_OF_THE_LONGEST: usize = SLAB / LONGEST;

    #[test]
    fn a_few_long_blocks_take_no_slab() {
        let heap = heap_with_slabs("few");
        for count in 1..=A_SLAB_OF_THE_LONGEST {
            heap.allocate(LONGEST).unwrap();
            assert_eq!(heap.counters().unwrap().live, (count * LONGEST) as u64);
        }
        heap.allocate(LONGEST).unwrap();
        assert_eq!(heap.counters().unwrap().live, 2 * SLAB as u64);
        heap.allocate(1).unwrap();
        assert_eq!(heap.counters().unwrap().live, 3 * SLAB as u64);
    }

    /// The lock is held throughout, by a process that does not let go of it: a free that took it would wait for that.
    /// The slabs that are empty meanwhile are given back later.
    #[test]
    fn slabs_become_empty_without_the_lock() {
        let heap = heap_with_slabs("spare");
        let blocks: Vec<Offset> = (0..300).map(|_| heap.allocate(2000).unwrap()).collect();
        let (last, rest) = blocks.split_last().unwrap();
        let section = heap.enter().unwrap();
        rest.iter().for_each(|&block| heap.deallocate(block).unwrap());
        drop(section);
        let before = heap.counters().unwrap().live;
        let again: Vec<Offset> = (0..20).map(|_| heap.allocate(2000).unwrap()).collect();
        again.into_iter().chain([*last]).for_each(|block| heap.deallocate(block).unwrap());
        let live = heap.counters().unwrap().live;
        assert!(live <= 2 * SLAB as u64 && before >= 15 * SLAB as u64, "{before}, then {live}");
    }

    /// The lock is held throughout: an operation that took it would not end.
    #[test]
    fn blocks_up_to_4096_bytes_are_replaced_without_the_lock() {
        let heap = heap_with_slabs("unlocked");
        let lengths = || (4..=12).flat_map(|power| [3 << (power - 2), 1 << power]);
        for bytes in lengths() {
            let blocks: Vec<Offset> = (0..=SLAB / bytes.max(2048)).map(|_| heap.allocate(bytes).unwrap()).collect();
            blocks.into_iter().for_each(|block| heap.deallocate(block).unwrap());
        }
        let _section = heap.enter().unwrap();
        for bytes in lengths() {
            for _ in 0..100 {
                heap.deallocate(heap.allocate(bytes).unwrap()).unwrap();
            }
        }
    }
}
