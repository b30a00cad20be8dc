//! Keys of maps.

use std::hash::{Hash, Hasher};

use heapwright_shared::{Error, Relocatable, SharedHeap};
use siphasher::sip::SipHasher13;

use crate::text::Text;

/// What a map stores for a key, and what it is looked up by: values without references by themselves, [`Text`] by
/// `str`.
pub trait Key: Relocatable {
    /// What keys are looked up by.
    type Query: ?Sized + Eq + Hash;

    /// Returns what the stored key stands for.
    ///
    /// # Safety
    /// The key was stored in this heap, was not released, and does not change while the result lives.
    unsafe fn view<'a>(&'a self, heap: &'a SharedHeap) -> &'a Self::Query;

    /// Stores a key.
    ///
    /// # Errors
    /// As [`SharedHeap::allocate`].
    fn store(query: &Self::Query, heap: &SharedHeap) -> Result<Self, Error>;

    /// Frees what was stored for the key.
    ///
    /// # Errors
    /// As [`SharedHeap::deallocate`].
    ///
    /// # Safety
    /// The key was stored in this heap, and is not used any more.
    unsafe fn release(self, heap: &SharedHeap) -> Result<(), Error>;
}

impl<K: Relocatable + Eq + Hash> Key for K {
    type Query = K;

    unsafe fn view<'a>(&'a self, _: &'a SharedHeap) -> &'a K {
        self
    }

    fn store(query: &K, _: &SharedHeap) -> Result<K, Error> {
        Ok(*query)
    }

    unsafe fn release(self, _: &SharedHeap) -> Result<(), Error> {
        Ok(())
    }
}

impl Key for Text {
    type Query = str;

    unsafe fn view<'a>(&'a self, heap: &'a SharedHeap) -> &'a str {
        // SAFETY: as this function requires.
        unsafe { self.read(heap) }
    }

    fn store(query: &str, heap: &SharedHeap) -> Result<Text, Error> {
        Text::of(heap, query)
    }

    unsafe fn release(mut self, heap: &SharedHeap) -> Result<(), Error> {
        // SAFETY: as this function requires.
        unsafe { self.attach(heap) }.free()
    }
}

/// The hash of a key, the same in every process: SipHash-1-3 with a key of zeros. Never [`EMPTY`](crate::table::EMPTY)
/// or [`REMOVED`](crate::table::REMOVED).
pub(crate) fn hash_of(query: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = SipHasher13::new();
    query.hash(&mut hasher);
    hasher.finish() | crate::table::OCCUPIED
}
