//! Performs operations and checks the allocator's answers.

use heapwright_os::spread;

use super::calls::Calls;
use super::observer::{ALLOCATE, FREE, Observer, RESIZE};
use super::op::{Op, code};
use super::payload::Payload;
use super::violation::{Difference, Violation, kind};

/// A block's address, and above it 16 bits of the number of the event that allocated it. 0 is no block.
pub type Entry = u64;

/// The bits of an address.
const ADDRESS: u64 = (1 << 48) - 1;

/// The alignment of every block of at least this many bytes.
const USUAL_ALIGN: usize = 16;

/// Performs operations, one after the other.
pub struct Player<P, W> {
    pub calls: Calls,
    pub payload: P,
    pub observer: W,
    /// Requests that were refused.
    pub refused: u64,
}

impl<P: Payload, W: Observer> Player<P, W> {
    /// Performs `ops`, the first of which is event `first`, on the blocks in `table`.
    pub fn perform_all(&mut self, ops: &[Op], first: u64, table: &mut [Entry]) -> Result<(), Violation> {
        for (&op, event) in ops.iter().zip(first..) {
            if op.is_call() {
                self.perform(op, event, &mut table[op.slot()])?;
            }
        }
        Ok(())
    }

    /// Performs one operation on the block in its place.
    #[inline(always)]
    pub fn perform(&mut self, op: Op, event: u64, entry: &mut Entry) -> Result<(), Violation> {
        let (size, calls) = (op.size(), self.calls);
        // SAFETY: malloc, calloc and an aligned allocation accept any size; the alignment is a power of two, as in the
        // recorded call.
        unsafe {
            match op.code() {
                code::FREE => self.free(op, event, entry),
                code::MALLOC => {
                    let block = self.observer.call(ALLOCATE, || (calls.malloc)(size));
                    self.settle(op, event, entry, block, usual_align(size))
                }
                code::RESIZE => self.resize(op, event, entry),
                code::CALLOC => {
                    let block = self.observer.call(ALLOCATE, || (calls.calloc)(1, size));
                    self.look_for_zero(op, event, block)?;
                    self.settle(op, event, entry, block, usual_align(size))
                }
                code::ALIGNED => {
                    let block = self.observer.call(ALLOCATE, || (calls.aligned)(op.align(), size));
                    self.settle(op, event, entry, block, op.align())
                }
                _ => Ok(()),
            }
        }
    }

    /// Records a new block, or a refused request.
    #[inline(always)]
    fn settle(&mut self, op: Op, event: u64, entry: &mut Entry, block: *mut u8, align: usize) -> Result<(), Violation> {
        let size = op.size();
        if block.is_null() {
            self.refused += u64::from(size > 0);
            *entry = 0;
            return Ok(());
        }
        self.observer.allocated(block);
        *entry = made(block, event);
        if misaligned(block, align) {
            return Err(violation(op, event, block, size, misalignment(align)));
        }
        // SAFETY: the allocator returned this block for a request of `size` bytes, so they are valid for writes.
        unsafe { self.payload.write(block, 0, op.written(), tag(op, *entry)) };
        Ok(())
    }

    #[inline(always)]
    fn look_for_zero(&self, op: Op, event: u64, block: *mut u8) -> Result<(), Violation> {
        if block.is_null() {
            return Ok(());
        }
        // SAFETY: calloc returned this block for a request of `op.size()` bytes and initialised them.
        let zero = unsafe { self.payload.check_zero(block, op.written()) };
        zero.map_err(|difference| violation(op, event, block, op.size(), (kind::NOT_ZERO, difference)))
    }

    #[inline(always)]
    fn resize(&mut self, op: Op, event: u64, entry: &mut Entry) -> Result<(), Violation> {
        let (before, size, calls, old) = (op.before(), op.size(), self.calls, block_of(*entry));
        if old.is_null() {
            return Ok(());
        }
        let tag = tag(op, *entry);
        // SAFETY: the block is live, was allocated with `before` bytes, and the payload was written to it.
        let whole = unsafe { self.payload.check_kept(old, before, before, tag) };
        whole.map_err(|difference| violation(op, event, old, before, (kind::OVERWRITTEN, difference)))?;
        self.observer.freeing(old);
        // SAFETY: the block is live and was allocated by this family of functions.
        let new = unsafe { self.observer.call(RESIZE, || (calls.realloc)(old, size)) };
        if new.is_null() {
            if size > 0 {
                self.refused += 1;
                // SAFETY: a block whose resizing was refused is still live. Its entry becomes 0, so its later events
                // are skipped and this is its only free.
                unsafe { (calls.free)(old) };
            }
            *entry = 0;
            return Ok(());
        }
        self.observer.allocated(new);
        // The tag goes with the contents.
        *entry = new.addr() as u64 | *entry & !ADDRESS;
        if misaligned(new, usual_align(size)) {
            return Err(violation(op, event, new, size, misalignment(usual_align(size))));
        }
        let written = op.written();
        let kept = before.min(size);
        // SAFETY: realloc returned this block for a request of `size` bytes, of which at most `written` are used, and
        // kept the first `before.min(size)` of them.
        unsafe {
            let kept = self.payload.check_kept(new, kept, before, tag);
            kept.map_err(|difference| violation(op, event, new, size, (kind::NOT_KEPT, difference)))?;
            self.payload.write(new, before.min(written), written, tag);
        }
        Ok(())
    }

    #[inline(always)]
    fn free(&mut self, op: Op, event: u64, entry: &mut Entry) -> Result<(), Violation> {
        let (block, size, calls) = (block_of(*entry), op.before(), self.calls);
        if block.is_null() {
            return Ok(());
        }
        // SAFETY: the block is live, was allocated with `size` bytes, and the payload was written to it.
        let whole = unsafe { self.payload.check(block, size, tag(op, *entry)) };
        whole.map_err(|difference| violation(op, event, block, size, (kind::OVERWRITTEN, difference)))?;
        *entry = 0;
        self.observer.freeing(block);
        // SAFETY: the block is live and was allocated by this family of functions; its entry is 0 from now on.
        unsafe { self.observer.call(FREE, || (calls.free)(block)) };
        Ok(())
    }
}

#[inline(always)]
fn made(block: *mut u8, event: u64) -> Entry {
    block.addr() as u64 & ADDRESS | event << 48
}

#[inline(always)]
fn block_of(entry: Entry) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut((entry & ADDRESS) as usize)
}

/// Returns a block's tag, which is never 0. All live blocks have different tags; successive blocks in one slot almost
/// always do.
#[inline(always)]
fn tag(op: Op, entry: Entry) -> u64 {
    let number = (op.slot() as u64) << 16 | entry >> 48 | 1 << 63;
    spread(number)
}

/// The alignment that C guarantees for a block of `size` bytes: that of any object that fits.
#[inline(always)]
fn usual_align(size: usize) -> usize {
    1 << (size | 1).ilog2().min(USUAL_ALIGN.ilog2())
}

/// Returns whether the address is not a multiple of `align`, or is outside the address space of programs.
#[inline(always)]
fn misaligned(block: *mut u8, align: usize) -> bool {
    block.addr() & (align - 1) != 0 || block.addr() as u64 > ADDRESS
}

fn misalignment(align: usize) -> (u32, Difference) {
    (kind::MISALIGNED, Difference { offset: 0, expected: align as u64, found: 0 })
}

#[cold]
#[inline(never)]
fn violation(op: Op, event: u64, block: *mut u8, size: usize, what: (u32, Difference)) -> Violation {
    let (kind, Difference { offset, expected, found }) = what;
    let (address, size, offset) = (block.addr() as u64, size as u64, offset as u64);
    Violation { kind, slot: op.slot() as u32, event, address, size, offset, expected, found }
}
