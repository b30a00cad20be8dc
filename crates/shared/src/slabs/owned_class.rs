//! What a process keeps of its slabs of one class.

use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use super::ledger::{Ledger, lasting};
use super::parts::Small;
use crate::format::bitmap::{NotLive, Words};
use crate::format::slab::{Cut, SLAB, Shape, Slab, SlabCounts, Waits};
use crate::mapped::sections::Sections;

/// How many slabs a search for blocks that others have freed looks at.
const LOOKED_AT: usize = 8;

/// A process keeps one empty slab of a class, and another for each 8 slabs that it has.
const KEPT_SHARE: usize = 8;

/// Blocks longer than this, in bytes, come from slabs once a process has asked for a slab's number of them. Fewer take
/// much less memory than a slab.
const SHORT: usize = 2048;

/// The slabs of one class. What each operation needs lies in the first line.
#[repr(C, align(64))]
pub(crate) struct OwnedClass {
    /// Where blocks are taken from.
    current: Current,
    /// Blocks of the current word that are free: blocks of a slab, in the heap.
    available: u64,
    /// The bit of the block that was taken last, in the current word; 0 since that is another one.
    latest: u64,
    pub(super) cut: Cut,
    counts: &'static SlabCounts,
    /// All slabs of the class.
    pub(crate) slabs: Vec<usize>,
    /// Those in which the owner has freed blocks, and some that it does not own any more.
    waiting: Vec<usize>,
    /// Where the next search for blocks that others freed begins.
    cursor: usize,
    /// How many slabs other than the current one are empty.
    empty: u32,
    class: u8,
    /// How many more blocks the engine places before the first slab begins.
    placed_first: u8,
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

impl OwnedClass {
    /// No slabs yet.
    pub(super) fn new(shape: &Shape, class: usize, counts: &'static SlabCounts) -> OwnedClass {
        OwnedClass {
            current: Current::nowhere(),
            available: 0,
            latest: 0,
            cut: shape.cut(class),
            counts,
            slabs: Vec::new(),
            waiting: Vec::new(),
            cursor: 0,
            empty: 0,
            class: class as u8,
            placed_first: if shape.size(class) > SHORT { shape.blocks(class) as u8 } else { 0 },
        }
    }

    /// Returns whether a slab is worth its memory. Called for each block for which no slab has room.
    pub(super) fn is_worth_a_slab(&mut self) -> bool {
        let is_worth_it = self.placed_first == 0;
        self.placed_first = self.placed_first.saturating_sub(1);
        is_worth_it
    }

    /// Takes the first free block of the current word, and returns its place.
    #[inline(always)]
    pub(super) fn take(&mut self, ledger: &Ledger) -> Option<usize> {
        let free = self.next(ledger)?;
        // Found before the fence, behind which it would be read again.
        let rest = self.available & !free.bit;
        free.set_owner(ledger.slot);
        free.take();
        (self.available, self.latest) = (rest, free.bit);
        self.counts.count_taken();
        Some(free.place)
    }

    /// Frees the block that was taken last, if its word is still the current one.
    #[inline(always)]
    pub(super) fn put_back_latest(&mut self) -> Result<(), NotLive> {
        self.current.words.put_back(self.latest)?;
        self.available |= self.latest;
        self.counts.count_freed();
        Ok(())
    }

    /// Returns the first free block of the current word.
    #[inline(always)]
    pub(super) fn next(&self, ledger: &Ledger) -> Option<FreeBlock> {
        if self.available == 0 {
            return None;
        }
        let place = self.current.first + self.cut.distance_of(self.available.trailing_zeros());
        let bit = self.available & self.available.wrapping_neg();
        // SAFETY: the block lies in a slab of the heap.
        let owner = unsafe { ledger.owner(place) };
        Some(FreeBlock { place, bit, words: self.current.words, owner })
    }

    #[inline(always)]
    pub(super) fn count_taken(&mut self, taken: &FreeBlock) {
        self.available &= !taken.bit;
        self.counts.count_taken();
    }

    /// Frees the block of this number in a slab of one's own.
    pub(crate) fn put_back(&mut self, slab: Slab<'_>, unit: usize, index: usize) -> Result<Outcome, NotLive> {
        let (words, bit) = (slab.words(index / 64).ok_or(NotLive)?, 1 << (index % 64));
        Ok(match self.clear(words, bit, unit)? {
            FreedIn::Current => Outcome::Kept,
            FreedIn::Another => self.count_freed(slab, unit),
        })
    }

    /// As [`OwnedClass::clear`], and counts the block.
    #[inline(always)]
    pub(super) fn clear_counted(&mut self, words: Words<'_>, bit: u64, unit: usize) -> Result<FreedIn, NotLive> {
        self.clear(words, bit, unit).inspect(|_| self.counts.count_freed())
    }

    /// As [`OwnedClass::put_back`], but for what is to be noted about a slab that is not the current one.
    #[inline(always)]
    fn clear(&mut self, words: Words<'_>, bit: u64, unit: usize) -> Result<FreedIn, NotLive> {
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
        if self.empty as usize > 1 + self.slabs.len() / KEPT_SHARE { Outcome::Spare } else { Outcome::Kept }
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
        slab.set_place_hint(self.slabs.len());
        self.slabs.push(unit);
        if (live as usize) < slab.shape.blocks(usize::from(self.class)) {
            self.wait_in_line(slab, unit);
        }
        self.empty += u32::from(live == 0);
    }

    /// Returns whether a slab is known to be empty.
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

    /// Forgets a slab that was empty and is the engine's again. The last one takes its place in the list.
    pub(crate) fn remove(&mut self, sections: &Sections, unit: usize) {
        let hinted = sections.slab(unit).map_or(usize::MAX, Slab::place_hint);
        let place = match self.slabs.get(hinted) == Some(&unit) {
            true => Some(hinted),
            // Only damage leaves a wrong hint.
            false => self.slabs.iter().position(|&other| other == unit),
        };
        if let Some(place) = place {
            self.slabs.swap_remove(place);
            if let Some(moved) = self.slabs.get(place).and_then(|&unit| sections.slab(unit)) {
                moved.set_place_hint(place);
            }
        }
        self.empty = self.empty.saturating_sub(1);
        if self.current.unit == unit {
            (self.current, self.available, self.latest) = (Current::nowhere(), 0, 0);
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
                let first = unit * SLAB + self.cut.distance_of(at as u32 * 64);
                self.current = Current { words, first, unit };
                (self.available, self.latest) = (free, 0);
                self.empty = self.empty.saturating_sub(u32::from(was_empty));
                return true;
            }
        }
        false
    }
}

/// Returns the bit of the block whose free is on record, if a word of a slab's bitmaps has it: recovery may free it
/// once more.
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
