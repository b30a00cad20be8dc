//! The beacon, which leads a watcher to this process's heap, and the heap's last state, which a process leaves at its
//! end.

use core::ffi::CStr;
use core::fmt::Write;
use core::slice;

use heapwright_beacon::{Beacon, Sighting};
use heapwright_cached as cached;
use heapwright_heaps::{Glance, PolicyKind};
use heapwright_os::{Line, Output, process_id};

use crate::heap::Heap;
use crate::settings::{PATH_LENGTH, Placement};

static BEACON: Beacon = Beacon::new();

/// Lights the beacon with the location of `heap`, which must not move; `lock` is the word that is 0 while no thread
/// holds the heap's lock.
pub(crate) fn light(heap: &mut Heap, placement: Placement, lock: *const u32) {
    let mut sighting = Sighting { lock: lock.addr() as u64, ..Sighting::default() };
    if let Placement::Policy(kind) = placement {
        sighting.policy = kind as u64;
    }
    match heap {
        Heap::Growing(heap) => {
            let heap = heap.settled();
            let metadata = heap.metadata();
            sighting.region = heap.base().addr().get() as u64;
            sighting.metadata = metadata.addr().get() as u64;
            sighting.cells = metadata.len() as u64;
        }
        Heap::Mapped(heap) => sighting.counters = core::ptr::from_ref(heap.counters_in_place()).addr() as u64,
        Heap::Cached => add_places(&mut sighting),
    }
    BEACON.light(&sighting);
}

/// Adds the location of the parts of the cached heap.
fn add_places(sighting: &mut Sighting) {
    let Some(places) = cached::places() else { return };
    sighting.policy = PolicyKind::First as u64;
    sighting.lock = places.lock.addr() as u64;
    sighting.region = places.region.addr().get() as u64;
    sighting.metadata = places.metadata.addr().get() as u64;
    sighting.cells = places.metadata.len() as u64;
    sighting.entries = places.entries.addr() as u64;
    sighting.slabs = places.slabs.addr() as u64;
    sighting.heaps = places.heaps.addr() as u64;
    sighting.mappings = places.mappings.addr() as u64;
}

/// Writes the heap's state to a file in a directory, named by this process's id.
#[cold]
#[inline(never)]
pub(crate) fn leave_last_state(directory: &Line<PATH_LENGTH>, heap: &mut Heap) {
    let mut path = directory.clone();
    let _ = write!(path, "/{}\0", process_id());
    let Some(output) = CStr::from_bytes_until_nul(path.bytes()).ok().and_then(Output::file) else {
        // The watcher may have ended and removed its directory; that is not an error.
        return;
    };
    output.write(&BEACON.bytes());
    match heap {
        Heap::Growing(heap) => {
            let metadata = heap.settled().metadata();
            write_map(output, metadata.cast(), metadata.len());
        }
        Heap::Mapped(heap) => {
            let counters = core::ptr::from_ref(heap.counters_in_place());
            // SAFETY: `counters` points to a borrowed value of plain integers without padding, which is not written
            // while the heap is borrowed.
            output.write(unsafe { slice::from_raw_parts(counters.cast(), size_of_val(&*counters)) });
        }
        Heap::Cached => cached::write_state(output),
    }
    output.close();
}

/// Writes the metadata of `cells` cells up to the end of the used part of the block map.
fn write_map(output: Output, metadata: core::ptr::NonNull<u64>, cells: usize) {
    // SAFETY: the engine reported this address and length of its metadata, all of it is readable, and this thread holds
    // the heap's lock, so that no other thread writes to it.
    let metadata = unsafe { slice::from_raw_parts(metadata.as_ptr(), cells) };
    if let Some(used) = Glance::of(metadata).ok().and_then(|glance| metadata.get(..glance.map().end)) {
        // SAFETY: cells are integers without padding, so that their bytes are initialized; `used` is borrowed for the
        // whole call.
        output.write(unsafe { slice::from_raw_parts(used.as_ptr().cast(), size_of_val(used)) });
    }
}
