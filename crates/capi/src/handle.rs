//! Handles: what a `hw_heap *` points to.
//!
//! A handle begins with a mark that says which kind of heap follows; it is wiped when the heap is destroyed.

use core::ptr::NonNull;

use heapwright::{Chosen, FixedHeap, GrowingHeap};

use crate::types::Status;

/// "HWfixed1" and "HWgrows1", in the byte order of the machine.
const FIXED: u64 = u64::from_ne_bytes(*b"HWfixed1");
const GROWING: u64 = u64::from_ne_bytes(*b"HWgrows1");
const GONE: u64 = 0;

/// `hw_heap`, as C sees it.
#[repr(C)]
pub struct Handle {
    mark: u64,
}

/// A handle with its heap.
#[repr(C)]
pub(crate) struct Marked<H> {
    mark: u64,
    heap: H,
}

pub(crate) type FixedHandle = Marked<FixedHeap<'static, Chosen>>;
pub(crate) type GrowingHandle = Marked<GrowingHeap<Chosen>>;

impl FixedHandle {
    pub(crate) fn fixed(heap: FixedHeap<'static, Chosen>) -> Self {
        Marked { mark: FIXED, heap }
    }
}

impl GrowingHandle {
    pub(crate) fn growing(heap: GrowingHeap<Chosen>) -> Self {
        Marked { mark: GROWING, heap }
    }
}

/// A heap of either kind, borrowed from its handle.
pub(crate) enum Heap<'h> {
    Fixed(&'h mut FixedHeap<'static, Chosen>),
    Growing(&'h mut GrowingHeap<Chosen>),
}

/// `$body` with `$heap` bound to the heap inside, whichever it is.
macro_rules! each {
    ($either:expr, $heap:ident => $body:expr) => {
        match $either {
            $crate::handle::Heap::Fixed($heap) => $body,
            $crate::handle::Heap::Growing($heap) => $body,
        }
    };
}
pub(crate) use each;

fn mark_of(handle: *const Handle) -> Result<NonNull<Handle>, Status> {
    let handle = NonNull::new(handle.cast_mut()).ok_or(Status::NullPointer)?;
    if handle.is_aligned() { Ok(handle) } else { Err(Status::NotAHeap) }
}

/// The heap behind `handle`.
///
/// # Safety
/// `handle` is null, or 8 readable bytes lie there; if they are a mark, a heap follows that nobody else uses meanwhile.
pub(crate) unsafe fn open<'h>(handle: *const Handle) -> Result<Heap<'h>, Status> {
    let handle = mark_of(handle)?;
    // SAFETY: the caller's promise; the handle is aligned and its mark says what it is.
    unsafe {
        match handle.read().mark {
            FIXED => Ok(Heap::Fixed(&mut handle.cast::<FixedHandle>().as_mut().heap)),
            GROWING => Ok(Heap::Growing(&mut handle.cast::<GrowingHandle>().as_mut().heap)),
            _ => Err(Status::NotAHeap),
        }
    }
}

/// Ends the heap behind `handle`.
///
/// # Safety
/// As [`open`]; and no block of the heap is used any more.
pub(crate) unsafe fn destroy(handle: *mut Handle) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    let kind = unsafe { open(handle) }?;
    // SAFETY: there is a heap, thus a mark.
    unsafe { (&raw mut (*handle).mark).write_volatile(GONE) };
    match kind {
        Heap::Fixed(_) => {}
        // SAFETY: the handle was boxed by `create::growing`, and its mark says that it has not been destroyed.
        Heap::Growing(_) => drop(unsafe { Box::from_raw(handle.cast::<GrowingHandle>()) }),
    }
    Ok(())
}
