//! The marked blocks of a program: only what is requested in them is recorded, and how much was live in them is
//! counted.
//!
//! A program marks a block by calling [`heapwright_record_begin`] and [`heapwright_record_end`], which it looks up by
//! name (`dlsym`). Outside of marked blocks requests are left out, and frees are recorded: the blocks of the trace are
//! freed when the program frees them.

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use heapwright_os::variable;
use heapwright_stream::{Call, Packed, Record};

use crate::state;
use crate::system;

/// The environment variable that requests marked blocks only.
const VARIABLE: &core::ffi::CStr = c"HEAPWRIGHT_RECORD_MARKED";

static ENABLED: AtomicBool = AtomicBool::new(false);

/// Number of marked blocks that the program is in.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Usable bytes of the live blocks, and their maximum since the innermost block began.
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// Reads the setting from the environment.
pub(crate) fn read_setting() {
    ENABLED.store(variable(VARIABLE, |_| ()).is_some(), Ordering::Relaxed);
}

/// Whether only marked blocks are recorded.
pub(crate) fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Counts the bytes of a call, and returns what is to be recorded of it: nothing of a request outside of marked blocks.
/// A resize there frees the block.
pub(crate) fn select(record: Packed) -> Option<Packed> {
    /// The end of a resize to 0 bytes, which frees the block.
    const FREED: Packed = Record { call: Call::ResizeEnds, log2_align: 0, size: 0, address: 0 }.packed();
    count(record);
    if OPEN.load(Ordering::Relaxed) > 0 || !record.is_request() {
        return Some(record);
    }
    // A resize that failed leaves the block as it was.
    let freed = if record.address() == 0 { record } else { FREED };
    record.is_resized().then_some(freed)
}

fn count(record: Packed) {
    if record.address() == 0 || !(record.is_request() || record.is_release()) {
        return;
    }
    // SAFETY: calls are recorded while the block lives: requests after glibc has allocated it, frees and resizes before
    // glibc frees it.
    let bytes = unsafe { system::usable_size(state::block_of(record)) } as i64;
    if record.is_release() {
        LIVE.fetch_sub(bytes, Ordering::Relaxed);
    } else {
        add(bytes);
    }
}

fn add(bytes: i64) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if live > PEAK.load(Ordering::Relaxed) {
        PEAK.fetch_max(live, Ordering::Relaxed);
    }
}

/// Counts a block again whose resize has failed.
///
/// # Safety
/// The block lives.
#[cold]
pub(crate) unsafe fn restore(block: *mut u8) {
    if is_enabled() {
        // SAFETY: the block lives, as this function requires.
        add(unsafe { system::usable_size(block) } as i64);
    }
}

/// What a marked block remembers until it ends.
#[repr(C)]
pub struct Marked {
    /// Live bytes when it began.
    live: i64,
    /// The peak of the block around it until then.
    peak: i64,
}

/// Begins a marked block. Returns 1, or 0 when blocks are not recorded in this process (`record --marked`).
///
/// # Safety
/// `block` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapwright_record_begin(block: *mut Marked) -> i32 {
    if !is_enabled() || !state::is_on() {
        return 0;
    }
    let live = LIVE.load(Ordering::Relaxed);
    let peak = PEAK.swap(live, Ordering::Relaxed);
    // SAFETY: `block` is valid for a write, as this function requires.
    unsafe { block.write(Marked { live, peak }) };
    OPEN.fetch_add(1, Ordering::Relaxed);
    1
}

/// Ends a marked block. Returns by how many bytes the live blocks of the process had grown in it at most.
///
/// # Safety
/// `block` is valid for a read, and was begun and not ended yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapwright_record_end(block: *const Marked) -> u64 {
    OPEN.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: `block` is valid for a read, as this function requires.
    let Marked { live, peak } = unsafe { block.read() };
    let reached = PEAK.load(Ordering::Relaxed);
    PEAK.fetch_max(peak, Ordering::Relaxed);
    u64::try_from(reached - live).unwrap_or(0)
}
