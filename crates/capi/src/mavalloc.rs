//! The one region of `mavalloc.h`: mapped memory, granules of 4 bytes, no headers, metadata in a mapping of its own.

use core::alloc::Layout;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use core::slice;

use heapwright_heaps::{Chosen, FixedHeap, PolicyKind, Rules};
use heapwright_os::{HeldAcrossForks, Lock, Refused, map, round_to_pages, unmap};

use crate::fork_watch::ForkWatch;

const GRANULE: usize = 4;
/// The engine's shortest region. The end of a shorter one is allocated for ever.
const SHORTEST: usize = 16 * GRANULE;

/// A mapping, unmapped when dropped.
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    fn of(bytes: usize) -> Result<Self, Refused> {
        let length = round_to_pages(bytes).ok_or(Refused)?;
        Ok(Mapping { start: map(length)?, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `of` and is owned by this value, which ends here. If it cannot be unmapped,
        // it leaks.
        let _ = unsafe { unmap(self.start, self.length) };
    }
}

struct Region {
    heap: FixedHeap<'static, Chosen>,
    /// Number of blocks that `mavalloc_size` does not count.
    hidden: u64,
    _memory: Mapping,
    _metadata: Mapping,
}

// SAFETY: a region owns its heap and its mappings, and none of them is tied to a thread.
unsafe impl Send for Region {}

/// The state of this process.
struct Process {
    region: Option<Region>,
    forks: ForkWatch,
}

static PROCESS: Lock<Process> = Lock::new(Process { region: None, forks: ForkWatch::NONE });

impl HeldAcrossForks for Process {
    type State = Process;

    fn lock() -> &'static Lock<Process> {
        &PROCESS
    }
}

impl Process {
    fn create(&mut self, size: usize, algorithm: c_int) -> Option<Region> {
        self.forks.begin::<Process>()?;
        let bytes = size.checked_next_multiple_of(GRANULE).filter(|&bytes| bytes != 0)?;
        Region::create(bytes, policy(algorithm)?)
    }
}

impl Region {
    /// Creates a region of `bytes` (a multiple of 4) under `policy`; `None` when the system refuses memory or `bytes`
    /// is too large.
    fn create(bytes: usize, policy: PolicyKind) -> Option<Region> {
        let length = bytes.max(SHORTEST);
        let rules = Rules { granule: GRANULE as u32, ..Rules::default() };
        let cells = FixedHeap::<Chosen>::metadata_cells(policy, length, &rules).ok()?;
        let memory = Mapping::of(length).ok()?;
        let metadata = Mapping::of(cells.checked_mul(8)?).ok()?;
        // SAFETY: the mappings are new, hence zero, long enough for the region and its cells, and unmapped after the
        // heap.
        let heap = unsafe {
            let region = slice::from_raw_parts_mut(memory.start.as_ptr().cast::<MaybeUninit<u8>>(), length);
            FixedHeap::beside_zeroed(policy, region, metadata.start.cast(), &rules).ok()?
        };
        let mut region = Region { heap, hidden: 0, _memory: memory, _metadata: metadata };
        if bytes < length {
            region.hide(bytes, length - bytes)?;
        }
        Some(region)
    }

    /// Allocates the last `rest` bytes, which lie behind the first `bytes`, for ever.
    fn hide(&mut self, bytes: usize, rest: usize) -> Option<()> {
        let front = self.allocate(bytes)?;
        self.allocate(rest)?;
        self.hidden = 1;
        // SAFETY: the block was just allocated, and its address has not left this function.
        unsafe { self.heap.deallocate_unsized(front) }.ok()
    }

    fn allocate(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes.max(1), 1).ok()?;
        Some(self.heap.allocate(layout).ok()?.cast())
    }

    /// Number of used blocks and holes.
    fn blocks(&self) -> u64 {
        self.heap.counters().map_or(0, |counters| counters.blocks - self.hidden)
    }
}

fn policy(algorithm: c_int) -> Option<PolicyKind> {
    match algorithm {
        0 => Some(PolicyKind::Best),
        1 => Some(PolicyKind::First),
        2 => Some(PolicyKind::Worst),
        3 => Some(PolicyKind::Next),
        _ => None,
    }
}

/// Returns 0, or -1 and there is no region. A region that existed before is destroyed in both cases.
pub(crate) fn init(size: usize, algorithm: c_int) -> c_int {
    let mut process = PROCESS.lock();
    process.region = None;
    process.region = process.create(size, algorithm);
    if process.region.is_some() { 0 } else { -1 }
}

pub(crate) fn destroy() {
    PROCESS.lock().region = None;
}

pub(crate) fn allocate(size: usize) -> *mut c_void {
    let block = PROCESS.lock().region.as_mut().and_then(|region| region.allocate(size));
    block.map_or(null_mut(), |block| block.as_ptr().cast())
}

/// # Safety
/// If a used block starts at `block`, it is not used any more.
pub(crate) unsafe fn free(block: *mut c_void) {
    if let (Some(region), Some(block)) = (PROCESS.lock().region.as_mut(), NonNull::new(block.cast())) {
        // SAFETY: a used block that starts there is not used any more, as this function requires; the heap refuses
        // other addresses. The interface cannot report that.
        let _ = unsafe { region.heap.deallocate_unsized(block) };
    }
}

pub(crate) fn size() -> c_int {
    PROCESS.lock().region.as_ref().map_or(0, |region| c_int::try_from(region.blocks()).unwrap_or(c_int::MAX))
}
