//! Performing operations.

use super::calls::Calls;
use super::op::{Op, code};
use super::payload::Payload;
use super::violation::{Difference, Violation, kind};
use super::watch::{ALLOCATE, FREE, RESIZE, Watch};

/// Where a block is: its address, and above it 16 bits of the number of the event that made it. 0 is no block.
pub type Entry = u64;

/// The bits of an address.
const ADDRESS: u64 = (1 << 48) - 1;

/// What every block of so many bytes or more is aligned to.
const USUAL_ALIGN: usize = 16;

/// Performs operations, one after the other.
pub struct Player<P, W> {
    pub calls: Calls,
    pub payload: P,
    pub watch: W,
    /// Requests that were refused.
    pub refused: u64,
}

impl<P: Payload, W: Watch> Player<P, W> {
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
        // SAFETY: these functions allocate; what is asked of them is theirs to judge.
        unsafe {
            match op.code() {
                code::FREE => self.free(op, event, entry),
                code::MALLOC => {
                    let block = self.watch.call(ALLOCATE, || (calls.malloc)(size));
                    self.settle(op, event, entry, block, usual_align(size))
                }
                code::RESIZE => self.resize(op, event, entry),
                code::CALLOC => {
                    let block = self.watch.call(ALLOCATE, || (calls.calloc)(1, size));
                    self.look_for_zero(op, event, block)?;
                    self.settle(op, event, entry, block, usual_align(size))
                }
                code::ALIGNED => {
                    let block = self.watch.call(ALLOCATE, || (calls.aligned)(op.align(), size));
                    self.settle(op, event, entry, block, op.align())
                }
                _ => Ok(()),
            }
        }
    }

    /// A block has come, or a request was refused.
    #[inline(always)]
    fn settle(&mut self, op: Op, event: u64, entry: &mut Entry, block: *mut u8, align: usize) -> Result<(), Violation> {
        let size = op.size();
        if block.is_null() {
            self.refused += u64::from(size > 0);
            *entry = 0;
            return Ok(());
        }
        self.watch.came(block);
        *entry = made(block, event);
        if misaligned(block, align) {
            return Err(violation(op, event, block, size, misalignment(align)));
        }
        // SAFETY: the allocator gave so many bytes.
        unsafe { self.payload.write(block, 0, size, tag(op, *entry)) };
        Ok(())
    }

    #[inline(always)]
    fn look_for_zero(&self, op: Op, event: u64, block: *mut u8) -> Result<(), Violation> {
        if block.is_null() {
            return Ok(());
        }
        // SAFETY: the allocator gave so many bytes.
        let zero = unsafe { self.payload.check_zero(block, op.size()) };
        zero.map_err(|difference| violation(op, event, block, op.size(), (kind::NOT_ZERO, difference)))
    }

    #[inline(always)]
    fn resize(&mut self, op: Op, event: u64, entry: &mut Entry) -> Result<(), Violation> {
        let (before, size, calls, old) = (op.before(), op.size(), self.calls, block_of(*entry));
        if old.is_null() {
            return Ok(());
        }
        let tag = tag(op, *entry);
        // SAFETY: the block lives and has so many bytes.
        let whole = unsafe { self.payload.check_kept(old, before, before, tag) };
        whole.map_err(|difference| violation(op, event, old, before, (kind::OVERWRITTEN, difference)))?;
        self.watch.goes(old);
        // SAFETY: the block lives and came from this family.
        let new = unsafe { self.watch.call(RESIZE, || (calls.realloc)(old, size)) };
        if new.is_null() {
            if size > 0 {
                self.refused += 1;
                // SAFETY: a block whose resizing was refused lives on; nobody will free it, for the rest of its events
                // is passed over.
                unsafe { (calls.free)(old) };
            }
            *entry = 0;
            return Ok(());
        }
        self.watch.came(new);
        // The tag goes with the contents.
        *entry = new.addr() as u64 | *entry & !ADDRESS;
        if misaligned(new, usual_align(size)) {
            return Err(violation(op, event, new, size, misalignment(usual_align(size))));
        }
        let kept = before.min(size);
        // SAFETY: the allocator gave `size` bytes.
        unsafe {
            let kept = self.payload.check_kept(new, kept, before, tag);
            kept.map_err(|difference| violation(op, event, new, size, (kind::NOT_KEPT, difference)))?;
            self.payload.write(new, before.min(size), size, tag);
        }
        Ok(())
    }

    #[inline(always)]
    fn free(&mut self, op: Op, event: u64, entry: &mut Entry) -> Result<(), Violation> {
        let (block, size, calls) = (block_of(*entry), op.before(), self.calls);
        if block.is_null() {
            return Ok(());
        }
        // SAFETY: the block lives and has so many bytes.
        let whole = unsafe { self.payload.check(block, size, tag(op, *entry)) };
        whole.map_err(|difference| violation(op, event, block, size, (kind::OVERWRITTEN, difference)))?;
        *entry = 0;
        self.watch.goes(block);
        // SAFETY: the block lives and came from this family.
        unsafe { self.watch.call(FREE, || (calls.free)(block)) };
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

/// A block's tag: no two blocks that live at one time have the same, and blocks that follow one another in a place hardly
/// ever do. Never 0.
#[inline(always)]
fn tag(op: Op, entry: Entry) -> u64 {
    let number = (op.slot() as u64) << 16 | entry >> 48 | 1 << 63;
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What C promises of a block of so many bytes: it may hold any object that fits.
#[inline(always)]
fn usual_align(size: usize) -> usize {
    1 << (size | 1).ilog2().min(USUAL_ALIGN.ilog2())
}

/// Also of an address that no program can have.
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
