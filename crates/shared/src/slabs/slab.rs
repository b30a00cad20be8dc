//! A slab: one stretch of the data that is cut into blocks of one size class, and what the segment says of it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::atomics::{AtomicU8, AtomicU64, compiler_fence};
use super::bitmap::Words;
use super::classes::{self, granules_of};

/// The length of a slab in bytes. Slabs begin at multiples of it, so that every place of the data belongs to one.
pub(crate) const SLAB: usize = 1 << 15;

/// The largest granule of heaps with slabs, in bytes.
pub(crate) const LARGEST_GRANULE: u32 = 256;

/// What parts of a slab's metadata are multiples of, so that its owner and those who free its blocks do not share lines.
const LINE: usize = 64;

/// Which words of the first line mean what.
const TENURE: usize = 0;
const LIVE: usize = 0;
const WAITS: usize = 1;

/// The mark of a word that says who owns a slab.
const MARK: u64 = 0x5b;

/// Who owns a slab, and what it is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tenure {
    /// The number of the owner's slot in the process table.
    pub(crate) slot: u8,
    pub(crate) class: u8,
    /// Whether the owner got it from one that left.
    pub(crate) adopted: bool,
    /// How often the slab was adopted.
    pub(crate) turn: u32,
}

impl Tenure {
    pub(crate) fn word(self) -> u64 {
        MARK << 56
            | u64::from(self.adopted) << 48
            | u64::from(self.class) << 40
            | u64::from(self.slot) << 32
            | u64::from(self.turn)
    }

    /// What `word` says in a heap of so many classes; `None` where no slab is, and for what no process has stored.
    #[inline(always)]
    pub(crate) fn of(word: u64, classes: usize) -> Option<Tenure> {
        let tenure = Tenure {
            slot: (word >> 32) as u8,
            class: (word >> 40) as u8,
            adopted: word >> 48 & 1 == 1,
            turn: word as u32,
        };
        (word >> 49 == MARK << 7 && usize::from(tenure.class) < classes).then_some(tenure)
    }
}

/// How a slab's metadata lies in the segment, for a granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// log2 of the granule.
    shift: u32,
    /// The number of classes.
    classes: usize,
    /// The words of each bitmap.
    words: usize,
}

impl Shape {
    pub(crate) fn of(shift: u32) -> Shape {
        Shape { shift, classes: classes::count(shift), words: (SLAB >> shift).div_ceil(64) }
    }

    fn used_bytes(&self) -> usize {
        ((2 + self.words) * 8).next_multiple_of(LINE)
    }

    /// The bytes of a slab's metadata.
    pub(crate) fn stride(&self) -> usize {
        LINE + self.used_bytes() + (self.words * 8).next_multiple_of(LINE)
    }

    pub(crate) fn classes(&self) -> usize {
        self.classes
    }

    /// The class of the shortest blocks of at least so many bytes (0 is taken as 1) at multiples of `align`, if there is one.
    #[inline(always)]
    pub(crate) fn class_for(&self, bytes: usize, align: usize) -> Option<usize> {
        // A block lies at a multiple of its length in its slab.
        let is_coarse = align > 1 << self.shift;
        let bytes = if is_coarse { bytes.max(1).checked_next_multiple_of(align)? } else { bytes };
        let class = (bytes <= classes::LONGEST).then(|| classes::class_of(((bytes.max(1) - 1) >> self.shift) + 1))?;
        (!is_coarse || self.size(class).is_multiple_of(align)).then_some(class)
    }

    /// The bytes of a block of `class`.
    #[inline(always)]
    pub(crate) fn size(&self, class: usize) -> usize {
        granules_of(class) << self.shift
    }

    /// The number of blocks of a slab of `class`.
    pub(crate) fn blocks(&self, class: usize) -> usize {
        SLAB / self.size(class)
    }

    /// The number of the block of `class` that begins so far from its slab's start.
    #[inline(always)]
    pub(crate) fn index(&self, class: usize, distance: usize) -> Option<usize> {
        let size = self.size(class);
        let index = (distance as u32 / size as u32) as usize;
        (index * size == distance && distance + size <= SLAB).then_some(index)
    }
}

/// The metadata of the slab at one place, whether one is there or not.
#[derive(Clone, Copy)]
pub(crate) struct Slab<'s> {
    words: &'s [AtomicU64],
    pub(crate) shape: Shape,
}

impl<'s> Slab<'s> {
    /// The slab whose metadata are `words`, [`Shape::stride`] bytes of them.
    #[inline(always)]
    pub(crate) fn at(words: &'s [AtomicU64], shape: Shape) -> Slab<'s> {
        Slab { words, shape }
    }

    #[inline(always)]
    pub(crate) fn tenure(self) -> Option<Tenure> {
        Tenure::of(self.words[TENURE].load(Acquire), self.shape.classes)
    }

    pub(crate) fn is_marked(self) -> bool {
        self.words[TENURE].load(Relaxed) != 0
    }

    /// Gives the slab to another, if it is still as `before` says.
    pub(crate) fn pass_on(self, before: Tenure, after: Tenure) -> bool {
        self.words[TENURE].compare_exchange(before.word(), after.word(), Release, Relaxed).is_ok()
    }

    /// Makes an empty slab. The last store is the commit.
    pub(crate) fn begin(self, tenure: Tenure) {
        self.words[1..].iter().for_each(|word| word.store(0, Relaxed));
        compiler_fence(SeqCst);
        self.words[TENURE].store(tenure.word(), Release);
        compiler_fence(SeqCst);
    }

    /// No slab is here any more. Commits by its only store.
    pub(crate) fn end(self) {
        compiler_fence(SeqCst);
        self.words[TENURE].store(0, Release);
        compiler_fence(SeqCst);
    }

    #[inline(always)]
    fn own(self, at: usize) -> &'s AtomicU64 {
        &self.words[LINE / 8 + at]
    }

    /// How many blocks the owner takes for live. A hint: what counts is in the bitmaps.
    #[inline(always)]
    pub(crate) fn live_hint(self) -> u64 {
        self.own(LIVE).load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set_live_hint(self, live: u64) {
        self.own(LIVE).store(live, Relaxed);
    }

    /// Whether the owner has the slab in its list of those with free blocks. A hint.
    #[inline(always)]
    pub(crate) fn waits(self) -> bool {
        self.own(WAITS).load(Relaxed) != 0
    }

    #[inline(always)]
    pub(crate) fn set_waits(self, waits: Waits) {
        self.own(WAITS).store(waits as u64, Relaxed);
    }

    /// The number of words that the bitmaps of a slab of `class` use.
    pub(crate) fn word_count(self, class: usize) -> usize {
        self.shape.blocks(class).div_ceil(64)
    }

    /// A word of the bitmaps; `None` beyond their end.
    #[inline(always)]
    pub(crate) fn words(self, at: usize) -> Option<Words<'s>> {
        let used = LINE / 8 + 2;
        let freed = (LINE + self.shape.used_bytes()) / 8;
        if at >= self.shape.words {
            return None;
        }
        Some(Words { used: self.words.get(used + at)?, freed: self.words.get(freed + at)? })
    }

    /// The bits of a word of the bitmaps that stand for blocks of `class`.
    #[inline(always)]
    pub(crate) fn valid(self, class: usize, at: usize) -> u64 {
        match self.shape.blocks(class).saturating_sub(at * 64) {
            blocks @ 0..=63 => (1 << blocks) - 1,
            _ => u64::MAX,
        }
    }

    /// Whether the block of this number is live.
    pub(crate) fn is_live(self, index: usize) -> bool {
        self.words(index / 64).is_some_and(|words| words.live() >> (index % 64) & 1 == 1)
    }

    /// Makes free for the owner, who calls this under the segment's lock, what others have freed. Returns the number of
    /// live blocks.
    pub(crate) fn collect_all(self, class: usize) -> u64 {
        let mut live = 0;
        for at in 0..self.word_count(class) {
            if let Some(words) = self.words(at) {
                words.collect(|| 0);
                live += u64::from((!words.free() & self.valid(class, at)).count_ones());
            }
        }
        live
    }
}

/// Whether a slab is in its owner's list of those with free blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Waits {
    No,
    Yes,
}

/// What of a process lies in the segment beside its slot in the process table.
#[cfg_attr(test, derive(Default))]
#[repr(C)]
pub(crate) struct Flight {
    /// The redo word: the offset of the block that is being taken from a slab, else 0.
    block: AtomicU64,
    /// How many blocks the process has taken from its slabs, and freed in them, one thread at a time.
    taken: AtomicU64,
    freed: AtomicU64,
    /// How many it has freed otherwise: any thread, at any time.
    given: AtomicU64,
    /// How many slabs it has begun and ended, under the segment's lock.
    begun: AtomicU64,
    ended: AtomicU64,
    _line: [AtomicU64; 2],
}

impl Flight {
    /// From here on the block is undone if its process dies.
    #[inline(always)]
    fn begin(&self, offset: u64) {
        self.block.store(offset, Relaxed);
        compiler_fence(SeqCst);
    }

    /// The block is its process's.
    #[inline(always)]
    pub(crate) fn end(&self) {
        compiler_fence(SeqCst);
        self.block.store(0, Relaxed);
        compiler_fence(SeqCst);
    }

    /// The block in flight, or 0.
    fn block(&self) -> u64 {
        self.block.load(Relaxed)
    }

    /// Takes a block of one's own slab, at `offset`, which `words` have at `bit`, for the process of `slot`.
    ///
    /// The redo word is set before the block is taken, and cleared when its owner is known to be this process.
    #[inline(always)]
    pub(crate) fn take(&self, offset: u64, words: Words<'_>, bit: u64, owner: &AtomicU8, slot: u8) {
        self.begin(offset);
        owner.store(slot, Relaxed);
        words.take(bit);
        self.end();
    }

    /// Undoes the allocation in flight, of a process that is dead. `find` returns the words of a block, and its bit in them, if
    /// the block lies in a slab of that process.
    ///
    /// Idempotent: the redo word is cleared when the block is free, and until then no other process owns the slab.
    pub(crate) fn settle<'s>(&self, find: impl FnOnce(u64) -> Option<(Words<'s>, u64)>) {
        let block = self.block();
        if block == 0 {
            return;
        }
        if let Some((words, bit)) = find(block) {
            // It is not live if the process died before it took the block, or after another one has settled this.
            let _ = words.put_back(bit);
        }
        self.end();
    }

    #[inline(always)]
    pub(crate) fn count_taken(&self) {
        self.taken.store(self.taken.load(Relaxed).wrapping_add(1), Relaxed);
    }

    #[inline(always)]
    pub(crate) fn count_freed(&self) {
        self.freed.store(self.freed.load(Relaxed).wrapping_add(1), Relaxed);
    }

    pub(crate) fn count_given(&self) {
        self.given.fetch_add(1, Relaxed);
    }

    /// How many blocks the process has freed in slabs of others.
    pub(crate) fn given(&self) -> u64 {
        self.given.load(Relaxed)
    }

    pub(crate) fn count_begun(&self) {
        self.begun.store(self.begun.load(Relaxed).wrapping_add(1), Relaxed);
    }

    pub(crate) fn count_ended(&self) {
        self.ended.store(self.ended.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// How many blocks were taken and freed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.taken.load(Relaxed), self.freed.load(Relaxed).wrapping_add(self.given.load(Relaxed)))
    }

    /// How many slabs were begun and ended, each an allocation and a free of the engine.
    pub(crate) fn slab_counts(&self) -> (u64, u64) {
        (self.begun.load(Relaxed), self.ended.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_were_stored_name_owners() {
        let tenure = Tenure { slot: 7, class: 19, adopted: true, turn: 3 };
        assert_eq!(Tenure::of(tenure.word(), 20), Some(tenure));
        assert_eq!(Tenure::of(tenure.word(), 19), None);
        assert_eq!(Tenure::of(0, 20), None);
        assert!((49..64).all(|bit| Tenure::of(tenure.word() ^ 1 << bit, 20).is_none()));
    }

    #[test]
    fn blocks_are_numbered_within_their_slab_only() {
        for shift in [4, 6, 8] {
            let shape = Shape::of(shift);
            for class in 0..shape.classes() {
                let size = shape.size(class);
                for index in 0..shape.blocks(class) {
                    assert_eq!(shape.index(class, index * size), Some(index));
                    assert_eq!(shape.index(class, index * size + 1), None);
                }
                assert_eq!(shape.index(class, shape.blocks(class) * size), None);
                assert!(shape.blocks(class) <= shape.words * 64);
            }
        }
    }
}
