//! Heaps that live in a region of fixed length.

use std::alloc::Layout;
use std::ptr::NonNull;

use super::super::lazy::Lazy;
use super::super::subject::Subject;

/// A heap, and the region in which it lives.
pub struct Hosted<H> {
    heap: H,
    _region: Lazy<u8>,
}

impl<H: Heap + 'static> Hosted<H> {
    /// `heap`, which lives in `region`, as a subject.
    pub fn boxed(heap: H, region: Lazy<u8>) -> Box<dyn Subject> {
        Box::new(Hosted { heap, _region: region })
    }
}

/// A heap that takes a layout for every block, as Rust's allocators do.
pub trait Heap {
    /// A block, or `None` when nothing fits.
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>>;

    /// Frees a block.
    ///
    /// # Safety
    /// `block` was allocated with `layout` and is freed once.
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout);
}

/// The layout of a request: malloc's alignment, whoever serves it.
fn layout_of(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, 16).ok()
}

impl<H: Heap> Subject for Hosted<H> {
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        self.heap.allocate(layout_of(bytes)?).map(|block| block.as_ptr() as usize)
    }

    fn free(&mut self, block: usize, bytes: usize) {
        if let (Some(block), Some(layout)) = (NonNull::new(block as *mut u8), layout_of(bytes)) {
            // SAFETY: workloads free what they allocated, once, with its size.
            unsafe { self.heap.free(block, layout) }
        }
    }
}
