//! Handles: what a `hw_heap *` or `hw_shared *` points to.
//!
//! A handle begins with a mark that says which kind of heap follows. Destroying the heap erases the mark.

use core::ptr::NonNull;
use std::alloc::{Layout, alloc};

use heapwright_heaps::{Chosen, FixedHeap, GrowingHeap, Requests};
use heapwright_shared::SharedHeap;

use crate::types::Status;

/// The marks: letters, in the byte order of the machine.
const FIXED: u64 = u64::from_ne_bytes(*b"HWfixed1");
const GROWING: u64 = u64::from_ne_bytes(*b"HWgrows1");
const SHARED: u64 = u64::from_ne_bytes(*b"HWshared");
const DESTROYED: u64 = 0;

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

/// A heap of this process, and how it reads requests.
pub(crate) struct Private<H> {
    requests: Requests,
    heap: H,
}

pub(crate) type FixedHandle = Marked<Private<FixedHeap<'static, Chosen>>>;
pub(crate) type GrowingHandle = Marked<Private<GrowingHeap<Chosen>>>;
pub(crate) type SharedHandle = Marked<SharedHeap>;

impl<H> Marked<H> {
    /// Moves the handle into memory of its own, from which `Box` frees it.
    ///
    /// # Errors
    /// [`Status::OutOfMemory`].
    pub(crate) fn boxed(self) -> Result<*mut Handle, Status> {
        // SAFETY: the layout of a handle is not of size 0: it begins with a mark.
        let place = unsafe { alloc(Layout::new::<Self>()) }.cast::<Self>();
        if place.is_null() {
            return Err(Status::OutOfMemory);
        }
        // SAFETY: the memory was just allocated with the layout of a handle.
        unsafe { place.write(self) };
        Ok(place.cast())
    }
}

impl FixedHandle {
    pub(crate) fn fixed(heap: FixedHeap<'static, Chosen>) -> Self {
        Marked { mark: FIXED, heap: Private { requests: Requests::USUAL, heap } }
    }
}

impl GrowingHandle {
    pub(crate) fn growing(heap: GrowingHeap<Chosen>) -> Self {
        Marked { mark: GROWING, heap: Private { requests: Requests::USUAL, heap } }
    }
}

impl SharedHandle {
    pub(crate) fn shared(heap: SharedHeap) -> Self {
        Marked { mark: SHARED, heap }
    }
}

/// A heap of either kind, borrowed from its handle.
pub(crate) struct Heap<'h> {
    /// How the heap reads requests.
    pub(crate) requests: &'h mut Requests,
    pub(crate) kind: Kind<'h>,
}

/// The kinds of heaps.
pub(crate) enum Kind<'h> {
    Fixed(&'h mut FixedHeap<'static, Chosen>),
    Growing(&'h mut GrowingHeap<Chosen>),
}

impl<'h> Heap<'h> {
    fn of<H>(Private { requests, heap }: &'h mut Private<H>, kind: fn(&'h mut H) -> Kind<'h>) -> Self {
        Heap { requests, kind: kind(heap) }
    }
}

/// Evaluates `$body` with `$heap` bound to the heap inside, whichever kind it is.
macro_rules! each {
    ($kind:expr, $heap:ident => $body:expr) => {
        match $kind {
            $crate::handle::Kind::Fixed($heap) => $body,
            $crate::handle::Kind::Growing($heap) => $body,
        }
    };
}
pub(crate) use each;

/// Reads the mark at `handle`.
///
/// # Safety
/// `handle` is null, unaligned, or the first of 8 readable bytes.
#[inline(always)]
unsafe fn mark_of(handle: *const Handle) -> Result<(NonNull<Handle>, u64), Status> {
    let handle = NonNull::new(handle.cast_mut()).ok_or(Status::NullPointer)?;
    if !handle.is_aligned() {
        return Err(Status::NotAHeap);
    }
    // SAFETY: the handle is neither null nor unaligned, hence 8 readable bytes lie there, as this function requires.
    Ok((handle, unsafe { handle.read() }.mark))
}

/// Erases the mark, so that the handle is refused from now on.
///
/// # Safety
/// `handle` is the handle of a heap, and no other thread uses it.
unsafe fn erase_mark(handle: *mut Handle) {
    // SAFETY: a handle begins with its mark, and no other thread reads it meanwhile, as this function requires.
    unsafe { (&raw mut (*handle).mark).write_volatile(DESTROYED) };
}

/// Calls `act` with the heap behind `handle`, which is a fixed or a growing one.
///
/// # Errors
/// [`Status::NullPointer`], [`Status::NotAHeap`], and those of `act`.
///
/// # Safety
/// `handle` is null, or the first of 8 readable bytes. If these are a mark, the heap that it was made for follows, and
/// nothing else uses that heap during the call.
pub(crate) unsafe fn with_heap<R>(
    handle: *const Handle,
    act: impl FnOnce(Heap<'_>) -> Result<R, Status>,
) -> Result<R, Status> {
    // SAFETY: `handle` is null or points to 8 readable bytes, as this function requires.
    let (handle, mark) = unsafe { mark_of(handle) }?;
    // SAFETY: the mark says which heap follows, and nothing else uses that heap during the call, as this function
    // requires; the borrow ends with the call.
    unsafe {
        act(match mark {
            FIXED => Heap::of(&mut handle.cast::<FixedHandle>().as_mut().heap, Kind::Fixed),
            GROWING => Heap::of(&mut handle.cast::<GrowingHandle>().as_mut().heap, Kind::Growing),
            _ => return Err(Status::NotAHeap),
        })
    }
}

/// Calls `act` with the shared heap behind `handle`, which other threads may use at the same time.
///
/// # Errors
/// [`Status::NullPointer`], [`Status::NotAHeap`], and those of `act`.
///
/// # Safety
/// `handle` is null, or the first of 8 readable bytes. If these are a mark, the heap that it was made for follows, and
/// no thread closes it during the call.
#[inline(always)]
pub(crate) unsafe fn with_shared<R, E, F>(
    handle: *const Handle,
    act: impl FnOnce(&SharedHeap) -> Result<R, E>,
) -> Result<R, F>
where
    F: From<Status> + From<E>,
{
    // SAFETY: as this function requires; the borrow ends with the call.
    Ok(act(unsafe { shared_heap(handle) }?)?)
}

/// Borrows the shared heap behind `handle`, which other threads may use at the same time.
///
/// # Errors
/// [`Status::NullPointer`], [`Status::NotAHeap`].
///
/// # Safety
/// `handle` is null, or the first of 8 readable bytes. If these are a mark, the heap that it was made for follows, and
/// no thread closes it while it is borrowed.
#[inline(always)]
pub(crate) unsafe fn shared_heap<'h>(handle: *const Handle) -> Result<&'h SharedHeap, Status> {
    // SAFETY: `handle` is null or points to 8 readable bytes, as this function requires.
    let (handle, mark) = unsafe { mark_of(handle) }?;
    if mark != SHARED {
        return Err(Status::NotAHeap);
    }
    // SAFETY: the mark says that a shared heap follows, and no thread closes it while it is borrowed, as this function
    // requires.
    Ok(unsafe { &handle.cast::<SharedHandle>().as_ref().heap })
}

/// Moves the shared heap out of `handle` and frees the handle.
///
/// # Errors
/// [`Status::NullPointer`], [`Status::NotAHeap`].
///
/// # Safety
/// `handle` is null, or the first of 8 readable bytes. If these are a mark, the heap that it was made for follows, and
/// no other thread uses the handle, during the call or later.
pub(crate) unsafe fn take_shared(handle: *mut Handle) -> Result<SharedHeap, Status> {
    // SAFETY: `handle` is null or points to 8 readable bytes, as this function requires.
    let (_, mark) = unsafe { mark_of(handle) }?;
    if mark != SHARED {
        return Err(Status::NotAHeap);
    }
    // SAFETY: the mark says that this is a handle, and no other thread uses it, as this function requires. Handles of
    // shared heaps are made by `boxed`, and the mark shows that this one has not been taken before.
    unsafe {
        erase_mark(handle);
        Ok(Box::from_raw(handle.cast::<SharedHandle>()).heap)
    }
}

/// Ends the heap behind `handle`, which is a fixed or a growing one, and frees the handle of a growing one.
///
/// # Errors
/// [`Status::NullPointer`], [`Status::NotAHeap`].
///
/// # Safety
/// `handle` is null, or the first of 8 readable bytes. If these are a mark, the heap that it was made for follows, and
/// neither the handle nor a block of the heap is used by anything else, during the call or later.
pub(crate) unsafe fn destroy(handle: *mut Handle) -> Result<(), Status> {
    // SAFETY: `handle` is null or points to 8 readable bytes, as this function requires.
    let (_, mark) = unsafe { mark_of(handle) }?;
    if ![FIXED, GROWING].contains(&mark) {
        return Err(Status::NotAHeap);
    }
    // SAFETY: the mark says that this is a handle, and nothing else uses it, as this function requires.
    unsafe { erase_mark(handle) };
    if mark == GROWING {
        // SAFETY: handles of growing heaps are made by `boxed`, and the mark shows that this one was not destroyed
        // before.
        drop(unsafe { Box::from_raw(handle.cast::<GrowingHandle>()) });
    }
    Ok(())
}
