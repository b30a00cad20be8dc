//! Access to the metadata block: the only place of the engine that touches memory without a bounds check.

use core::marker::PhantomData;

/// A run of `T` inside the metadata block, reached without bounds checks in release builds.
///
/// Every index that the engine uses is derived from a granule below the capacity for which the block's size was
/// computed, or was written into the block by the engine itself. The checks, which trust no bytes, use one of the latter
/// only once they have verified it. Debug builds (and so the tests, Miri and the fuzzers) assert it at every access.
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
    /// The `len` cells from `base` on.
    ///
    /// # Safety
    /// `base` must be valid for reads and writes of `len` values for `'m`, aligned, and used through nothing else.
    pub(crate) unsafe fn new(base: *mut T, len: usize) -> Self {
        let _ = len;
        Cells {
            base,
            #[cfg(debug_assertions)]
            len,
            _block: PhantomData,
        }
    }

    /// The same memory as cells of half the size.
    pub(crate) fn split<U: Copy>(self) -> Cells<'m, U> {
        const { assert!(size_of::<T>() == 2 * size_of::<U>() && align_of::<T>() >= align_of::<U>()) };
        Cells {
            base: self.base.cast(),
            #[cfg(debug_assertions)]
            len: 2 * self.len,
            _block: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> T {
        #[cfg(debug_assertions)]
        assert!(index < self.len, "metadata index {index} of {}", self.len);
        // SAFETY: indices are in range by construction (see the type), and `base` is valid for the whole run.
        unsafe { self.base.add(index).read() }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, index: usize, value: T) {
        #[cfg(debug_assertions)]
        assert!(index < self.len, "metadata index {index} of {}", self.len);
        // SAFETY: as for `get`; `&mut self` makes the write exclusive.
        unsafe { self.base.add(index).write(value) }
    }

    /// Copies the `count` cells from `from` on to `to` and on; the runs may overlap.
    #[inline(always)]
    pub(crate) fn copy_within(&mut self, from: usize, to: usize, count: usize) {
        #[cfg(debug_assertions)]
        assert!(from.max(to) + count <= self.len, "metadata run of {count} from {from} to {to} of {}", self.len);
        // SAFETY: as for `set`, for both runs.
        unsafe { self.base.add(from).copy_to(self.base.add(to), count) }
    }

    /// The `N` cells from `index` on.
    #[inline(always)]
    pub(crate) fn row<const N: usize>(&self, index: usize) -> &[T; N] {
        #[cfg(debug_assertions)]
        assert!(index + N <= self.len, "metadata row {index}..{} of {}", index + N, self.len);
        // SAFETY: as for `get`, for `N` cells; the borrow of `self` keeps them from being written.
        unsafe { &*self.base.add(index).cast::<[T; N]>() }
    }
}
