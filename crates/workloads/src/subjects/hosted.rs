//! Heaps in a region of fixed length.

use std::alloc::Layout;
use std::ptr::NonNull;

use super::super::subject::Subject;
use heapwright_host::lazy::Lazy;

/// A heap and its region.
pub struct Hosted<H> {
    heap: H,
    _region: Lazy<u8>,
}

impl<H: Heap + 'static> Hosted<H> {
    /// Wraps `heap`, whose memory is `region`, as a subject.
    pub fn boxed(heap: H, region: Lazy<u8>) -> Box<dyn Subject> {
        Box::new(Hosted { heap, _region: region })
    }
}

/// A heap with a layout per block, as Rust's allocators.
pub trait Heap {
    /// Allocates a block. Returns `None` when nothing fits.
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>>;

    /// Frees a block.
    ///
    /// # Safety
    /// `block` was allocated with `layout` and is freed once.
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout);
}

/// Returns the layout of a request, with malloc's alignment for every allocator.
fn layout_of(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, 16).ok()
}

impl<H: Heap> Subject for Hosted<H> {
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        self.heap.allocate(layout_of(bytes)?).map(|block| block.as_ptr() as usize)
    }

    fn free(&mut self, block: usize, bytes: usize) {
        if let (Some(block), Some(layout)) = (NonNull::new(block as *mut u8), layout_of(bytes)) {
            // SAFETY: workloads free each block once, with the size with which they allocated it.
            unsafe { self.heap.free(block, layout) }
        }
    }
}
