//! The pages of spans: placing, sealing, clearing and removing them.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use heapwright_os::{
    Guarded, Refused, clear as clear_memory, forbid, give_addresses_back, guard, page_size, permit, populate, purge,
    resident_unless_filtered, take_addresses_back, unguard,
};

use super::span::{Kind, Seal, Span, cover, draw_below, kind, set_kind, span};
use super::{Measures, zeros};
use heapwright_slabs::arena::{ARENA, ArenaState};
use heapwright_slabs::classes::SLAB;
use heapwright_slabs::mode::measures;

/// Places a span for a slab or block of `length` bytes, whole pages, which are zero if freed blocks are to be; returns
/// its number. If there is room, `spare` bytes behind it, whole pages, are for [`lengthen`].
pub(super) fn place(shared: &mut ArenaState, length: usize, spare: usize, align: usize) -> Option<u32> {
    let untouched = shared.pages.untouched_from();
    let drawn = if align <= SLAB { draw_below(4) } else { 0 };
    let (start, lead, whole) = place_behind(shared, drawn, length + spare, align)
        .or_else(|| place_behind(shared, drawn, length, align))
        .or_else(|| place_behind(shared, 0, length, align))?;
    // SAFETY: the lead is a part of the span.
    let body = unsafe { start.add(lead * SLAB) };
    let number = ARENA.number_of(body.addr().get()).filter(|&number| cover(shared, number).is_ok());
    let Some(number) = number else {
        // SAFETY: the pages were placed just now, and are not in use.
        let _ = unsafe { shared.remove(start) };
        return None;
    };
    // SAFETY: the span is new. Of its record, other threads read the kind, which stays, and nothing else unless the
    // kind is a slab's.
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

/// Makes the body of a span `length` bytes long, whole pages, if its spare pages are enough: they were guarded with
/// what lies behind the body.
///
/// # Errors
/// [`Refused`]; nothing has changed then.
///
/// # Safety
/// The body is the caller's, and not longer than `length`. The arena is locked.
pub(super) unsafe fn lengthen(_: &mut ArenaState, number: u32, length: usize) -> Result<(), Refused> {
    let behind = if measures().have(Measures::GUARD) { page_size() } else { 0 };
    let record = span(number);
    // SAFETY: the span is the caller's, and the spare pages lie in it.
    unsafe {
        let (before, room) = ((*record).length, (*record).whole - usize::from((*record).lead) * SLAB - behind);
        if length > room {
            return Err(Refused);
        }
        let spare = NonNull::new(ARENA.start_of(number)).ok_or(Refused)?.add(before);
        if measures().have(Measures::GUARD) {
            unguard(spare, length - before, 0)?;
            if (*record).protected != 0 {
                // Perhaps it is the lead that is guarded so, and this changes nothing.
                permit(spare, length - before)?;
            }
        }
        (*record).length = length;
        Ok(())
    }
}

/// Makes the body of a span `length` bytes long, whole pages, if that is half of what it was placed for. What is cut
/// off is as inaccessible as freed blocks are.
///
/// # Errors
/// [`Refused`]; nothing has changed then.
///
/// # Safety
/// The body is the caller's, and not shorter than `length`; its bytes above that are not used any more. The arena is
/// locked.
pub(super) unsafe fn shorten(_: &mut ArenaState, number: u32, length: usize) -> Result<(), Refused> {
    let record = span(number);
    // SAFETY: the span is the caller's, and what is cut off lies in its body.
    unsafe {
        let (before, whole) = ((*record).length, (*record).whole - usize::from((*record).lead) * SLAB);
        if length < whole / 2 {
            return Err(Refused);
        }
        let cut = NonNull::new(ARENA.start_of(number)).ok_or(Refused)?.add(length);
        if !measures().have(Measures::GUARD) {
            if measures().have(Measures::QUARANTINE) {
                return Err(Refused);
            }
            purge(cut, before - length)?;
        } else if guard(cut, before - length)? == Guarded::ByProtection {
            // One mapping more for each cut would be too many.
            if unguard(cut, before - length, 1).is_ok() {
                return Err(Refused);
            }
            // The system has no memory for that any more: it stays cut.
            (*record).protected = (*record).protected.saturating_add(1);
        }
        (*record).length = length;
        (*record).dirty = (*record).dirty.min(length);
        Ok(())
    }
}

/// Places a span whose slab or block lies behind a lead of some slabs.
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

/// Guards a part of a span, as far as the system does; returns the number of mappings that this has made.
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
                // SAFETY: a stuck span is not in use.
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
        (*record).was_full =
            length <= LONGEST_POPULATED && resident_unless_filtered(body, length).is_some_and(|bytes| bytes == length);
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

/// The longest bodies that are populated at once, in bytes.
const LONGEST_POPULATED: usize = 256 << 10;

/// Returns whether a span of which nothing is in use can be reopened by [`reopen`]. It is sealed, or so short that its
/// memory can be kept.
pub(super) fn is_reopenable(number: u32) -> bool {
    /// The longest bodies whose memory is kept, in bytes.
    const LONGEST_KEPT: usize = 128 << 10;
    // SAFETY: the span's record is there; the span is the caller's.
    let Span { seal, protected, length, dirty, .. } = unsafe { &*span(number) };
    let is_clear = *dirty == 0 || !measures().have(Measures::ZERO);
    let is_kept = *seal == Seal::None && *length <= LONGEST_KEPT && is_clear;
    *protected == 0 && (*seal == Seal::Guards || is_kept)
}

/// Returns the bytes of memory that a reopenable span keeps, at most.
pub(super) fn kept(number: u32) -> usize {
    // SAFETY: as above.
    let Span { seal, length, .. } = unsafe { &*span(number) };
    if *seal == Seal::None { *length } else { 0 }
}

/// Makes the body of a span accessible: zero if it was sealed, otherwise as it was.
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
        if (*record).seal == Seal::None {
            return Ok(());
        }
        let length = (*record).length;
        unguard(body, length, 0)?;
        (*record).seal = Seal::None;
        if (*record).was_full {
            // A block of the same length, of which all was used, lay here: one call instead of a page fault for each
            // page.
            populate(body, length);
        }
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
        if *seal == Seal::Unmapped {
            return Err(Refused);
        }
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

/// Maps the whole of a span anew that cannot be opened: there are too many mappings, or the limit on data, which does
/// not count sealed bodies, is reached. Where that is refused as well, the span has no memory any more that limits
/// count.
///
/// # Safety
/// The span is not in use.
unsafe fn map_anew(number: u32, start: NonNull<u8>) -> Result<(), Refused> {
    // SAFETY: the span is the caller's.
    unsafe {
        let Span { whole, protected, seal, dirty, .. } = &mut *span(number);
        if *seal != Seal::Unmapped {
            give_addresses_back(start, *whole)?;
            (*protected, *seal, *dirty) = (0, Seal::Unmapped, 0);
        }
        take_addresses_back(start, *whole)
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
        if open(number, start).is_err() && map_anew(number, start).is_err() {
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
pub(super) unsafe fn clear(number: u32) {
    // SAFETY: as this function requires.
    unsafe {
        clear_bytes(number, (*span(number)).length);
        (*span(number)).dirty = 0;
    }
}

/// Makes the body of a span zero that was just placed, as far as it is not.
///
/// # Safety
/// The span is not in use.
pub(super) unsafe fn clear_dirty(number: u32) {
    // SAFETY: as this function requires.
    unsafe { clear_bytes(number, (*span(number)).dirty) };
}

/// Makes sure that a slab is zero whose freed blocks were cleared: it is, but for what was written to them since. That
/// is cheaper than to purge it, after which each page takes a page fault. `resident` are the pages that may be in
/// memory, one bit each.
///
/// # Safety
/// The slab is not in use.
pub(super) unsafe fn verify_clear(number: u32, resident: u16) {
    let Some(body) = NonNull::new(ARENA.start_of(number)) else { return };
    let length = page_size().min(SLAB);
    // SAFETY: pages that may be in memory are the slab's, which is not in use.
    unsafe {
        for page in (0..SLAB / length).filter(|page| resident & 1 << page != 0) {
            let start = body.add(page * length);
            if !zeros::is_clear(start, length) {
                start.write_bytes(0, length);
            }
        }
        (*span(number)).dirty = 0;
    }
}

/// # Safety
/// The first bytes of the span's body, whole pages, are not in use.
unsafe fn clear_bytes(number: u32, bytes: usize) {
    if let Some(body) = NonNull::new(ARENA.start_of(number)) {
        // SAFETY: as this function requires.
        unsafe { clear_memory(body, bytes) };
    }
}
