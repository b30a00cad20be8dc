//! Memory in whole OS pages.

use core::ptr::{NonNull, null_mut};

use crate::call::errno::{errno, errno_kept};
use crate::call::page_size::page_size;
use crate::call::refused::{Refused, granted, refuse_call_if_told, refuse_if_told};
use crate::memory::platform::platform;

/// The access to a mapping, and its accounting by the system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// None: reserved address space.
    None,
    /// Reading and writing, accounted for as a whole.
    ReadWrite,
    /// Reading and writing, accounted for page by page as they are touched.
    ReadWriteSparse,
}

pub(crate) fn map_with(length: usize, access: Access) -> Result<NonNull<u8>, Refused> {
    refuse_if_told()?;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let (protection, flags) = match access {
        Access::None => (libc::PROT_NONE, private),
        Access::ReadWrite => (libc::PROT_READ | libc::PROT_WRITE, private),
        Access::ReadWriteSparse => (libc::PROT_READ | libc::PROT_WRITE, private | libc::MAP_NORESERVE),
    };
    // SAFETY: a new anonymous mapping at an address of the system's choice changes no existing memory.
    let address = errno_kept(|| unsafe { libc::mmap(null_mut(), length, protection, flags, -1, 0) });
    if address == libc::MAP_FAILED { Err(Refused) } else { NonNull::new(address.cast()).ok_or(Refused) }
}

/// Maps `length` bytes (a positive multiple of the page size) of zeroed memory for reading and writing.
///
/// # Errors
/// [`Refused`].
#[inline]
pub fn map(length: usize) -> Result<NonNull<u8>, Refused> {
    map_with(length, Access::ReadWrite)
}

/// As [`map`], at a multiple of `align` (a power of two).
///
/// # Errors
/// [`Refused`].
pub fn map_aligned(length: usize, align: usize) -> Result<NonNull<u8>, Refused> {
    map_aligned_with(length, align, Access::ReadWrite)
}

pub(crate) fn map_aligned_with(length: usize, align: usize, access: Access) -> Result<NonNull<u8>, Refused> {
    if align <= page_size() {
        return map_with(length, access);
    }
    let whole = length.checked_add(align - page_size()).ok_or(Refused)?;
    let base = map_with(whole, access)?;
    let before = base.as_ptr().align_offset(align);
    // SAFETY: `before` is less than `align`, so both cut-off ends lie inside the mapping just made, which is not in
    // use.
    unsafe {
        let start = base.add(before);
        cut_off(base, before);
        cut_off(start.add(length), whole - length - before);
        Ok(start)
    }
}

/// Unmaps an end of a new mapping. If the system refuses, the end stays mapped and untouched, and costs addresses only.
///
/// # Safety
/// As [`unmap`].
unsafe fn cut_off(start: NonNull<u8>, length: usize) {
    if length != 0 {
        // SAFETY: the range is page-aligned, owned by the caller and not used afterwards, as this function requires.
        let _ = unsafe { unmap(start, length) };
    }
}

/// Unmaps `length` bytes at `start`.
///
/// # Errors
/// [`Refused`] when splitting a mapping would exceed the limit on the process's mappings. Nothing has changed then.
///
/// # Safety
/// Start and length are multiples of the page size. The range belongs to the caller and is not used afterwards.
#[inline]
pub unsafe fn unmap(start: NonNull<u8>, length: usize) -> Result<(), Refused> {
    refuse_call_if_told()?;
    // SAFETY: the range is page-aligned, owned by the caller and not used afterwards, as this function requires.
    granted(errno_kept(|| unsafe { libc::munmap(start.as_ptr().cast(), length) }))
}

/// Resizes a mapping of `old` bytes at `start` to `new` bytes with its contents, and moves it if necessary. Returns its
/// address.
///
/// # Errors
/// [`Refused`]. Nothing has changed then.
///
/// # Safety
/// The range is one mapping made by [`map`] that belongs to the caller. The lengths are positive multiples of the page
/// size. When it has moved, the old range is not used any more.
pub unsafe fn remap(start: NonNull<u8>, old: usize, new: usize) -> Result<NonNull<u8>, Refused> {
    refuse_if_told()?;
    // SAFETY: the range is one mapping that the caller owns, and not used at its old address afterwards, as this
    // function requires.
    let address = errno_kept(|| unsafe { libc::mremap(start.as_ptr().cast(), old, new, libc::MREMAP_MAYMOVE) });
    if address == libc::MAP_FAILED { Err(Refused) } else { NonNull::new(address.cast()).ok_or(Refused) }
}

/// Returns how many of `length` bytes at `start`, both multiples of the page size, are resident. `None` where a page is
/// not mapped, or the system does not report it.
///
/// Takes time in proportion to the number of pages.
#[must_use]
pub fn resident(start: NonNull<u8>, length: usize) -> Option<usize> {
    let mut pages = [0u8; 1024];
    let together = pages.len() * page_size();
    let mut found = 0;
    for offset in (0..length).step_by(together) {
        let part = together.min(length - offset);
        let at = start.as_ptr().wrapping_add(offset);
        // SAFETY: `pages` has a byte for each page of the range, and the system checks whether the range is mapped.
        let known = errno_kept(|| unsafe { libc::mincore(at.cast(), part, pages.as_mut_ptr()) });
        if known != 0 {
            return None;
        }
        found += pages[..part.div_ceil(page_size())].iter().filter(|&page| page & 1 == 1).count() * page_size();
    }
    Some(found)
}

/// As [`resident`]; `None` where a filter of system calls is in force, as in containers and sandboxed services: those
/// of services do not expect the question, and some kill for it.
#[must_use]
pub fn resident_unless_filtered(start: NonNull<u8>, length: usize) -> Option<usize> {
    if calls_are_filtered() { None } else { resident(start, length) }
}

/// Whether a filter of system calls is in force in the calling thread, as far as the system says.
pub(crate) fn calls_are_filtered() -> bool {
    errno_kept(|| {
        // SAFETY: the call takes no pointers.
        let mode = unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
        // A system without filters does not know the question.
        mode > 0 || mode < 0 && errno() != libc::EINVAL
    })
}

/// Whether a page was written to since it was mapped or purged, as far as a few of its words show that: `false` if they
/// are 0, or cannot be read. Takes some 150 ns for each word until one is not 0. Unlike [`resident`], it needs no
/// system call that sandboxes do not expect.
#[must_use]
pub fn page_seems_written(page: NonNull<u8>) -> bool {
    /// Number of words, at different distances from the beginnings of blocks.
    const WORDS: usize = 8;
    // Of numbers of 8 bytes, the half that is rarely 0.
    (0..WORDS).any(|word| is_nonzero(page.as_ptr().wrapping_add(word * (page_size() / WORDS) + word * 8)))
}

/// Whether the 32 bits at `at`, a multiple of 4, are not 0; `false` where they cannot be read. The system reads them,
/// so that a guard page is no fault.
fn is_nonzero(at: *mut u8) -> bool {
    let operation = libc::FUTEX_CMP_REQUEUE | libc::FUTEX_PRIVATE_FLAG;
    let (wake, requeue, expected) = (0, 0, 0);
    errno_kept(|| {
        // SAFETY: the call compares a word, whose address the system checks, and wakes and moves no thread.
        let compared = unsafe { libc::syscall(libc::SYS_futex, at, operation, wake, requeue, at, expected) };
        compared < 0 && errno() == libc::EAGAIN
    })
}

/// Populates `length` bytes at `start` with memory at once, which takes less time than a page fault for each page. Only
/// a hint, and nothing before Linux 5.14.
///
/// # Safety
/// Start and length are multiples of the page size. The range is private anonymous memory that the caller owns.
pub unsafe fn populate(start: NonNull<u8>, length: usize) {
    if !platform().can_populate() || refuse_call_if_told().is_err() {
        return;
    }
    // SAFETY: the range is page-aligned memory of the caller's, as this function requires, and the advice changes no
    // contents.
    let advise = || unsafe { libc::madvise(start.as_ptr().cast(), length, libc::MADV_POPULATE_WRITE) };
    errno_kept(|| platform().populate().call(advise));
}
