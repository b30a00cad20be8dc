//! The operations of a script: 16 bytes each, made once from a trace, and cheap to take apart.
//!
//! ```text
//! low   bits 0..47 size                         47..64 slot, lower 17 bits
//! high  bits 0..47 size before, or log2 align   47..60 slot, upper 13 bits   60..64 code
//! ```

use crate::bench::lazy::Plain;

/// What an operation does. Codes that are not listed do nothing.
pub mod code {
    /// `malloc` of the size into the slot.
    pub const MALLOC: u64 = 1;
    /// `calloc` of the size into the slot.
    pub const CALLOC: u64 = 2;
    /// An aligned allocation of the size into the slot.
    pub const ALIGNED: u64 = 3;
    /// `realloc` of what is in the slot to the size.
    pub const RESIZE: u64 = 4;
    /// `free` of what is in the slot.
    pub const FREE: u64 = 5;
    /// What follows happens in the thread whose number stands in the slot's place.
    pub const THREAD: u64 = 6;
    /// A block that does not live is resized: nothing happens, but the trace has used up a number.
    pub const LOST: u64 = 7;
}

const SIZE_BITS: u32 = 47;
const LOW_SLOT_BITS: u32 = 64 - SIZE_BITS;
const HIGH_SLOT_BITS: u32 = 13;

/// The most slots there can be: blocks that live at one time.
pub const MOST_SLOTS: u64 = 1 << (LOW_SLOT_BITS + HIGH_SLOT_BITS);

/// The longest size, in bytes; a longer one, which no machine can grant either, becomes this one.
pub const LONGEST: u64 = (1 << SIZE_BITS) - 1;

/// One operation. All zeroes does nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Op {
    low: u64,
    high: u64,
}

// SAFETY: two integers.
unsafe impl Plain for Op {}

impl Op {
    /// An operation; `slot` is less than [`MOST_SLOTS`].
    fn new(code: u64, slot: u32, size: u64, other: u64) -> Op {
        let slot = u64::from(slot);
        let (low_slot, high_slot) = (slot << SIZE_BITS, slot >> LOW_SLOT_BITS << SIZE_BITS);
        Op { low: size.min(LONGEST) | low_slot, high: other.min(LONGEST) | high_slot | code << 60 }
    }

    /// `malloc(size)`.
    pub fn malloc(slot: u32, size: u64) -> Op {
        Op::new(code::MALLOC, slot, size, 0)
    }

    /// `calloc(1, size)`.
    pub fn calloc(slot: u32, size: u64) -> Op {
        Op::new(code::CALLOC, slot, size, 0)
    }

    /// `memalign(1 << log2_align, size)`.
    pub fn aligned(slot: u32, size: u64, log2_align: u32) -> Op {
        Op::new(code::ALIGNED, slot, size, u64::from(log2_align))
    }

    /// `realloc` of a block of `before` bytes.
    pub fn resize(slot: u32, size: u64, before: u64) -> Op {
        Op::new(code::RESIZE, slot, size, before)
    }

    /// `free` of a block of `before` bytes.
    pub fn free(slot: u32, before: u64) -> Op {
        Op::new(code::FREE, slot, 0, before)
    }

    /// What follows happens in another thread.
    pub fn thread(thread: u32) -> Op {
        Op::new(code::THREAD, thread, 0, 0)
    }

    /// A resize that is left out.
    pub fn lost() -> Op {
        Op::new(code::LOST, 0, 0, 0)
    }

    /// Whether it is a call of an allocator.
    #[inline(always)]
    pub fn is_call(self) -> bool {
        (code::MALLOC..=code::FREE).contains(&self.code())
    }

    /// What it does, one of [`code`].
    #[inline(always)]
    pub fn code(self) -> u64 {
        self.high >> 60
    }

    /// Where the block's address is kept.
    #[inline(always)]
    pub fn slot(self) -> usize {
        let high = (self.high >> SIZE_BITS) & ((1 << HIGH_SLOT_BITS) - 1);
        (self.low >> SIZE_BITS | high << LOW_SLOT_BITS) as usize
    }

    /// The bytes asked for.
    #[inline(always)]
    pub fn size(self) -> usize {
        (self.low & LONGEST) as usize
    }

    /// The bytes that the block had, where it is resized or freed.
    #[inline(always)]
    pub fn before(self) -> usize {
        (self.high & LONGEST) as usize
    }

    /// The alignment asked for, where there is one, in bytes.
    #[inline(always)]
    pub fn align(self) -> usize {
        1 << (self.high & 63)
    }

    /// The operation that stands so in a file.
    pub fn from_bytes(bytes: [u8; 16]) -> Op {
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Op { low: word(0), high: word(8) }
    }

    /// The operation as it stands in files.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.low.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.high.to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_out_as_it_went_in() {
        for slot in [0, 1, (1 << 17) - 1, 1 << 17, MOST_SLOTS as u32 - 1] {
            for size in [0, 1, 4096, LONGEST - 1, LONGEST] {
                let op = Op::resize(slot, size, LONGEST - size);
                assert_eq!((op.code(), op.slot(), op.size()), (code::RESIZE, slot as usize, size as usize));
                assert_eq!(op.before(), (LONGEST - size) as usize);
            }
        }
        assert_eq!(Op::from_bytes(Op::free(5, 6).to_bytes()), Op::free(5, 6));
        let op = Op::aligned(77, u64::MAX, 63);
        assert_eq!((op.slot(), op.size(), op.align()), (77, LONGEST as usize, 1 << 63));
        assert_eq!(Op::thread(40_000).slot(), 40_000);
    }
}
