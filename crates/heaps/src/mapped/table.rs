//! The table of mappings: open addressing from address to length, in a mapping of its own.
//!
//! Linear probing. A removal closes the gap by shifting back what follows, so that there are no tombstones and every
//! probe ends at the first empty slot. At most three quarters of the slots are taken.

use core::ptr::NonNull;
use core::slice;

use heapwright_os::{Refused, map, page_size, spread, unmap};

/// A mapping: its address and its length in bytes. The length is 0 in an empty slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Where it begins.
    pub address: usize,
    /// Its length in bytes.
    pub length: usize,
}

/// How many mappings a set contains, and how long they are together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct MappingTotals {
    /// Their number.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

const EMPTY: Mapping = Mapping { address: 0, length: 0 };

/// A set of mappings, found by their addresses. Every operation takes constant time on average; only
/// [`Mappings::make_room`] allocates.
///
/// Invariant: `slots` points at `1 << order` entries mapped for this table, or `order` is 0 and nothing is mapped.
pub struct Mappings {
    slots: NonNull<Mapping>,
    order: u32,
    totals: MappingTotals,
    /// Slots that are kept for what was taken out.
    promised: usize,
}

// SAFETY: the table owns its slots, which are not tied to a thread.
unsafe impl Send for Mappings {}

impl Mappings {
    /// An empty set, without memory.
    #[must_use]
    pub const fn new() -> Mappings {
        Mappings { slots: NonNull::dangling(), order: 0, totals: MappingTotals { count: 0, bytes: 0 }, promised: 0 }
    }

    fn slots(&self) -> &[Mapping] {
        let length = if self.order == 0 { 0 } else { 1 << self.order };
        // SAFETY: by the type's invariant, `slots` points at `length` entries mapped for this table; fresh memory is
        // zero, which is an empty entry.
        unsafe { slice::from_raw_parts(self.slots.as_ptr(), length) }
    }

    fn slots_mut(&mut self) -> &mut [Mapping] {
        let length = if self.order == 0 { 0 } else { 1 << self.order };
        // SAFETY: by the type's invariant, `slots` points at `length` entries mapped for this table, which is borrowed
        // exclusively.
        unsafe { slice::from_raw_parts_mut(self.slots.as_ptr(), length) }
    }

    fn mask(&self) -> usize {
        (1 << self.order) - 1
    }

    /// Returns the slot where the search for `address` begins: the top bits of its page number, spread.
    fn home(&self, address: usize) -> usize {
        let page = (address / page_size()) as u64;
        (spread(page) >> (64 - self.order)) as usize
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
    #[must_use]
    #[inline(never)]
    pub fn get(&self, address: usize) -> Option<usize> {
        if self.totals.count == 0 {
            return None;
        }
        Some(self.slots()[self.slot(address)].length).filter(|&length| length != 0)
    }

    /// Makes room for one more.
    ///
    /// # Errors
    /// [`Refused`].
    #[inline(never)]
    pub fn make_room(&mut self) -> Result<(), Refused> {
        if self.order != 0 && self.count() + self.promised < (3 << self.order) / 4 {
            return Ok(());
        }
        let order = if self.order == 0 { page_size().ilog2() - size_of::<Mapping>().ilog2() } else { self.order + 1 };
        let slots = map(size_of::<Mapping>() << order)?.cast();
        let longer = Mappings { slots, order, totals: MappingTotals::default(), promised: self.promised };
        let shorter = core::mem::replace(self, longer);
        for &entry in shorter.slots().iter().filter(|&&entry| entry != EMPTY) {
            self.insert(entry);
        }
        Ok(())
    }

    /// Adds an entry. Its address must not be in the table, which must have room for it.
    #[inline(never)]
    pub fn insert(&mut self, entry: Mapping) {
        let at = self.slot(entry.address);
        self.slots_mut()[at] = entry;
        self.totals.count += 1;
        self.totals.bytes += entry.length as u64;
    }

    /// Removes the entry of `address` and returns its length.
    #[inline(never)]
    pub fn remove(&mut self, address: usize) -> Option<usize> {
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
        self.totals.count -= 1;
        self.totals.bytes -= length as u64;
        Some(length)
    }

    /// Removes a mapping for a while, and returns its length: there is room to [put it back](Mappings::put_back).
    pub fn take_out(&mut self, address: usize) -> Option<usize> {
        let length = self.remove(address)?;
        self.promised += 1;
        Some(length)
    }

    /// Adds a mapping in the place of one that was [taken out](Mappings::take_out).
    pub fn put_back(&mut self, mapping: Mapping) {
        self.promised -= 1;
        self.insert(mapping);
    }

    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.totals.count as usize
    }

    /// Returns how many there are and how long they are together. The address of the totals does not change unless the
    /// set is moved: other processes may read them there.
    #[must_use]
    pub fn totals(&self) -> &MappingTotals {
        &self.totals
    }

    /// Returns all entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = Mapping> + '_ {
        self.slots().iter().copied().filter(|&entry| entry != EMPTY)
    }

    /// Checks that every entry is found in its slot and that the count is right; otherwise returns an address that is
    /// not.
    pub(super) fn check(&self) -> Result<(), usize> {
        match self.iter().find(|entry| self.get(entry.address) != Some(entry.length)) {
            Some(lost) => Err(lost.address),
            None if self.iter().count() != self.count() => Err(0),
            None if self.iter().map(|entry| entry.length as u64).sum::<u64>() != self.totals.bytes => Err(0),
            None => Ok(()),
        }
    }
}

impl Default for Mappings {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Mappings {
    fn drop(&mut self) {
        if self.order != 0 {
            // SAFETY: the slots were mapped for this table with this length, and the table is being dropped, so that no
            // reference to them remains.
            let _ = unsafe { unmap(self.slots.cast(), size_of::<Mapping>() << self.order) };
        }
    }
}
