//! Access to the metadata block: the only place of the engine that touches memory without a bounds check.

use core::marker::PhantomData;

/// A run of `T` inside the metadata block, accessed without bounds checks in release builds.
///
/// Every index that the engine uses is derived from a granule below the capacity for which the block's size was
/// computed, or was written into the block by the engine itself. The checks trust no bytes and use an index of the
/// latter kind only after they have verified it. Debug builds (and with them the tests, Miri and the fuzzers) assert it
/// at every access.
pub struct Cells<'m, T> {
    base: *mut T,
    #[cfg(debug_assertions)]
    len: usize,
    _block: PhantomData<&'m mut [T]>,
}

// SAFETY: a `Cells` is an exclusive borrow of its run of the metadata block, as `&mut [T]` is, and can move with it.
unsafe impl<T: Send> Send for Cells<'_, T> {}
// SAFETY: shared access only reads, as with `&[T]`.
unsafe impl<T: Sync> Sync for Cells<'_, T> {}

impl<'m, T: Copy> Cells<'m, T> {
    /// Creates a run of the `len` cells from `base` on.
    ///
    /// # Safety
    /// `base` must be valid for reads and writes of `len` values for `'m`, or of those that are accessed, aligned, and
    /// used through nothing else.
    pub(crate) unsafe fn new(base: *mut T, len: usize) -> Self {
        let _ = len;
        Cells {
            base,
            #[cfg(debug_assertions)]
            len,
            _block: PhantomData,
        }
    }

    /// Returns the same memory as cells of half the size.
    pub(crate) fn split<U: Copy>(self) -> Cells<'m, U> {
        const { assert!(size_of::<T>() == 2 * size_of::<U>() && align_of::<T>() >= align_of::<U>()) };
        Cells {
            base: self.base.cast(),
            #[cfg(debug_assertions)]
            len: 2 * self.len,
            _block: PhantomData,
        }
    }

    /// The same cells for a shorter time.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> Cells<'_, T> {
        Cells {
            base: self.base,
            #[cfg(debug_assertions)]
            len: self.len,
            _block: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> T {
        #[cfg(debug_assertions)]
        assert!(index < self.len, "metadata index {index} of {}", self.len);
        // SAFETY: every index of the engine is within the run (see the type), and `base` is valid for reads of the
        // whole run.
        unsafe { self.base.add(index).read() }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, index: usize, value: T) {
        #[cfg(debug_assertions)]
        assert!(index < self.len, "metadata index {index} of {}", self.len);
        // SAFETY: every index of the engine is within the run (see the type), `base` is valid for writes of the whole
        // run, and `&mut self` makes the access exclusive.
        unsafe { self.base.add(index).write(value) }
    }

    /// Copies the `count` cells from `from` on to `to` and on; the runs may overlap.
    #[inline(always)]
    pub(crate) fn copy_within(&mut self, from: usize, to: usize, count: usize) {
        #[cfg(debug_assertions)]
        assert!(from.max(to) + count <= self.len, "metadata run of {count} from {from} to {to} of {}", self.len);
        // SAFETY: both runs lie within this one (see the type), which is valid for reads and writes; `&mut self` makes
        // the access exclusive, and `copy_to` permits overlap.
        unsafe { self.base.add(from).copy_to(self.base.add(to), count) }
    }

    /// Returns the `N` cells from `index` on.
    #[inline(always)]
    pub(crate) fn row<const N: usize>(&self, index: usize) -> &[T; N] {
        #[cfg(debug_assertions)]
        assert!(index + N <= self.len, "metadata row {index}..{} of {}", index + N, self.len);
        // SAFETY: the `N` cells lie within the run (see the type), which is valid for reads and aligned; the borrow of
        // `self` prevents writes to them.
        unsafe { &*self.base.add(index).cast::<[T; N]>() }
    }
}
