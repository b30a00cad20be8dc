//! Handles: what a `hw_heap *` or `hw_shared *` points to.
//!
//! A handle begins with a mark that says which kind of heap follows; it is wiped when the heap is destroyed.

use core::ptr::NonNull;
use std::alloc::{Layout, alloc};

use heapwright_heaps::{Chosen, FixedHeap, GrowingHeap};
use heapwright_shared::SharedHeap;

use crate::types::Status;

/// Letters, in the byte order of the machine.
const FIXED: u64 = u64::from_ne_bytes(*b"HWfixed1");
const GROWING: u64 = u64::from_ne_bytes(*b"HWgrows1");
const SHARED: u64 = u64::from_ne_bytes(*b"HWshared");
const GONE: u64 = 0;

/// `hw_heap` or `hw_shared`, as C sees it.
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
pub(crate) type SharedHandle = Marked<SharedHeap>;

impl<H> Marked<H> {
    /// Gives the handle memory of its own, from which `Box` frees it.
    pub(crate) fn boxed(self) -> Result<*mut Handle, Status> {
        // SAFETY: handles are not of size 0.
        let place = unsafe { alloc(Layout::new::<Self>()) }.cast::<Self>();
        if place.is_null() {
            return Err(Status::OutOfMemory);
        }
        // SAFETY: the memory is new and made for a handle.
        unsafe { place.write(self) };
        Ok(place.cast())
    }
}

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

impl SharedHandle {
    pub(crate) fn shared(heap: SharedHeap) -> Self {
        Marked { mark: SHARED, heap }
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

/// The shared heap behind `handle`, which any number of threads may use.
///
/// # Safety
/// `handle` is null, or 8 readable bytes lie there; if they are a mark, a heap follows that nobody closes meanwhile.
#[inline(always)]
pub(crate) unsafe fn open_shared<'h>(handle: *const Handle) -> Result<&'h SharedHeap, Status> {
    let handle = mark_of(handle)?;
    // SAFETY: the caller's promise; the handle is aligned and its mark says what it is.
    unsafe {
        match handle.read().mark {
            SHARED => Ok(&handle.cast::<SharedHandle>().as_ref().heap),
            _ => Err(Status::NotAHeap),
        }
    }
}

/// Takes the shared heap out of `handle`, which is none any more.
///
/// # Safety
/// As [`open_shared`]; and nobody else uses the handle any more.
pub(crate) unsafe fn take_shared(handle: *mut Handle) -> Result<SharedHeap, Status> {
    // SAFETY: the caller's promise.
    unsafe { open_shared(handle) }?;
    // SAFETY: there is a heap, thus a mark.
    unsafe { (&raw mut (*handle).mark).write_volatile(GONE) };
    // SAFETY: handles of shared heaps are boxed, and its mark said that it has not been taken.
    Ok(unsafe { Box::from_raw(handle.cast::<SharedHandle>()) }.heap)
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
        // SAFETY: the handle was boxed when it was made, and its mark says that it has not been destroyed.
        Heap::Growing(_) => drop(unsafe { Box::from_raw(handle.cast::<GrowingHandle>()) }),
    }
    Ok(())
}
