//! Memory in whole OS pages.

use core::fmt;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::errno::errno_kept;

/// The system refused memory or address space: it is short of it, or a limit of the process is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system refused memory: it is short of it, or a limit of the process is reached")
    }
}

impl core::error::Error for Refused {}

/// The length of an OS page in bytes, a power of two.
#[inline]
#[must_use]
pub fn page_size() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            // Not sysconf, which reads 128 KiB of the C library's tables into small programs.
            // SAFETY: getauxval has no preconditions.
            let asked = unsafe { libc::getauxval(libc::AT_PAGESZ) };
            let size = usize::try_from(asked).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096);
            KNOWN.store(size, Ordering::Relaxed);
            size
        }
        size => size,
    }
}

/// `bytes` rounded up to whole OS pages, at least one; `None` when that is more than an object can have.
#[inline]
#[must_use]
pub fn round_to_pages(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(page_size()).filter(|&length| isize::try_from(length).is_ok())
}

/// What the memory of a mapping is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Address space only.
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
    // SAFETY: `before` is less than `align`, so both cut-off ends lie inside the mapping just made, which nobody uses.
    unsafe {
        let start = base.add(before);
        cut_off(base, before);
        cut_off(start.add(length), whole - length - before);
        Ok(start)
    }
}

/// Unmaps an end of a fresh mapping. Should the system refuse, the end stays mapped and untouched, at no cost but its addresses.
///
/// # Safety
/// As [`unmap`].
unsafe fn cut_off(start: NonNull<u8>, length: usize) {
    if length != 0 {
        // SAFETY: the caller's promise.
        let _ = unsafe { unmap(start, length) };
    }
}

/// Gives `length` bytes at `start` back to the system, addresses and all.
///
/// # Errors
/// [`Refused`] when cutting a mapping in two would exceed the process's number of mappings; nothing changed then.
///
/// # Safety
/// Both are multiples of the page size, and the range belongs to the caller and is not used afterwards.
#[inline]
pub unsafe fn unmap(start: NonNull<u8>, length: usize) -> Result<(), Refused> {
    refuse_call_if_told()?;
    // SAFETY: the caller's promise.
    granted(errno_kept(|| unsafe { libc::munmap(start.as_ptr().cast(), length) }))
}

/// Makes a mapping of `old` bytes at `start` one of `new` bytes, elsewhere if need be, with its contents; returns where it is now.
///
/// # Errors
/// [`Refused`]; nothing changed then.
///
/// # Safety
/// The range is one mapping made by [`map`] that belongs to the caller; the lengths are positive multiples of the page
/// size. When it has moved, the old range is not used any more.
pub unsafe fn remap(start: NonNull<u8>, old: usize, new: usize) -> Result<NonNull<u8>, Refused> {
    refuse_if_told()?;
    // SAFETY: the caller's promise.
    let address = errno_kept(|| unsafe { libc::mremap(start.as_ptr().cast(), old, new, libc::MREMAP_MAYMOVE) });
    if address == libc::MAP_FAILED { Err(Refused) } else { NonNull::new(address.cast()).ok_or(Refused) }
}

/// Gives the memory of `length` bytes at `start` back to the system but keeps the addresses: the range reads as zeros afterwards.
///
/// # Errors
/// [`Refused`], when the pages are locked in memory; nothing changed then.
///
/// # Safety
/// Both are multiples of the page size, and the range is private anonymous memory of the caller's whose contents may go.
pub unsafe fn purge(start: NonNull<u8>, length: usize) -> Result<(), Refused> {
    refuse_call_if_told()?;
    // SAFETY: the caller's promise.
    granted(errno_kept(|| unsafe { libc::madvise(start.as_ptr().cast(), length, libc::MADV_DONTNEED) }))
}

/// How many of `length` bytes at `start`, both multiples of the page size, are in memory; `None` where the system does not tell, or
/// nothing is mapped there.
///
/// Time: proportional to the pages.
#[must_use]
pub fn resident(start: NonNull<u8>, length: usize) -> Option<usize> {
    let mut pages = [0u8; 1024];
    let together = pages.len() * page_size();
    let mut found = 0;
    for offset in (0..length).step_by(together) {
        let part = together.min(length - offset);
        let at = start.as_ptr().wrapping_add(offset);
        // SAFETY: there is a byte for each page of the part, and the system checks whether it is mapped.
        let known = errno_kept(|| unsafe { libc::mincore(at.cast(), part, pages.as_mut_ptr()) });
        if known != 0 {
            return None;
        }
        found += pages[..part.div_ceil(page_size())].iter().filter(|&page| page & 1 == 1).count() * page_size();
    }
    Some(found)
}

/// Has the system back `length` bytes at `start` with memory at once, which takes less time than touching them page by page; a
/// hint only.
///
/// # Safety
/// Both are multiples of the page size, and the range is private anonymous memory of the caller's.
pub unsafe fn populate(start: NonNull<u8>, length: usize) {
    if refuse_call_if_told().is_err() {
        return;
    }
    // SAFETY: the caller's promise; the advice changes no contents.
    errno_kept(|| unsafe { libc::madvise(start.as_ptr().cast(), length, libc::MADV_POPULATE_WRITE) });
}

/// What a call that returns 0 for success returned.
pub(crate) fn granted(result: i32) -> Result<(), Refused> {
    if result == 0 { Ok(()) } else { Err(Refused) }
}

/// Where a test makes the system refuse memory.
#[inline(always)]
pub(crate) fn refuse_if_told() -> Result<(), Refused> {
    #[cfg(feature = "refusals")]
    crate::refusals::count_request()?;
    Ok(())
}

/// Where a test makes the system refuse something else.
#[inline(always)]
pub(crate) fn refuse_call_if_told() -> Result<(), Refused> {
    #[cfg(feature = "refusals")]
    crate::refusals::count_call()?;
    Ok(())
}
