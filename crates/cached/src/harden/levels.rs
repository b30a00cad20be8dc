//! The fast paths: pairs of allocations and frees that a thread's cache answers. Each level has a copy of its own, made
//! for its measures; other sets of measures share one that asks for each. Where calls are counted they are not used.

use core::ptr::NonNull;

use heapwright_os::prefetch;

use super::short::{self, Short};
use super::span::SlabAt;
use super::zeros::Contents;
use super::{Measures, cache, canary, class_for, span, zeros};
use heapwright_slabs::classes::{GRAIN, class_of};
use heapwright_slabs::mode::{measures, uncounted_measures};
use heapwright_slabs::thread;

/// The longest request of the full level whose block is cleared and verified without a call, which takes registers.
const MOST_FULL: usize = zeros::LONGEST - canary::LENGTH;

/// Allocates a block of `size` bytes from the calling thread's cache. `None` means that [`allocate`](super::allocate)
/// has to be called, as always without measures.
#[inline(always)]
pub(crate) fn take(size: usize) -> Option<NonNull<u8>> {
    match uncounted_measures() {
        Measures::LIGHT => take_light(size),
        Measures::ALL => take_full(size),
        Measures::NONE => None,
        _ => take_other(size),
    }
}

/// Frees a block into the calling thread's cache. `false` means that [`free`](super::free) has to be called, as always
/// without measures.
#[inline(always)]
pub(crate) fn give(block: *mut u8) -> bool {
    match uncounted_measures() {
        Measures::LIGHT => give_light(block),
        Measures::ALL => give_full(block),
        Measures::NONE => false,
        _ => give_other(block),
    }
}

#[inline(never)]
fn take_light(size: usize) -> Option<NonNull<u8>> {
    take_under(Measures::LIGHT, size)
}

#[inline(never)]
fn take_full(size: usize) -> Option<NonNull<u8>> {
    if size > MOST_FULL { take_other(size) } else { take_under(Measures::ALL, size) }
}

#[inline(never)]
fn take_other(size: usize) -> Option<NonNull<u8>> {
    take_under(measures(), size)
}

/// Allocates a block of `size` bytes that is zero up to its usable size, as [`take`] does.
pub(crate) fn take_zeroed(size: usize) -> Option<NonNull<u8>> {
    match uncounted_measures() {
        Measures::NONE => None,
        measures => take_with(measures, size, Contents::Zeros),
    }
}

#[inline(always)]
fn take_under(measures: Measures, size: usize) -> Option<NonNull<u8>> {
    take_with(measures, size, Contents::Any)
}

#[inline(always)]
fn take_with(measures: Measures, size: usize, contents: Contents) -> Option<NonNull<u8>> {
    let cache = cache::existing(thread::kept_heap())?;
    short::allocate_at_once(class_for(size, GRAIN, measures)?, size, contents, measures, cache)
}

#[inline(never)]
fn give_light(block: *mut u8) -> bool {
    give_under(Measures::LIGHT, block)
}

#[inline(never)]
fn give_full(block: *mut u8) -> bool {
    prefetch(block);
    match span::slab_at(block.addr()) {
        Some(slab) if slab.class > class_of(zeros::LONGEST) => give_other(block),
        Some(slab) => give_in(Measures::ALL, block, &slab),
        None => false,
    }
}

#[inline(never)]
fn give_other(block: *mut u8) -> bool {
    give_under(measures(), block)
}

#[inline(always)]
fn give_under(measures: Measures, block: *mut u8) -> bool {
    prefetch(block);
    span::slab_at(block.addr()).is_some_and(|slab| give_in(measures, block, &slab))
}

#[inline(always)]
fn give_in(measures: Measures, block: *mut u8, slab: &SlabAt) -> bool {
    let Some(short) = NonNull::new(block).and_then(|block| Short::at(block, slab)) else { return false };
    let Some(cache) = cache::existing(thread::kept_heap()) else { return false };
    short.free_into(cache, measures)
}
