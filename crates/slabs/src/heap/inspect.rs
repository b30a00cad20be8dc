//! The blocks that are out of their slabs but not used by the program: in thread caches and inboxes.

use core::ptr::{NonNull, null_mut};

use super::parts::Heap;
use super::thread_heap::Owned;
use crate::arena::ARENA;
use crate::carrier::Unloaded;
use crate::corruption::report;
use crate::origin::Origin;

impl Owned {
    /// Calls `visit` with the origin of each block in the calling thread's free lists and remote-free buffers.
    pub fn each_cached(mut self, mut visit: impl FnMut(Origin)) {
        let cache = self.cache();
        // SAFETY: the lists and buffers are this thread's.
        unsafe {
            cache.lists.iter().for_each(|list| each_linked(list.first(), |_, origin| visit(origin)));
            cache.remote_buffers.iter().for_each(|buffer| each_carried(buffer.first, &mut visit));
        }
    }
}

impl Heap {
    /// Calls `visit` for the blocks in the inbox, with their origin; for none while another thread has
    /// locked the slabs.
    pub fn each_waiting(&self, mut visit: impl FnMut(Origin)) {
        if let Some(slabs) = self.visit() {
            let arrived = slabs.arrived.first().map_or(null_mut(), NonNull::as_ptr);
            for first in [arrived, self.front().inbox.first()] {
                // SAFETY: blocks are taken from the inbox only by the thread that holds the lock, which is this one.
                unsafe { each_carried(first, &mut visit) };
            }
        }
    }
}

/// Calls `visit` with the origin of each block in a list of carriers, up to the first one that lies in no slab.
///
/// # Safety
/// As [`each_linked`].
unsafe fn each_carried(first: *mut u8, mut visit: impl FnMut(Origin)) {
    let visit_load = |carrier: NonNull<u8>, origin: Origin| {
        // SAFETY: the caller's promise.
        let unloaded = unsafe { Unloaded::from(carrier, origin.class, ARENA.links(origin.class)) };
        unloaded.blocks().filter_map(Origin::of).for_each(&mut visit);
    };
    // SAFETY: the caller's promise.
    unsafe { each_linked(first, visit_load) };
}

/// Calls `visit` for each block of a list and its origin, up to the first that lies in no slab. A list that leads back
/// to one of its blocks is reported; some of its blocks are visited several times.
///
/// # Safety
/// Its blocks are free, and the list does not change.
unsafe fn each_linked(first: *mut u8, mut visit: impl FnMut(NonNull<u8>, Origin)) {
    let (mut block, mut circle) = (first, CircleSearch::from(first));
    while let Some((linked, origin)) = NonNull::new(block).and_then(|block| Some((block, Origin::of(block)?))) {
        // SAFETY: the caller's promise; a block of this class begins there.
        block = unsafe { ARENA.links(origin.class).next(block) };
        visit(linked, origin);
        if circle.is_closed_by(block) {
            return;
        }
    }
}

/// Finds a circle in a list by Brent's algorithm: each block is compared with one before it, which is replaced after 1,
/// 2, 4, ... steps.
struct CircleSearch {
    before: *mut u8,
    steps: usize,
    most: usize,
}

impl CircleSearch {
    fn from(first: *mut u8) -> CircleSearch {
        CircleSearch { before: first, steps: 0, most: 1 }
    }

    /// Returns whether the list leads back to `next`; reports that.
    fn is_closed_by(&mut self, next: *mut u8) -> bool {
        if let Some(block) = NonNull::new(next).filter(|_| next == self.before) {
            report(block);
            return true;
        }
        self.steps += 1;
        if self.steps == self.most {
            (self.before, self.steps, self.most) = (next, 0, 2 * self.most);
        }
        false
    }
}
