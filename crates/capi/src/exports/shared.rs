//! The names of `heapwright.h` that begin with `hw_shared_`.

use core::ffi::{c_char, c_void};
use core::ptr::null_mut;

use heapwright_shared::{Counters, SharedHeap};

use crate::handle::Handle;
use crate::shared::answer::answer;
use crate::shared::failure::{last, told, value_or};
use crate::shared::types::{SharedAccess, SharedBlock, SharedProcess, SharedReclaimed, SharedRoot, SharedSettings};
use crate::shared::{create, inspect, operate, roots};
use crate::types::{Holes, Status, Violation, Visit};

export! {
    hw_shared_last_error() -> *const c_char { last() }

    hw_shared_create(name: *const c_char, settings: *const SharedSettings, heap: *mut *mut Handle) -> Status {
        told(create::create(SharedHeap::create, name, settings, heap))
    }
    hw_shared_open(name: *const c_char, access: *const SharedAccess, heap: *mut *mut Handle) -> Status {
        told(create::open(name, access, heap))
    }
    hw_shared_open_or_create(name: *const c_char, settings: *const SharedSettings, heap: *mut *mut Handle) -> Status {
        told(create::create(SharedHeap::open_or_create, name, settings, heap))
    }
    hw_shared_close(heap: *mut Handle) -> Status { told(create::close(heap)) }
    hw_shared_unlink(name: *const c_char) -> Status { told(create::unlink(name)) }
    hw_shared_repair(name: *const c_char, access: *const SharedAccess, strangers: u32) -> Status {
        told(create::repair(name, access, strangers))
    }

    hw_shared_allocate(heap: *mut Handle, size: usize) -> *mut c_void {
        value_or(null_mut(), operate::allocate(heap, size, 1))
    }
    hw_shared_allocate_aligned(heap: *mut Handle, size: usize, alignment: usize) -> *mut c_void {
        value_or(null_mut(), operate::allocate(heap, size, alignment))
    }
    hw_shared_try_allocate(heap: *mut Handle, size: usize, alignment: usize, block: *mut *mut c_void) -> Status {
        told(operate::try_allocate(heap, size, alignment, block))
    }
    hw_shared_allocate_offset(heap: *mut Handle, size: usize, alignment: usize, offset: *mut u64) -> Status {
        told(operate::allocate_offset(heap, size, alignment, offset))
    }
    hw_shared_resize(heap: *mut Handle, block: *mut c_void, size: usize) -> *mut c_void {
        value_or(null_mut(), operate::resize(heap, block, size))
    }
    hw_shared_try_resize(heap: *mut Handle, block: *mut *mut c_void, size: usize) -> Status {
        told(operate::try_resize(heap, block, size))
    }
    hw_shared_resize_offset(heap: *mut Handle, offset: *mut u64, size: usize) -> Status {
        told(operate::resize_offset(heap, offset, size))
    }
    hw_shared_resize_in_place(heap: *mut Handle, offset: u64, size: usize) -> Status {
        told(operate::resize_in_place(heap, offset, size))
    }
    hw_shared_free(heap: *mut Handle, block: *mut c_void) -> Status { told(operate::free(heap, block)) }
    hw_shared_free_offset(heap: *mut Handle, offset: u64) -> Status { told(operate::free_offset(heap, offset)) }
    hw_shared_usable_size(heap: *const Handle, block: *const c_void) -> usize {
        value_or(0, operate::usable_size(heap, block))
    }
    hw_shared_usable_size_offset(heap: *const Handle, offset: u64) -> usize {
        value_or(0, operate::usable_size_offset(heap, offset))
    }
    hw_shared_pointer_of(heap: *const Handle, offset: u64) -> *mut c_void {
        value_or(null_mut(), operate::pointer_of(heap, offset))
    }
    hw_shared_offset_of(heap: *const Handle, pointer: *const c_void) -> u64 {
        value_or(0, operate::offset_of(heap, pointer))
    }

    hw_shared_get_root(heap: *const Handle, name: *const c_char, offset: *mut u64) -> Status {
        told(roots::get(heap, name, offset))
    }
    hw_shared_set_root(heap: *mut Handle, name: *const c_char, offset: u64, old: *mut u64) -> Status {
        told(roots::set(heap, name, offset, old))
    }
    hw_shared_replace_root(heap: *mut Handle, name: *const c_char, expected: u64, offset: u64) -> Status {
        told(roots::replace(heap, name, expected, offset))
    }
    hw_shared_remove_root(heap: *mut Handle, name: *const c_char, old: *mut u64) -> Status {
        told(roots::remove(heap, name, old))
    }
    hw_shared_walk_roots(heap: *const Handle, visit: Option<Visit<SharedRoot>>, context: *mut c_void) -> Status {
        told(inspect::roots(heap, visit, context))
    }

    hw_shared_grow(heap: *mut Handle, bytes: usize) -> Status { told(operate::grow(heap, bytes)) }
    hw_shared_size(heap: *const Handle) -> usize { value_or(0, inspect::size(heap)) }
    hw_shared_max_size(heap: *const Handle) -> usize { value_or(0, inspect::of(heap, SharedHeap::max_size)) }
    hw_shared_granule(heap: *const Handle) -> usize { value_or(0, inspect::of(heap, SharedHeap::granule)) }
    hw_shared_overhead(heap: *const Handle) -> usize { value_or(0, inspect::of(heap, SharedHeap::overhead)) }
    hw_shared_policy_of(heap: *const Handle) -> u32 { value_or(0, inspect::of(heap, |heap| heap.policy() as u32)) }

    hw_shared_walk(heap: *const Handle, visit: Option<Visit<SharedBlock>>, context: *mut c_void) -> Status {
        told(inspect::walk(heap, visit, context))
    }
    hw_shared_holes_of(heap: *const Handle, holes: *mut Holes) -> Status {
        told(answer(heap, holes, |heap| heap.holes().map(Holes::from)))
    }
    hw_shared_counters_of(heap: *const Handle, counters: *mut Counters) -> Status {
        told(answer(heap, counters, SharedHeap::counters))
    }
    hw_shared_check(heap: *const Handle, violation: *mut Violation) -> Status { told(inspect::check(heap, violation)) }

    hw_shared_walk_processes(heap: *const Handle, visit: Option<Visit<SharedProcess>>, context: *mut c_void) -> Status {
        told(inspect::processes(heap, visit, context))
    }
    hw_shared_walk_left_behind(heap: *const Handle, visit: Option<Visit<SharedBlock>>, context: *mut c_void) -> Status {
        told(inspect::left_behind(heap, visit, context))
    }
    hw_shared_adopt(heap: *mut Handle, offset: u64) -> Status { told(operate::adopt(heap, offset)) }
    hw_shared_reclaim(heap: *mut Handle, whose: u32, reclaimed: *mut SharedReclaimed) -> Status {
        told(inspect::reclaim(heap, whose, reclaimed))
    }
    hw_shared_recoveries(heap: *const Handle, recoveries: *mut u64) -> Status {
        told(answer(heap, recoveries, SharedHeap::recoveries))
    }
}
