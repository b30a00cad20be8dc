//! A slab: one stretch of the data that is cut into blocks of one size class, and what the segment says of it.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::atomics::{AtomicU64, compiler_fence};
use super::bitmap::Words;
use super::classes::{self, Granule, granules_of};

/// The length of a slab in bytes. Slabs begin at multiples of it, so that every place of the data belongs to one.
pub(crate) const SLAB: usize = 1 << 15;

/// The unit of the parts of a slab's metadata, so that its owner and processes that free its blocks do not share
/// cache lines.
const LINE: usize = 64;

/// Which words of the first line mean what.
const TENURE: usize = 0;
const RECIPROCAL: usize = 1;
const LIVE: usize = 0;
const LISTED: usize = 1;

/// The mark of a word that names the owner of a slab.
const MARK: u64 = 0x5b;

/// The bits of that word that are the same for all slabs of an owner.
const OWNER: u64 = 0xfffe_00ff << 32;

/// The owner of a slab, and the class of its blocks.
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

    /// Returns what all tenures of the process of `slot` have in common.
    pub(crate) fn of_owner(slot: u8) -> u64 {
        MARK << 56 | u64::from(slot) << 32
    }

    /// Returns what `word` says in a heap with this number of classes; `None` where no slab is, and for a word
    /// that no process has stored.
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
    granule: Granule,
    /// The number of classes.
    classes: usize,
    /// The words of each bitmap.
    words: usize,
    /// The number of words before the second bitmap.
    freed: usize,
    /// The bytes of a slab's metadata.
    stride: usize,
}

/// The number of words before the first bitmap.
const USED: usize = LINE / 8 + 2;

impl Shape {
    pub(crate) fn of(shift: u32) -> Shape {
        let words = (SLAB >> shift).div_ceil(64);
        let freed = (USED + words).next_multiple_of(LINE / 8);
        let stride = (freed + words).next_multiple_of(LINE / 8) * 8;
        Shape { granule: Granule::of(shift), classes: classes::count(shift), words, freed, stride }
    }

    /// Returns the bytes of a slab's metadata.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    pub(crate) fn classes(&self) -> usize {
        self.classes
    }

    /// Returns the class of the shortest blocks of at least `bytes` bytes (0 is taken as 1) at multiples of `align`, if
    /// there is one.
    #[inline(always)]
    pub(crate) fn class_for(&self, bytes: usize, align: usize) -> Option<usize> {
        // A block lies at a multiple of its length in its slab.
        let is_coarse = align > 1 << self.granule.shift();
        let bytes = if is_coarse { bytes.max(1).checked_next_multiple_of(align)? } else { bytes };
        let class = self.granule.class_for(bytes)?;
        (class < self.classes && (!is_coarse || self.size(class).is_multiple_of(align))).then_some(class)
    }

    /// Returns the bytes of a block of `class`.
    #[inline(always)]
    pub(crate) fn size(&self, class: usize) -> usize {
        granules_of(class) << self.granule.shift()
    }

    /// Returns the granule of the heap.
    pub(crate) fn granule(&self) -> Granule {
        self.granule
    }

    /// Returns how a slab of `class` is cut.
    #[inline(always)]
    pub(crate) fn cut(&self, class: usize) -> Cut {
        let size = self.size(class);
        Cut { size: size as u32, end: (SLAB / size * size) as u32 }
    }

    /// Returns the number of blocks of a slab of `class`.
    pub(crate) fn blocks(&self, class: usize) -> usize {
        SLAB / self.size(class)
    }

    /// By which a distance in a slab of `class` is multiplied, and shifted by 32, instead of divided by the blocks'
    /// size.
    fn reciprocal(&self, class: usize) -> u64 {
        (1_u64 << 32).div_ceil(self.size(class) as u64)
    }
}

/// How a slab is cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The bytes of a block.
    size: u32,
    /// How far from the slab's start the last one ends.
    end: u32,
}

impl Cut {
    /// Returns how far the block of this number is from the first one.
    #[inline(always)]
    pub(crate) fn distance_of(self, index: u32) -> usize {
        (index * self.size) as usize
    }
}

/// The metadata of the slab at one place, whether one is there or not.
#[derive(Clone, Copy)]
pub(crate) struct Slab<'s> {
    start: NonNull<AtomicU64>,
    pub(crate) shape: &'s Shape,
}

impl<'s> Slab<'s> {
    /// Returns the slab whose metadata begins at `start`.
    ///
    /// # Safety
    /// [`Shape::stride`] bytes of atomic words lie there for as long as the shape is borrowed.
    #[inline(always)]
    pub(crate) unsafe fn at(start: NonNull<AtomicU64>, shape: &'s Shape) -> Slab<'s> {
        Slab { start, shape }
    }

    /// Returns the word of this number.
    ///
    /// # Safety
    /// It is one of the slab's.
    #[inline(always)]
    unsafe fn word(self, at: usize) -> &'s AtomicU64 {
        // SAFETY: the word is one of the slab's, by the contract of this function, and `at` requires that they lie
        // there.
        unsafe { self.start.add(at).as_ref() }
    }

    #[inline(always)]
    fn tenure_word(self) -> &'s AtomicU64 {
        // SAFETY: metadata has three lines at least, of which this is in the first.
        unsafe { self.word(TENURE) }
    }

    /// By which a distance is multiplied instead of divided: loaded at the same time as the tenure, not after it.
    #[inline(always)]
    fn reciprocal(self) -> &'s AtomicU64 {
        // SAFETY: as above.
        unsafe { self.word(RECIPROCAL) }
    }

    /// Returns the number of the block that begins at this distance from the start of the slab, which is cut like this;
    /// `None` behind the last one. A wrong reciprocal, which damage can leave, finds no block at a distance, or the
    /// right one.
    #[inline(always)]
    pub(crate) fn index(self, distance: usize, cut: Cut) -> Option<usize> {
        let distance = distance as u64;
        let index = distance.wrapping_mul(self.reciprocal().load(Relaxed)) >> 32;
        (distance < u64::from(cut.end) && index * u64::from(cut.size) == distance).then_some(index as usize)
    }

    /// Returns the words of the bitmaps that have the block which begins at this distance, and its bit; otherwise as
    /// [`Slab::index`].
    ///
    /// # Safety
    /// `cut` is that of a class of this slab's shape.
    #[inline(always)]
    pub(crate) unsafe fn words_at(self, distance: usize, cut: Cut) -> Option<(Words<'s>, u64)> {
        let index = self.index(distance, cut)?;
        // SAFETY: a slab of any class of the shape has at most as many blocks as granules, each of which has a bit.
        Some((unsafe { self.words_of(index / 64) }, 1 << (index % 64)))
    }

    #[inline(always)]
    pub(crate) fn tenure(self) -> Option<Tenure> {
        Tenure::of(self.tenure_word().load(Acquire), self.shape.classes)
    }

    /// Returns the class of the slab, if its tenure has the bits of [`Tenure::of_owner`].
    #[inline(always)]
    pub(crate) fn class_if_of(self, owner: u64) -> Option<usize> {
        let word = self.tenure_word().load(Acquire);
        (word & OWNER == owner).then_some(usize::from((word >> 40) as u8))
    }

    pub(crate) fn is_marked(self) -> bool {
        self.tenure_word().load(Relaxed) != 0
    }

    /// Gives the slab to another, if it is still as `before` says.
    pub(crate) fn pass_on(self, before: Tenure, after: Tenure) -> bool {
        self.tenure_word().compare_exchange(before.word(), after.word(), Release, Relaxed).is_ok()
    }

    /// Makes an empty slab. The last store is the commit.
    pub(crate) fn begin(self, tenure: Tenure) {
        // SAFETY: these words lie in the metadata.
        (1..self.shape.stride / 8).for_each(|at| unsafe { self.word(at) }.store(0, Relaxed));
        self.derive(usize::from(tenure.class));
        compiler_fence(SeqCst);
        self.tenure_word().store(tenure.word(), Release);
        compiler_fence(SeqCst);
    }

    /// Stores what follows from the slab's class.
    pub(crate) fn derive(self, class: usize) {
        self.reciprocal().store(self.shape.reciprocal(class), Relaxed);
    }

    /// Returns whether what is stored follows from the slab's class.
    pub(crate) fn is_derived(self, class: usize) -> bool {
        self.reciprocal().load(Relaxed) == self.shape.reciprocal(class)
    }

    /// No slab is here any more. Commits by its only store.
    pub(crate) fn end(self) {
        compiler_fence(SeqCst);
        self.tenure_word().store(0, Release);
        compiler_fence(SeqCst);
    }

    #[inline(always)]
    fn own(self, at: usize) -> &'s AtomicU64 {
        // SAFETY: the hints are in the second of three lines at least.
        unsafe { self.word(LINE / 8 + at) }
    }

    /// Returns how many blocks the owner takes for live. A hint: what counts is in the bitmaps.
    #[inline(always)]
    pub(crate) fn live_hint(self) -> u64 {
        self.own(LIVE).load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set_live_hint(self, live: u64) {
        self.own(LIVE).store(live, Relaxed);
    }

    /// Returns whether the owner has the slab in its list of those with free blocks. A hint.
    #[inline(always)]
    pub(crate) fn waits(self) -> bool {
        self.own(LISTED).load(Relaxed) & 1 != 0
    }

    #[inline(always)]
    pub(crate) fn set_waits(self, waits: Waits) {
        self.own(LISTED).store((self.place_hint() as u64) << 1 | waits as u64, Relaxed);
    }

    /// Returns where the slab is in the owner's list of those of its class. A hint.
    pub(crate) fn place_hint(self) -> usize {
        (self.own(LISTED).load(Relaxed) >> 1) as usize
    }

    pub(crate) fn set_place_hint(self, place: usize) {
        self.own(LISTED).store((place as u64) << 1 | u64::from(self.waits()), Relaxed);
    }

    /// Returns the number of words that the bitmaps of a slab of `class` use.
    pub(crate) fn word_count(self, class: usize) -> usize {
        self.shape.blocks(class).div_ceil(64)
    }

    /// Returns a word of the bitmaps; `None` beyond their end.
    #[inline(always)]
    pub(crate) fn words(self, at: usize) -> Option<Words<'s>> {
        // SAFETY: the bitmaps have that many words.
        (at < self.shape.words).then(|| unsafe { self.words_of(at) })
    }

    /// Returns a word of the bitmaps.
    ///
    /// # Safety
    /// They have as many.
    #[inline(always)]
    unsafe fn words_of(self, at: usize) -> Words<'s> {
        // SAFETY: each bitmap has `words` words, the second one from `freed` to the metadata's end.
        let word = |first| unsafe { self.word(first + at) };
        Words { used: word(USED), freed: word(self.shape.freed) }
    }

    /// Returns the bits of a word of the bitmaps that stand for blocks of `class`.
    #[inline(always)]
    pub(crate) fn valid(self, class: usize, at: usize) -> u64 {
        match self.shape.blocks(class).saturating_sub(at * 64) {
            blocks @ 0..=63 => (1 << blocks) - 1,
            _ => u64::MAX,
        }
    }

    /// Returns how many blocks of a slab of `class` its owner has taken and not collected.
    pub(crate) fn count_taken(self, class: usize) -> u64 {
        (0..self.word_count(class))
            .filter_map(|at| self.words(at))
            .map(|words| u64::from(words.used.load(Relaxed).count_ones()))
            .sum()
    }

    /// Returns whether the block of this number is live.
    pub(crate) fn is_live(self, index: usize) -> bool {
        self.words(index / 64).is_some_and(|words| words.live() >> (index % 64) & 1 == 1)
    }

    /// Makes free for the owner, which calls this under the segment's lock, what others have freed. Returns the number
    /// of live blocks.
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

/// What a process counts of its slabs, in a line of its own beside the process table.
#[cfg_attr(test, derive(Default))]
#[repr(C)]
pub(crate) struct SlabCounts {
    /// How many slabs the process has begun and ended, under the segment's lock.
    begun: AtomicU64,
    ended: AtomicU64,
    /// How many blocks it has taken from its slabs, and freed in them, one thread at a time.
    taken: AtomicU64,
    freed: AtomicU64,
    /// How many it has freed otherwise: any thread, at any time.
    given: AtomicU64,
    _line: [AtomicU64; 3],
}

impl SlabCounts {
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

    /// Returns how many blocks the process has freed in slabs of others.
    pub(crate) fn given(&self) -> u64 {
        self.given.load(Relaxed)
    }

    pub(crate) fn count_begun(&self) {
        self.begun.store(self.begun.load(Relaxed).wrapping_add(1), Relaxed);
    }

    pub(crate) fn count_ended(&self) {
        self.ended.store(self.ended.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Returns how many blocks were taken and freed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.taken.load(Relaxed), self.freed.load(Relaxed).wrapping_add(self.given.load(Relaxed)))
    }

    /// Returns how many slabs were begun and ended, each an allocation and a free of the engine.
    pub(crate) fn slabs(&self) -> (u64, u64) {
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

    #[cfg(not(loom))]
    #[test]
    fn blocks_are_numbered_within_their_slab_only() {
        for shift in [4, 6, 8] {
            let shape = Shape::of(shift);
            for class in 0..shape.classes() {
                let (size, cut) = (shape.size(class), shape.cut(class));
                let words: Vec<AtomicU64> = (0..shape.stride() / 8).map(|_| AtomicU64::default()).collect();
                // SAFETY: a slab of this shape has that many words, and they live as long as this function runs.
                let slab = unsafe { Slab::at(NonNull::from(&words[0]), &shape) };
                slab.begin(Tenure { slot: 7, class: class as u8, adopted: false, turn: 0 });
                assert_eq!(slab.class_if_of(Tenure::of_owner(7)), Some(class));
                assert_eq!(slab.class_if_of(Tenure::of_owner(8)), None);
                for index in 0..shape.blocks(class) {
                    assert_eq!(slab.index(index * size, cut), Some(index));
                    assert_eq!([1, size - 1].map(|more| slab.index(index * size + more, cut)), [None; 2]);
                }
                assert_eq!(slab.index(shape.blocks(class) * size, cut), None);
                assert!(shape.blocks(class) <= shape.words * 64);
            }
        }
    }
}
