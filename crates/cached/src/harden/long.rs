//! Long blocks, each in a span of its own.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_heaps::{FreeError, ResizeError};
use heapwright_os::{Lock, Refused, round_to_pages};

use super::fault::{Fault, end};
use super::quarantine::{Queue, Waiting};
use super::span::{self, Kind};
use super::span_pages;
use super::zeros::Contents;
use super::{Measures, canary, ready_spans};
use crate::{counts, decay};
use heapwright_slabs::arena::ARENA;
use heapwright_slabs::classes::SLAB;
use heapwright_slabs::mode;
use heapwright_slabs::mode::measures;

/// Long blocks that wait: their addresses only, for their memory has gone back to the system.
pub(super) static WAITING: Lock<Queue<LongSpan, 256>> = Lock::new(Queue::EMPTY);

/// A freed long block, by the number of its span, and its length in pages of 4 KiB.
#[derive(Clone, Copy)]
pub(super) struct LongSpan {
    number: u32,
    pages: u32,
}

/// The bytes of a page in the length of a [`LongSpan`]: 32 bits suffice for 16 TiB, more than the heap can have.
const PAGE: usize = 4096;

impl Waiting for LongSpan {
    const NOTHING: LongSpan = LongSpan { number: 0, pages: 0 };

    fn bytes(self) -> usize {
        self.pages as usize * PAGE
    }
}

/// How many bytes of addresses may wait.
const MOST_WAITING: usize = 4 << 30;

/// The part of a block that has grown by which it can grow once more where it is: a block that grows in small steps is
/// copied rarely.
const SPARE_PART: usize = 4;

/// Allocates a block of its own pages.
pub(super) fn allocate(layout: Layout, contents: Contents) -> Option<NonNull<u8>> {
    let length = length_for(layout.size())?;
    begin(place(length, 0, layout.align())?, length, layout, contents)
}

/// Allocates a block of its own pages to which the contents of a shorter one move, with room to grow.
pub(super) fn allocate_to_grow(layout: Layout) -> Option<NonNull<u8>> {
    let length = length_for(layout.size())?;
    let spare = round_to_pages(length / SPARE_PART)?;
    begin(place(length, spare, layout.align())?, length, layout, Contents::Any)
}

/// Returns the length of the pages of a block of `size` bytes.
fn length_for(size: usize) -> Option<usize> {
    round_to_pages(size.checked_add(canary::room(measures()))?)
}

/// Begins a block in a span.
fn begin(number: u32, length: usize, layout: Layout, contents: Contents) -> Option<NonNull<u8>> {
    let block = NonNull::new(ARENA.start_of(number))?;
    let has_canary = measures().have(Measures::CANARY);
    // SAFETY: the span is new, and long enough.
    unsafe {
        if contents == Contents::Zeros && !measures().have(Measures::ZERO) {
            span_pages::clear_dirty(number);
        }
        (*span::span(number)).requested = if has_canary { layout.size() } else { length };
        if has_canary {
            canary::put(block, layout.size());
        }
    }
    span::set_kind(number, Kind::Long);
    if mode::is_counted() {
        counts::record_allocation(None, layout.size(), usable_size(number));
    }
    Some(block)
}

/// Places a span.
fn place(length: usize, spare: usize, align: usize) -> Option<u32> {
    decay::attend_span();
    if align <= SLAB
        && spare == 0
        && let Some(number) = ready_spans::take(length)
    {
        // SAFETY: the span is not in use, and can be reopened.
        match unsafe { span_pages::reopen(number) } {
            Ok(()) => return Some(number),
            Err(Refused) => remove(number),
        }
    }
    span_pages::place(&mut *ARENA.lock()?, length, spare, align)
}

/// Frees the block at a number.
pub(super) fn free(number: u32, block: NonNull<u8>) -> Result<(), FreeError> {
    let size = usable_size(number);
    if !span::set_waiting(number) {
        return Err(FreeError::AlreadyFree);
    }
    check(number, block);
    if mode::is_counted() {
        counts::record_free(None, size);
    }
    // SAFETY: the block is not in use any more.
    let length = unsafe { (*span::span(number)).length };
    if measures().have(Measures::QUARANTINE) {
        // SAFETY: as above.
        unsafe { span_pages::seal(number) };
        wait(number, length);
    } else {
        // SAFETY: as above.
        unsafe {
            (*span::span(number)).dirty = length;
            if measures().have(Measures::ZERO) {
                span_pages::clear(number);
            }
        }
        if measures().have(Measures::GUARD) {
            make_ready(number);
        } else {
            remove(number);
        }
    }
    Ok(())
}

/// Keeps a span of which nothing is in use for the next block of its length, or frees it.
fn make_ready(number: u32) {
    let other = if span_pages::is_reopenable(number) { ready_spans::add(number) } else { Some(number) };
    other.into_iter().chain(core::iter::from_fn(ready_spans::take_excess)).for_each(remove);
}

fn wait(number: u32, length: usize) {
    let mut waiting = WAITING.lock();
    while let Some(LongSpan { number, .. }) = waiting.make_room(length, MOST_WAITING) {
        make_ready(number);
    }
    waiting.add(LongSpan { number, pages: (length / PAGE) as u32 });
}

/// Lets nothing wait any more.
pub(super) fn release_waiting() {
    let mut waiting = WAITING.lock();
    while let Some(first) = waiting.take() {
        remove(first.number);
    }
    while let Some(number) = ready_spans::take_any() {
        remove(number);
    }
    if let Some(mut shared) = ARENA.lock() {
        span_pages::remove_stuck(&mut shared);
    }
}

fn remove(number: u32) {
    if let Some(mut shared) = ARENA.lock() {
        // SAFETY: the block is not in use any more.
        unsafe { span_pages::remove(&mut shared, number) };
    }
}

/// Returns the number of bytes that the block at a number has.
pub(super) fn usable_size(number: u32) -> usize {
    // SAFETY: the caller has the block.
    unsafe { (*span::span(number)).requested }
}

/// Ends the process if the block was written to behind its end.
fn check(number: u32, block: NonNull<u8>) {
    let size = usable_size(number);
    // SAFETY: behind the block there is a canary.
    if measures().have(Measures::CANARY) && !unsafe { canary::is_intact(block, size) } {
        end(&Fault::Overflow { size }, block);
    }
}

/// Makes a block hold `size` bytes where it is, if it has as many pages then, or more of which there is room behind it.
pub(super) fn resize_in_place(number: u32, block: NonNull<u8>, size: usize) -> Result<(), ResizeError> {
    if span::kind(number) != Kind::Long {
        return Err(ResizeError::NotABlock);
    }
    let before = usable_size(number);
    check(number, block);
    let span = span::span(number);
    let length = length_for(size).ok_or(ResizeError::NoRoom)?;
    // SAFETY: the calling thread has the block.
    let present = unsafe { (*span).length };
    if length != present {
        let mut arena = ARENA.lock().ok_or(ResizeError::NoRoom)?;
        // SAFETY: as above; if the body becomes shorter, the caller does not use its end any more.
        let resized = unsafe {
            if length > present {
                span_pages::lengthen(&mut arena, number, length)
            } else {
                span_pages::shorten(&mut arena, number, length)
            }
        };
        resized.map_err(|Refused| ResizeError::NoRoom)?;
    }
    // SAFETY: as above; the pages hold the size and a canary.
    unsafe {
        if measures().have(Measures::CANARY) {
            // An old canary that was cut off is gone.
            if before + canary::room(measures()) <= length {
                canary::remove(block, before);
            }
            canary::put(block, size);
            (*span).requested = size;
        } else {
            (*span).requested = length;
        }
    }
    if mode::is_counted() {
        counts::record_resize(before, usable_size(number));
    }
    Ok(())
}
