//! Arrays that come straight from the system: they are zero, cost nothing until they are touched, and leave the heap
//! under test alone.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use anyhow::{Context, Result};
use memmap2::{MmapMut, MmapOptions};

/// Types for which all zeroes is a value and that own nothing.
///
/// # Safety
/// Every bit pattern of zeroes is a valid value of the type, and its alignment is at most a page.
pub unsafe trait Plain {}

// SAFETY: integers.
unsafe impl Plain for u8 {}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: integers.
unsafe impl Plain for usize {}

/// A zeroed array of its own mapping.
pub struct Lazy<T> {
    mapping: MmapMut,
    _items: PhantomData<T>,
}

impl<T: Plain> Lazy<T> {
    /// `len` zeroes, none of them committed yet.
    pub fn zeroed(len: usize) -> Result<Lazy<T>> {
        let bytes = len.checked_mul(size_of::<T>()).context("an array longer than the address space")?;
        let mapping = MmapOptions::new()
            .len(bytes.max(1))
            .no_reserve_swap()
            .map_anon()
            .with_context(|| format!("the system refuses {bytes} bytes of address space"))?;
        Ok(Lazy { mapping, _items: PhantomData })
    }

    /// As [`Lazy::zeroed`], with every page committed, so that nothing that is timed pays for them.
    pub fn committed(len: usize) -> Result<Lazy<T>> {
        let mut lazy = Self::zeroed(len)?;
        // Zeroes written over zeroes are writes all the same, as long as the compiler cannot see that.
        std::hint::black_box(&mut lazy.mapping[..]).fill(0);
        Ok(lazy)
    }
}

impl<T: Plain> Deref for Lazy<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let len = self.mapping.len() / size_of::<T>();
        // SAFETY: a mapping is aligned to pages, holds `len` items, and they are plain.
        unsafe { std::slice::from_raw_parts(self.mapping.as_ptr().cast(), len) }
    }
}

impl<T: Plain> DerefMut for Lazy<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let len = self.mapping.len() / size_of::<T>();
        // SAFETY: as above, and the mapping is ours alone.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.as_mut_ptr().cast(), len) }
    }
}
