//! What a process keeps of the slabs that it owns: hints by which it finds free blocks, of which nothing is lost with
//! it.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use super::bitmap::{NotLive, Words};
use super::classes::class_of_last;
use super::parts::Small;
use super::slab::{SLAB, Shape, Slab, SlabCounts, Tenure, Waits};
use crate::sections::Sections;

/// How many slabs a search for blocks that others have freed looks at.
const LOOKED_AT: usize = 8;

/// A process keeps one empty slab of a class, and another for each 8 slabs that it has.
const KEPT_SHARE: usize = 8;

/// What the owner of slabs knows of them.
pub(crate) struct Owned {
    pub(crate) classes: Vec<OwnedClass>,
    ledger: Ledger,
    /// How often a slab was wanted, from the segment.
    pub(crate) refills: usize,
    /// Where the next search for slabs of those who left begins.
    pub(crate) cursor: usize,
    /// When the system may be asked again which processes live, in nanoseconds of its clock.
    pub(crate) next_look: u64,
    /// What had happened to slabs when a search for more found none; 0 after one that did.
    pub(crate) fruitless: u64,
}

/// Where slabs are, and where a process writes besides what it takes and frees. The addresses are found once, not for
/// each block.
struct Ledger {
    /// The number of the process's slot, and what the tenures of its slabs have in common.
    slot: u8,
    tenures: u64,
    /// log2 of the granule.
    shift: u32,
    owners: &'static [AtomicU8],
    /// The metadata of the first slab.
    slabs: NonNull<AtomicU64>,
    shape: Shape,
    /// How many slabs are known to fit the heap.
    units: usize,
}

impl Ledger {
    /// The metadata of the slab at `unit`; `None` where the heap is not known to have any.
    #[inline(always)]
    fn slab(&self, unit: usize) -> Option<Slab<'_>> {
        // SAFETY: so much metadata is backed, and mapped for as long as this is used.
        (unit < self.units).then(|| unsafe { Slab::at(self.slabs.byte_add(unit * self.shape.stride()), &self.shape) })
    }
}

/// The slabs of one class. What each operation needs lies in the first line.
#[repr(C, align(64))]
pub(crate) struct OwnedClass {
    /// Where blocks are taken from.
    current: Current,
    /// Blocks of the current word that are free.
    available: u64,
    /// The bytes of a block.
    size: usize,
    class: u8,
    counts: &'static SlabCounts,
    /// All slabs of the class.
    pub(crate) slabs: Vec<usize>,
    /// Those in which the owner has freed blocks, and some that it does not own any more.
    waiting: Vec<usize>,
    /// Where the next search for blocks that others freed begins.
    cursor: usize,
    /// How many slabs other than the current one are empty.
    empty: usize,
}

/// The slab from which blocks are taken, and the word of its bitmaps; at first a word outside the segment, and no slab.
///
/// The hint of how many of its blocks are live is stored when another slab becomes the current one.
#[derive(Clone, Copy)]
struct Current {
    words: Words<'static>,
    /// The place of the word's first block.
    first: usize,
    unit: usize,
}

impl Current {
    fn nowhere() -> Current {
        static NO_WORD: AtomicU64 = AtomicU64::new(0);
        Current { words: Words { used: &NO_WORD, freed: &NO_WORD }, first: 0, unit: usize::MAX }
    }
}

/// A free block of a slab of one's own.
#[derive(Clone, Copy)]
pub(crate) struct FreeBlock {
    pub(crate) place: usize,
    bit: u64,
    words: Words<'static>,
    owner: &'static AtomicU8,
}

impl FreeBlock {
    /// The block will be that of the process of `slot`. Stored first: a block that is live has its owner.
    #[inline(always)]
    pub(crate) fn set_owner(&self, slot: u8) {
        self.owner.store(slot, Relaxed);
    }

    /// Makes the block live, which has its owner. Commits by its only store.
    #[inline(always)]
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

/// In which slab of its class a block was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreedIn {
    /// In the one from which blocks are taken.
    Current,
    Another,
}

impl Owned {
    /// No slabs yet.
    ///
    /// # Safety
    /// Nothing is asked of this when the sections are no longer mapped.
    pub(super) unsafe fn new(sections: &Sections, slot: u8) -> Owned {
        let (Some(shape), Some(counts)) = (sections.layout.shape, sections.slab_counts(slot)) else {
            return Owned::nothing();
        };
        // SAFETY: the caller's promise.
        let (counts, owners) = unsafe { (lasting(counts), lasting(sections.owners())) };
        let class = |class| OwnedClass {
            current: Current::nowhere(),
            available: 0,
            size: shape.size(class),
            class: class as u8,
            counts,
            slabs: Vec::new(),
            waiting: Vec::new(),
            cursor: 0,
            empty: 0,
        };
        let (shift, slabs, tenures) = (sections.layout.shift, sections.slabs(), Tenure::of_owner(slot));
        let ledger = Ledger { slot, tenures, shift, owners, slabs, shape, units: 0 };
        Owned { classes: (0..shape.classes()).map(class).collect(), ledger, ..Owned::nothing() }
    }

    /// No classes: in a heap without slabs, and for a handle that has left.
    pub(super) fn nothing() -> Owned {
        let (slabs, shape) = (NonNull::dangling(), Shape::of(0));
        let ledger = Ledger { slot: u8::MAX, tenures: 0, shift: 0, owners: &[], slabs, shape, units: 0 };
        Owned { classes: Vec::new(), ledger, refills: 0, cursor: 0, next_look: 0, fruitless: 0 }
    }

    /// As [`Owned::take`], for `bytes`; `data` is where the segment's data begins.
    #[inline(always)]
    pub(crate) fn take_for(&mut self, bytes: usize, data: usize) -> Option<usize> {
        self.take(class_of_last(bytes.saturating_sub(1) >> self.ledger.shift)?, data)
    }

    /// Takes a block from the current word of `class`, and returns its offset; `None` when that has none.
    #[inline(always)]
    pub(crate) fn take(&mut self, class: usize, data: usize) -> Option<usize> {
        let class = self.classes.get_mut(class)?;
        let free = class.next(&self.ledger)?;
        free.set_owner(self.ledger.slot);
        free.take();
        class.count_taken(&free);
        Some(data + free.place)
    }

    /// Finds a word of a slab of `class` with free blocks.
    pub(crate) fn find_room(&mut self, sections: &Sections, class: usize) -> bool {
        self.classes[class].find_room(sections, self.ledger.slot)
    }

    /// The block of `class` that the process takes next; `None` when no slab is known to have one.
    pub(crate) fn choose(&mut self, sections: &Sections, class: usize) -> Option<FreeBlock> {
        if self.classes[class].available == 0 && !self.find_room(sections, class) {
            return None;
        }
        self.classes[class].next(&self.ledger)
    }

    /// The block of `class` that was chosen last is taken.
    pub(crate) fn count_taken(&mut self, class: usize, taken: &FreeBlock) {
        self.classes[class].count_taken(taken);
    }

    /// The heap is known to have `size` bytes of data, and never becomes shorter.
    pub(crate) fn set_reach(&mut self, size: usize) {
        self.ledger.units = size / SLAB;
    }

    /// Frees the live block at `place` in a slab of one's own. Returns the class, and which slab it is; `None` for any
    /// other block.
    #[inline(always)]
    pub(crate) fn put_back(&mut self, place: usize) -> Option<(usize, FreedIn)> {
        let unit = place / SLAB;
        let slab = self.ledger.slab(unit)?;
        let number = slab.class_if_of(self.ledger.tenures)?;
        let class = self.classes.get_mut(number)?;
        let index = slab.index(place % SLAB, class.size)?;
        let freed_in = class.clear(slab, unit, index).ok()?;
        class.counts.count_freed();
        Some((number, freed_in))
    }
}

/// What outlives the borrow of the sections.
///
/// # Safety
/// It is not used when the sections are no longer mapped.
unsafe fn lasting<T: ?Sized>(part: &T) -> &'static T {
    // SAFETY: the caller's promise.
    unsafe { &*ptr::from_ref(part) }
}

impl OwnedClass {
    /// The first free block of the current word.
    #[inline(always)]
    fn next(&self, ledger: &Ledger) -> Option<FreeBlock> {
        if self.available == 0 {
            return None;
        }
        let place = self.current.first + self.available.trailing_zeros() as usize * self.size;
        let bit = self.available & self.available.wrapping_neg();
        let owner = ledger.owners.get(place >> ledger.shift)?;
        Some(FreeBlock { place, bit, words: self.current.words, owner })
    }

    #[inline(always)]
    fn count_taken(&mut self, taken: &FreeBlock) {
        self.available &= !taken.bit;
        self.counts.count_taken();
    }

    /// Frees the block of this number in a slab of one's own.
    pub(crate) fn put_back(&mut self, slab: Slab<'_>, unit: usize, index: usize) -> Result<Outcome, NotLive> {
        Ok(match self.clear(slab, unit, index)? {
            FreedIn::Current => Outcome::Kept,
            FreedIn::Another => self.count_freed(slab, unit),
        })
    }

    /// As [`OwnedClass::put_back`], but for what is to be noted about a slab that is not the current one.
    #[inline(always)]
    fn clear(&mut self, slab: Slab<'_>, unit: usize, index: usize) -> Result<FreedIn, NotLive> {
        let (words, bit) = (slab.words(index / 64).ok_or(NotLive)?, 1 << (index % 64));
        words.put_back(bit)?;
        if ptr::eq(words.used, self.current.words.used) {
            self.available |= bit;
            return Ok(FreedIn::Current);
        }
        Ok(if self.current.unit == unit { FreedIn::Current } else { FreedIn::Another })
    }

    /// A block was freed in a slab that is not the current one.
    pub(crate) fn count_freed(&mut self, slab: Slab<'_>, unit: usize) -> Outcome {
        let live = slab.live_hint().wrapping_sub(1);
        slab.set_live_hint(live);
        self.wait_in_line(slab, unit);
        if live != 0 {
            return Outcome::Kept;
        }
        self.empty += 1;
        if self.empty > 1 + self.slabs.len() / KEPT_SHARE { Outcome::Spare } else { Outcome::Kept }
    }

    /// Notes that blocks of a slab are free.
    #[inline(always)]
    pub(crate) fn wait_in_line(&mut self, slab: Slab<'_>, unit: usize) {
        if !slab.waits() {
            slab.set_waits(Waits::Yes);
            self.waiting.push(unit);
        }
    }

    /// Counts a slab that has come to be this process's, with `live` live blocks.
    pub(crate) fn add(&mut self, slab: Slab<'_>, unit: usize, live: u64) {
        slab.set_live_hint(live);
        slab.set_waits(Waits::No);
        self.slabs.push(unit);
        if (live as usize) < slab.shape.blocks(usize::from(self.class)) {
            self.wait_in_line(slab, unit);
        }
        self.empty += usize::from(live == 0);
    }

    /// Whether a slab is known to be empty.
    pub(crate) fn has_empty(&self, sections: &Sections) -> bool {
        let current = sections.slab(self.current.unit);
        self.empty > 0 || current.is_some_and(|slab| slab.count_taken(usize::from(self.class)) == 0)
    }

    /// Stores in the current slab how many of its blocks are live.
    pub(crate) fn store_hint(&self, sections: &Sections) {
        if let Some(slab) = sections.slab(self.current.unit) {
            slab.set_live_hint(slab.count_taken(usize::from(self.class)));
        }
    }

    /// No slab is empty: all that were have been given back.
    pub(crate) fn count_none_empty(&mut self) {
        self.empty = 0;
    }

    /// Forgets a slab that was empty and is the engine's again.
    pub(crate) fn remove(&mut self, unit: usize) {
        self.slabs.retain(|&other| other != unit);
        self.empty = self.empty.saturating_sub(1);
        if self.current.unit == unit {
            (self.current, self.available) = (Current::nowhere(), 0);
        }
    }

    /// Finds a word of a slab with free blocks: in the current slab, in those in which blocks were freed, and in some
    /// of the others.
    #[cold]
    #[inline(never)]
    pub(crate) fn find_room(&mut self, sections: &Sections, slot: u8) -> bool {
        if self.turn_to(sections, slot, self.current.unit) {
            return true;
        }
        self.store_hint(sections);
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
        let is_ours =
            |slab: Slab<'_>| slab.tenure().is_some_and(|tenure| tenure.slot == slot && tenure.class == self.class);
        if !is_ours(slab) {
            return false;
        }
        let was_empty = self.current.unit != unit && slab.live_hint() == 0;
        for at in 0..slab.word_count(usize::from(self.class)) {
            let Some(words) = slab.words(at) else { break };
            let collected = words.collect(|| being_freed(sections, unit, at)).count_ones();
            slab.set_live_hint(slab.live_hint().wrapping_sub(u64::from(collected)));
            let free = words.free() & slab.valid(usize::from(self.class), at);
            if free != 0 {
                // SAFETY: the handle of this lane has the sections mapped.
                let words = unsafe { Words { used: lasting(words.used), freed: lasting(words.freed) } };
                let first = unit * SLAB + at * 64 * self.size;
                self.current = Current { words, first, unit };
                self.available = free;
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
    use crate::error::Error;
    use crate::offset::Offset;
    use crate::publication::Published;
    use crate::slabs::lane::tests::heap_with_slabs;
    use crate::slabs::{reconcile, redo};

    /// How many blocks are live is counted when a slab is no longer the current one.
    #[test]
    fn slabs_that_become_empty_are_given_back() {
        let heap = heap_with_slabs("empty");
        let blocks: Vec<Offset> = (0..160).map(|_| heap.allocate(2048).unwrap()).collect();
        assert_eq!(heap.counters().unwrap().live, 10 * SLAB as u64);
        blocks.into_iter().for_each(|block| heap.deallocate(block).unwrap());
        assert!(heap.counters().unwrap().live <= 3 * SLAB as u64);
    }

    #[test]
    fn what_follows_from_a_slabs_class_is_derived_anew_by_recovery() {
        let heap = heap_with_slabs("derived");
        let blocks: Vec<Offset> = (0..4).map(|_| heap.allocate(600).unwrap()).collect();
        let unit = (blocks[3].get() as usize - heap.mapping.layout.data) / SLAB;
        let data = heap.mapping.layout.data as u64;
        heap.mapping.slab(unit).unwrap().derive(0);
        assert!(heap.deallocate(blocks[3]).is_err());
        let mut section = heap.enter().unwrap();
        reconcile(&heap.mapping, section.engine());
        drop(section);
        heap.deallocate(blocks[3]).unwrap();
        let end = blocks[0].get() - (blocks[0].get() - data) % SLAB as u64 + (SLAB / 640 * 640) as u64;
        assert_eq!(heap.deallocate(Offset::new(end).unwrap()), Err(Error::NotABlock { offset: end }));
    }

    #[test]
    fn a_check_finds_wrong_reciprocals() {
        let heap = heap_with_slabs("reciprocal");
        let block = heap.allocate(600).unwrap();
        let unit = (block.get() as usize - heap.mapping.layout.data) / SLAB;
        heap.check().unwrap();
        heap.mapping.slab(unit).unwrap().derive(0);
        let offset = (heap.mapping.layout.data + unit * SLAB) as u64;
        assert_eq!(heap.check(), Err(Error::Corrupted { what: "a slab numbers its blocks wrongly", offset }));
    }

    /// Only damage sets bits behind a slab's last block. A free there that finds one must not lead out of the slab.
    #[test]
    fn what_lies_behind_a_slabs_last_block_is_never_taken() {
        let heap = heap_with_slabs("behind");
        let block = heap.allocate(640).unwrap();
        let unit = (block.get() as usize - heap.mapping.layout.data) / SLAB;
        let words = heap.mapping.slab(unit).unwrap().words(0).unwrap();
        words.take(1 << 51);
        let behind = (heap.mapping.layout.data + unit * SLAB + 51 * 640) as u64;
        assert_eq!(heap.deallocate(Offset::new(behind).unwrap()), Err(Error::NotABlock { offset: behind }));
        assert!((0..100).all(|_| heap.allocate(640).unwrap().get() != behind));
    }

    /// Another process died after it had freed a block from a word, before its record was cleared.
    #[test]
    fn a_block_whose_free_is_on_record_is_left_alone() {
        let heap = heap_with_slabs("spared");
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
