//! Spans: runs of pages that hold a slab or one long block. Each begins at a multiple of 64 KiB, so that what is known of it is found
//! by the number of the 64 KiB that an address lies in, and lies apart from it.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};

use heapwright_os::{Guarded, Lock, Refused, forbid, guard, page_size, permit, purge, unguard};

use super::Measures;
use super::draw::Draw;
use super::record::{Run, record};
use super::slab::Slab;
use super::table::Table;
use crate::arena::{ARENA, ArenaState};
use crate::classes::SLAB;
use crate::mode::measures;

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
enum Seal {
    None,
    /// By guard pages.
    Guards,
    /// By its protection.
    Protection,
}

/// What is known of the span that has its slab or block at a number.
#[repr(C, align(64))]
pub(super) struct Span {
    kind: AtomicU8,
    /// How much of it lies before the slab or block, in slabs.
    lead: u8,
    /// The number of its guards that are mappings of their own.
    protected: u8,
    /// How the body is made inaccessible.
    seal: Seal,
    /// Of a slab: the records of its blocks.
    pub(super) run: Option<Run>,
    /// How long the slab or block is, in bytes: whole OS pages.
    pub(super) length: usize,
    /// How long the whole span is, in bytes.
    whole: usize,
    /// How many bytes at the body's start may not be zero: when the span is placed, and when it is removed.
    dirty: usize,
    /// How many bytes of a long block were asked for. Its user's, so to speak: changed by who has the block only.
    pub(super) requested: usize,
    /// Of a slab: behind the lock of its class.
    pub(super) slab: Slab,
}

/// Where the records lie, and how many of them are mapped: those of all spans that were ever placed.
static SPANS: AtomicPtr<Span> = AtomicPtr::new(null_mut());
static COVERED: AtomicUsize = AtomicUsize::new(0);

/// Extended while the ground is held; free during a fork.
static TABLE: Lock<Table> = Lock::new(Table::NONE);

/// Who says how far spans lie apart.
static DISTANCE: Lock<Draw> = Lock::new(Draw::Lowest);

/// Claims addresses for the records of so many numbers.
pub(super) fn init(room: usize) -> Result<(), Refused> {
    let spans = TABLE.lock().claim(room * size_of::<Span>())?;
    SPANS.store(spans.cast(), Ordering::Relaxed);
    *DISTANCE.lock() = Draw::new();
    Ok(())
}

/// Draws a number below `choices`; 0 where choices are not random.
pub(super) fn draw_below(choices: usize) -> usize {
    DISTANCE.lock().below(choices)
}

/// Makes sure that there is a record at a number.
fn cover(number: u32) -> Result<(), Refused> {
    let wanted = number as usize + 1;
    if wanted > COVERED.load(Ordering::Relaxed) {
        let bytes = TABLE.lock().cover(wanted * size_of::<Span>())?;
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

/// How long the part of a slab is that has blocks: an OS page less where there are guards and pages are not as long as slabs.
pub(super) fn length_of_slabs() -> usize {
    if measures().have(Measures::GUARD) && page_size() < SLAB { SLAB - page_size() } else { SLAB }
}

/// Places a span for a slab or block of `length` bytes, whole pages, which are zero if freed blocks are to be; returns
/// its number.
pub(super) fn place(shared: &mut ArenaState, length: usize, align: usize) -> Option<u32> {
    let untouched = shared.pages.untouched_from();
    let drawn = if align <= SLAB { draw_below(4) } else { 0 };
    let (start, lead, whole) =
        place_behind(shared, drawn, length, align).or_else(|| place_behind(shared, 0, length, align))?;
    // SAFETY: the lead is a part of the span.
    let body = unsafe { start.add(lead * SLAB) };
    let number = ARENA.number_of(body.addr().get()).filter(|&number| cover(number).is_ok());
    let Some(number) = number else {
        // SAFETY: the pages were placed just now, and nobody uses them.
        let _ = unsafe { shared.remove(start) };
        return None;
    };
    // SAFETY: the span is new, so nobody looks at its record but for the kind, which stays.
    unsafe {
        let span = span(number);
        (*span).lead = lead as u8;
        (*span).length = length;
        (*span).whole = whole;
        (*span).protected = 0;
        (*span).seal = Seal::None;
        (*span).dirty = untouched.saturating_sub(number as usize * SLAB).min(length);
    }
    if measures().have(Measures::GUARD) {
        let behind = lead * SLAB + length;
        let protected = guard_part(start, 0, lead * SLAB) + guard_part(start, behind, whole);
        // SAFETY: as above.
        unsafe { (*span(number)).protected = protected };
    }
    Some(number)
}

/// Places a span whose slab or block lies behind a lead of so many slabs.
fn place_behind(
    shared: &mut ArenaState,
    lead: usize,
    length: usize,
    align: usize,
) -> Option<(NonNull<u8>, usize, usize)> {
    let behind = if measures().have(Measures::GUARD) { page_size() } else { 0 };
    let whole = length.checked_add(behind + lead * SLAB)?.checked_next_multiple_of(SLAB)?;
    let layout = Layout::from_size_align(whole, align.max(SLAB)).ok()?;
    Some((shared.place(layout).ok()?, lead, whole))
}

/// Guards a part of a span; returns the number of mappings that this has made. What the system does not guard stays unguarded.
fn guard_part(start: NonNull<u8>, from: usize, to: usize) -> u8 {
    // SAFETY: the part lies in a new span, outside its block.
    u8::from(from < to && unsafe { guard(start.add(from), to - from) } == Ok(Guarded::ByProtection))
}

/// Whether there may be spans that are stuck.
static SOME_STUCK: AtomicBool = AtomicBool::new(false);

/// Tries once more with what the system did not let go on.
pub(super) fn remove_stuck(shared: &mut ArenaState) {
    if SOME_STUCK.swap(false, Ordering::Relaxed) {
        for number in 0..(shared.pages.top() / SLAB) as u32 {
            if kind(number) == Kind::Stuck {
                // SAFETY: nobody uses what is stuck.
                unsafe { remove(shared, number) };
            }
        }
    }
}

/// Makes the body of a span inaccessible until the span is removed, and gives its memory back. What the system refuses
/// is not as well guarded.
///
/// # Safety
/// The span's body is not in use.
pub(super) unsafe fn seal(number: u32) {
    /// Guards take an entry of the page tables for each page: longer bodies are protected as a whole.
    const LONGEST_GUARDED: usize = 1 << 20;
    let record = span(number);
    // SAFETY: the span is the caller's.
    unsafe {
        let length = (*record).length;
        let Some(body) = NonNull::new(ARENA.start_of(number)) else { return };
        if length <= LONGEST_GUARDED
            && let Ok(guarded) = guard(body, length)
        {
            (*record).seal = Seal::Guards;
            if guarded == Guarded::ByAdvice {
                // Guards replace the memory.
                (*record).dirty = 0;
                return;
            }
            (*record).protected += 1;
        } else if forbid(body, length).is_ok() {
            (*record).seal = Seal::Protection;
        }
        (*record).dirty = if purge(body, length).is_ok() { 0 } else { length };
    }
}

/// Returns whether a sealed span can be reopened by [`reopen`].
pub(super) fn is_reopenable(number: u32) -> bool {
    // SAFETY: the span's record is there; the span is the caller's.
    unsafe { (*span(number)).seal == Seal::Guards && (*span(number)).protected == 0 }
}

/// Makes the body of a sealed span accessible, which is zero.
///
/// # Errors
/// [`Refused`]; it is still sealed.
///
/// # Safety
/// The span is not in use, and can be reopened.
pub(super) unsafe fn reopen(number: u32) -> Result<(), Refused> {
    let body = NonNull::new(ARENA.start_of(number)).ok_or(Refused)?;
    // SAFETY: as this function requires.
    unsafe {
        let record = span(number);
        unguard(body, (*record).length, 0)?;
        (*record).seal = Seal::None;
    }
    Ok(())
}

/// Makes the whole of a span accessible.
///
/// # Safety
/// The span is not in use.
unsafe fn open(number: u32, start: NonNull<u8>) -> Result<(), Refused> {
    // SAFETY: the span is the caller's, and its parts lie in it.
    unsafe {
        let Span { lead, length, whole, protected, seal, .. } = &*span(number);
        let (body, lead) = (usize::from(*lead) * SLAB, usize::from(*lead));
        if *seal == Seal::Protection {
            permit(start.add(body), *length)?;
        }
        if *seal == Seal::Guards || *protected != 0 {
            return unguard(start, *whole, usize::from(*protected));
        }
        if !measures().have(Measures::GUARD) {
            return Ok(());
        }
        if lead != 0 {
            unguard(start, body, 0)?;
        }
        let behind = body + length;
        if behind < *whole { unguard(start.add(behind), whole - behind, 0) } else { Ok(()) }
    }
}

/// Frees the pages of a span; or it is stuck.
///
/// # Safety
/// The span is not in use. Where freed blocks are to be zero, its body is.
pub(super) unsafe fn remove(arena: &mut ArenaState, number: u32) {
    // SAFETY: the span is the caller's. Its lead lies before its body.
    unsafe {
        let body = ARENA.start_of(number);
        let lead = (*span(number)).lead;
        let Some(start) = NonNull::new(body.sub(usize::from(lead) * SLAB)) else { return };
        if open(number, start).is_err() {
            set_kind(number, Kind::Stuck);
            SOME_STUCK.store(true, Ordering::Relaxed);
            return;
        }
        set_kind(number, Kind::Nothing);
        if measures().have(Measures::ZERO) && (*span(number)).dirty != 0 {
            // It could not be purged.
            body.write_bytes(0, (*span(number)).dirty);
        }
        let _ = arena.remove(start);
    }
}

/// Makes the body of a span zero.
///
/// # Safety
/// The span is not in use.
pub(super) unsafe fn clear(number: u32, pages: Pages) {
    // SAFETY: as this function requires.
    unsafe {
        clear_bytes(number, (*span(number)).length, pages);
        (*span(number)).dirty = 0;
    }
}

/// Makes the body of a span zero that was just placed, as far as it is not.
///
/// # Safety
/// The span is not in use.
pub(super) unsafe fn clear_dirty(number: u32) {
    // SAFETY: as this function requires.
    unsafe { clear_bytes(number, (*span(number)).dirty, Pages::InMemory) };
}

/// Whether the pages of a body are in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pages {
    /// Most of them are.
    InMemory,
    /// Some of them are.
    Sparse,
}

/// # Safety
/// The first bytes of the span's body, whole pages, are not in use.
unsafe fn clear_bytes(number: u32, bytes: usize, pages: Pages) {
    /// Longer ones are purged: so many page faults are worth it for the memory.
    const LONGEST_CLEARED: usize = 256 << 10;
    let Some(body) = NonNull::new(ARENA.start_of(number)) else { return };
    // SAFETY: as this function requires.
    unsafe {
        let is_written = pages == Pages::InMemory && bytes <= LONGEST_CLEARED;
        if is_written || purge(body, bytes).is_err() {
            body.write_bytes(0, bytes);
        }
    }
}
