//! The buffers that threads own.

use core::mem::size_of;
use core::ptr::NonNull;

use heapwright_os::{FileError, Refused, map, round_to_pages, unmap};

/// The maximum number of threads that have a buffer of their own at the same time.
pub(crate) const MOST: usize = 1024;

/// The numbers of the buffers that a thread owns, in pages of their own: the thread that begins a recording may have a
/// short stack.
pub(crate) struct Owners {
    first: NonNull<u32>,
    count: usize,
    /// Where the next look begins.
    hand: usize,
}

impl Owners {
    /// Returns an empty list.
    ///
    /// # Errors
    /// [`FileError::NoMemory`].
    pub(crate) fn new() -> Result<Owners, FileError> {
        let first = map(length()).map_err(|Refused| FileError::NoMemory)?;
        Ok(Owners { first: first.cast(), count: 0, hand: 0 })
    }

    /// Returns the number of buffers.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether no further thread can have a buffer of its own.
    pub(crate) fn is_full(&self) -> bool {
        self.count == MOST
    }

    /// Adds a buffer; the list is not full.
    pub(crate) fn add(&mut self, buffer: u32) {
        debug_assert!(!self.is_full());
        self.count = (self.count + 1).min(MOST);
        if let Some(last) = self.all().last_mut() {
            *last = buffer;
        }
    }

    /// Replaces a buffer whose owner has another one from now on.
    pub(crate) fn replace(&mut self, buffer: u32, next: u32) {
        self.all().iter_mut().filter(|one| **one == buffer).for_each(|one| *one = next);
    }

    /// Removes a buffer.
    pub(crate) fn remove(&mut self, buffer: u32) {
        let all = self.all();
        if let (Some(at), Some(&last)) = (all.iter().position(|&one| one == buffer), all.last()) {
            all[at] = last;
            self.count -= 1;
        }
    }

    /// Returns the buffers in turn, another one each time.
    pub(crate) fn next(&mut self) -> Option<u32> {
        let at = if self.hand < self.count { self.hand } else { 0 };
        self.hand = at + 1;
        self.all().get(at).copied()
    }

    fn all(&mut self) -> &mut [u32] {
        // SAFETY: the pages have room for the most numbers, for which any bytes are valid, and are this value's; the
        // count is no more than that.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr(), self.count) }
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        // SAFETY: the pages are this value's, and not used afterwards. Pages that cannot be unmapped leak.
        let _ = unsafe { unmap(self.first.cast(), length()) };
    }
}

fn length() -> usize {
    const BYTES: usize = MOST * size_of::<u32>();
    round_to_pages(BYTES).unwrap_or(BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_looked_at_in_turn() {
        let mut owners = Owners::new().unwrap();
        assert_eq!(Owners::new().unwrap().next(), None);
        [5, 6, 7].into_iter().for_each(|buffer| owners.add(buffer));
        owners.replace(6, 8);
        assert_eq!([(); 4].map(|()| owners.next()), [Some(5), Some(8), Some(7), Some(5)]);
        owners.remove(5);
        owners.remove(5);
        let mut left = [(); 2].map(|()| owners.next());
        left.sort();
        assert_eq!((left, owners.count()), ([Some(7), Some(8)], 2));
        (0..MOST as u32 - 2).for_each(|buffer| owners.add(100 + buffer));
        assert!(owners.is_full());
    }
}
