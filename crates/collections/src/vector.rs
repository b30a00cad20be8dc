//! Vectors.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::atomic::{Ordering, compiler_fence};

use heapwright_shared::{Error, Offset, Relocatable, SharedHeap};

/// A vector of values in a shared heap. All zeros is an empty vector.
///
/// The value refers to the items; a copy of it refers to the same ones.
#[repr(C)]
pub struct Vector<T: Relocatable> {
    items: Option<Offset<T>>,
    length: u64,
    /// Number of items that the block has room for, or fewer.
    capacity: u64,
    _items: PhantomData<T>,
}

impl<T: Relocatable> Clone for Vector<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Relocatable> Copy for Vector<T> {}

// SAFETY: an offset and two numbers, in the order of C.
unsafe impl<T: Relocatable> Relocatable for Vector<T> {}

impl<T: Relocatable> Default for Vector<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Relocatable> Vector<T> {
    /// Returns an empty vector, which has no block.
    #[must_use]
    pub const fn new() -> Self {
        Vector { items: None, length: 0, capacity: 0, _items: PhantomData }
    }

    /// Returns the number of items.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length as usize
    }

    /// Returns whether there is no item.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the vector with its heap, ready for use.
    ///
    /// # Safety
    /// The vector is empty or was filled in this heap, and no copy of it was freed or grown since. Its block was not
    /// freed, resized or written to by other means, such as [`SharedHeap::deallocate`]. While the result lives, no
    /// other thread, of any process, uses the vector, and none but the result does these things.
    pub unsafe fn attach<'a>(&'a mut self, heap: &'a SharedHeap) -> AttachedVector<'a, T> {
        AttachedVector { vector: self, heap }
    }

    /// Returns the items.
    ///
    /// # Safety
    /// As for [`Vector::attach`], but other threads may read.
    #[must_use]
    pub unsafe fn read<'a>(&'a self, heap: &'a SharedHeap) -> &'a [T] {
        match self.items {
            // SAFETY: the block has that many items, which no process changes, as this function requires.
            Some(items) => unsafe { slice::from_raw_parts(heap.pointer(items).as_ptr(), self.len()) },
            None => &[],
        }
    }
}

/// A [`Vector`] in use. Derefs to a slice of its items.
pub struct AttachedVector<'a, T: Relocatable> {
    vector: &'a mut Vector<T>,
    heap: &'a SharedHeap,
}

impl<T: Relocatable> AttachedVector<'_, T> {
    /// Appends an item. Amortised constant time.
    ///
    /// # Errors
    /// As [`SharedHeap::allocate`]. Nothing has changed then.
    pub fn push(&mut self, item: T) -> Result<(), Error> {
        self.extend_from_slice(&[item])
    }

    /// Appends items: all of them, or none if the process is killed meanwhile.
    ///
    /// # Errors
    /// As [`SharedHeap::allocate`]. Nothing has changed then.
    pub fn extend_from_slice(&mut self, items: &[T]) -> Result<(), Error> {
        self.reserve(items.len())?;
        if let Some(start) = self.vector.items {
            let end = self.heap.pointer(start).as_ptr().wrapping_add(self.vector.len());
            // SAFETY: there is room for the items behind the last one, and a borrowed slice does not lie there.
            unsafe { end.copy_from_nonoverlapping(items.as_ptr(), items.len()) };
        }
        commit();
        self.vector.length += items.len() as u64;
        Ok(())
    }

    /// Removes the last item.
    pub fn pop(&mut self) -> Option<T> {
        let last = *self.last()?;
        self.vector.length -= 1;
        Some(last)
    }

    /// Shortens the vector to `length` items, if it has more.
    pub fn truncate(&mut self, length: usize) {
        self.vector.length = self.vector.length.min(length as u64);
    }

    /// Makes room for `more` items.
    ///
    /// # Errors
    /// As [`SharedHeap::allocate`]. Nothing has changed then.
    pub fn reserve(&mut self, more: usize) -> Result<(), Error> {
        const LEAST: usize = 4;
        let needed = self.vector.len().saturating_add(more);
        if needed <= self.vector.capacity as usize {
            return Ok(());
        }
        let capacity = needed.max(self.vector.len().saturating_mul(2)).max(LEAST);
        let bytes = capacity.saturating_mul(size_of::<T>().max(1));
        let block = self.heap.allocate_aligned(bytes, align_of::<T>())?.cast::<T>();
        // SAFETY: the block is new and longer than the items, which no process changes.
        unsafe { self.heap.pointer(block).as_ptr().copy_from_nonoverlapping(self.as_ptr(), self.vector.len()) };
        commit();
        // The new block has room for the capacity of the old one, which stands until the next store.
        let old = self.vector.items.replace(block);
        commit();
        self.vector.capacity = capacity as u64;
        old.map_or(Ok(()), |old| self.heap.deallocate(old.cast()))
    }

    /// Frees the block; the vector is empty.
    ///
    /// # Errors
    /// As [`SharedHeap::deallocate`].
    pub fn free(&mut self) -> Result<(), Error> {
        let items = self.vector.items;
        self.vector.length = 0;
        self.vector.capacity = 0;
        commit();
        self.vector.items = None;
        items.map_or(Ok(()), |items| self.heap.deallocate(items.cast()))
    }
}

impl<T: Relocatable> Deref for AttachedVector<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the vector is of this heap and used by this thread alone, as `attach` requires.
        unsafe { self.vector.read(self.heap) }
    }
}

impl<T: Relocatable> DerefMut for AttachedVector<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self.vector.items {
            // SAFETY: the block has that many items, and this thread alone uses them, as `attach` requires.
            Some(items) => unsafe { slice::from_raw_parts_mut(self.heap.pointer(items).as_ptr(), self.vector.len()) },
            None => &mut [],
        }
    }
}

/// Keeps the compiler from moving stores across: a killed process has made all stores before, and none behind.
pub(crate) fn commit() {
    compiler_fence(Ordering::SeqCst);
}
