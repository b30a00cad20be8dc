//! What a process keeps of the slabs that it owns: hints by which it finds free blocks, of which nothing is lost with
//! it.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    compiler_fence,
};

use heapwright_os::is_single_threaded;

use super::bitmap::{NotLive, Words};
use super::parts::Small;
use super::slab::{Flight, SLAB, Shape, Slab, Waits};
use crate::sections::Sections;

/// How many slabs a search for blocks that others have freed looks at.
const LOOKED_AT: usize = 8;

/// A process keeps one empty slab of a class, and one more for so many that it has.
const KEPT_SHARE: usize = 8;

/// The slabs of a handle. One thread at a time works on them; others use the engine.
pub(crate) struct Lane {
    busy: AtomicBool,
    /// The number of the handle's slot in the process table.
    slot: AtomicU8,
    /// How many bytes of data the heap is known to have.
    reach: AtomicUsize,
    /// Dropped only by [`Lane::clear`]: in the child of a fork it may be half changed by a thread of the parent.
    owned: UnsafeCell<ManuallyDrop<Owned>>,
}

impl Lane {
    /// The lane of a handle that owns nothing yet.
    pub(crate) fn new(slot: u8, shape: Option<Shape>) -> Lane {
        Lane {
            busy: AtomicBool::new(false),
            slot: AtomicU8::new(slot),
            reach: AtomicUsize::new(0),
            owned: UnsafeCell::new(ManuallyDrop::new(Owned::new(shape))),
        }
    }

    /// Begins anew in the child of a fork, in which no other thread uses the lane.
    ///
    /// # Safety
    /// Under the segment's lock, before the child counts as attached.
    pub(crate) unsafe fn restart(&self, slot: u8, shape: Option<Shape>) {
        // SAFETY: no other thread of this process has attached. What is overwritten is not looked at and not dropped.
        unsafe { self.owned.get().write(ManuallyDrop::new(Owned::new(shape))) };
        self.slot.store(slot, Relaxed);
        self.busy.store(false, Relaxed);
    }

    /// Frees the lists of a handle that leaves the segment.
    pub(crate) fn clear(&self) {
        if let Some(mut owned) = self.enter() {
            *owned = Owned::new(None);
        }
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> u8 {
        self.slot.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn reach(&self) -> usize {
        self.reach.load(Relaxed)
    }

    /// Heaps never become shorter.
    pub(crate) fn set_reach(&self, size: usize) {
        self.reach.store(size, Relaxed);
    }

    /// The handle's slabs, unless another thread, or what a signal interrupted, works on them.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let busy = if is_single_threaded() {
            let busy = self.busy.load(Relaxed);
            self.busy.store(true, Relaxed);
            compiler_fence(SeqCst);
            busy
        } else {
            self.busy.swap(true, Acquire)
        };
        if busy { None } else { Some(Entered { lane: self }) }
    }
}

/// A handle's slabs, for one thread.
pub(crate) struct Entered<'l> {
    lane: &'l Lane,
}

impl Deref for Entered<'_> {
    type Target = Owned;

    #[inline(always)]
    fn deref(&self) -> &Owned {
        // SAFETY: whoever made this found the lane idle and made it busy.
        unsafe { &*self.lane.owned.get() }
    }
}

impl DerefMut for Entered<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Owned {
        // SAFETY: as above, and this is borrowed.
        unsafe { &mut *self.lane.owned.get() }
    }
}

impl Drop for Entered<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lane.busy.store(false, Release);
    }
}

/// What the owner of slabs knows of them.
pub(crate) struct Owned {
    pub(crate) classes: Vec<OwnedClass>,
    /// How often a slab was wanted, from the segment.
    pub(crate) refills: usize,
    /// Where the next search for slabs of those who left begins.
    pub(crate) cursor: usize,
    /// When the system may be asked again which processes live, in nanoseconds of its clock.
    pub(crate) next_look: u64,
    /// What had happened to slabs when a search for more found none; 0 after one that did.
    pub(crate) fruitless: u64,
}

/// The slabs of one class.
pub(crate) struct OwnedClass {
    class: usize,
    /// The bytes of a block.
    size: usize,
    /// The slab from which blocks are taken, and the word of its bitmaps; no slab at first.
    current: Option<usize>,
    word: usize,
    /// The place of that word's first block.
    first: usize,
    /// Blocks of the word that are free.
    available: u64,
    /// All slabs of the class.
    pub(crate) slabs: Vec<usize>,
    /// Those in which the owner has freed blocks, and some that it does not own any more.
    waiting: Vec<usize>,
    /// Where the next search for blocks that others freed begins.
    cursor: usize,
    /// How many slabs other than the current one are empty.
    empty: usize,
}

/// A free block of a slab of one's own.
#[derive(Clone, Copy)]
pub(crate) struct FreeBlock<'s> {
    pub(crate) place: usize,
    bit: u64,
    slab: Slab<'s>,
    words: Words<'s>,
    flight: &'s Flight,
    owner: &'s AtomicU8,
}

impl FreeBlock<'_> {
    /// The block will be that of the process of `slot`.
    pub(crate) fn set_owner(&self, slot: u8) {
        self.owner.store(slot, Relaxed);
    }

    /// Makes the block live, which is on record and has its owner.
    pub(crate) fn take(&self) {
        self.words.take(self.bit);
    }
}

/// What became of a slab by a free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Kept,
    /// It is empty, and there are others.
    Spare,
}

impl Owned {
    fn new(shape: Option<Shape>) -> Owned {
        let class = |shape: &Shape, class| OwnedClass {
            class,
            size: shape.size(class),
            current: None,
            word: 0,
            first: 0,
            available: 0,
            slabs: Vec::new(),
            waiting: Vec::new(),
            cursor: 0,
            empty: 0,
        };
        let classes = shape.iter().flat_map(|shape| (0..shape.classes()).map(|number| class(shape, number))).collect();
        Owned { classes, refills: 0, cursor: 0, next_look: 0, fruitless: 0 }
    }
}

impl OwnedClass {
    /// Takes a block for the process of `slot` and returns its place; `None` when no slab is known to have one.
    #[inline(always)]
    pub(crate) fn take(&mut self, sections: &Sections, slot: u8) -> Option<usize> {
        let free = self.choose(sections, slot)?;
        let offset = (sections.layout.data + free.place) as u64;
        free.flight.take(offset, free.words, free.bit, free.owner, slot);
        self.count_taken(&free);
        Some(free.place)
    }

    /// The block that the process of `slot` takes next; `None` when no slab is known to have one.
    #[inline(always)]
    pub(crate) fn choose<'s>(&mut self, sections: &'s Sections, slot: u8) -> Option<FreeBlock<'s>> {
        if self.available == 0 && !self.find_room(sections, slot) {
            return None;
        }
        let bit = self.available & self.available.wrapping_neg();
        let place = self.first + bit.trailing_zeros() as usize * self.size;
        let slab = sections.slab(self.current?)?;
        let (words, flight, owner) = (slab.words(self.word)?, sections.flight(slot)?, sections.owner(place)?);
        Some(FreeBlock { place, bit, slab, words, flight, owner })
    }

    /// The block that was chosen last is taken.
    #[inline(always)]
    pub(crate) fn count_taken(&mut self, taken: &FreeBlock<'_>) {
        self.available &= !taken.bit;
        taken.slab.set_live_hint(taken.slab.live_hint().wrapping_add(1));
        taken.flight.count_taken();
    }

    /// Frees the block of this number in a slab of one's own.
    #[inline(always)]
    pub(crate) fn put_back(&mut self, slab: Slab<'_>, unit: usize, index: usize) -> Result<Outcome, NotLive> {
        let (at, bit) = (index / 64, 1 << (index % 64));
        slab.words(at).ok_or(NotLive)?.put_back(bit)?;
        let live = slab.live_hint().wrapping_sub(1);
        slab.set_live_hint(live);
        if self.current == Some(unit) {
            if self.word == at {
                self.available |= bit;
            }
            return Ok(Outcome::Kept);
        }
        self.wait_in_line(slab, unit);
        if live != 0 {
            return Ok(Outcome::Kept);
        }
        self.empty += 1;
        Ok(if self.empty > 1 + self.slabs.len() / KEPT_SHARE { Outcome::Spare } else { Outcome::Kept })
    }

    /// Notes that blocks of a slab are free.
    #[inline(always)]
    pub(crate) fn wait_in_line(&mut self, slab: Slab<'_>, unit: usize) {
        if !slab.waits() {
            slab.set_waits(Waits::Yes);
            self.waiting.push(unit);
        }
    }

    /// Counts a slab that has come to be this process's, with so many live blocks.
    pub(crate) fn add(&mut self, slab: Slab<'_>, unit: usize, live: u64) {
        slab.set_live_hint(live);
        slab.set_waits(Waits::No);
        self.slabs.push(unit);
        if (live as usize) < slab.shape.blocks(self.class) {
            self.wait_in_line(slab, unit);
        }
        self.empty += usize::from(live == 0);
    }

    /// Whether a slab is known to be empty.
    pub(crate) fn has_empty(&self, sections: &Sections) -> bool {
        let current = self.current.and_then(|unit| sections.slab(unit));
        self.empty > 0 || current.is_some_and(|slab| slab.live_hint() == 0)
    }

    /// No slab is empty: all that were have been given back.
    pub(crate) fn count_none_empty(&mut self) {
        self.empty = 0;
    }

    /// Forgets a slab that was empty and is the engine's again.
    pub(crate) fn remove(&mut self, unit: usize) {
        self.slabs.retain(|&other| other != unit);
        self.empty = self.empty.saturating_sub(1);
        if self.current == Some(unit) {
            (self.current, self.available) = (None, 0);
        }
    }

    /// Finds a word of a slab with free blocks: in the current slab, in those in which blocks were freed, and in some
    /// of the others.
    #[cold]
    #[inline(never)]
    pub(crate) fn find_room(&mut self, sections: &Sections, slot: u8) -> bool {
        if self.current.is_some_and(|unit| self.turn_to(sections, slot, unit)) {
            return true;
        }
        while let Some(unit) = self.waiting.pop() {
            if let Some(slab) = sections.slab(unit) {
                slab.set_waits(Waits::No);
            }
            if self.turn_to(sections, slot, unit) {
                return true;
            }
        }
        for _ in 0..LOOKED_AT.min(self.slabs.len()) {
            self.cursor = (self.cursor + 1) % self.slabs.len();
            if self.turn_to(sections, slot, self.slabs[self.cursor]) {
                return true;
            }
        }
        false
    }

    /// Takes blocks from the slab at `unit` from now on, if it is one's own and has a free block.
    fn turn_to(&mut self, sections: &Sections, slot: u8, unit: usize) -> bool {
        let Some(slab) = sections.slab(unit) else { return false };
        let is_ours = |slab: Slab<'_>| {
            slab.tenure().is_some_and(|tenure| tenure.slot == slot && usize::from(tenure.class) == self.class)
        };
        if !is_ours(slab) {
            return false;
        }
        let was_empty = self.current != Some(unit) && slab.live_hint() == 0;
        for at in 0..slab.word_count(self.class) {
            let Some(words) = slab.words(at) else { break };
            let collected = words.collect(|| being_freed(sections, unit, at)).count_ones();
            slab.set_live_hint(slab.live_hint().wrapping_sub(u64::from(collected)));
            let free = words.free() & slab.valid(self.class, at);
            if free != 0 {
                (self.current, self.word, self.available) = (Some(unit), at, free);
                self.first = unit * SLAB + at * 64 * self.size;
                self.empty = self.empty.saturating_sub(usize::from(was_empty));
                return true;
            }
        }
        false
    }
}

/// The bit of the block whose free is on record, if a word of a slab's bitmaps has it: recovery may free it once more.
fn being_freed(sections: &Sections, unit: usize, at: usize) -> u64 {
    let freed = sections.header().publication.freed();
    if freed == 0 {
        return 0;
    }
    let place = (freed as usize).wrapping_sub(sections.layout.data);
    match Small::at(sections, place) {
        Ok(Some(small)) if small.unit == unit && small.index / 64 == at => 1 << (small.index % 64),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SharedHeap;
    use crate::offset::Offset;
    use crate::place::Place;
    use crate::publication::Published;
    use crate::settings::{Settings, SmallBlocks};
    use crate::slabs::redo;

    /// When a process forked, another thread of it may have been in the middle of a change to the lists. Its child is
    /// not attached.
    #[test]
    fn an_unused_handle_of_a_child_is_dropped_whatever_its_parents_lists_are() {
        let place = Place::new(format!("heapwright-test-unused-{}", std::process::id())).unwrap();
        let settings = Settings { small: SmallBlocks::Slabs, ..Settings::default() };
        let heap = SharedHeap::create(&place, &settings).unwrap();
        SharedHeap::unlink(&place).unwrap();
        heap.allocate(100).unwrap();
        heap.set_detached();
        // SAFETY: no other thread uses the lists, which are not used any more.
        unsafe { heap.lane.owned.get().cast::<u8>().write_bytes(0x5a, size_of::<Owned>()) };
        drop(heap);
    }

    /// Another process died after it had freed a block from a word, before its record was cleared.
    #[test]
    fn a_block_whose_free_is_on_record_is_left_alone() {
        let place = Place::new(format!("heapwright-test-spared-{}", std::process::id())).unwrap();
        let settings = Settings { small: SmallBlocks::Slabs, ..Settings::default() };
        let heap = SharedHeap::create(&place, &settings).unwrap();
        SharedHeap::unlink(&place).unwrap();
        let blocks: Vec<Offset> = (0..16).map(|_| heap.allocate(2048).unwrap()).collect();
        let (freed, publication) = (blocks[5], &heap.mapping.header().publication);
        publication.write(Published { freed: freed.get(), ..Published::of(blocks[0].get(), None) });
        let small = Small::at(&heap.mapping, freed.get() as usize - heap.mapping.layout.data).unwrap().unwrap();
        small.give(&heap.mapping, heap.lane.slot()).unwrap();
        let another = heap.allocate(2048).unwrap();
        assert_ne!(another, freed);
        redo(&heap.mapping, heap.size().unwrap(), &publication.read().unwrap()).unwrap();
        assert!(!small.is_live());
        publication.clear();
        let next: Vec<Offset> = (0..16).map(|_| heap.allocate(2048).unwrap()).collect();
        assert!(next.contains(&freed) && !next.contains(&another));
        heap.check().unwrap();
    }
}
