//! A reserved range of address space, of which parts are committed and purged.

use core::ptr::NonNull;

use crate::errno::errno_kept;
use crate::pages::{Access, Refused, granted, map_aligned_with, page_size, populate, purge, refuse_if_told, unmap};

/// A range of address space, unmapped when dropped.
///
/// ```
/// use heapwright_os::Reservation;
/// let mut range = Reservation::reserve(1 << 30, 1 << 21).unwrap();
/// range.commit(0, 1 << 16).unwrap();
/// // SAFETY: the first 64 KiB are committed, and not used otherwise.
/// unsafe { range.base().write_bytes(7, 1 << 16) };
/// ```
pub struct Reservation {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: a reservation owns its range, and the system calls that act on it may come from any thread.
unsafe impl Send for Reservation {}

impl Reservation {
    /// Reserves `length` bytes (a positive multiple of the page size) at a multiple of `align` (a power of two). Bytes
    /// must not be touched before they are committed.
    ///
    /// # Errors
    /// [`Refused`], typically by the process's limit on address space.
    pub fn reserve(length: usize, align: usize) -> Result<Reservation, Refused> {
        Self::with(length, align, Access::None)
    }

    /// Reserves `length` bytes that are zero and can be touched at once. The system allocates each page at its first
    /// touch.
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

    /// Returns the length of the range in bytes.
    #[inline]
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Makes the bytes `from..to` (multiples of the page size) readable and writable; new ones are zero. The system
    /// accounts for all of them at once, and refuses more than it can ever provide.
    ///
    /// # Errors
    /// [`Refused`], also when the range is not within the reservation. Nothing has changed then.
    pub fn commit(&mut self, from: usize, to: usize) -> Result<(), Refused> {
        refuse_if_told()?;
        let start = self.part(from, to)?;
        // SAFETY: the range lies inside this reservation, which this value owns.
        granted(errno_kept(|| unsafe {
            libc::mprotect(start.as_ptr().cast(), to - from, libc::PROT_READ | libc::PROT_WRITE)
        }))
    }

    /// Purges the bytes `from..to` (multiples of the page size): gives their memory back to the system. They read as
    /// zeros afterwards.
    ///
    /// # Errors
    /// [`Refused`] when the range is not within the reservation or its pages are locked in memory. Nothing has changed
    /// then.
    ///
    /// # Safety
    /// The contents of the range are not needed any more.
    pub unsafe fn purge(&mut self, from: usize, to: usize) -> Result<(), Refused> {
        let start = self.part(from, to)?;
        // SAFETY: the range lies inside this reservation, and its contents are not needed, as this function requires.
        unsafe { purge(start, to - from) }
    }

    /// Whether the page at `offset` (a multiple of the page size) is resident, hence has been touched.
    #[must_use]
    pub fn is_resident(&self, offset: usize) -> bool {
        let Ok(start) = self.part(offset, offset.saturating_add(page_size())) else { return false };
        let mut state = 0u8;
        // SAFETY: the range is one page, for which the call writes one byte, to a local variable.
        let known = errno_kept(|| unsafe { libc::mincore(start.as_ptr().cast(), page_size(), &raw mut state) });
        known == 0 && state & 1 == 1
    }

    /// Populates the committed bytes `from..to` (multiples of the page size) with memory at once, which takes less time
    /// than a page fault for each page. Only a hint.
    pub fn populate(&mut self, from: usize, to: usize) {
        if let Ok(start) = self.part(from, to) {
            // SAFETY: the range lies inside this reservation, which is private anonymous memory.
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
        // SAFETY: the range was mapped by `with` and is owned by this value, which ends here.
        let _ = unsafe { unmap(self.base, self.length) };
    }
}
