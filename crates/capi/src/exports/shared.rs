//! The names of `heapwright.h` that begin with `hw_shared_`.

use core::ffi::{c_char, c_void};
use core::ptr::{NonNull, null_mut};

use heapwright_shared::{Counters, RawMutex, SharedHeap};

use crate::handle::{Handle, shared_heap, take_shared, with_shared};
use crate::out::{store, store_handle, store_if_wanted, text_of};
use crate::shared::failure::{Failure, last, last_status, reported, value_or};
use crate::shared::publish::{Fill, Next, Trace};
use crate::shared::types::{SharedAccess, SharedBlock, SharedProcess, SharedReclaimed, SharedRoot, SharedSettings};
use crate::shared::{create, inspect, mutex, operate, publish, roots};
use crate::types::{Holes, Status, Violation, Visit};

export! {
    hw_shared_last_error() -> *const c_char { last() }
    hw_shared_last_status() -> Status { last_status() }

    hw_shared_create(name: *const c_char, settings: *const SharedSettings, heap: *mut *mut Handle) -> Status {
        reported(store_handle(heap, || create::create(SharedHeap::create, text_of(name)?, settings.as_ref())))
    }
    hw_shared_open(name: *const c_char, access: *const SharedAccess, heap: *mut *mut Handle) -> Status {
        reported(store_handle(heap, || create::open(text_of(name)?, access.as_ref())))
    }
    hw_shared_open_or_create(name: *const c_char, settings: *const SharedSettings, heap: *mut *mut Handle) -> Status {
        reported(store_handle(heap, || create::create(SharedHeap::open_or_create, text_of(name)?, settings.as_ref())))
    }
    hw_shared_close(heap: *mut Handle) -> Status {
        reported(take_shared(heap).map_err(Failure::from).and_then(|heap| Ok(heap.close()?)))
    }
    hw_shared_unlink(name: *const c_char) -> Status {
        reported(text_of(name).map_err(Failure::from).and_then(create::unlink))
    }
    hw_shared_repair(name: *const c_char, access: *const SharedAccess, strangers: u32) -> Status {
        reported(text_of(name).map_err(Failure::from).and_then(|name| create::repair(name, access.as_ref(), strangers)))
    }

    hw_shared_allocate(heap: *mut Handle, size: usize) -> *mut c_void {
        match shared_heap(heap).ok().and_then(|heap| heap.allocate_known(size)) {
            Some(block) => block.as_ptr().cast(),
            None => allocate_unknown(heap, size),
        }
    }
    hw_shared_allocate_aligned(heap: *mut Handle, size: usize, alignment: usize) -> *mut c_void {
        value_or(null_mut(), with_shared(heap, |heap| operate::allocate(heap, size, alignment)))
    }
    hw_shared_try_allocate(heap: *mut Handle, size: usize, alignment: usize, block: *mut *mut c_void) -> Status {
        reported(store(block, || with_shared(heap, |heap| operate::allocate(heap, size, alignment))))
    }
    hw_shared_allocate_offset(heap: *mut Handle, size: usize, alignment: usize, offset: *mut u64) -> Status {
        reported(store(offset, || with_shared(heap, |heap| operate::allocate_offset(heap, size, alignment))))
    }
    hw_shared_resize(heap: *mut Handle, block: *mut c_void, size: usize) -> *mut c_void {
        value_or(null_mut(), with_shared(heap, |heap| operate::resize(heap, block, size)))
    }
    hw_shared_try_resize(heap: *mut Handle, block: *mut *mut c_void, size: usize) -> Status {
        reported(store(block, || with_shared(heap, |heap| operate::resize(heap, block.read(), size))))
    }
    hw_shared_resize_offset(heap: *mut Handle, offset: *mut u64, size: usize) -> Status {
        reported(store(offset, || with_shared(heap, |heap| operate::resize_offset(heap, offset.read(), size))))
    }
    hw_shared_resize_in_place(heap: *mut Handle, offset: u64, size: usize) -> Status {
        reported(with_shared(heap, |heap| operate::resize_in_place(heap, offset, size)))
    }
    hw_shared_free(heap: *mut Handle, block: *mut c_void) -> Status {
        let is_free = match (shared_heap(heap), NonNull::new(block.cast::<u8>())) {
            (Ok(heap), Some(block)) => heap.deallocate_known(block),
            _ => false,
        };
        if is_free { Status::Ok } else { free_unknown(heap, block) }
    }
    hw_shared_free_offset(heap: *mut Handle, offset: u64) -> Status {
        reported(with_shared(heap, |heap| operate::free_offset(heap, offset)))
    }
    hw_shared_allocate_into(
        heap: *mut Handle, word: u64, size: usize, fill: Option<Fill>, context: *mut c_void, offset: *mut u64
    ) -> Status {
        let block = with_shared(heap, |heap| publish::allocate_into(heap, word, size, fill, context));
        reported(block.map(|block| store_if_wanted(offset, block)))
    }
    hw_shared_resize_into(heap: *mut Handle, word: u64, size: usize, offset: *mut u64) -> Status {
        let block = with_shared(heap, |heap| publish::resize_into(heap, word, size));
        reported(block.map(|block| store_if_wanted(offset, block)))
    }
    hw_shared_free_from(
        heap: *mut Handle, word: u64, next: Option<Next>, context: *mut c_void, offset: *mut u64
    ) -> Status {
        let block = with_shared(heap, |heap| publish::free_from(heap, word, next, context));
        reported(block.map(|block| store_if_wanted(offset, block)))
    }
    hw_shared_usable_size(heap: *const Handle, block: *const c_void) -> usize {
        value_or(0, with_shared(heap, |heap| operate::usable_size(heap, block)))
    }
    hw_shared_usable_size_offset(heap: *const Handle, offset: u64) -> usize {
        value_or(0, with_shared(heap, |heap| operate::usable_size_offset(heap, offset)))
    }
    hw_shared_pointer_of(heap: *const Handle, offset: u64) -> *mut c_void {
        value_or(null_mut(), with_shared(heap, |heap| operate::pointer_of(heap, offset)))
    }
    hw_shared_offset_of(heap: *const Handle, pointer: *const c_void) -> u64 {
        value_or(0, with_shared(heap, |heap| operate::offset_of(heap, pointer)))
    }
    hw_shared_base(heap: *const Handle) -> *mut c_void {
        value_or(null_mut(), with_shared(heap, |heap| known(heap.base().as_ptr().cast())))
    }

    hw_shared_lock(heap: *mut Handle, mutex: *mut RawMutex) -> Status {
        with_shared(heap, |heap| mutex::lock(heap, mutex)).unwrap_or_else(|failure: Failure| reported(Err(failure)))
    }
    hw_shared_unlock(heap: *mut Handle, mutex: *mut RawMutex) -> Status {
        reported(with_shared(heap, |heap| mutex::unlock(heap, mutex)))
    }
    hw_shared_mark_consistent(heap: *mut Handle, mutex: *mut RawMutex) -> Status {
        reported(with_shared(heap, |heap| mutex::mark_consistent(heap, mutex)))
    }

    hw_shared_get_root(heap: *const Handle, name: *const c_char, offset: *mut u64) -> Status {
        reported(store(offset, || with_shared(heap, |heap| roots::get(heap, text_of(name)?))))
    }
    hw_shared_set_root(heap: *mut Handle, name: *const c_char, offset: u64, old: *mut u64) -> Status {
        let previous = with_shared(heap, |heap| roots::set(heap, text_of(name)?, offset));
        reported(previous.map(|previous| store_if_wanted(old, previous)))
    }
    hw_shared_replace_root(heap: *mut Handle, name: *const c_char, expected: u64, offset: u64) -> Status {
        reported(with_shared(heap, |heap| roots::replace(heap, text_of(name)?, expected, offset)))
    }
    hw_shared_remove_root(heap: *mut Handle, name: *const c_char, old: *mut u64) -> Status {
        let previous = with_shared(heap, |heap| roots::remove(heap, text_of(name)?));
        reported(previous.map(|previous| store_if_wanted(old, previous)))
    }
    hw_shared_walk_roots(heap: *const Handle, visit: Option<Visit<SharedRoot>>, context: *mut c_void) -> Status {
        reported(with_shared(heap, |heap| inspect::roots(heap, visit, context)))
    }

    hw_shared_grow(heap: *mut Handle, bytes: usize) -> Status { reported(with_shared(heap, |heap| heap.grow(bytes))) }
    hw_shared_size(heap: *const Handle) -> usize { value_or(0, with_shared(heap, SharedHeap::size)) }
    hw_shared_max_size(heap: *const Handle) -> usize { value_or(0, with_shared(heap, |heap| known(heap.max_size()))) }
    hw_shared_granule(heap: *const Handle) -> usize { value_or(0, with_shared(heap, |heap| known(heap.granule()))) }
    hw_shared_overhead(heap: *const Handle) -> usize { value_or(0, with_shared(heap, |heap| known(heap.overhead()))) }
    hw_shared_policy_of(heap: *const Handle) -> u32 {
        value_or(0, with_shared(heap, |heap| known(heap.policy() as u32)))
    }

    hw_shared_walk(heap: *const Handle, visit: Option<Visit<SharedBlock>>, context: *mut c_void) -> Status {
        reported(with_shared(heap, |heap| inspect::walk(heap, visit, context)))
    }
    hw_shared_holes_of(heap: *const Handle, holes: *mut Holes) -> Status {
        reported(store(holes, || with_shared(heap, |heap| heap.holes().map(Holes::from))))
    }
    hw_shared_counters_of(heap: *const Handle, counters: *mut Counters) -> Status {
        reported(store(counters, || with_shared(heap, SharedHeap::counters)))
    }
    hw_shared_check(heap: *const Handle, violation: *mut Violation) -> Status {
        reported(with_shared(heap, |heap| inspect::check(heap, violation)))
    }

    hw_shared_walk_processes(heap: *const Handle, visit: Option<Visit<SharedProcess>>, context: *mut c_void) -> Status {
        reported(with_shared(heap, |heap| inspect::processes(heap, visit, context)))
    }
    hw_shared_walk_left_behind(heap: *const Handle, visit: Option<Visit<SharedBlock>>, context: *mut c_void) -> Status {
        reported(with_shared(heap, |heap| inspect::left_behind(heap, visit, context)))
    }
    hw_shared_adopt(heap: *mut Handle, offset: u64) -> Status {
        reported(with_shared(heap, |heap| operate::adopt(heap, offset)))
    }
    hw_shared_reclaim(heap: *mut Handle, whose: u32, reclaimed: *mut SharedReclaimed) -> Status {
        let outcome = with_shared(heap, |heap| inspect::reclaim(heap, whose));
        reported(outcome.map(|outcome| store_if_wanted(reclaimed, outcome)))
    }
    hw_shared_reclaim_unreachable(
        heap: *mut Handle, whose: u32, trace: Option<Trace>, context: *mut c_void, reclaimed: *mut SharedReclaimed
    ) -> Status {
        let outcome = with_shared(heap, |heap| publish::reclaim_unreachable(heap, whose, trace, context));
        reported(outcome.map(|outcome| store_if_wanted(reclaimed, outcome)))
    }
    hw_shared_recoveries(heap: *const Handle, recoveries: *mut u64) -> Status {
        reported(store(recoveries, || with_shared(heap, SharedHeap::recoveries)))
    }
}

/// Allocates a block that no slab is known to have. Called last and with the arguments of its caller, which therefore
/// saves no registers.
///
/// # Safety
/// As the header says of `hw_shared_allocate`.
#[cold]
#[inline(never)]
unsafe extern "C" fn allocate_unknown(heap: *mut Handle, size: usize) -> *mut c_void {
    // SAFETY: as this function requires.
    value_or(null_mut(), unsafe { with_shared(heap, |heap| operate::allocate(heap, size, 1)) })
}

/// Frees a block that is not one of this process's slabs, or says why there is none.
///
/// # Safety
/// As the header says of `hw_shared_free`.
#[cold]
#[inline(never)]
unsafe extern "C" fn free_unknown(heap: *mut Handle, block: *mut c_void) -> Status {
    // SAFETY: as this function requires.
    reported(unsafe { with_shared(heap, |heap| operate::free(heap, block)) })
}

/// The value of a getter that cannot fail.
fn known<T>(value: T) -> Result<T, Failure> {
    Ok(value)
}
