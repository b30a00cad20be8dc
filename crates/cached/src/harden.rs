//! The hardened heap: measures against programs that write out of bounds or free wrongly, and against attackers. No
//! call comes here unless a measure was requested.
//!
//! Metadata is out of band. Each block has a record, so that a free of anything but a block that the program has is
//! recognised exactly, under every measure.
//!
//! Short blocks (`short`) have a class and lie in slabs (`slab`), behind a lock per class (`shelf`) and a cache per
//! thread (`cache`), which answers most calls without a lock (`levels`). Long blocks have pages of their own (`long`).
//! Both lie in spans with their guard pages (`span`, `span_pages`); those of freed slabs and long blocks are kept for a
//! while (`stock`, `ready_spans`). Freed blocks may wait (`quarantine`), secret bytes may follow a block (`canary`),
//! choices may be random (`draw`), and what is found is reported (`fault`).

mod cache;
mod canary;
mod draw;
mod fault;
mod free_block;
mod levels;
mod long;
mod quarantine;
mod ready_spans;
mod record;
mod shelf;
mod short;
mod slab;
mod span;
mod span_pages;
mod stock;
mod table;
mod zeros;

use core::alloc::Layout;
use core::ffi::CStr;
use core::fmt::Write;
use core::ptr::NonNull;

use heapwright_heaps::{FreeError, ResizeError};
use heapwright_os::{ForkPass, Line, Output, Refused, exit_at_once, round_to_pages, variable};

use fault::{Fault, end};
use heapwright_slabs::arena::{ARENA, ArenaState};
use heapwright_slabs::classes::{GRAIN, LARGEST, SLAB, aligned_class_of, class_of, size_of_class};
use heapwright_slabs::errors::OutOfMemory;
use heapwright_slabs::heap::Owned;
use heapwright_slabs::measures::Measures;
use heapwright_slabs::mode::measures;
use heapwright_slabs::{mode, thread};
pub(crate) use levels::{give, take, take_zeroed};
use short::Short;
use span::Kind;
use zeros::Contents;

/// Has these measures taken from now on. To be called before the first allocation: it has no effect later.
///
/// Programs whose allocator is [`Cached`](crate::Cached) allocate before they are asked anything: for them, the
/// environment variable `HEAPWRIGHT_HARDEN` says what is wanted, see [`Measures::from_text`].
pub fn harden(measures: Measures) {
    if !ARENA.is_ready() {
        mode::harden(measures);
    }
}

/// Has the measures taken that the environment asks for. A value that means nothing ends the process, which is not to
/// run with less than it was told to.
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

/// Initialises the heap if any measure is taken, over the pages of the arena.
pub(crate) fn init(arena: &mut ArenaState) -> Result<(), Refused> {
    if !mode::is_hardened() {
        return Ok(());
    }
    let room = arena.pages.capacity() / SLAB;
    span::init(room)?;
    record::init(room)?;
    // SAFETY: the records of what begins in a hole are not used, and there are no links or marks under these measures.
    unsafe { arena.pages.purge_beside(span::records_within) };
    shelf::init()?;
    cache::init()?;
    canary::init();
    Ok(())
}

/// Allocates a block for `layout`. `heap` is the calling thread's, if it has one.
#[inline]
pub(crate) fn allocate(layout: Layout, heap: Option<Owned>) -> Result<NonNull<u8>, OutOfMemory> {
    allocate_with(layout, Contents::Any, heap)
}

/// As [`allocate`], for the contents of a shorter block: a long one has room to grow where it is.
pub(crate) fn allocate_to_grow(layout: Layout, heap: Option<Owned>) -> Result<NonNull<u8>, OutOfMemory> {
    match class_for(layout.size(), layout.align(), measures()) {
        Some(_) => allocate(layout, heap),
        None => long::allocate_to_grow(layout).or_else(|| after_trim(layout, Contents::Any)).ok_or(OutOfMemory),
    }
}

/// As [`allocate`]; the block is zero up to its usable size.
pub(crate) fn allocate_zeroed(layout: Layout, heap: Option<Owned>) -> Result<NonNull<u8>, OutOfMemory> {
    allocate_with(layout, Contents::Zeros, heap)
}

fn allocate_with(layout: Layout, contents: Contents, heap: Option<Owned>) -> Result<NonNull<u8>, OutOfMemory> {
    let (measures, cache) = (measures(), heap.and_then(cache::of));
    match class_for(layout.size(), layout.align(), measures) {
        Some(class) => short::allocate(class, layout.size(), contents, measures, cache),
        None => long::allocate(layout, contents).or_else(|| after_trim(layout, contents)),
    }
    .ok_or(OutOfMemory)
}

/// Allocates a block of its own pages after nothing waits any more and no slab is kept for nothing.
#[cold]
#[inline(never)]
fn after_trim(layout: Layout, contents: Contents) -> Option<NonNull<u8>> {
    trim();
    long::allocate(layout, contents)
}

/// Returns the class of a request, if it has one.
#[inline(always)]
fn class_for(size: usize, align: usize, measures: Measures) -> Option<usize> {
    let size = size.checked_add(canary::room(measures))?;
    if align > GRAIN { aligned_class_of(size, align) } else { (size <= LARGEST).then(|| class_of(size)) }
}

/// A block as frees name it.
enum Place {
    /// One of a slab.
    Slab(Short),
    /// A long one, at a number.
    Long(u32),
}

/// Returns the place that a block has or had.
#[inline]
fn place_of(block: NonNull<u8>) -> Option<Place> {
    let number = ARENA.number_of(block.addr().get())?;
    match span::kind(number) {
        Kind::Slab(_) => Short::at(block, &span::slab_at(block.addr().get())?).map(Place::Slab),
        Kind::Nothing | Kind::Spare => None,
        Kind::Long | Kind::Waiting | Kind::Stuck => {
            block.addr().get().is_multiple_of(SLAB).then_some(Place::Long(number))
        }
    }
}

/// Frees a block. `heap` is the calling thread's, if it has one; it was adopted before the block is free, because the
/// block may be the table of the thread-specific values of a thread that ends, into which adoption writes.
///
/// # Errors
/// [`FreeError`], always if it is not a block that the program has; nothing has changed then.
pub(crate) fn free(block: NonNull<u8>, heap: Option<Owned>) -> Result<(), FreeError> {
    match place_of(block).ok_or(FreeError::NotABlock)? {
        Place::Slab(short) => short.free(measures(), heap.and_then(cache::of)),
        Place::Long(number) => long::free(number, block),
    }
}

/// Ends the process: what it freed is not a block that it had.
pub(crate) fn refuse(block: NonNull<u8>, error: FreeError) -> ! {
    end(&Fault::Free(error), block)
}

/// Puts the blocks that the calling thread's cache has back, those in quarantine too.
pub(crate) fn flush(heap: Owned) {
    if let Some(cache) = cache::existing(heap.here()) {
        cache.flush();
    }
}

/// Returns how many bytes the block at `block` has; `None` when the program has none there.
pub(crate) fn usable_size(block: NonNull<u8>) -> Option<usize> {
    match place_of(block)? {
        Place::Slab(short) => short.usable_size(),
        Place::Long(number) => (span::kind(number) == Kind::Long).then(|| long::usable_size(number)),
    }
}

/// Returns whether the program may use `usable` bytes of a block that is allocated for `layout`: canaries make that the
/// size that was requested, otherwise it is the length of the class or of whole pages.
pub(crate) fn is_length_for(usable: usize, layout: Layout) -> bool {
    let (size, align) = (layout.size(), layout.align());
    let expected = match class_for(size, align, measures()) {
        _ if measures().have(Measures::CANARY) => Some(size.max(1)),
        Some(class) => Some(size_of_class(class)),
        None => round_to_pages(size),
    };
    expected == Some(usable.max(1))
}

/// Makes a block hold `size` bytes where it is, if it has the class or the pages of such a block.
pub(crate) fn resize_in_place(block: NonNull<u8>, size: usize) -> Result<(), ResizeError> {
    match place_of(block).ok_or(ResizeError::NotABlock)? {
        Place::Slab(short) => short.resize(size, class_for(size, GRAIN, measures())),
        Place::Long(number) => long::resize_in_place(number, block, size),
    }
}

/// Returns the number of bytes of a slab that have blocks, hardened or not.
pub(crate) fn slab_length() -> usize {
    span::length_of_slabs()
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
        Kind::Waiting | Kind::Spare | Kind::Stuck => Some(SpanAt { class: None, live: 0, apart: whole }),
        Kind::Slab(class) => {
            Some(SpanAt { class: Some(class), live: span::count_live(number), apart: whole.saturating_sub(SLAB) })
        }
    }
}

/// Puts back the blocks of the calling thread's cache and ends the quarantines, then frees the slabs that are not in
/// use and purges idle pages of others; returns how many bytes were purged.
pub(crate) fn trim() -> usize {
    let before = shelf::purged();
    if let Some(heap) = thread::heap_if_any() {
        flush(heap);
    }
    long::release_waiting();
    shelf::trim();
    shelf::purged().saturating_sub(before)
}

/// Takes all locks for a fork.
pub(crate) fn hold(pass: ForkPass<'_>) {
    if mode::is_hardened() {
        shelf::hold(pass);
        long::WAITING.hold_for_fork(pass);
        ready_spans::hold(pass);
        cache::TABLE.hold_for_fork(pass);
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
            cache::TABLE.let_go_after_fork();
            ready_spans::let_go();
            long::WAITING.let_go_after_fork();
            shelf::let_go();
        }
    }
}
