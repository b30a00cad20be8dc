//! The malloc family as glibc has it, recorded: frees before the real call, allocations after it.
//!
//! The operators of C++ need no hooks: libstdc++'s and libc++'s call `malloc`, `aligned_alloc` and `free`.

use core::ptr::null_mut;

use heapwright_os::{page_size, set_errno};
use heapwright_stream::{Call, Timed};

use crate::glibc;
use crate::marked;
use crate::residency::{self, WATCHED_FROM, is_long, is_long_block};
use crate::rest::{end_turn, is_to_be_timed, take_mark};
use crate::state::note;
use crate::system;
use crate::timing::{noting, timed};

const ENOMEM: i32 = 12;
const EINVAL: i32 = 22;

/// The alignment of every block.
const ALIGN: usize = 16;

/// Records the result of a request for a new block.
#[inline(always)]
fn noted(call: Call, align: usize, size: usize, block: *mut u8) -> *mut u8 {
    if block.is_null() {
        return note_failure(align, size);
    }
    // SAFETY: glibc has just allocated the block.
    unsafe { system::observe(block) };
    note(call, align, size, block)
}

/// Records a request that failed.
#[cold]
#[inline(never)]
fn note_failure(align: usize, size: usize) -> *mut u8 {
    note(Call::Failed, align, size, null_mut())
}

/// Makes a request for a new block and records its result, both timed.
#[inline(always)]
fn noted_timed(call: Call, size: usize, request: impl FnOnce() -> *mut u8) -> *mut u8 {
    let kind = if is_long(size) { Timed::Long } else { Timed::Sampled };
    let block = timed(kind, request);
    noting(kind, || noted(call, ALIGN, size, block));
    // SAFETY: glibc has just allocated the block, unless it is null.
    unsafe { residency::begin(block, size) };
    block
}

/// Whether a call is timed that does not free a long block.
#[inline(always)]
fn is_timed(size: usize) -> bool {
    is_long(size) || is_to_be_timed()
}

/// Calls for long blocks are in the order in which they are made.
fn end_turn_if_long(kind: Timed) {
    if kind == Timed::Long {
        end_turn();
    }
}

/// How the free or the resize of a block is timed.
///
/// # Safety
/// As for [`is_long_block`].
unsafe fn kind_of(block: *mut u8) -> Timed {
    // SAFETY: as this function requires.
    if unsafe { is_long_block(block) } { Timed::Long } else { Timed::Sampled }
}

/// Records a request that is refused without a call of glibc's.
#[cold]
fn refused(size: usize, errno: i32) -> *mut u8 {
    note_failure(ALIGN, size);
    set_errno(errno);
    null_mut()
}

#[inline(always)]
pub(crate) fn allocate(size: usize) -> *mut u8 {
    if is_timed(size) {
        return allocate_timed(size);
    }
    noted(Call::Malloc, ALIGN, size, glibc::malloc(size))
}

#[cold]
#[inline(never)]
fn allocate_timed(size: usize) -> *mut u8 {
    noted_timed(Call::Malloc, size, || glibc::malloc(size))
}

#[inline(always)]
pub(crate) fn allocate_zeroed(count: usize, size: usize) -> *mut u8 {
    let total = count.saturating_mul(size);
    if is_timed(total) {
        return allocate_zeroed_timed(count, size);
    }
    noted(Call::Calloc, ALIGN, total, glibc::calloc(count, size))
}

#[cold]
#[inline(never)]
fn allocate_zeroed_timed(count: usize, size: usize) -> *mut u8 {
    noted_timed(Call::Calloc, count.saturating_mul(size), || glibc::calloc(count, size))
}

/// # Safety
/// As for C's `free`: the block is null or was allocated by this family, and is not used any more.
#[inline(always)]
pub(crate) unsafe fn free(block: *mut u8) {
    if block.is_null() {
        return;
    }
    // SAFETY: the block was allocated by this family and is not used any more, as this function requires.
    unsafe {
        if !system::is_plain(block, WATCHED_FROM) || is_to_be_timed() {
            return free_rare(block);
        }
        glibc::free(note(Call::Free, ALIGN, 0, block));
    }
}

/// As [`free`], of a block that may be long or have a mapping of its own, or when the call is to be timed.
///
/// # Safety
/// As for [`free`], and the block is not null.
#[cold]
#[inline(never)]
unsafe fn free_rare(block: *mut u8) {
    // SAFETY: the block was allocated by this family and is not used any more, as this function requires.
    unsafe {
        if is_long_block(block) || is_to_be_timed() {
            return free_timed(block);
        }
        system::subtract(system::mapped_bytes(block));
        glibc::free(note(Call::Free, ALIGN, 0, block));
    }
}

/// # Safety
/// As for [`free`], and the block is not null.
#[cold]
#[inline(never)]
unsafe fn free_timed(block: *mut u8) {
    // SAFETY: the block was allocated by this family and is not used any more, as this function requires.
    unsafe {
        let kind = kind_of(block);
        take_mark();
        residency::end(block);
        end_turn_if_long(kind);
        noting(kind, || {
            system::subtract(system::mapped_bytes(block));
            note(Call::Free, ALIGN, 0, block)
        });
        timed(kind, || glibc::free(block));
    }
}

/// # Safety
/// As for C's `realloc`: the block is null or was allocated by this family. When it has moved, its old address is not
/// used.
#[inline(always)]
pub(crate) unsafe fn reallocate(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        return allocate(size);
    }
    // SAFETY: the block was allocated by this family and is not used at its old address afterwards, as this function
    // requires.
    unsafe {
        if is_timed(size) || is_long_block(block) {
            return reallocate_timed(block, size);
        }
        reallocate_by(block, size, |block| glibc::realloc(block, size))
    }
}

/// # Safety
/// As for [`reallocate`], and the block is not null.
#[cold]
#[inline(never)]
unsafe fn reallocate_timed(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the block was allocated by this family and is not used at its old address afterwards, as this function
    // requires; `new` is null or was just allocated by glibc.
    unsafe {
        let kind = if is_long(size) { Timed::Long } else { kind_of(block) };
        residency::end(block);
        let new = reallocate_by(block, size, |block| {
            let new = timed(kind, || glibc::realloc(block, size));
            end_turn_if_long(kind);
            new
        });
        residency::continue_resized(new, size);
        new
    }
}

/// # Safety
/// As for [`reallocate`], and the block is not null. `real` calls glibc's function.
#[inline(always)]
unsafe fn reallocate_by(block: *mut u8, size: usize, real: impl FnOnce(*mut u8) -> *mut u8) -> *mut u8 {
    // SAFETY: the block was allocated by this family and is not used at its old address afterwards, as this function
    // requires; `new` is null or was just allocated by glibc.
    unsafe {
        let mapped = system::mapped_bytes(block);
        let new = real(note(Call::ResizeBegins, ALIGN, size, block));
        if !new.is_null() || size == 0 {
            system::subtract(mapped);
        }
        if !new.is_null() {
            system::observe(new);
        } else if size != 0 {
            marked::restore(block);
        }
        note(Call::ResizeEnds, ALIGN, size, new)
    }
}

/// Records a request for more bytes than a number has bits for.
pub(crate) extern "C" fn refuse() -> *mut u8 {
    refused(usize::MAX, ENOMEM)
}

/// As glibc's `memalign`, which rounds the alignment up to a power of two.
pub(crate) fn allocate_aligned(align: usize, size: usize) -> *mut u8 {
    noted_aligned(align, size, glibc::memalign(align, size))
}

fn noted_aligned(align: usize, size: usize, block: *mut u8) -> *mut u8 {
    let meant = align.checked_next_power_of_two().unwrap_or(ALIGN);
    let block = noted(Call::Aligned, meant, size, block);
    // SAFETY: glibc has just allocated the block, unless it is null.
    unsafe { residency::begin(block, size) };
    block
}

/// As the program's own `aligned_alloc`. In C, and in glibc from 2.38 on, an alignment that is not a power of two is an
/// error, before that it is rounded up.
pub(crate) fn allocate_aligned_in_c(align: usize, size: usize) -> *mut u8 {
    match glibc::aligned_alloc() {
        Some(request) => noted_aligned(align, size, request(align, size)),
        None if align.is_power_of_two() => allocate_aligned(align, size),
        None => refused(size, EINVAL),
    }
}

pub(crate) fn allocate_pages(size: usize) -> *mut u8 {
    allocate_aligned(page_size(), size)
}

pub(crate) fn allocate_whole_pages(size: usize) -> *mut u8 {
    match size.checked_next_multiple_of(page_size()) {
        Some(size) => allocate_pages(size),
        None => refused(size, ENOMEM),
    }
}

/// # Safety
/// `place` is valid for a write.
pub(crate) unsafe fn allocate_into(place: *mut *mut u8, align: usize, size: usize) -> i32 {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        note_failure(ALIGN, size);
        return EINVAL;
    }
    let block = allocate_aligned(align, size);
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: `place` is valid for a write, as this function requires.
    unsafe { place.write(block) };
    0
}

/// # Safety
/// The block is null or was allocated by this family.
pub(crate) unsafe fn usable_size(block: *mut u8) -> usize {
    // SAFETY: the block is null or was allocated by this family, as this function requires.
    unsafe { system::usable_size(block) }
}
