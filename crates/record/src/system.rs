//! The bytes that glibc's malloc has from the system, as far as they can be observed at nearly no cost: the growth of
//! the program break, and blocks with a mapping of their own. Both can be read from words that glibc maintains anyway.
//! Not available when another malloc interposes glibc's.

use core::ptr::{NonNull, null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use heapwright_os::{SegmentFile, stat_field};
use heapwright_stream::{Header, Packed};

use crate::glibc::{self, BREAK};

/// Flag in the word before a block: the block has a mapping of its own.
const MAPPED: usize = 2;

/// Flag in the word before a block: the block lies in an arena other than the first.
const OTHER_ARENA: usize = 4;

/// All flags in that word, which otherwise is the length.
const FLAGS: usize = 7;

/// The program break when the process began; 0 when not known.
static START: AtomicUsize = AtomicUsize::new(0);

/// The program break when it was last read.
static LAST: AtomicUsize = AtomicUsize::new(UNREAD);

/// In place of the program break when none was read: no break is equal to it, not even that of a process without one.
const UNREAD: usize = usize::MAX;

/// The bytes of blocks with a mapping of their own.
static MAPPED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Whether malloc uses other arenas, whose bytes are not counted.
static OTHERS: AtomicBool = AtomicBool::new(false);

/// The header in which the bytes are recorded; null while there is no stream.
static HEADER: AtomicPtr<Header> = AtomicPtr::new(null_mut());

/// The block of a call.
pub(crate) fn block_of(record: Packed) -> *mut u8 {
    with_exposed_provenance_mut(record.address() as usize)
}

/// Reads the word before a block: its length and flags.
///
/// # Safety
/// glibc's malloc has allocated the block.
#[inline(always)]
unsafe fn word_before(block: *mut u8) -> usize {
    // SAFETY: glibc's malloc has allocated the block, as this function requires, and keeps this word in front of each
    // block.
    unsafe { block.cast::<usize>().sub(1).read() }
}

/// Returns the length of a block's own mapping: 0 for most blocks, which have none.
///
/// # Safety
/// One of the functions of [`glibc`] has allocated the block.
#[inline(always)]
pub(crate) unsafe fn mapped_bytes(block: *mut u8) -> usize {
    if !glibc::is_its_own() {
        return 0;
    }
    // SAFETY: a function of `glibc` has allocated the block, as this function requires, and they are glibc's own.
    let word = unsafe { word_before(block) };
    if word & MAPPED == 0 {
        return 0;
    }
    // SAFETY: the block is glibc's and has a mapping of its own, where a second word precedes the length: the bytes
    // that were skipped for the sake of alignment.
    (word & !FLAGS) + unsafe { block.cast::<usize>().sub(2).read() }
}

/// Returns the usable size of a block, as glibc's `malloc_usable_size`.
///
/// # Safety
/// The block is null, or one of the functions of [`glibc`] has allocated it.
pub(crate) unsafe fn usable_size(block: *mut u8) -> usize {
    if !glibc::is_its_own() {
        // SAFETY: the block is null or was allocated by the malloc that interposes glibc's, as this function requires.
        return unsafe { glibc::usable_size_elsewhere(block) };
    }
    if block.is_null() {
        return 0;
    }
    // SAFETY: the block is not null, hence a function of `glibc` has allocated it, as this function requires, and they
    // are glibc's own.
    let word = unsafe { word_before(block) };
    let taken = if word & MAPPED == 0 { size_of::<usize>() } else { 2 * size_of::<usize>() };
    (word & !FLAGS).saturating_sub(taken)
}

/// Whether a block is known to have fewer usable bytes than `most`, and no mapping of its own.
///
/// # Safety
/// One of the functions of [`glibc`] has allocated the block.
#[inline(always)]
pub(crate) unsafe fn is_plain(block: *mut u8, most: usize) -> bool {
    if !glibc::is_known_as_its_own() {
        return false;
    }
    // SAFETY: a function of `glibc` has allocated the block, as this function requires, and they are glibc's own.
    let word = unsafe { word_before(block) };
    word & MAPPED == 0 && word & !FLAGS < most + size_of::<usize>()
}

/// Observes a new block.
///
/// # Safety
/// One of the functions of [`glibc`] has allocated the block.
#[inline(always)]
pub(crate) unsafe fn observe(block: *mut u8) {
    // Where the functions are not known as glibc's own, no break has been read, and the word is not read either.
    // SAFETY: a function of `glibc` has allocated the block, as this function requires, and they are glibc's own.
    let is_plain = current_break() == LAST.load(Ordering::Relaxed)
        && match unsafe { word_before(block) } & (MAPPED | OTHER_ARENA) {
            0 => true,
            OTHER_ARENA => OTHERS.load(Ordering::Relaxed),
            _ => false,
        };
    if !is_plain {
        // SAFETY: as this function requires.
        unsafe { observe_rare(block) };
    }
}

/// As [`observe`], of a block that may change what is recorded.
///
/// # Safety
/// As for [`observe`].
#[cold]
#[inline(never)]
unsafe fn observe_rare(block: *mut u8) {
    if !glibc::is_its_own() {
        return;
    }
    // SAFETY: a function of `glibc` has allocated the block, as this function requires, and they are glibc's own.
    let word = unsafe { word_before(block) };
    if word & MAPPED != 0 || current_break() != LAST.load(Ordering::Relaxed) {
        // SAFETY: a function of `glibc` has allocated the block, as this function requires.
        update(unsafe { mapped_bytes(block) });
    }
    if word & (MAPPED | OTHER_ARENA) == OTHER_ARENA && !OTHERS.load(Ordering::Relaxed) {
        OTHERS.store(true, Ordering::Relaxed);
        update(0);
    }
}

/// Subtracts the length of a block's own mapping, which is about to be unmapped or was unmapped.
#[inline(always)]
pub(crate) fn subtract(mapped: usize) {
    if mapped != 0 {
        MAPPED_BYTES.fetch_sub(mapped as u64, Ordering::Relaxed);
    }
}

fn current_break() -> usize {
    // SAFETY: glibc defines this variable, and changes it by stores of a whole word.
    unsafe { BREAK.load(Ordering::Relaxed) }.addr()
}

/// Records the bytes anew: the break has moved, or a block has a mapping of `mapped` bytes.
#[cold]
#[inline(never)]
fn update(mapped: usize) {
    let mapped = MAPPED_BYTES.fetch_add(mapped as u64, Ordering::Relaxed) + mapped as u64;
    let Some(header) = NonNull::new(HEADER.load(Ordering::Acquire)) else { return };
    let now = current_break();
    LAST.store(now, Ordering::Relaxed);
    let grown = now.saturating_sub(START.load(Ordering::Relaxed)) as u64;
    // SAFETY: a header stays mapped until a child of this process creates a stream of its own, which detaches it first.
    let header = unsafe { header.as_ref() };
    header.record_system_bytes(grown + mapped);
    if OTHERS.load(Ordering::Relaxed) {
        header.note_other_arenas();
    }
}

/// Records the bytes in this header from now on, if the initial program break is known.
pub(crate) fn attach(header: &Header) {
    if START.load(Ordering::Relaxed) == 0 {
        START.store(first_break().unwrap_or(0), Ordering::Relaxed);
    }
    if START.load(Ordering::Relaxed) != 0 && glibc::is_its_own() {
        HEADER.store(core::ptr::from_ref(header).cast_mut(), Ordering::Release);
    }
    // The next call records the bytes.
    LAST.store(UNREAD, Ordering::Relaxed);
}

/// Forgets the header: the child of a fork does not write to its parent's.
pub(crate) fn detach() {
    HEADER.store(null_mut(), Ordering::Relaxed);
    LAST.store(UNREAD, Ordering::Relaxed);
}

/// Reads the initial program break of the process from `/proc`.
fn first_break() -> Option<usize> {
    /// The field of the program break's start.
    const FIELD: usize = 44;
    let mut line = [0; 1024];
    let length = SegmentFile::open_own("stat").and_then(|file| file.read_at(0, &mut line)).ok()?;
    usize::try_from(stat_field(line.get(..length)?, FIELD)?).ok()
}
