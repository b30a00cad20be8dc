//! Blocks that a word of the segment shows, and blocks that no root leads to.

use core::ffi::c_void;
use core::ptr::NonNull;

use heapwright_shared::{Offset, SharedHeap};

use super::failure::Failure;
use super::inspect::leavers;
use super::types::SharedReclaimed;
use crate::types::Status;

/// `hw_shared_filler`.
pub(crate) type Fill = unsafe extern "C" fn(block: *mut c_void, old: u64, context: *mut c_void);
/// `hw_shared_successor`.
pub(crate) type Next = unsafe extern "C" fn(block: *const c_void, context: *mut c_void) -> u64;
/// `hw_shared_reporter`.
type Report = unsafe extern "C" fn(offset: u64, library: *mut c_void);
/// `hw_shared_tracer`.
pub(crate) type Trace =
    unsafe extern "C" fn(block: *const c_void, size: usize, report: Report, library: *mut c_void, context: *mut c_void);

fn word_at(offset: u64) -> Result<Offset<Option<Offset>>, Status> {
    Offset::new(offset).ok_or(Status::NotABlock)
}

pub(crate) fn allocate_into(
    heap: &SharedHeap,
    word: u64,
    size: usize,
    fill: Option<Fill>,
    context: *mut c_void,
) -> Result<u64, Failure> {
    let fill = |block: NonNull<u8>, old: Option<Offset>| {
        if let Some(fill) = fill {
            // SAFETY: the caller's function, which takes its own context and a block of so many bytes.
            unsafe { fill(block.as_ptr().cast(), old.map_or(0, Offset::get), context) };
        }
    };
    // SAFETY: as the header requires, the word serves these calls only, and its block stays.
    Ok(unsafe { heap.allocate_into(word_at(word)?, size, fill)? }.get())
}

pub(crate) fn resize_into(heap: &SharedHeap, word: u64, size: usize) -> Result<u64, Failure> {
    // SAFETY: as above; and no other thread uses the block meanwhile.
    Ok(unsafe { heap.resize_into(word_at(word)?, size)? }.get())
}

pub(crate) fn free_from(
    heap: &SharedHeap,
    word: u64,
    next: Option<Next>,
    context: *mut c_void,
) -> Result<u64, Failure> {
    let next = |block: NonNull<u8>| {
        // SAFETY: the caller's function, which takes its own context and the block that the word shows.
        next.and_then(|next| Offset::new(unsafe { next(block.as_ptr().cast(), context) }))
    };
    // SAFETY: as above.
    let freed = unsafe { heap.free_from(word_at(word)?, next)? };
    Ok(freed.map_or(0, Offset::get))
}

/// Passes an offset on to the heap.
///
/// # Safety
/// `library` is what [`reclaim_unreachable`] gave to the trace function, during the call of that.
unsafe extern "C" fn report(offset: u64, library: *mut c_void) {
    // SAFETY: the caller's promise.
    let found = unsafe { &mut *library.cast::<&mut dyn FnMut(Offset)>() };
    Offset::new(offset).into_iter().for_each(found);
}

pub(crate) fn reclaim_unreachable(
    heap: &SharedHeap,
    whose: u32,
    trace: Option<Trace>,
    context: *mut c_void,
) -> Result<SharedReclaimed, Failure> {
    let trace = trace.ok_or(Status::NullPointer)?;
    let reclaimed = heap.reclaim_unreachable(leavers(whose)?, |block, mut found| {
        let address = heap.pointer(block.offset).as_ptr().cast();
        // SAFETY: the caller's function, which takes its own context and a used block of that length.
        unsafe { trace(address, block.size, report, (&raw mut found).cast(), context) };
    })?;
    Ok(reclaimed.into())
}
