//! Strings.

use std::ops::Deref;

use heapwright_shared::{Error, Relocatable, SharedHeap};

use crate::vector::Vector;

/// A string in a shared heap. All zeros is an empty string.
///
/// The value refers to the bytes; a copy of it refers to the same ones.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Text {
    bytes: Vector<u8>,
}

// SAFETY: as a vector.
unsafe impl Relocatable for Text {}

impl Text {
    /// Returns an empty string, which has no block.
    #[must_use]
    pub const fn new() -> Self {
        Text { bytes: Vector::new() }
    }

    /// Returns a new string with these contents.
    ///
    /// # Errors
    /// As [`SharedHeap::allocate`].
    pub fn of(heap: &SharedHeap, contents: &str) -> Result<Text, Error> {
        let mut text = Text::new();
        // SAFETY: the string is new, so that no other thread uses it.
        unsafe { text.attach(heap) }.push_str(contents)?;
        Ok(text)
    }

    /// Returns the string with its heap, ready for use.
    ///
    /// # Safety
    /// As for [`Vector::attach`].
    pub unsafe fn attach<'a>(&'a mut self, heap: &'a SharedHeap) -> AttachedText<'a> {
        AttachedText { text: self, heap }
    }

    /// Returns the contents: up to the first byte that is not UTF-8, if a process has damaged them.
    ///
    /// # Safety
    /// As for [`Vector::read`].
    #[must_use]
    pub unsafe fn read<'a>(&'a self, heap: &'a SharedHeap) -> &'a str {
        // SAFETY: as this function requires.
        let bytes = unsafe { self.bytes.read(heap) };
        bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }
}

/// A [`Text`] in use. Derefs to `str`.
pub struct AttachedText<'a> {
    text: &'a mut Text,
    heap: &'a SharedHeap,
}

impl AttachedText<'_> {
    /// Appends a string: all of it, or nothing if the process is killed meanwhile.
    ///
    /// # Errors
    /// As [`SharedHeap::allocate`]. Nothing has changed then.
    pub fn push_str(&mut self, more: &str) -> Result<(), Error> {
        // SAFETY: the string is of this heap and used by this thread alone, as `attach` requires.
        unsafe { self.text.bytes.attach(self.heap) }.extend_from_slice(more.as_bytes())
    }

    /// Makes the string empty, without freeing its block.
    pub fn clear(&mut self) {
        // SAFETY: as for `push_str`.
        unsafe { self.text.bytes.attach(self.heap) }.truncate(0);
    }

    /// Frees the block; the string is empty.
    ///
    /// # Errors
    /// As [`SharedHeap::deallocate`].
    pub fn free(&mut self) -> Result<(), Error> {
        // SAFETY: as for `push_str`.
        unsafe { self.text.bytes.attach(self.heap) }.free()
    }
}

impl Deref for AttachedText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        // SAFETY: the string is of this heap and used by this thread alone, as `attach` requires.
        unsafe { self.text.read(self.heap) }
    }
}
