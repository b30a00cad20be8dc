//! The operations of a script: 16 bytes each, encoded once from a trace, and cheap to decode.
//!
//! ```text
//! low   bits 0..47 size                         47..64 slot, lower 17 bits
//! high  bits 0..47 size before, or log2 align   47..60 slot, upper 13 bits   60..64 code
//! ```

use heapwright_host::lazy::Plain;

/// What an operation does. Codes that are not listed do nothing.
pub mod code {
    /// `malloc` of the size into the slot.
    pub const MALLOC: u64 = 1;
    /// `calloc` of the size into the slot.
    pub const CALLOC: u64 = 2;
    /// An aligned allocation of the size into the slot.
    pub const ALIGNED: u64 = 3;
    /// `realloc` of the slot's block to the size.
    pub const RESIZE: u64 = 4;
    /// `free` of the slot's block.
    pub const FREE: u64 = 5;
    /// The following operations are of another thread, whose number is in the place of the slot.
    pub const THREAD: u64 = 6;
    /// A resize of a block that is not live: does nothing, but uses a block number of the trace.
    pub const LOST: u64 = 7;
}

const SIZE_BITS: u32 = 47;
const LOW_SLOT_BITS: u32 = 64 - SIZE_BITS;
const HIGH_SLOT_BITS: u32 = 13;

/// The maximal number of slots, that is, of live blocks.
pub const MOST_SLOTS: u64 = 1 << (LOW_SLOT_BITS + HIGH_SLOT_BITS);

/// The maximal size, in bytes. A larger one, which no machine could grant, becomes this one.
pub const LONGEST: u64 = (1 << SIZE_BITS) - 1;

/// How far into a long block a program wrote, as a number of pages in few bits: 0 for all of it, 1 for not at all, and
/// otherwise a number of pages with six bits of precision.
mod reach {
    pub(super) const BITS: u32 = 11;
    const MANTISSA: u32 = 6;

    /// Encodes a number of pages, rounded up to one that has a code.
    pub(super) fn code(pages: u64) -> u64 {
        let exponent = (u64::BITS - pages.leading_zeros()).saturating_sub(MANTISSA);
        let mantissa = pages.div_ceil(1 << exponent);
        // Rounding up may carry into the next power of two.
        let (exponent, mantissa) =
            if mantissa >> MANTISSA == 0 { (exponent, mantissa) } else { (exponent + 1, mantissa >> 1) };
        (u64::from(exponent) << MANTISSA | mantissa) + 1
    }

    /// Returns the pages that a code other than 0 stands for.
    #[inline(always)]
    pub(super) fn pages(code: u64) -> u64 {
        let code = code - 1;
        (code & ((1 << MANTISSA) - 1)) << (code >> MANTISSA)
    }
}

/// Bytes of the pages in which a block's reach is counted.
const PAGE: u64 = 4096;

/// The most bytes of a block that are written to.
const FURTHEST: u64 = (1 << (SIZE_BITS - reach::BITS)) - 1;

/// Returns how many bytes of a block of `size` bytes are written to, of which the program touched `pages`, if that is
/// known.
pub fn written(size: u64, pages: Option<u64>) -> u64 {
    written_by_code(size, code_of(size, pages))
}

/// Returns the code of a block's reach.
fn code_of(size: u64, pages: Option<u64>) -> u64 {
    match pages {
        Some(pages) if pages < size / PAGE => reach::code(pages),
        _ => 0,
    }
}

#[inline(always)]
fn written_by_code(size: u64, code: u64) -> u64 {
    let reach = if code == 0 { size } else { (reach::pages(code) * PAGE).min(size) };
    reach.min(FURTHEST)
}

/// One operation. All zeroes does nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Op {
    low: u64,
    high: u64,
}

// SAFETY: an operation consists of two u64 without padding: any bytes are a valid value.
unsafe impl Plain for Op {}

impl Op {
    /// An operation; `slot` is less than [`MOST_SLOTS`].
    fn new(code: u64, slot: u32, size: u64, other: u64) -> Op {
        let slot = u64::from(slot);
        let (low_slot, high_slot) = (slot << SIZE_BITS, slot >> LOW_SLOT_BITS << SIZE_BITS);
        Op { low: size.min(LONGEST) | low_slot, high: other.min(LONGEST) | high_slot | code << 60 }
    }

    /// An operation with the code of its new block's reach.
    fn reaching(code: u64, slot: u32, size: u64, other: u64, pages: Option<u64>) -> Op {
        Op::new(code, slot, size, other.min(FURTHEST) | code_of(size, pages) << (SIZE_BITS - reach::BITS))
    }

    /// `malloc(size)`. Here and below, the program touched `pages` pages of the block, if that is known.
    pub fn malloc(slot: u32, size: u64, pages: Option<u64>) -> Op {
        Op::reaching(code::MALLOC, slot, size, 0, pages)
    }

    /// `calloc(1, size)`.
    pub fn calloc(slot: u32, size: u64, pages: Option<u64>) -> Op {
        Op::reaching(code::CALLOC, slot, size, 0, pages)
    }

    /// `memalign(1 << log2_align, size)`.
    pub fn aligned(slot: u32, size: u64, log2_align: u32, pages: Option<u64>) -> Op {
        Op::reaching(code::ALIGNED, slot, size, u64::from(log2_align), pages)
    }

    /// `realloc` of a block of which `before` bytes were [`written`].
    pub fn resize(slot: u32, size: u64, before: u64, pages: Option<u64>) -> Op {
        Op::reaching(code::RESIZE, slot, size, before, pages)
    }

    /// `free` of a block of which `before` bytes were [`written`].
    pub fn free(slot: u32, before: u64) -> Op {
        Op::new(code::FREE, slot, 0, before.min(FURTHEST))
    }

    /// The following operations are of another thread.
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

    /// The code, one of [`code`].
    #[inline(always)]
    pub fn code(self) -> u64 {
        self.high >> 60
    }

    /// The slot that holds the block's address.
    #[inline(always)]
    pub fn slot(self) -> usize {
        let high = (self.high >> SIZE_BITS) & ((1 << HIGH_SLOT_BITS) - 1);
        (self.low >> SIZE_BITS | high << LOW_SLOT_BITS) as usize
    }

    /// The requested bytes.
    #[inline(always)]
    pub fn size(self) -> usize {
        (self.low & LONGEST) as usize
    }

    /// For a resize or a free: the bytes of the block that were written before.
    #[inline(always)]
    pub fn before(self) -> usize {
        (self.high & FURTHEST) as usize
    }

    /// For a new or resized block: the bytes that are written.
    #[inline(always)]
    pub fn written(self) -> usize {
        written_by_code(self.low & LONGEST, (self.high & LONGEST) >> (SIZE_BITS - reach::BITS)) as usize
    }

    /// For an aligned allocation: the requested alignment, in bytes.
    #[inline(always)]
    pub fn align(self) -> usize {
        1 << (self.high & 63)
    }

    /// Decodes an operation from its form in a file.
    pub fn from_bytes(bytes: [u8; 16]) -> Op {
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Op { low: word(0), high: word(8) }
    }

    /// Encodes the operation in its form in files.
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
                let before = size & FURTHEST;
                let op = Op::resize(slot, size, before, None);
                assert_eq!((op.code(), op.slot(), op.size()), (code::RESIZE, slot as usize, size as usize));
                assert_eq!((op.before(), op.written()), (before as usize, size.min(FURTHEST) as usize));
            }
        }
        assert_eq!(Op::from_bytes(Op::free(5, 6).to_bytes()), Op::free(5, 6));
        let op = Op::aligned(77, u64::MAX, 63, None);
        assert_eq!((op.slot(), op.size(), op.align()), (77, LONGEST as usize, 1 << 63));
        assert_eq!(Op::thread(40_000).slot(), 40_000);
    }

    #[test]
    fn what_is_written_is_what_was_touched_within_four_hundredths() {
        let size = 1 << 30;
        for pages in [0, 1, 2, 63, 64, 65, 100, 127, 128, 129, 1000, 4095, 4096, 100_000, (1 << 18) - 1] {
            let op = Op::calloc(3, size, Some(pages));
            let (written, touched) = (op.written() as u64, pages * PAGE);
            assert_eq!(written, super::written(size, Some(pages)));
            assert!((touched..=touched + touched / 25).contains(&written), "{pages}: {}", written / PAGE);
            assert_eq!(Op::resize(3, size, written, Some(pages)).before() as u64, written);
            assert_eq!(Op::resize(3, size, 5, Some(pages)).written() as u64, written);
        }
        // All of it, and what is not known.
        for pages in [Some(1 << 18), Some(1 << 40), None] {
            assert_eq!(Op::malloc(3, size, pages).written() as u64, size);
        }
        assert_eq!(Op::malloc(3, 5000, Some(0)).written(), 0);
        assert_eq!(Op::malloc(3, 100, Some(0)).written(), 100, "it lies on pages with others");
    }
}
