//! The records of spans: runs of pages that consist of a lead, a body (a slab or a long block), and a guard. Bodies
//! begin at multiples of 64 KiB, so that the record of a span is found by the number of the 64 KiB that an address lies
//! in.

use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

use heapwright_os::{Lock, PageRange, Refused, page_size};

use super::Measures;
use super::draw::Draw;
use super::record::{Run, record};
use super::slab::Slab;
use super::table::Table;
use heapwright_slabs::arena::{ARENA, ArenaState};
use heapwright_slabs::classes::{CLASSES, SLAB};
use heapwright_slabs::mode::measures;

/// What lies at a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing that begins here.
    Nothing,
    /// Blocks of a class.
    Slab(usize),
    /// A block of its own pages.
    Long,
    /// The same, freed.
    Waiting,
    /// A slab of no class: no block of it is in use.
    Spare,
    /// What the system did not let go on: its pages are still forbidden.
    Stuck,
}

impl Kind {
    const fn to_bits(self) -> u8 {
        match self {
            Kind::Nothing => 0,
            Kind::Spare => 252,
            Kind::Stuck => 253,
            Kind::Long => 254,
            Kind::Waiting => 255,
            Kind::Slab(class) => class as u8 + 1,
        }
    }

    #[inline(always)]
    const fn from_bits(bits: u8) -> Kind {
        match bits {
            0 => Kind::Nothing,
            252 => Kind::Spare,
            253 => Kind::Stuck,
            254 => Kind::Long,
            255 => Kind::Waiting,
            class => Kind::Slab(class as usize - 1),
        }
    }
}

/// How the body of a span is made inaccessible, while it waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seal {
    None,
    /// By guard pages.
    Guards,
    /// By its protection.
    Protection,
    /// The span is stuck, and nothing is mapped there.
    Unmapped,
}

/// The record of the span that has its body at a number.
#[repr(C, align(64))]
pub(super) struct Span {
    kind: AtomicU8,
    /// The length of what lies before the body, in slabs.
    pub(super) lead: u8,
    /// The number of its guards that are mappings of their own.
    pub(super) protected: u8,
    /// How the body is made inaccessible.
    pub(super) seal: Seal,
    /// Of a sealed body that is not long: whether all of it was in memory before.
    pub(super) was_full: bool,
    /// Of a slab: the records of its blocks.
    pub(super) run: Option<Run>,
    /// The length of the body in bytes: whole OS pages.
    pub(super) length: usize,
    /// The length of the span in bytes.
    pub(super) whole: usize,
    /// How many bytes at the body's start may not be zero: when the span is placed, and when it is removed.
    pub(super) dirty: usize,
    /// The bytes of a long block that were requested. Only the thread that holds the block writes it.
    pub(super) requested: usize,
    /// Of a slab: used behind the lock of its class.
    pub(super) slab: Slab,
}

/// Where the records lie, and how many of them are mapped: those of all spans that were ever placed.
static SPANS: AtomicPtr<Span> = AtomicPtr::new(null_mut());
static COVERED: AtomicUsize = AtomicUsize::new(0);

/// Extended while the arena is locked; free during a fork.
static TABLE: Lock<Table> = Lock::new(Table::NONE);

/// Draws the distances between spans, and spans. Locked behind the arena's lock or that of `ready_spans`: free during a
/// fork.
static DISTANCE: Lock<Draw> = Lock::new(Draw::Lowest);

/// Claims addresses for the records of so many numbers.
pub(super) fn init(room: usize) -> Result<(), Refused> {
    let spans = TABLE.lock().claim(room * size_of::<Span>())?;
    SPANS.store(spans.cast(), Ordering::Relaxed);
    *DISTANCE.lock() = Draw::new();
    Ok(())
}

/// Returns the pages of the table that contain only records of what begins in a hole, as far as they belong to a
/// `range` of pages in it. Both are given as offsets from the arena's base. All these records are of
/// [`Kind::Nothing`], as a page of zeros is.
pub(super) fn records_within(range: Range<usize>, hole: Range<usize>) -> Option<PageRange> {
    let covered = COVERED.load(Ordering::Relaxed);
    let offset = |number: usize| number.min(covered) * size_of::<Span>();
    let (page, last) = (page_size(), hole.end / SLAB);
    let begin = offset(hole.start.div_ceil(SLAB)).next_multiple_of(page).max(offset(range.start / SLAB) / page * page);
    let end = (offset(last) / page * page).min(offset(range.end.div_ceil(SLAB)).next_multiple_of(page));
    let length = end.checked_sub(begin).filter(|&length| length != 0)?;
    let start = NonNull::new(SPANS.load(Ordering::Relaxed).wrapping_byte_add(begin))?.cast();
    Some(PageRange { start, length })
}

/// Draws a number below `choices`; 0 where choices are not random.
pub(super) fn draw_below(choices: usize) -> usize {
    DISTANCE.lock().below(choices)
}

/// Makes sure that there is a record at a number.
pub(super) fn cover(arena: &mut ArenaState, number: u32) -> Result<(), Refused> {
    let wanted = number as usize + 1;
    if wanted > COVERED.load(Ordering::Relaxed) {
        let bytes = TABLE.lock().cover_from(arena, wanted * size_of::<Span>())?;
        COVERED.store(bytes / size_of::<Span>(), Ordering::Release);
    }
    Ok(())
}

/// The record at the number of a span that was placed.
#[inline(always)]
pub(super) fn span(number: u32) -> *mut Span {
    // SAFETY: the table reaches up to the last span that was placed.
    unsafe { SPANS.load(Ordering::Relaxed).add(number as usize) }
}

/// What lies at a number.
#[inline]
pub(super) fn kind(number: u32) -> Kind {
    if number as usize >= COVERED.load(Ordering::Acquire) {
        return Kind::Nothing;
    }
    // SAFETY: the record is there, and the field atomic.
    Kind::from_bits(unsafe { &(*span(number)).kind }.load(Ordering::Acquire))
}

/// The slab that an address lies in, as frees see it.
pub(super) struct SlabAt {
    pub(super) class: usize,
    /// The records of its blocks.
    pub(super) run: Run,
    /// The length of the part that has blocks.
    pub(super) length: usize,
}

/// Returns the slab that an address lies in, if there is one.
#[inline(always)]
pub(super) fn slab_at(address: usize) -> Option<SlabAt> {
    let number = address.wrapping_sub(ARENA.base().addr()) / SLAB;
    if number >= COVERED.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: the record is there; the kind is atomic, and what a slab has else was written before.
    unsafe {
        let span = SPANS.load(Ordering::Relaxed).add(number);
        let class = usize::from((*span).kind.load(Ordering::Acquire)).wrapping_sub(1);
        if class >= CLASSES {
            return None;
        }
        // The slab can be removed meanwhile, if the block was not the caller's, and its record purged.
        Some(SlabAt { class, run: (*span).run?, length: (*span).length })
    }
}

/// Says what lies at a number.
pub(super) fn set_kind(number: u32, kind: Kind) {
    // SAFETY: as above.
    unsafe { &(*span(number)).kind }.store(kind.to_bits(), Ordering::Release);
}

/// Turns a long block into one that waits; `false` when another was quicker.
pub(super) fn set_waiting(number: u32) -> bool {
    let (long, waiting) = (Kind::Long.to_bits(), Kind::Waiting.to_bits());
    // SAFETY: as above.
    unsafe { &(*span(number)).kind }.compare_exchange(long, waiting, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Returns how many blocks of a slab the program has.
pub(super) fn count_live(number: u32) -> usize {
    // SAFETY: the record is there, and the slab's class and length change while the arena is locked only.
    let blocks = unsafe { (*span(number)).slab.blocks() };
    (0..blocks).filter(|&block| record(run(number), block).slack().is_some()).count()
}

/// How long a span is as a whole, and its slab or block, in bytes. They change only while the ground is held.
pub(super) fn lengths(number: u32) -> (usize, usize) {
    // SAFETY: the record is there.
    unsafe { ((*span(number)).whole, (*span(number)).length) }
}

/// Returns the length of a slab or long block, in bytes.
#[inline(always)]
pub(super) fn length(number: u32) -> usize {
    // SAFETY: the span's record is there, and its length changes only while no span is at the number.
    unsafe { (*span(number)).length }
}

/// Returns the records of a slab's blocks.
#[inline(always)]
pub(super) fn run(number: u32) -> Run {
    // SAFETY: the span's record is there. Its run was set before it became a slab.
    unsafe { (*span(number)).run.unwrap_unchecked() }
}

/// How long the part of a slab is that has blocks: an OS page less where there are guards and pages are not as long as
/// slabs.
pub(super) fn length_of_slabs() -> usize {
    if measures().have(Measures::GUARD) && page_size() < SLAB { SLAB - page_size() } else { SLAB }
}
