//! Everything that the programs can allocate from, behind one trait.

use std::alloc::Layout;
use std::hint::black_box;
use std::ptr::{self, NonNull};
use std::{io, slice};

use anyhow::{Context, Result};
use heapwright_heaps::{Chosen, FixedHeap};
use heapwright_placement::{AnyEngine, Engine, PolicyKind, Rules};
use heapwright_shared::{Offset, Place, Settings, SharedHeap};

/// Something that allocates. A block is named by a number that the heap gave out: an offset or an address.
pub trait Heap {
    /// A block of `bytes`, or `None` when there is no room.
    fn allocate(&mut self, bytes: usize) -> Option<usize>;

    /// Frees a block that [`Heap::allocate`] gave out and that was not freed since.
    fn free(&mut self, block: usize);
}

/// A heap whose blocks are memory.
pub trait Memory: Heap {
    /// The first byte of a live block.
    fn address(&self, block: usize) -> NonNull<u8>;
}

/// The allocator that this process was started with.
pub struct Malloc;

impl Heap for Malloc {
    #[inline]
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        // The compiler knows malloc and free by name and would remove a pair that nobody looks at.
        let malloc: unsafe extern "C" fn(usize) -> *mut libc::c_void = black_box(libc::malloc);
        // SAFETY: malloc takes any size.
        let block = unsafe { malloc(bytes) };
        (!block.is_null()).then(|| block.expose_provenance())
    }

    #[inline]
    fn free(&mut self, block: usize) {
        let free: unsafe extern "C" fn(*mut libc::c_void) = black_box(libc::free);
        // SAFETY: the trait's contract: malloc gave the block out and it is live.
        unsafe { free(ptr::with_exposed_provenance_mut(block)) };
    }
}

impl Memory for Malloc {
    fn address(&self, block: usize) -> NonNull<u8> {
        NonNull::new(ptr::with_exposed_provenance_mut(block)).unwrap_or(NonNull::dangling())
    }
}

/// A bare mapping of OS pages per block, without any book-keeping: what such a heap cannot be faster than.
pub struct BareMappings {
    /// The size of every block.
    pub bytes: usize,
}

impl Heap for BareMappings {
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        debug_assert_eq!(bytes, self.bytes);
        Pages::map(self.bytes).ok().map(|pages| {
            let address = pages.start.as_ptr().expose_provenance();
            std::mem::forget(pages);
            address
        })
    }

    fn free(&mut self, block: usize) {
        // SAFETY: the block is a mapping of our own of this size, by the trait's contract.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(block), self.bytes) };
    }
}

impl Memory for BareMappings {
    fn address(&self, block: usize) -> NonNull<u8> {
        Malloc.address(block)
    }
}

/// Fresh OS pages, given back when dropped. Those that nobody touches cost nothing.
pub struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

impl Pages {
    /// Maps at least `bytes` bytes of zeroes.
    pub fn map(bytes: usize) -> Result<Pages> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping, wherever the system puts it, touches nothing that exists.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).with_context(|| format!("cannot map {bytes} bytes"));
        }
        Ok(Pages { start: NonNull::new(start.cast()).context("mapped at address 0")?, bytes })
    }

    /// The first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever borrowed from it is gone.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// An engine with its metadata, and a region of memory that it places blocks in.
pub struct Placed {
    /// Declared before the metadata, which it refers to.
    engine: AnyEngine<'static>,
    /// The metadata behind `engine`.
    _metadata: Pages,
    region: Pages,
    align: usize,
}

impl Placed {
    /// A heap of `capacity` bytes under `policy` and `rules`.
    pub fn new(policy: PolicyKind, capacity: usize, rules: &Rules) -> Result<Placed> {
        let cells = AnyEngine::metadata_cells(policy, capacity, rules)?;
        let metadata = Pages::map(cells * size_of::<u64>())?;
        // SAFETY: fresh pages are zero, aligned, ours alone, and live until after the engine is gone.
        let engine = unsafe { AnyEngine::create_zeroed(policy, metadata.start().cast(), capacity, rules) }?;
        Ok(Placed { engine, _metadata: metadata, region: Pages::map(capacity)?, align: rules.granule as usize })
    }

    /// The engine, to look at.
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
        // SAFETY: the engine places blocks inside the region.
        unsafe { self.region.start().add(block) }
    }
}

/// The library's heap over a fixed region, its metadata beside it.
pub struct Region {
    /// Declared before what it borrows.
    heap: FixedHeap<'static>,
    _metadata: Pages,
    _region: Pages,
    align: usize,
}

impl Region {
    /// A heap over `capacity` bytes under `policy` and `rules`.
    pub fn new(policy: PolicyKind, capacity: usize, rules: &Rules) -> Result<Region> {
        let cells = FixedHeap::<Chosen>::metadata_cells(policy, capacity, rules)?;
        let (metadata, region) = (Pages::map(cells * size_of::<u64>())?, Pages::map(capacity)?);
        // SAFETY: fresh pages, ours alone, that live until after the heap is gone.
        let bytes = unsafe { slice::from_raw_parts_mut(region.start().cast().as_ptr(), capacity) };
        // SAFETY: fresh pages are zero, aligned, ours alone, and live until after the heap is gone.
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
        // SAFETY: the trait's contract.
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
    /// A segment with these settings, which has no name any more: it goes with this process.
    pub fn create(settings: &Settings) -> Result<Segment> {
        let place = Place::new(format!("heapwright-{}", std::process::id()))?;
        let heap = SharedHeap::create(&place, settings)?;
        SharedHeap::unlink(&place)?;
        Ok(Segment::of(heap))
    }

    /// The segment of this handle.
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

/// A heap of which every block is written to when it is allocated: one byte in each 4 KiB of it.
pub struct Touched<H>(pub H);

impl<H: Memory> Heap for Touched<H> {
    #[inline]
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let block = self.0.allocate(bytes)?;
        let address = self.0.address(block);
        for at in (0..bytes).step_by(4096) {
            // SAFETY: `at` lies inside a live block of `bytes` bytes.
            unsafe { address.add(at).write_volatile(1) };
        }
        Some(block)
    }

    #[inline]
    fn free(&mut self, block: usize) {
        self.0.free(block);
    }
}
