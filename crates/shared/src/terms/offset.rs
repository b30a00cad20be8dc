//! Pointers that mean the same in every process.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU64;

/// Where something lies in a segment: its distance in bytes from the segment's first byte, the same in every process,
/// never 0.
///
/// `Option<Offset>` is 8 bytes long and its `None` is 0, so that it can be stored in the segment as the link of a list.
///
/// ```
/// use heapwright_shared::Offset;
/// assert_eq!(size_of::<Option<Offset<u64>>>(), 8);
/// ```
#[repr(transparent)]
pub struct Offset<T = u8> {
    distance: NonZeroU64,
    /// Refers to a `T` without owning one.
    _referent: PhantomData<fn() -> T>,
}

/// A set of offsets, whatever type they have. It has no random key: the system call that draws one is a cancellation
/// point, and sets are made behind the segment's lock.
pub(crate) type Offsets<O> = HashSet<O, BuildHasherDefault<DefaultHasher>>;

impl<T> Offset<T> {
    /// Returns the offset of this many bytes; `None` for 0. Whether anything lies there is for the heap to say.
    #[must_use]
    pub const fn new(distance: u64) -> Option<Offset<T>> {
        match NonZeroU64::new(distance) {
            Some(distance) => Some(Offset { distance, _referent: PhantomData }),
            None => None,
        }
    }

    /// Returns the number of bytes from the segment's first one.
    #[inline(always)]
    #[must_use]
    pub const fn get(self) -> u64 {
        self.distance.get()
    }

    /// Returns the same place, seen as a `U`.
    #[must_use]
    pub const fn cast<U>(self) -> Offset<U> {
        Offset { distance: self.distance, _referent: PhantomData }
    }

    /// # Safety
    /// `distance` is not 0.
    #[inline(always)]
    pub(crate) const unsafe fn new_unchecked(distance: u64) -> Offset<T> {
        // SAFETY: the caller's promise.
        Offset { distance: unsafe { NonZeroU64::new_unchecked(distance) }, _referent: PhantomData }
    }
}

/// What may lie in a segment: it means the same wherever a process maps it, and in whichever process.
///
/// # Safety
/// Values contain no pointer, reference or handle (of a file, a thread, a lock of this process), directly or within,
/// are not dropped with an effect that any process needs, and every process that uses the segment gives the type the
/// same layout. A value of which a process has written some words and then died is one of the type, too: an `enum` with
/// fields is not relocatable, for its fields may be of another variant then.
pub unsafe trait Relocatable: Copy {}

macro_rules! relocatable {
    ($($plain:ty),*) => {
        $(
            // SAFETY: a plain value without pointers, laid out alike by every process of this system.
            unsafe impl Relocatable for $plain {}
        )*
    };
}

relocatable!((), bool, char, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64);

// SAFETY: a distance, not an address.
unsafe impl<T> Relocatable for Offset<T> {}
// SAFETY: as its element; the niche of 0 is documented.
unsafe impl<T> Relocatable for Option<Offset<T>> {}
// SAFETY: as its elements.
unsafe impl<T: Relocatable, const N: usize> Relocatable for [T; N] {}

impl<T> Clone for Offset<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Offset<T> {}

impl<T> PartialEq for Offset<T> {
    fn eq(&self, other: &Self) -> bool {
        self.distance == other.distance
    }
}

impl<T> Eq for Offset<T> {}

impl<T> PartialOrd for Offset<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Offset<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.distance.cmp(&other.distance)
    }
}

impl<T> Hash for Offset<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.distance.hash(state);
    }
}

impl<T> fmt::Debug for Offset<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Offset({:#x})", self.distance)
    }
}
