//! The allocators that the programs can use, behind one trait.

use std::alloc::Layout;
use std::hint::black_box;
use std::ptr::{self, NonNull};
use std::slice;

use anyhow::Result;
use heapwright_heaps::{Chosen, FixedHeap};
use heapwright_host::memory::Pages;
use heapwright_placement::{AnyEngine, Engine, PolicyKind, Rules};
use heapwright_shared::{Offset, Place, Settings, SharedHeap};

/// An allocator. A block is identified by a number that the heap returns: an offset or an address.
pub trait Heap {
    /// Allocates a block of `bytes` bytes. Returns `None` when there is no room.
    fn allocate(&mut self, bytes: usize) -> Option<usize>;

    /// Frees a block that [`Heap::allocate`] returned and that was not freed since.
    fn free(&mut self, block: usize);
}

/// A heap whose blocks are memory.
pub trait Memory: Heap {
    /// Returns the address of the first byte of a live block.
    fn address(&self, block: usize) -> NonNull<u8>;
}

/// The malloc of this process.
pub struct Malloc;

impl Heap for Malloc {
    #[inline]
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        // The compiler treats malloc and free specially and would remove a pair whose block is unused.
        let malloc: unsafe extern "C" fn(usize) -> *mut libc::c_void = black_box(libc::malloc);
        // SAFETY: malloc accepts any size.
        let block = unsafe { malloc(bytes) };
        (!block.is_null()).then(|| block.expose_provenance())
    }

    #[inline]
    fn free(&mut self, block: usize) {
        let free: unsafe extern "C" fn(*mut libc::c_void) = black_box(libc::free);
        // SAFETY: by the trait's contract, malloc returned this block and it was not freed since.
        unsafe { free(ptr::with_exposed_provenance_mut(block)) };
    }
}

impl Memory for Malloc {
    fn address(&self, block: usize) -> NonNull<u8> {
        NonNull::new(ptr::with_exposed_provenance_mut(block)).unwrap_or(NonNull::dangling())
    }
}

/// Allocates nothing: what a program's own loop takes. All of its blocks are the same 4 KiB.
pub struct NoHeap(Box<[u8; 4096]>);

impl Default for NoHeap {
    fn default() -> Self {
        NoHeap(Box::new([0; 4096]))
    }
}

impl Heap for NoHeap {
    #[inline]
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        (bytes <= self.0.len()).then(|| black_box(bytes))
    }

    #[inline]
    fn free(&mut self, block: usize) {
        black_box(block);
    }
}

impl Memory for NoHeap {
    fn address(&self, _block: usize) -> NonNull<u8> {
        NonNull::from(&*self.0).cast()
    }
}

/// A bare mapping of OS pages per block, without metadata: a lower bound for the time of such a heap.
pub struct BareMappings {
    /// The size of every block.
    pub bytes: usize,
}

impl Heap for BareMappings {
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        debug_assert_eq!(bytes, self.bytes);
        Pages::map(self.bytes).ok().map(|pages| pages.leak().as_ptr().expose_provenance())
    }

    fn free(&mut self, block: usize) {
        // SAFETY: by the trait's contract the block is live: a mapping of this size that `allocate` created.
        drop(unsafe { Pages::adopt(Malloc.address(block), self.bytes) });
    }
}

impl Memory for BareMappings {
    fn address(&self, block: usize) -> NonNull<u8> {
        Malloc.address(block)
    }
}

/// An engine with its metadata, and the region of memory in which it places blocks.
pub struct Placed {
    /// Declared before the metadata, which it refers to.
    engine: AnyEngine<'static>,
    /// The metadata behind `engine`.
    _metadata: Pages,
    region: Pages,
    align: usize,
}

impl Placed {
    /// Creates a heap of `capacity` bytes under `policy` and `rules`.
    pub fn new(policy: PolicyKind, capacity: usize, rules: &Rules) -> Result<Placed> {
        let cells = AnyEngine::metadata_cells(policy, capacity, rules)?;
        let metadata = Pages::map(cells * size_of::<u64>())?;
        // SAFETY: the pages were mapped just now: they are zero, aligned, and nothing else uses them. The field order
        // of this type unmaps them after the engine was dropped.
        let engine = unsafe { AnyEngine::create_zeroed(policy, metadata.start().cast(), capacity, rules) }?;
        Ok(Placed { engine, _metadata: metadata, region: Pages::map(capacity)?, align: rules.granule as usize })
    }

    /// Returns the engine.
    pub fn engine(&self) -> &AnyEngine<'static> {
        &self.engine
    }

    /// Sets the seed of random fit.
    pub fn seed(&mut self, seed: u64) {
        self.engine.seed(seed);
    }
}

impl Heap for Placed {
    #[inline]
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        self.engine.allocate(bytes, self.align).ok()
    }

    #[inline]
    fn free(&mut self, block: usize) {
        let freed = self.engine.deallocate(block);
        debug_assert!(freed.is_ok(), "the trait's contract");
    }
}

impl Memory for Placed {
    fn address(&self, block: usize) -> NonNull<u8> {
        // SAFETY: the engine places blocks inside the region, which is mapped for as long as `self` exists.
        unsafe { self.region.start().add(block) }
    }
}

/// The library's heap in a fixed region, with its metadata outside the region.
pub struct Region {
    /// Declared before what it borrows.
    heap: FixedHeap<'static>,
    _metadata: Pages,
    _region: Pages,
    align: usize,
}

impl Region {
    /// Creates a heap in `capacity` bytes under `policy` and `rules`.
    pub fn new(policy: PolicyKind, capacity: usize, rules: &Rules) -> Result<Region> {
        let cells = FixedHeap::<Chosen>::metadata_cells(policy, capacity, rules)?;
        let (metadata, region) = (Pages::map(cells * size_of::<u64>())?, Pages::map(capacity)?);
        // SAFETY: the pages were mapped just now, nothing else uses them, and the field order of this type unmaps them
        // after the heap was dropped.
        let bytes = unsafe { slice::from_raw_parts_mut(region.start().cast().as_ptr(), capacity) };
        // SAFETY: the pages were mapped just now: they are zero, aligned, and nothing else uses them. The field order
        // of this type unmaps them after the heap was dropped.
        let heap = unsafe { FixedHeap::beside_zeroed(policy, bytes, metadata.start().cast(), rules) }?;
        Ok(Region { heap, _metadata: metadata, _region: region, align: rules.granule as usize })
    }
}

impl Heap for Region {
    #[inline]
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let layout = Layout::from_size_align(bytes, self.align).ok()?;
        self.heap.allocate(layout).ok().map(|block| block.cast::<u8>().as_ptr().expose_provenance())
    }

    #[inline]
    fn free(&mut self, block: usize) {
        // SAFETY: by the trait's contract, this heap returned the block and it was not freed since.
        let freed = unsafe { self.heap.deallocate_unsized(self.address(block)) };
        debug_assert!(freed.is_ok(), "the trait's contract");
    }
}

impl Memory for Region {
    fn address(&self, block: usize) -> NonNull<u8> {
        Malloc.address(block)
    }
}

/// The library's heap in a shared-memory object.
pub struct Segment {
    heap: SharedHeap,
}

impl Segment {
    /// Creates a segment with these settings and unlinks its name, so that it is removed with this process.
    pub fn create(settings: &Settings) -> Result<Segment> {
        let place = Place::new(format!("heapwright-{}", std::process::id()))?;
        let heap = SharedHeap::create(&place, settings)?;
        SharedHeap::unlink(&place)?;
        Ok(Segment::of(heap))
    }

    /// Wraps an attached segment.
    pub fn of(heap: SharedHeap) -> Segment {
        Segment { heap }
    }
}

impl Heap for Segment {
    #[inline]
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        self.heap.allocate(bytes).ok().map(|offset| offset.get() as usize)
    }

    #[inline]
    fn free(&mut self, block: usize) {
        let freed = Offset::new(block as u64).map(|offset| self.heap.deallocate(offset));
        debug_assert!(matches!(freed, Some(Ok(()))), "the trait's contract");
    }
}

impl Memory for Segment {
    fn address(&self, block: usize) -> NonNull<u8> {
        Offset::new(block as u64).map_or(NonNull::dangling(), |offset| self.heap.pointer(offset))
    }
}

/// A heap that writes to every block when it is allocated: one byte in each 4 KiB.
pub struct Touched<H>(pub H);

impl<H: Memory> Heap for Touched<H> {
    #[inline]
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let block = self.0.allocate(bytes)?;
        let address = self.0.address(block);
        for at in (0..bytes).step_by(4096) {
            // SAFETY: `at` is inside a live block of `bytes` bytes, which is valid for writes.
            unsafe { address.add(at).write_volatile(1) };
        }
        Some(block)
    }

    #[inline]
    fn free(&mut self, block: usize) {
        self.0.free(block);
    }
}
