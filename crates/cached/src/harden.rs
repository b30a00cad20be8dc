//! The heap that takes measures against faulty and hostile programs: the other way, which no call takes unless it was asked for.
//!
//! Nothing of what it knows lies where programs write. Each block is recorded: a free that is not that of a block which the program has is
//! recognised exactly, always, whichever measures are taken.
//!
//! Short blocks lie in slabs of their class (`slab`), of which a lock per class lets one thread at a time choose (`shelf`); long ones for
//! themselves (`long`). Both lie in spans (`span`), where guards are. What is freed may have to wait (`quarantine`), behind what is
//! allocated may be a secret (`canary`), choices may be random (`draw`), and whoever is caught hears of it (`fault`).

mod canary;
mod draw;
mod fault;
mod long;
mod quarantine;
mod shelf;
mod slab;
mod slack;
mod span;
mod table;

use core::alloc::Layout;
use core::ffi::CStr;
use core::fmt::Write;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use heapwright_heaps::{FreeError, ResizeError};
use heapwright_os::{ForkPass, Line, Output, Refused, exit_at_once, round_to_pages, variable};

use crate::arena::ARENA;
use crate::classes::{GRAIN, LARGEST, SLAB, aligned_class_of, blocks_before, class_of, size_of_class};
use crate::errors::OutOfMemory;
use crate::heap::Owned;
use crate::measures::Measures;
use crate::mode::measures;
use crate::tables::MAX_HEAPS;
use crate::{counts, mode, thread};
use fault::{Fault, end};
use quarantine::Waiting;
use span::Kind;

/// Has these measures taken from now on. To be called before the first allocation: it has no effect later.
///
/// Programs whose allocator is [`Cached`](crate::Cached) allocate before they are asked anything: for them, the environment variable
/// `HEAPWRIGHT_HARDEN` says what is wanted, see [`Measures::from_text`].
pub fn harden(measures: Measures) {
    if !ARENA.is_ready() {
        mode::harden(measures);
    }
}

/// Has the measures taken that the environment asks for. A value that means nothing ends the process, which is not to run with less than
/// it was told to.
pub(crate) fn read_environment() {
    const NAME: &CStr = c"HEAPWRIGHT_HARDEN";
    variable(NAME, |value| {
        let text = value.to_str().unwrap_or("?");
        match Measures::from_text(text) {
            _ if text.is_empty() => {}
            Some(measures) => harden(measures),
            None => {
                let mut line = Line::<256>::new();
                line.push(b"heapwright: HEAPWRIGHT_HARDEN=");
                line.push(&text.as_bytes()[..text.len().min(64)]);
                let _ = writeln!(line, " means nothing: it must be {}", Measures::CHOICES);
                Output::standard_error().write(line.bytes());
                exit_at_once(2)
            }
        }
    });
}

/// Gets ready, if any measure is to be taken, over pages that have room for so many slabs.
pub(crate) fn lay(room: usize) -> Result<(), Refused> {
    if !mode::is_hardened() {
        return Ok(());
    }
    span::lay(room)?;
    shelf::lay()?;
    if measures().have(Measures::QUARANTINE) {
        quarantine::lay(MAX_HEAPS)?;
    }
    if measures().have(Measures::CANARY) {
        slack::lay(room)?;
        canary::choose();
    }
    Ok(())
}

/// A block for `layout`.
pub(crate) fn allocate(layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
    let (size, align) = (layout.size(), layout.align());
    let Some(class) = class_for(size, align) else {
        let block = long::allocate(layout).ok_or(OutOfMemory)?;
        if mode::is_counted() {
            counts::record_allocation(None, size, usable_size(block).unwrap_or(size));
        }
        return Ok(block);
    };
    let (number, at) = shelf::take(class).ok_or(OutOfMemory)?;
    let block = block_at(number, class, at).ok_or(OutOfMemory)?;
    check_unused(block, size_of_class(class));
    if measures().have(Measures::CANARY) {
        set_size(number, at, block, class, size);
    }
    span::set_live(number, at);
    if mode::is_counted() {
        counts::record_allocation(Some(class), size, size_of_class(class));
    }
    Ok(block)
}

/// As [`allocate`], all zeros.
pub(crate) fn allocate_zeroed(layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
    let block = allocate(layout)?;
    let is_zero = measures().have(Measures::ZERO) || class_for(layout.size(), layout.align()).is_none();
    if !is_zero {
        // SAFETY: the block is new, and the program may use that many bytes of it.
        unsafe { block.write_bytes(0, usable_size(block).unwrap_or(layout.size())) };
    }
    Ok(block)
}

/// How many bytes of each block are not for the program.
fn room_for_canary() -> usize {
    if measures().have(Measures::CANARY) { canary::LENGTH } else { 0 }
}

/// The class of a request, if it has one.
fn class_for(size: usize, align: usize) -> Option<usize> {
    let size = size.checked_add(room_for_canary())?;
    if align > GRAIN { aligned_class_of(size, align) } else { (size <= LARGEST).then(|| class_of(size)) }
}

/// Where a block of a slab lies.
fn block_at(number: u32, class: usize, at: usize) -> Option<NonNull<u8>> {
    // SAFETY: the block lies in the slab.
    NonNull::new(unsafe { ARENA.start_of(number).add(at * size_of_class(class)) })
}

/// Puts the canary behind the first `size` bytes of a block, at least one, and notes how many there are.
fn set_size(number: u32, at: usize, block: NonNull<u8>, class: usize, size: usize) {
    let size = size.max(1);
    let unused = size_of_class(class) - canary::LENGTH - size;
    slack::slack(number, class, at).store(unused as u16, Ordering::Relaxed);
    // SAFETY: the block has a class that holds both.
    unsafe { canary::put(block, size) };
}

/// Ends the process if a new block of so many bytes is not what it was when it was freed.
fn check_unused(block: NonNull<u8>, size: usize) {
    if !measures().have(Measures::ZERO) {
        return;
    }
    // SAFETY: blocks are whole, aligned words, and this one is nobody's yet.
    let words = unsafe { core::slice::from_raw_parts(block.as_ptr().cast::<u64>(), size / 8) };
    // Many at a time, without a branch for each.
    let (many, rest) = words.as_chunks::<8>();
    let is_zero = |words: &[u64]| words.iter().fold(0, |bits, word| bits | word) == 0;
    if many.iter().all(|words| is_zero(words)) && is_zero(rest) {
        return;
    }
    let at = words.iter().flat_map(|word| word.to_ne_bytes()).position(|byte| byte != 0).unwrap_or(0);
    end(&Fault::UseAfterFree { size, at }, block);
}

/// A block as frees name it.
enum Place {
    /// One of a slab: its number, its class, and the block's number there.
    Slab(u32, usize, usize),
    /// A long one, at a number.
    Long(u32),
}

/// The place that a block has or had.
fn place_of(block: NonNull<u8>) -> Option<Place> {
    let number = ARENA.number_of(block.addr().get())?;
    let offset = block.addr().get() % SLAB;
    match span::kind(number) {
        Kind::Nothing => None,
        Kind::Long | Kind::Waiting | Kind::Stuck => (offset == 0).then_some(Place::Long(number)),
        Kind::Slab(class) => {
            let fits = offset + size_of_class(class) <= span::length_of_slabs();
            blocks_before(offset, class).filter(|_| fits).map(|at| Place::Slab(number, class, at))
        }
    }
}

/// Frees a block. If there is a quarantine, the calling thread has adopted a heap.
///
/// # Errors
/// [`FreeError`], if it is not one that the program has, always; nothing has changed then.
pub(crate) fn free(block: NonNull<u8>) -> Result<(), FreeError> {
    match place_of(block).ok_or(FreeError::NotABlock)? {
        Place::Long(number) => {
            let size = long::usable_size(number);
            long::free(number, block)?;
            if mode::is_counted() {
                counts::record_free(None, size);
            }
        }
        Place::Slab(number, class, at) => {
            let heap = if measures().have(Measures::QUARANTINE) { thread::heap_if_any() } else { None };
            if !span::set_freed(number, at) {
                return Err(FreeError::AlreadyFree);
            }
            check_end(number, class, at, block);
            if measures().have(Measures::ZERO) {
                // SAFETY: the program has given the block up.
                unsafe { block.write_bytes(0, size_of_class(class)) };
            }
            if mode::is_counted() {
                counts::record_free(Some(class), size_of_class(class));
            }
            match heap {
                Some(heap) => wait(heap, block, size_of_class(class)),
                None => shelf::put(class, number, at),
            }
        }
    }
    Ok(())
}

/// Ends the process: what it freed is not a block that it had.
pub(crate) fn refuse(block: NonNull<u8>, error: FreeError) -> ! {
    end(&Fault::Free(error), block)
}

/// Has a block wait before it can be used again, in the queue of the calling thread's heap.
fn wait(heap: Owned, block: NonNull<u8>, bytes: usize) {
    let Some(queue) = quarantine::queue_or_new(heap.owner()) else { return put_back(block.addr().get()) };
    // SAFETY: the heap is this thread's, and nothing below allocates or frees.
    let queue = unsafe { &mut *queue };
    while let Some(first) = queue.make_room(bytes, quarantine::MOST_BYTES) {
        put_back(first.what);
    }
    queue.add(Waiting { what: block.addr().get(), bytes });
}

/// The thread that has the heap of this number lets nothing wait any more.
pub(crate) fn stop_waiting(owner: u32) {
    if let Some(queue) = quarantine::queue(owner) {
        // SAFETY: the heap is this thread's.
        let queue = unsafe { &mut *queue };
        while let Some(first) = queue.take() {
            put_back(first.what);
        }
    }
}

/// Puts the block at an address back to its slab.
fn put_back(address: usize) {
    if let Some(block) = NonNull::new(ARENA.base().with_addr(address))
        && let Some(Place::Slab(number, class, at)) = place_of(block)
    {
        shelf::put(class, number, at);
    }
}

/// How many bytes of a block of a slab the program may use.
fn size_of(number: u32, class: usize, at: usize) -> usize {
    let whole = size_of_class(class) - room_for_canary();
    if measures().have(Measures::CANARY) {
        whole - usize::from(slack::slack(number, class, at).load(Ordering::Relaxed)).min(whole)
    } else {
        whole
    }
}

/// Ends the process if a block of a slab was written to behind its end.
fn check_end(number: u32, class: usize, at: usize, block: NonNull<u8>) {
    let size = size_of(number, class, at);
    // SAFETY: behind the block there is a canary.
    if measures().have(Measures::CANARY) && !unsafe { canary::is_intact(block, size) } {
        end(&Fault::Overflow { size }, block);
    }
}

/// How many bytes the block at `block` has; `None` when the program has none there.
pub(crate) fn usable_size(block: NonNull<u8>) -> Option<usize> {
    match place_of(block)? {
        Place::Long(number) => (span::kind(number) == Kind::Long).then(|| long::usable_size(number)),
        Place::Slab(number, class, at) => span::is_live(number, at).then(|| size_of(number, class, at)),
    }
}

/// Returns whether the program may use `usable` bytes of a block that is allocated for `layout`: canaries make that the size that was
/// requested, otherwise it is the length of the class or of whole pages.
pub(crate) fn is_length_for(usable: usize, layout: Layout) -> bool {
    let (size, align) = (layout.size(), layout.align());
    let expected = match class_for(size, align) {
        _ if measures().have(Measures::CANARY) => Some(size.max(1)),
        Some(class) => Some(size_of_class(class)),
        None => round_to_pages(size),
    };
    expected == Some(usable.max(1))
}

/// Makes a block hold `size` bytes where it is, if it has the class or as many pages as such a block has.
pub(crate) fn resize_in_place(block: NonNull<u8>, size: usize) -> Result<(), ResizeError> {
    usable_size(block).ok_or(ResizeError::NotABlock)?;
    match place_of(block).ok_or(ResizeError::NotABlock)? {
        Place::Long(number) => {
            let before = long::usable_size(number);
            long::resize_in_place(number, block, size)?;
            if mode::is_counted() {
                counts::record_resize(before, long::usable_size(number));
            }
        }
        Place::Slab(number, class, at) => {
            check_end(number, class, at, block);
            if class_for(size, GRAIN) != Some(class) {
                return Err(ResizeError::NoRoom);
            }
            if measures().have(Measures::CANARY) {
                // SAFETY: the canary lies in the block, behind what the program uses.
                unsafe { canary::remove(block, size_of(number, class, at)) };
                set_size(number, at, block, class, size);
            }
        }
    }
    Ok(())
}

/// A slab or long block as a census sees it.
pub(crate) struct SpanAt {
    /// `None` of a long block.
    pub(crate) class: Option<usize>,
    /// How many blocks the program has there.
    pub(crate) live: usize,
    /// How many bytes of its pages are none of a slab's or of a block's that the program has.
    pub(crate) apart: usize,
}

/// What lies at a number, if anything begins there. The ground is held: no span comes or goes.
pub(crate) fn span_at(number: u32) -> Option<SpanAt> {
    let kind = span::kind(number);
    if kind == Kind::Nothing {
        return None;
    }
    let (whole, length) = span::lengths(number);
    match kind {
        Kind::Nothing => None,
        Kind::Long => Some(SpanAt { class: None, live: 1, apart: whole - length }),
        Kind::Waiting | Kind::Stuck => Some(SpanAt { class: None, live: 0, apart: whole }),
        Kind::Slab(class) => {
            Some(SpanAt { class: Some(class), live: span::count_live(number), apart: whole.saturating_sub(SLAB) })
        }
    }
}

/// Gives back to the system what is kept for nothing, and what waits, which does so no more; returns how many bytes that were.
pub(crate) fn trim() -> usize {
    if let Some(heap) = thread::heap_if_any() {
        stop_waiting(heap.owner());
    }
    long::release_waiting();
    shelf::trim() + ARENA.lock().map_or(0, |mut shared| shared.pages.trim())
}

/// Takes all locks for a fork.
pub(crate) fn hold(pass: ForkPass<'_>) {
    if mode::is_hardened() {
        shelf::hold(pass);
        long::WAITING.hold_for_fork(pass);
        quarantine::TABLE.hold_for_fork(pass);
    }
}

/// Frees them after the fork.
///
/// # Safety
/// This thread, or the one that it is a copy of, called [`hold`].
pub(crate) unsafe fn let_go() {
    if mode::is_hardened() {
        // SAFETY: this thread, or the one that it is a copy of, called `hold`, as this function requires.
        unsafe {
            quarantine::TABLE.let_go_after_fork();
            long::WAITING.let_go_after_fork();
            shelf::let_go();
        }
    }
}
