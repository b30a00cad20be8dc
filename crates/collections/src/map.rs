//! Hash maps.

use std::marker::PhantomData;
use std::ptr::NonNull;

use heapwright_shared::{Error, Offset, Relocatable, SharedHeap};

use crate::key::{Key, hash_of};
use crate::table::{EMPTY, Header, REMOVED, Slot, allocate, has_room, slots_for};
use crate::vector::commit;

/// A hash map in a shared heap. All zeros is an empty map.
///
/// The value refers to the entries; a copy of it refers to the same ones. Keys are hashed alike in all processes, with
/// a key that is no secret: an adversary who chooses the keys can make lookups slow.
#[repr(C)]
pub struct Map<K: Key, V: Relocatable> {
    table: Option<Offset<Header>>,
    length: u64,
    _entries: PhantomData<(K, V)>,
}

impl<K: Key, V: Relocatable> Clone for Map<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Key, V: Relocatable> Copy for Map<K, V> {}

// SAFETY: an offset and a number, in the order of C.
unsafe impl<K: Key, V: Relocatable> Relocatable for Map<K, V> {}

impl<K: Key, V: Relocatable> Default for Map<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, V: Relocatable> Map<K, V> {
    /// Returns an empty map, which has no block.
    #[must_use]
    pub const fn new() -> Self {
        Map { table: None, length: 0, _entries: PhantomData }
    }

    /// Returns the number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length as usize
    }

    /// Returns whether there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the map with its heap, ready for use.
    ///
    /// # Safety
    /// The map is empty or was filled in this heap, and no copy of it was freed or changed since. Its block was not
    /// freed, resized or written to by other means, such as [`SharedHeap::deallocate`]. While the result lives, no
    /// other thread, of any process, uses the map, and none but the result does these things.
    pub unsafe fn attach<'a>(&'a mut self, heap: &'a SharedHeap) -> AttachedMap<'a, K, V> {
        AttachedMap { map: self, heap }
    }
}

/// A [`Map`] in use.
pub struct AttachedMap<'a, K: Key, V: Relocatable> {
    map: &'a mut Map<K, V>,
    heap: &'a SharedHeap,
}

impl<K: Key, V: Relocatable> AttachedMap<'_, K, V> {
    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns the value of a key. Expected constant time.
    #[must_use]
    pub fn get(&self, key: &K::Query) -> Option<&V> {
        let at = self.find(key, hash_of(key)).ok()?;
        self.slots()[at].entry().map(|(_, value)| value)
    }

    /// Returns the value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K::Query) -> Option<&mut V> {
        let at = self.find(key, hash_of(key)).ok()?;
        self.slots_mut()[at].value_mut()
    }

    /// Sets the value of a key; returns the old one. Amortised constant time. If the process is killed meanwhile, a
    /// value longer than eight bytes that was to be replaced may be half the old and half the new one.
    ///
    /// # Errors
    /// As [`SharedHeap::allocate`]. Nothing has changed then.
    pub fn insert(&mut self, key: &K::Query, value: V) -> Result<Option<V>, Error> {
        let hash = hash_of(key);
        match self.find(key, hash) {
            Ok(at) => Ok(self.slots_mut()[at].value_mut().map(|old| std::mem::replace(old, value))),
            Err(free) => self.add(key, hash, value, free).map(|_| None),
        }
    }

    /// Returns the value of a key, to be changed. A key that is new gets `value`.
    ///
    /// # Errors
    /// As [`SharedHeap::allocate`]. Nothing has changed then.
    pub fn get_or_insert(&mut self, key: &K::Query, value: V) -> Result<&mut V, Error> {
        let hash = hash_of(key);
        let at = match self.find(key, hash) {
            Ok(at) => at,
            Err(free) => self.add(key, hash, value, free)?,
        };
        let Some(value) = self.slots_mut()[at].value_mut() else {
            unreachable!("the slot was found or occupied above")
        };
        Ok(value)
    }

    /// Removes a key; returns its value.
    ///
    /// # Errors
    /// As [`SharedHeap::deallocate`]; the key is removed all the same.
    pub fn remove(&mut self, key: &K::Query) -> Result<Option<V>, Error> {
        let Ok(at) = self.find(key, hash_of(key)) else { return Ok(None) };
        let Some((key, value)) = self.slots_mut()[at].vacate() else { return Ok(None) };
        self.map.length -= 1;
        // SAFETY: the key was stored in this heap, and its slot does not refer to it any more.
        unsafe { key.release(self.heap) }?;
        Ok(Some(value))
    }

    /// Returns all entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&K::Query, &V)> {
        // SAFETY: the keys were stored in this heap, and do not change while the map is borrowed.
        self.slots().iter().filter_map(|slot| slot.entry()).map(|(key, value)| (unsafe { key.view(self.heap) }, value))
    }

    /// Counts the entries again, after a process was killed while it changed the map.
    pub fn recount(&mut self) {
        self.map.length = self.occupied() as u64;
    }

    /// Frees all keys and the table; the map is empty. What values refer to is not freed. If the process is killed
    /// meanwhile, some of the keys may be gone.
    ///
    /// # Errors
    /// As [`SharedHeap::deallocate`].
    pub fn free(&mut self) -> Result<(), Error> {
        for at in 0..self.slots().len() {
            if let Some((key, _)) = self.slots_mut()[at].vacate() {
                // SAFETY: the key was stored in this heap, and its slot does not refer to it any more.
                unsafe { key.release(self.heap) }?;
            }
        }
        self.map.length = 0;
        commit();
        self.map.table.take().map_or(Ok(()), |table| self.heap.deallocate(table.cast()))
    }

    fn occupied(&self) -> usize {
        self.slots().iter().filter(|slot| slot.is_occupied()).count()
    }

    /// Returns the slot of a key, or else the one in which to put it, if there is one.
    fn find(&self, key: &K::Query, hash: u64) -> Result<usize, Option<usize>> {
        let slots = self.slots();
        let Some(mask) = slots.len().checked_sub(1) else { return Err(None) };
        let (mut at, mut free) = (hash as usize & mask, None);
        for _ in 0..slots.len() {
            match (slots[at].hash, slots[at].entry()) {
                (EMPTY, _) => return Err(free.or(Some(at))),
                (REMOVED, _) => free = free.or(Some(at)),
                // SAFETY: the key was stored in this heap, and does not change meanwhile.
                (found, Some((stored, _))) if found == hash && unsafe { stored.view(self.heap) } == key => {
                    return Ok(at);
                }
                _ => {}
            }
            at = (at + 1) & mask;
        }
        Err(free)
    }

    /// Adds a key that is not there, at the slot that [`Self::find`] returned if possible; returns its slot.
    fn add(&mut self, key: &K::Query, hash: u64, value: V, free: Option<usize>) -> Result<usize, Error> {
        let reused = free.filter(|&at| self.slots()[at].hash == REMOVED);
        let stored = K::store(key, self.heap)?;
        let at = match reused.map_or_else(|| self.take_slot(hash, free), Ok) {
            Ok(at) => at,
            Err(error) => {
                // SAFETY: the key was stored in this heap, and is part of no map.
                unsafe { stored.release(self.heap) }?;
                return Err(error);
            }
        };
        self.slots_mut()[at].occupy(hash, stored, value);
        self.map.length += 1;
        Ok(at)
    }

    /// Returns an empty slot for a hash, counted as taken; in a longer table if this one is full.
    fn take_slot(&mut self, hash: u64, free: Option<usize>) -> Result<usize, Error> {
        let at = match free {
            Some(at) if self.header().is_some_and(has_room) => at,
            _ => {
                self.rebuild()?;
                empty_slot(self.slots(), hash)
            }
        };
        if let Some(table) = self.map.table {
            // SAFETY: this thread alone uses the table.
            unsafe { self.heap.pointer(table).as_mut() }.taken += 1;
        }
        Ok(at)
    }

    /// Moves the entries to a new table with room for more.
    fn rebuild(&mut self) -> Result<(), Error> {
        // Counted, because the length may be one too low for each process that was killed.
        let entries = self.occupied();
        let table = allocate::<K, V>(self.heap, slots_for(entries + 1))?;
        let old = self.map.table;
        // SAFETY: the table is new, and no other reference to it exists.
        let new: &mut [Slot<K, V>] = unsafe { slots_of(self.heap, table).as_mut() };
        for slot in self.slots() {
            if let Some((&key, &value)) = slot.entry() {
                let at = empty_slot(new, slot.hash);
                new[at].occupy(slot.hash, key, value);
            }
        }
        // SAFETY: as above.
        unsafe { self.heap.pointer(table).as_mut() }.taken = entries as u64;
        commit();
        self.map.table = Some(table);
        commit();
        old.map_or(Ok(()), |old| self.heap.deallocate(old.cast()))
    }

    fn header(&self) -> Option<&Header> {
        // SAFETY: the map is of this heap and used by this thread alone, as `attach` requires.
        self.map.table.map(|table| unsafe { self.heap.pointer(table).as_ref() })
    }

    fn slots(&self) -> &[Slot<K, V>] {
        // SAFETY: the map is of this heap and used by this thread alone, as `attach` requires, and it is borrowed.
        self.map.table.map_or(&[], |table| unsafe { slots_of(self.heap, table).as_ref() })
    }

    fn slots_mut(&mut self) -> &mut [Slot<K, V>] {
        // SAFETY: as for `slots`; the borrow excludes others.
        self.map.table.map_or(&mut [], |table| unsafe { slots_of(self.heap, table).as_mut() })
    }
}

/// Returns the first empty slot for a hash. There is one.
fn empty_slot<K: Copy, V: Copy>(slots: &[Slot<K, V>], hash: u64) -> usize {
    let mask = slots.len() - 1;
    let mut at = hash as usize & mask;
    while slots[at].hash != EMPTY {
        at = (at + 1) & mask;
    }
    at
}

/// Returns where the slots of a table are.
///
/// # Safety
/// A table of such slots lies there.
unsafe fn slots_of<K, V>(heap: &SharedHeap, table: Offset<Header>) -> NonNull<[Slot<K, V>]> {
    let header = heap.pointer(table);
    // SAFETY: a header lies there, and the slots follow it in its block, as this function requires.
    unsafe { NonNull::slice_from_raw_parts(header.add(1).cast(), header.as_ref().slots as usize) }
}
