//! The table of mappings: open addressing from address to length, in a mapping of its own.
//!
//! Linear probing. A removal closes the gap by shifting back what follows, so that there are no tombstones and every
//! probe ends at the first empty slot. At most three quarters of the slots are taken.

use core::ptr::NonNull;
use core::slice;

use heapwright_os::{Refused, map, page_size, unmap};

/// A mapping; its length is 0 in an empty slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) address: usize,
    pub(super) length: usize,
}

const EMPTY: Entry = Entry { address: 0, length: 0 };

/// Invariant: `slots` points at `1 << order` entries mapped for this table, or `order` is 0 and nothing is mapped.
pub(super) struct Table {
    slots: NonNull<Entry>,
    order: u32,
    entries: usize,
}

impl Table {
    pub(super) const fn new() -> Table {
        Table { slots: NonNull::dangling(), order: 0, entries: 0 }
    }

    fn slots(&self) -> &[Entry] {
        let length = if self.order == 0 { 0 } else { 1 << self.order };
        // SAFETY: by the type's invariant, `slots` points at `length` entries mapped for this table; fresh memory is
        // zero, which is an empty entry.
        unsafe { slice::from_raw_parts(self.slots.as_ptr(), length) }
    }

    fn slots_mut(&mut self) -> &mut [Entry] {
        let length = if self.order == 0 { 0 } else { 1 << self.order };
        // SAFETY: by the type's invariant, `slots` points at `length` entries mapped for this table, which is borrowed
        // exclusively.
        unsafe { slice::from_raw_parts_mut(self.slots.as_ptr(), length) }
    }

    fn mask(&self) -> usize {
        (1 << self.order) - 1
    }

    /// Returns the slot where the search for `address` begins: the top bits of its page number times 2^64 over the
    /// golden ratio.
    fn home(&self, address: usize) -> usize {
        let page = (address / page_size()) as u64;
        (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.order)) as usize
    }

    /// Returns the slot of `address`, or the empty slot at which its search ended. The table must not be empty.
    fn slot(&self, address: usize) -> usize {
        let slots = self.slots();
        let mut at = self.home(address);
        while slots[at] != EMPTY && slots[at].address != address {
            at = (at + 1) & self.mask();
        }
        at
    }

    /// Returns the length of the mapping at `address`.
    pub(super) fn get(&self, address: usize) -> Option<usize> {
        if self.entries == 0 {
            return None;
        }
        Some(self.slots()[self.slot(address)].length).filter(|&length| length != 0)
    }

    /// Reserves room for one more entry.
    pub(super) fn make_room(&mut self) -> Result<(), Refused> {
        if self.order != 0 && self.entries < (3 << self.order) / 4 {
            return Ok(());
        }
        let order = if self.order == 0 { page_size().ilog2() - size_of::<Entry>().ilog2() } else { self.order + 1 };
        let longer = Table { slots: map(size_of::<Entry>() << order)?.cast(), order, entries: 0 };
        let shorter = core::mem::replace(self, longer);
        for &entry in shorter.slots().iter().filter(|&&entry| entry != EMPTY) {
            self.insert(entry);
        }
        Ok(())
    }

    /// Adds an entry. Its address must not be in the table, which must have room for it.
    pub(super) fn insert(&mut self, entry: Entry) {
        let at = self.slot(entry.address);
        self.slots_mut()[at] = entry;
        self.entries += 1;
    }

    /// Removes the entry of `address` and returns its length.
    pub(super) fn remove(&mut self, address: usize) -> Option<usize> {
        let length = self.get(address)?;
        let mut gap = self.slot(address);
        let mask = self.mask();
        let mut at = (gap + 1) & mask;
        while self.slots()[at] != EMPTY {
            let entry = self.slots()[at];
            // An entry may fill the gap unless its search begins behind it.
            let displacement = at.wrapping_sub(self.home(entry.address)) & mask;
            if displacement >= at.wrapping_sub(gap) & mask {
                self.slots_mut()[gap] = entry;
                gap = at;
            }
            at = (at + 1) & mask;
        }
        self.slots_mut()[gap] = EMPTY;
        self.entries -= 1;
        Some(length)
    }

    /// Returns all entries, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        self.slots().iter().copied().filter(|&entry| entry != EMPTY)
    }

    /// Checks that every entry is found in its slot and that the count is right; otherwise returns an address that is
    /// not.
    pub(super) fn check(&self) -> Result<(), usize> {
        match self.iter().find(|entry| self.get(entry.address) != Some(entry.length)) {
            Some(lost) => Err(lost.address),
            None if self.iter().count() != self.entries => Err(0),
            None => Ok(()),
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.order != 0 {
            // SAFETY: the slots were mapped for this table with this length, and the table is being dropped, so that no
            // reference to them remains.
            let _ = unsafe { unmap(self.slots.cast(), size_of::<Entry>() << self.order) };
        }
    }
}
