//! The one segment of `sbmem.h`: a buddy heap without headers, for ten processes.

use core::ffi::{c_int, c_void};
use core::ops::RangeInclusive;
use core::ptr::{NonNull, null_mut};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use heapwright_os::{HeldAcrossForks, Lock, effective_user, variable};
use heapwright_shared::{Error, Place, PolicyKind, Settings, SharedHeap};

use crate::fork_watch::ForkWatch;

const SEGMENTS: RangeInclusive<usize> = 32 << 10..=256 << 10;
const BLOCKS: RangeInclusive<usize> = 128..=4096;
const GRANULE: u32 = 128;
const PROCESSES: usize = 10;

/// Number of attempts to create the segment while other processes create one of the same name.
const ATTEMPTS: usize = 100;

/// The state of this process.
struct Process {
    segment: Option<SharedHeap>,
    forks: ForkWatch,
}

static PROCESS: Lock<Process> = Lock::new(Process { segment: None, forks: ForkWatch::NONE });

impl HeldAcrossForks for Process {
    type State = Process;

    fn lock() -> &'static Lock<Process> {
        &PROCESS
    }
}

impl Process {
    fn open(&mut self) -> Option<()> {
        self.forks.begin::<Process>()?;
        if self.segment.is_none() {
            let opened = SharedHeap::open(&place()?).ok()?;
            self.segment = Some(opened).filter(is_ours);
        }
        // The child of a process that has the segment open attaches to it by its first operation.
        self.segment.as_ref()?.size().ok().map(drop)
    }
}

/// Where the user's segment is; `None` when `HEAPWRIGHT_SBMEM` is not a valid name.
fn place() -> Option<Place> {
    let named = variable(c"HEAPWRIGHT_SBMEM", |name| Place::new(OsStr::from_bytes(name.to_bytes())));
    named.unwrap_or_else(|| Place::new(format!("heapwright-sbmem-{}", effective_user()))).ok()
}

/// Whether this looks like a segment that [`init`] created.
fn is_ours(heap: &SharedHeap) -> bool {
    heap.policy() == PolicyKind::Buddy && heap.granule() == GRANULE as usize && SEGMENTS.contains(&heap.max_size())
}

fn within(bytes: c_int, limits: &RangeInclusive<usize>) -> Option<usize> {
    usize::try_from(bytes).ok().filter(|bytes| limits.contains(bytes))
}

fn replace(size: usize) -> Option<()> {
    let settings = Settings {
        size,
        policy: PolicyKind::Buddy,
        granule: GRANULE,
        processes: PROCESSES,
        roots: 0,
        ..Settings::default()
    };
    let place = place()?;
    for _ in 0..ATTEMPTS {
        match SharedHeap::create(&place, &settings) {
            Ok(made) => return made.close().ok(),
            Err(Error::Exists { .. }) => unlink(&place)?,
            Err(_) => return None,
        }
    }
    None
}

/// Removes the segment's name, which another process may have removed meanwhile.
fn unlink(place: &Place) -> Option<()> {
    match SharedHeap::unlink(place) {
        Ok(()) | Err(Error::NotFound { .. }) => Some(()),
        Err(_) => None,
    }
}

fn outcome(done: Option<()>) -> c_int {
    if done.is_some() { 0 } else { -1 }
}

pub(crate) fn init(segment_size: c_int) -> c_int {
    let size = within(segment_size, &SEGMENTS).filter(|size| size.is_power_of_two());
    outcome(size.and_then(replace))
}

pub(crate) fn remove() -> c_int {
    outcome(place().and_then(|place| SharedHeap::unlink(&place).ok()))
}

pub(crate) fn open() -> c_int {
    outcome(PROCESS.lock().open())
}

pub(crate) fn allocate(size: c_int) -> *mut c_void {
    let allocate = |size| {
        let process = PROCESS.lock();
        let heap = process.segment.as_ref()?;
        Some(heap.pointer(heap.allocate(size).ok()?))
    };
    within(size, &BLOCKS).and_then(allocate).map_or(null_mut(), |block| block.as_ptr().cast())
}

pub(crate) fn free(block: *mut c_void) {
    let process = PROCESS.lock();
    if let (Some(heap), Some(block)) = (process.segment.as_ref(), NonNull::new(block.cast::<u8>())) {
        // The interface cannot report an address at which no block starts.
        let _ = heap.offset_of(block).map(|block| heap.deallocate(block));
    }
}

pub(crate) fn close() -> c_int {
    outcome(PROCESS.lock().segment.take().and_then(|heap| heap.close().ok()))
}
