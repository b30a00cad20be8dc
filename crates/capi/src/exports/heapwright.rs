//! The names of `heapwright.h`.

use core::ffi::{c_char, c_int, c_void};

use heapwright_heaps::Counters;

use crate::handle::{Handle, destroy, each, with_heap};
use crate::operate::{self, Size, pointer};
use crate::out::store;
use crate::types::{Holes, Options, RequestRules, Status, Violation, Visitor, status};
use crate::{create, inspect};

export! {
    hw_status_text(number: c_int) -> *const c_char { inspect::text_of(number) }
    hw_policy_from_name(name: *const c_char) -> u32 { create::number_of(name) }
    hw_policy_name(policy: u32) -> *const c_char { create::name_of(policy) }

    hw_create_in(
        memory: *mut c_void, bytes: usize, policy: u32, options: *const Options, heap: *mut *mut Handle
    ) -> Status {
        status(create::fixed(memory, bytes, policy, options, heap))
    }
    hw_create_growing(policy: u32, options: *const Options, heap: *mut *mut Handle) -> Status {
        status(create::growing(policy, options, heap))
    }
    hw_create_beside(
        memory: *mut c_void,
        bytes: usize,
        metadata: *mut c_void,
        metadata_bytes: usize,
        policy: u32,
        options: *const Options,
        heap: *mut *mut Handle
    ) -> Status {
        status(create::beside((memory, bytes), (metadata, metadata_bytes), policy, options, heap))
    }
    hw_metadata_bytes(bytes: usize, policy: u32, options: *const Options) -> usize {
        create::metadata_bytes(bytes, policy, options).unwrap_or(0)
    }
    hw_least_bytes(policy: u32, options: *const Options) -> usize {
        create::least_bytes(policy, options).unwrap_or(0)
    }
    hw_set_requests(heap: *mut Handle, requests: *const RequestRules) -> Status {
        status(with_heap(heap, |heap| operate::set_requests(heap, requests)))
    }
    hw_set_kept(heap: *mut Handle, bytes: usize) -> Status {
        status(with_heap(heap, |heap| operate::set_kept(heap, bytes)))
    }
    hw_trim(heap: *mut Handle) -> usize {
        with_heap(heap, |heap| Ok(operate::trim(heap))).unwrap_or(0)
    }
    hw_destroy(heap: *mut Handle) -> Status { status(destroy(heap)) }

    hw_allocate(heap: *mut Handle, size: usize) -> *mut c_void {
        pointer(with_heap(heap, |heap| operate::allocate(heap, size, 1)))
    }
    hw_allocate_aligned(heap: *mut Handle, size: usize, alignment: usize) -> *mut c_void {
        pointer(with_heap(heap, |heap| operate::allocate(heap, size, alignment)))
    }
    hw_try_allocate(heap: *mut Handle, size: usize, alignment: usize, block: *mut *mut c_void) -> Status {
        status(store(block, || with_heap(heap, |heap| operate::allocate(heap, size, alignment))))
    }
    hw_resize(heap: *mut Handle, block: *mut c_void, size: usize) -> *mut c_void {
        pointer(with_heap(heap, |heap| operate::resize(heap, block, Size::Unknown, size)))
    }
    hw_try_resize(heap: *mut Handle, block: *mut *mut c_void, old: usize, size: usize) -> Status {
        status(store(block, || with_heap(heap, |heap| operate::resize(heap, block.read(), Size::Known(old), size))))
    }
    hw_free(heap: *mut Handle, block: *mut c_void) -> Status {
        status(with_heap(heap, |heap| operate::free(heap, block, Size::Unknown)))
    }
    hw_free_sized(heap: *mut Handle, block: *mut c_void, size: usize) -> Status {
        status(with_heap(heap, |heap| operate::free(heap, block, Size::Known(size))))
    }

    hw_usable_size(heap: *const Handle, block: *const c_void) -> usize {
        with_heap(heap, |heap| inspect::usable_size(heap, block)).unwrap_or(0)
    }
    hw_policy_of(heap: *const Handle) -> u32 {
        with_heap(heap, |heap| Ok(each!(heap.kind, heap => heap.policy()) as u32)).unwrap_or(0)
    }
    hw_capacity(heap: *const Handle) -> usize {
        with_heap(heap, |heap| Ok(each!(heap.kind, heap => heap.capacity()))).unwrap_or(0)
    }
    hw_walk(heap: *const Handle, visit: Option<Visitor>, context: *mut c_void) -> Status {
        status(inspect::walk(heap, visit, context))
    }
    hw_holes_of(heap: *const Handle, holes: *mut Holes) -> Status {
        status(store(holes, || with_heap(heap, |heap| Ok(each!(heap.kind, heap => heap.holes()).into()))))
    }
    hw_counters_of(heap: *const Handle, counters: *mut Counters) -> Status {
        status(store(counters, || {
            with_heap(heap, |heap| each!(heap.kind, heap => heap.counters()).ok_or(Status::NoStatistics))
        }))
    }
    hw_check(heap: *const Handle, violation: *mut Violation) -> Status {
        status(with_heap(heap, |heap| inspect::check(heap, violation)))
    }
}
