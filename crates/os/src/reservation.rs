//! A long range of address space that becomes memory as it is needed.

use core::ptr::NonNull;

use crate::errno::errno_kept;
use crate::pages::{Access, Refused, granted, map_aligned_with, page_size, populate, purge, refuse_if_told, unmap};

/// A range of address space, unmapped when dropped.
///
/// ```
/// use heapwright_os::Reservation;
/// let mut range = Reservation::reserve(1 << 30, 1 << 21).unwrap();
/// range.commit(0, 1 << 16).unwrap();
/// // SAFETY: the first 64 KiB are committed, and nobody else uses them.
/// unsafe { range.base().write_bytes(7, 1 << 16) };
/// ```
pub struct Reservation {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: a reservation owns its range; the system calls that act on it may come from any thread.
unsafe impl Send for Reservation {}

impl Reservation {
    /// Reserves `length` bytes (a positive multiple of the page size) at a multiple of `align` (a power of two). None of
    /// it can be touched before it is committed.
    ///
    /// # Errors
    /// [`Refused`], typically by the process's limit on address space.
    pub fn reserve(length: usize, align: usize) -> Result<Reservation, Refused> {
        Self::with(length, align, Access::None)
    }

    /// Reserves `length` bytes that are zero, can be touched at once and become memory page by page when they are.
    ///
    /// # Errors
    /// [`Refused`], typically by the process's limit on address space or by strict overcommit accounting.
    pub fn sparse(length: usize) -> Result<Reservation, Refused> {
        Self::with(length, page_size(), Access::ReadWriteSparse)
    }

    fn with(length: usize, align: usize, access: Access) -> Result<Reservation, Refused> {
        let base = map_aligned_with(length, align, access)?;
        Ok(Reservation { base, length })
    }

    /// The first byte.
    #[inline]
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How many bytes the range has.
    #[inline]
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Makes the bytes `from..to` (multiples of the page size) readable and writable; fresh ones are zero. The system accounts for
    /// all of them at once, so it refuses what it could never hold.
    ///
    /// # Errors
    /// [`Refused`], also when the range is not within the reservation; nothing changed then.
    pub fn commit(&mut self, from: usize, to: usize) -> Result<(), Refused> {
        refuse_if_told()?;
        let start = self.part(from, to)?;
        // SAFETY: the part lies inside this reservation.
        granted(errno_kept(|| unsafe {
            libc::mprotect(start.as_ptr().cast(), to - from, libc::PROT_READ | libc::PROT_WRITE)
        }))
    }

    /// Gives the memory of the bytes `from..to` (multiples of the page size) back to the system; they read as zeros afterwards.
    ///
    /// # Errors
    /// [`Refused`] when the range is not within the reservation or its pages are locked in memory; nothing changed then.
    ///
    /// # Safety
    /// Nobody needs the contents of the range.
    pub unsafe fn purge(&mut self, from: usize, to: usize) -> Result<(), Refused> {
        let start = self.part(from, to)?;
        // SAFETY: the part lies inside this reservation, and the caller says that its contents may go.
        unsafe { purge(start, to - from) }
    }

    /// Whether the page at `offset` (a multiple of the page size) is in memory: whether it has been touched.
    #[must_use]
    pub fn is_resident(&self, offset: usize) -> bool {
        let Ok(start) = self.part(offset, offset.saturating_add(page_size())) else { return false };
        let mut state = 0u8;
        // SAFETY: the part is one page long, and one byte is written for it.
        let known = errno_kept(|| unsafe { libc::mincore(start.as_ptr().cast(), page_size(), &raw mut state) });
        known == 0 && state & 1 == 1
    }

    /// Has the system back the committed bytes `from..to` (multiples of the page size) with memory at once, which takes
    /// less time than touching them page by page; a hint only.
    pub fn populate(&mut self, from: usize, to: usize) {
        if let Ok(start) = self.part(from, to) {
            // SAFETY: the part lies inside this reservation.
            unsafe { populate(start, to - from) };
        }
    }

    fn part(&self, from: usize, to: usize) -> Result<NonNull<u8>, Refused> {
        if from > to || to > self.length {
            return Err(Refused);
        }
        // SAFETY: `from` lies inside the range or at its end.
        Ok(unsafe { self.base.add(from) })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and its owner is going.
        let _ = unsafe { unmap(self.base, self.length) };
    }
}
