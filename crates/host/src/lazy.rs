//! Arrays mapped directly from the system: zeroed, free of cost until touched, and outside the heap under test.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use anyhow::{Context, Result};
use memmap2::{MmapMut, MmapOptions};

/// Types without ownership for which all zeroes is a valid value.
///
/// # Safety
/// All zeroes is a valid value of the type, every other bit pattern written through it stays valid, and its alignment
/// is at most a page.
pub unsafe trait Plain {}

// SAFETY: every bit pattern is a valid integer, and its alignment is below a page.
unsafe impl Plain for u8 {}
// SAFETY: every bit pattern is a valid integer, and its alignment is below a page.
unsafe impl Plain for u32 {}
// SAFETY: every bit pattern is a valid integer, and its alignment is below a page.
unsafe impl Plain for u64 {}
// SAFETY: every bit pattern is a valid integer, and its alignment is below a page.
unsafe impl Plain for usize {}

/// A zeroed array in its own mapping.
pub struct Lazy<T> {
    mapping: MmapMut,
    _items: PhantomData<T>,
}

impl<T: Plain> Lazy<T> {
    /// Creates an array of `len` zeroes, without committed memory.
    pub fn zeroed(len: usize) -> Result<Lazy<T>> {
        let bytes = len.checked_mul(size_of::<T>()).context("an array longer than the address space")?;
        let mapping = MmapOptions::new()
            .len(bytes.max(1))
            .no_reserve_swap()
            .map_anon()
            .with_context(|| format!("the system refuses {bytes} bytes of address space"))?;
        Ok(Lazy { mapping, _items: PhantomData })
    }

    /// Creates an array as [`Lazy::zeroed`] does, and commits every page, so that no timed access pays for it.
    pub fn committed(len: usize) -> Result<Lazy<T>> {
        let mut lazy = Self::zeroed(len)?;
        // `black_box` hides that the pages are zero already; otherwise the compiler could drop these writes.
        std::hint::black_box(&mut lazy.mapping[..]).fill(0);
        Ok(lazy)
    }
}

impl<T: Plain> Deref for Lazy<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let len = self.mapping.len() / size_of::<T>();
        // SAFETY: the mapping is page-aligned, contains `len` items, and any zeroed or written item is valid (`Plain`).
        // The slice borrows `self`, which owns the mapping.
        unsafe { std::slice::from_raw_parts(self.mapping.as_ptr().cast(), len) }
    }
}

impl<T: Plain> DerefMut for Lazy<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let len = self.mapping.len() / size_of::<T>();
        // SAFETY: the mapping is page-aligned, contains `len` items, and any zeroed or written item is valid (`Plain`).
        // The mapping is private and borrowed exclusively through `self`.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.as_mut_ptr().cast(), len) }
    }
}
