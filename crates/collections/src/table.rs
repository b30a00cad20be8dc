//! The table of a map: a header and slots, in one block. Open addressing with linear probing.

use std::mem::MaybeUninit;

use heapwright_shared::{Error, Offset, SharedHeap};

use crate::vector::commit;

/// A slot that was never used.
pub(crate) const EMPTY: u64 = 0;
/// A slot whose key was removed.
pub(crate) const REMOVED: u64 = 1;
/// A bit of every hash.
pub(crate) const OCCUPIED: u64 = 1 << 63;

/// The fewest slots.
const LEAST: usize = 8;

/// What a table's block begins with.
#[repr(C, align(16))]
pub(crate) struct Header {
    /// Number of slots, a power of two.
    pub(crate) slots: u64,
    /// Number of slots that are not [`EMPTY`], or more. Always below seven eighths of the slots, so that a search ends.
    pub(crate) taken: u64,
}

/// A slot.
#[repr(C)]
pub(crate) struct Slot<K, V> {
    /// [`EMPTY`], [`REMOVED`], or the key's hash. The store of a hash makes key and value part of the map.
    pub(crate) hash: u64,
    key: MaybeUninit<K>,
    value: MaybeUninit<V>,
}

impl<K: Copy, V: Copy> Slot<K, V> {
    /// Returns whether the slot has a key and a value.
    pub(crate) fn is_occupied(&self) -> bool {
        self.hash & OCCUPIED != 0
    }

    /// Returns the key and the value, if there are any.
    pub(crate) fn entry(&self) -> Option<(&K, &V)> {
        // SAFETY: key and value are written before the hash is.
        self.is_occupied().then(|| unsafe { (self.key.assume_init_ref(), self.value.assume_init_ref()) })
    }

    /// Returns the value, if there is one.
    pub(crate) fn value_mut(&mut self) -> Option<&mut V> {
        // SAFETY: as for `entry`.
        if self.is_occupied() { Some(unsafe { self.value.assume_init_mut() }) } else { None }
    }

    /// Makes a key and a value part of the map.
    pub(crate) fn occupy(&mut self, hash: u64, key: K, value: V) {
        self.key.write(key);
        self.value.write(value);
        commit();
        self.hash = hash;
        commit();
    }

    /// Takes key and value out of the map.
    pub(crate) fn vacate(&mut self) -> Option<(K, V)> {
        let entry = self.entry().map(|(&key, &value)| (key, value))?;
        self.hash = REMOVED;
        commit();
        Some(entry)
    }
}

/// Returns the number of slots for so many keys: twice as many, to the next power of two.
pub(crate) fn slots_for(keys: usize) -> usize {
    keys.saturating_mul(2).max(LEAST).checked_next_power_of_two().unwrap_or(usize::MAX)
}

/// Returns whether one more slot may be taken.
pub(crate) fn has_room(header: &Header) -> bool {
    (header.taken + 1) * 8 <= header.slots * 7
}

/// Allocates a table with empty slots.
pub(crate) fn allocate<K, V>(heap: &SharedHeap, slots: usize) -> Result<Offset<Header>, Error> {
    let () = const { assert!(align_of::<Slot<K, V>>() <= align_of::<Header>()) };
    let bytes = slots.saturating_mul(size_of::<Slot<K, V>>()).saturating_add(size_of::<Header>());
    let table = heap.allocate_aligned(bytes, align_of::<Header>())?.cast::<Header>();
    // SAFETY: the block is new, and as long.
    unsafe {
        let header = heap.pointer(table);
        header.cast::<u8>().write_bytes(0, bytes);
        header.write(Header { slots: slots as u64, taken: 0 });
    }
    commit();
    Ok(table)
}
