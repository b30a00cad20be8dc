//! How many bytes glibc's malloc has from the system, as far as that costs next to nothing to know: the growth of the program
//! break, and blocks that have a mapping of their own. Both show in what glibc has written anyway. Where another malloc is in front of
//! glibc's, nothing is known.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use heapwright_os::SegmentFile;
use heapwright_stream::Header;

use crate::glibc::{self, BREAK};

/// In the word before a block: it has a mapping of its own.
const MAPPED: usize = 2;

/// In the word before a block: it lies in an arena other than the first.
const OTHER_ARENA: usize = 4;

/// What else is in that word beside the length.
const FLAGS: usize = 7;

/// The program break when the process began; 0 when not known.
static START: AtomicUsize = AtomicUsize::new(0);

/// The program break when it was last looked at.
static SEEN: AtomicUsize = AtomicUsize::new(0);

/// The bytes of blocks that have a mapping of their own.
static MAPPED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Whether there are arenas that are not counted.
static OTHERS: AtomicBool = AtomicBool::new(false);

/// Where the figure goes; null while there is no stream.
static HEADER: AtomicPtr<Header> = AtomicPtr::new(null_mut());

/// The word before a block: its length and flags.
///
/// # Safety
/// glibc's malloc has given out the block.
#[inline(always)]
unsafe fn word_before(block: *mut u8) -> usize {
    // SAFETY: the caller's promise; glibc keeps its own there.
    unsafe { block.cast::<usize>().sub(1).read() }
}

/// How many bytes of mappings of their own a block takes: 0 for most.
///
/// # Safety
/// One of the functions of [`glibc`] has given out the block.
#[inline(always)]
pub(crate) unsafe fn mapped_bytes(block: *mut u8) -> usize {
    if !glibc::is_its_own() {
        return 0;
    }
    // SAFETY: the caller's promise.
    let word = unsafe { word_before(block) };
    if word & MAPPED == 0 {
        return 0;
    }
    // SAFETY: as above; what was skipped for the sake of alignment stands before the length.
    (word & !FLAGS) + unsafe { block.cast::<usize>().sub(2).read() }
}

/// How many bytes of a block may be used; as glibc's `malloc_usable_size`.
///
/// # Safety
/// It is null, or was given out by [`glibc::malloc`] or one of the others.
pub(crate) unsafe fn usable_size(block: *mut u8) -> usize {
    if !glibc::is_its_own() {
        // SAFETY: the caller's promise.
        return unsafe { glibc::usable_size_elsewhere(block) };
    }
    if block.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    let word = unsafe { word_before(block) };
    let taken = if word & MAPPED == 0 { size_of::<usize>() } else { 2 * size_of::<usize>() };
    (word & !FLAGS).saturating_sub(taken)
}

/// A block was given out.
///
/// # Safety
/// By one of the functions of [`glibc`].
#[inline(always)]
pub(crate) unsafe fn see(block: *mut u8) {
    if !glibc::is_its_own() {
        return;
    }
    // SAFETY: the caller's promise.
    let word = unsafe { word_before(block) };
    if word & MAPPED != 0 || current_break() != SEEN.load(Ordering::Relaxed) {
        // SAFETY: as above.
        look(unsafe { mapped_bytes(block) });
    }
    if word & (MAPPED | OTHER_ARENA) == OTHER_ARENA && !OTHERS.load(Ordering::Relaxed) {
        OTHERS.store(true, Ordering::Relaxed);
        look(0);
    }
}

/// So many bytes of a block's own mapping are about to go, or have gone.
#[inline(always)]
pub(crate) fn forget(mapped: usize) {
    if mapped != 0 {
        MAPPED_BYTES.fetch_sub(mapped as u64, Ordering::Relaxed);
    }
}

fn current_break() -> usize {
    // SAFETY: glibc changes it by plain stores of a whole word.
    unsafe { BREAK.load(Ordering::Relaxed) }.addr()
}

/// The break has moved, or a block came with a mapping of so many bytes.
#[cold]
#[inline(never)]
fn look(mapped: usize) {
    let mapped = MAPPED_BYTES.fetch_add(mapped as u64, Ordering::Relaxed) + mapped as u64;
    let Some(header) = NonNull::new(HEADER.load(Ordering::Acquire)) else { return };
    let now = current_break();
    SEEN.store(now, Ordering::Relaxed);
    let grown = now.saturating_sub(START.load(Ordering::Relaxed)) as u64;
    // SAFETY: the header is mapped until a child of this process makes a stream of its own.
    unsafe { header.as_ref() }.see_system_bytes(grown + mapped, OTHERS.load(Ordering::Relaxed));
}

/// What is seen goes to this header from now on, if it is known where the program break was at first.
pub(crate) fn tell(header: &Header) {
    if START.load(Ordering::Relaxed) == 0 {
        START.store(first_break().unwrap_or(0), Ordering::Relaxed);
    }
    if START.load(Ordering::Relaxed) != 0 && glibc::is_its_own() {
        HEADER.store(core::ptr::from_ref(header).cast_mut(), Ordering::Release);
    }
    // Whoever comes next looks.
    SEEN.store(0, Ordering::Relaxed);
}

/// A child has no header yet.
pub(crate) fn tell_nobody() {
    HEADER.store(null_mut(), Ordering::Relaxed);
    SEEN.store(0, Ordering::Relaxed);
}

/// Where the program break was when the process began, as the system tells it.
fn first_break() -> Option<usize> {
    /// Which field behind the program's name, which may hold anything but ends with the last parenthesis.
    const FIELD: usize = 44;
    let mut line = [0; 1024];
    let length = SegmentFile::open_read_only(c"/proc/self/stat").and_then(|file| file.read_at(0, &mut line)).ok()?;
    let line = line.get(..length)?;
    let name_ends = line.iter().rposition(|&byte| byte == b')')?;
    let field = line.get(name_ends + 2..)?.split(|&byte| byte == b' ').nth(FIELD)?;
    core::str::from_utf8(field).ok()?.parse().ok()
}
