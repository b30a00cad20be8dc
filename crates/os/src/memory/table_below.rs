//! A table that grows downwards.

use core::ptr::NonNull;

use crate::call::refused::{Refused, refuse_if_told};
use crate::memory::huge_pages::keep_pages_small;
use crate::memory::pages::unmap;
use crate::memory::reservation::Reservation;

/// A range of addresses of which parts are backed with memory from its end on, as a [`Reservation`] from its beginning
/// on. Two tables that are used little cost least if one ends where the other begins: what is used of them lies
/// together.
///
/// ```
/// use heapwright_os::Reservation;
/// let mut range = Reservation::claim(1 << 30, 1 << 21).unwrap();
/// let mut table = range.cut_table_below(1 << 29).unwrap();
/// table.extend(1 << 16).unwrap();
/// // SAFETY: the last 64 KiB are mapped, and not used otherwise.
/// unsafe { table.end().sub(1 << 16).write_bytes(7, 1 << 16) };
/// assert_eq!(table.end(), range.base());
/// ```
pub struct TableBelow {
    /// All of it. Its own extent stays 0.
    space: Reservation,
    extent: usize,
}

impl Reservation {
    /// As [`Reservation::cut_table`], as a table that grows downwards from the end of these bytes.
    ///
    /// # Errors
    /// As [`Reservation::cut_table`].
    pub fn cut_table_below(&mut self, length: usize) -> Result<TableBelow, Refused> {
        self.cut_table(length).map(TableBelow::over)
    }
}

impl TableBelow {
    fn over(space: Reservation) -> TableBelow {
        TableBelow { space, extent: 0 }
    }

    /// The address behind the last byte. Does not change.
    #[must_use]
    pub fn end(&self) -> NonNull<u8> {
        // SAFETY: the end of the range.
        unsafe { self.space.base().add(self.space.length()) }
    }

    /// Returns how many bytes below the end are accessible.
    #[must_use]
    pub fn extent(&self) -> usize {
        self.extent
    }

    /// Makes the last `to` bytes (a multiple of the page size) readable and writable, as [`Reservation::extend`] does.
    ///
    /// # Errors
    /// As [`Reservation::extend`].
    pub fn extend(&mut self, to: usize) -> Result<(), Refused> {
        if to <= self.extent {
            return Ok(());
        }
        let before = self.space.length().checked_sub(to).ok_or(Refused)?;
        refuse_if_told()?;
        // SAFETY: it is at least that long.
        let start = unsafe { self.space.base().add(before) };
        self.space.commit(start, to - self.extent)?;
        if self.space.is_chosen() {
            let end = self.end().addr().get();
            keep_pages_small(end - self.extent..end, start.addr().get()..end);
        }
        self.extent = to;
        Ok(())
    }
}

impl Drop for TableBelow {
    fn drop(&mut self) {
        if self.extent != 0 && self.space.is_chosen() {
            // SAFETY: the bytes were mapped by this value, which ends here. The addresses of what could not be unmapped
            // are in the way of another range, which is not chosen then.
            let _ = unsafe { unmap(self.end().sub(self.extent), self.extent) };
        }
    }
}
