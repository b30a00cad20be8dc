//! Allocators of other crates, each in a region of the same length.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::{self, NonNull};

use anyhow::{Result, ensure};

use super::super::subject::Subject;
use super::hosted::{Heap, Hosted};
use heapwright_host::lazy::Lazy;

/// A crate with an allocator for a region of fixed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Crate {
    /// talc: binned free lists with boundary tags.
    Talc,
    /// rlsf: two-level segregated fit.
    Rlsf,
    /// dlmalloc: Doug Lea's allocator in Rust.
    Dlmalloc,
    /// buddy_system_allocator: buddies in linked lists.
    BuddySystem,
    /// linked_list_allocator: first fit over one address-ordered list.
    LinkedList,
}

impl Crate {
    /// All crates, in the order of the tables.
    pub const ALL: [Crate; 5] = [Crate::Talc, Crate::Rlsf, Crate::Dlmalloc, Crate::BuddySystem, Crate::LinkedList];

    /// Returns the crate's name.
    pub const fn name(self) -> &'static str {
        match self {
            Crate::Talc => "talc",
            Crate::Rlsf => "rlsf",
            Crate::Dlmalloc => "dlmalloc",
            Crate::BuddySystem => "buddy_system_allocator",
            Crate::LinkedList => "linked_list_allocator",
        }
    }

    /// Returns the crate of this name, if there is one.
    pub fn from_name(name: &str) -> Option<Crate> {
        Self::ALL.into_iter().find(|peer| peer.name() == name)
    }

    /// Creates its allocator in a region of `bytes` bytes.
    pub fn build(self, bytes: usize) -> Result<Box<dyn Subject>> {
        let mut region = Lazy::<u8>::zeroed(bytes)?;
        let base = region.as_mut_ptr();
        Ok(match self {
            Crate::Talc => {
                let mut heap = talc::base::Talc::new(talc::source::Manual);
                // SAFETY: the region is mapped for as long as the heap exists, and only this heap uses it.
                ensure!(unsafe { heap.claim(base, bytes) }.is_some(), "talc refuses the region");
                Hosted::boxed(Talc(heap), region)
            }
            Crate::Rlsf => {
                let mut heap = rlsf::Tlsf::new();
                let block = NonNull::slice_from_raw_parts(NonNull::from(&mut region[..]).cast(), bytes);
                // SAFETY: the region is mapped for as long as the heap exists, and only this heap uses it.
                ensure!(unsafe { heap.insert_free_block_ptr(block) }.is_some(), "rlsf refuses the region");
                Hosted::boxed(Rlsf(heap), region)
            }
            Crate::Dlmalloc => {
                let source = OneRegion { base, bytes, given: Cell::new(false) };
                let heap = dlmalloc::Dlmalloc::new_with_allocator(source);
                Hosted::boxed(Dlmalloc(heap), region)
            }
            Crate::BuddySystem => {
                let mut heap = buddy_system_allocator::Heap::<48>::new();
                // SAFETY: the region is mapped for as long as the heap exists, and only this heap uses it.
                unsafe { heap.init(base as usize, bytes) };
                Hosted::boxed(BuddySystem(heap), region)
            }
            Crate::LinkedList => {
                // SAFETY: the region is mapped for as long as the heap exists, and only this heap uses it.
                let heap = unsafe { linked_list_allocator::Heap::new(base, bytes) };
                Hosted::boxed(LinkedList(heap), region)
            }
        })
    }
}

struct Talc(talc::base::Talc<talc::source::Manual, talc::DefaultBinning>);

impl Heap for Talc {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the layout has a size above 0: no workload requests 0 bytes.
        unsafe { self.0.allocate(layout) }
    }

    #[inline]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller guarantees that this heap returned the block for this layout, and that it is freed once.
        unsafe { self.0.deallocate(block.as_ptr(), layout) }
    }
}

/// rlsf with parameters for every length of region used here: 32 doublings above 32 bytes, 32 classes in each.
struct Rlsf(rlsf::Tlsf<'static, u32, u32, 32, 32>);

impl Heap for Rlsf {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.0.allocate(layout)
    }

    #[inline]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller guarantees that this heap returned the block for this layout, and that it is freed once.
        unsafe { self.0.deallocate(block, layout.align()) }
    }
}

struct Dlmalloc(dlmalloc::Dlmalloc<OneRegion>);

impl Heap for Dlmalloc {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the layout has a size above 0: no workload requests 0 bytes.
        NonNull::new(unsafe { self.0.malloc(layout.size(), layout.align()) })
    }

    #[inline]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller guarantees that this heap returned the block for this layout, and that it is freed once.
        unsafe { self.0.free(block.as_ptr(), layout.size(), layout.align()) }
    }
}

/// A source of memory that returns one region, once.
struct OneRegion {
    base: *mut u8,
    bytes: usize,
    given: Cell<bool>,
}

// SAFETY: the source owns its region exclusively, so it can be moved to another thread with it.
unsafe impl Send for OneRegion {}

// SAFETY: `alloc` returns a mapped region of the reported length once, and the region stays mapped while the heap
// exists.
unsafe impl dlmalloc::Allocator for OneRegion {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        if size > self.bytes || self.given.replace(true) {
            return (ptr::null_mut(), 0, 0);
        }
        (self.base, self.bytes, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        super::PAGE
    }
}

struct BuddySystem(buddy_system_allocator::Heap<48>);

impl Heap for BuddySystem {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.0.alloc(layout).ok()
    }

    #[inline]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller guarantees that this heap returned the block for this layout, and that it is freed once.
        unsafe { self.0.dealloc(block, layout) }
    }
}

struct LinkedList(linked_list_allocator::Heap);

impl Heap for LinkedList {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.0.allocate_first_fit(layout).ok()
    }

    #[inline]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller guarantees that this heap returned the block for this layout, and that it is freed once.
        unsafe { self.0.deallocate(block, layout) }
    }
}
