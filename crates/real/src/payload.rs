//! What is written to blocks and checked later. This detects an allocator that returns overlapping blocks, loses
//! contents, or returns memory from calloc that is not zero.
//!
//! Each block has a tag that no other live block has. At offset `o` it holds byte `o % 8` of its tag, wherever a
//! payload writes at all.

use std::slice;

use heapwright_os::spread;

use super::violation::Difference;

const WORD: usize = 8;
const PAGE: usize = 4096;

/// Writes to blocks and checks them.
///
/// # Safety
/// All functions: the block is valid for reads and writes of all bytes that the arguments name.
pub trait Payload: Copy {
    /// Writes to a block of `size` bytes, of which the first `kept` hold the payload of the block before it was
    /// resized.
    unsafe fn write(self, block: *mut u8, kept: usize, size: usize, tag: u64);

    /// Checks a block of `size` bytes that was written to.
    unsafe fn check(self, block: *mut u8, size: usize, tag: u64) -> Result<(), Difference>;

    /// Checks the first `kept` bytes of a block that had `before` bytes, just before and after it is resized.
    unsafe fn check_kept(self, block: *mut u8, kept: usize, before: usize, tag: u64) -> Result<(), Difference>;

    /// Checks that a block is zero where it will be written to.
    unsafe fn check_zero(self, block: *mut u8, size: usize) -> Result<(), Difference>;
}

/// Writes nothing.
#[derive(Clone, Copy)]
pub struct Untouched;

impl Payload for Untouched {
    #[inline(always)]
    unsafe fn write(self, _: *mut u8, _: usize, _: usize, _: u64) {}

    #[inline(always)]
    unsafe fn check(self, _: *mut u8, _: usize, _: u64) -> Result<(), Difference> {
        Ok(())
    }

    #[inline(always)]
    unsafe fn check_kept(self, _: *mut u8, _: usize, _: usize, _: u64) -> Result<(), Difference> {
        Ok(())
    }

    #[inline(always)]
    unsafe fn check_zero(self, _: *mut u8, _: usize) -> Result<(), Difference> {
        Ok(())
    }
}

/// A word at the head, at the tail, and at the beginning of every further 4 KiB.
#[derive(Clone, Copy)]
pub struct Touched {
    /// Which bits of what is found count: none for blocks that lie over one another on purpose.
    pub compared: u64,
}

impl Touched {
    /// Checks that the compared bits of the word at `offset` are those of `expected`. The word ends within the block.
    #[inline(always)]
    unsafe fn word(self, block: *mut u8, offset: usize, expected: u64) -> Result<(), Difference> {
        // SAFETY: the caller guarantees that the eight bytes from `offset` on are within a block that is valid for
        // reads; the read needs no alignment.
        let found = unsafe { block.add(offset).cast::<u64>().read_unaligned() };
        if (found ^ expected) & self.compared == 0 { Ok(()) } else { Err(Difference { offset, expected, found }) }
    }

    /// Checks the words at the beginnings of pages of a block of `size` bytes, except for its first word.
    #[inline(always)]
    unsafe fn pages(self, block: *mut u8, size: usize, expected: u64) -> Result<(), Difference> {
        let mut offset = PAGE;
        while offset + 2 * WORD <= size {
            // SAFETY: `offset + 8 <= size`, so the word ends within the block, which is valid for reads.
            unsafe { self.word(block, offset, expected) }?;
            offset += PAGE;
        }
        Ok(())
    }

    /// Checks a block shorter than a word.
    #[inline(always)]
    unsafe fn short(self, block: *mut u8, size: usize, tag: u64) -> Result<(), Difference> {
        for offset in 0..size {
            // SAFETY: `offset < size`, so the byte is within the block, which is valid for reads.
            let (found, expected) = (u64::from(unsafe { block.add(offset).read() }), (tag >> (8 * offset)) & 0xff);
            if (found ^ expected) & self.compared != 0 {
                return Err(Difference { offset, expected, found });
            }
        }
        Ok(())
    }
}

/// The last word of a block of `size` bytes: it agrees with the first where they overlap.
#[inline(always)]
fn tail(tag: u64, size: usize) -> u64 {
    tag.rotate_right(8 * (size % WORD) as u32)
}

impl Payload for Touched {
    #[inline(always)]
    unsafe fn write(self, block: *mut u8, kept: usize, size: usize, tag: u64) {
        if size < WORD {
            // SAFETY: every offset is less than `size`, so all bytes are within the block, which is valid for writes.
            (0..size).for_each(|offset| unsafe { block.add(offset).write((tag >> (8 * offset)) as u8) });
            return;
        }
        // The last page of what was kept may have had no word yet: the tail was in its place.
        let mut offset = (kept / PAGE).max(1) * PAGE;
        // SAFETY: the block has at least 8 bytes; the loop's words and the last one end at or before `size`; the writes
        // need no alignment.
        unsafe {
            block.cast::<u64>().write_unaligned(tag);
            while offset + 2 * WORD <= size {
                block.add(offset).cast::<u64>().write_unaligned(tag);
                offset += PAGE;
            }
            block.add(size - WORD).cast::<u64>().write_unaligned(tail(tag, size));
        }
    }

    #[inline(always)]
    unsafe fn check(self, block: *mut u8, size: usize, tag: u64) -> Result<(), Difference> {
        // SAFETY: the block is valid for reads of `size` bytes; a block of at least 8 bytes has a first and a last
        // word.
        unsafe {
            if size < WORD {
                return self.short(block, size, tag);
            }
            self.word(block, 0, tag)?;
            self.word(block, size - WORD, tail(tag, size))?;
            self.pages(block, size, tag)
        }
    }

    #[inline(always)]
    unsafe fn check_kept(self, block: *mut u8, kept: usize, before: usize, tag: u64) -> Result<(), Difference> {
        // SAFETY: the block is valid for reads of `kept` bytes, and all words end at or before `kept`.
        unsafe {
            if kept < WORD {
                return self.short(block, kept, tag);
            }
            self.word(block, 0, tag)?;
            if kept == before {
                self.word(block, kept - WORD, tail(tag, kept))?;
            }
            // Only one page: checking all pages would dominate the time of a long block that grows in many small steps.
            let page = kept.saturating_sub(2 * WORD) / PAGE * PAGE;
            if page > 0 { self.word(block, page, tag) } else { Ok(()) }
        }
    }

    #[inline(always)]
    unsafe fn check_zero(self, block: *mut u8, size: usize) -> Result<(), Difference> {
        // SAFETY: the block is valid for reads of `size` bytes, which is all that `check` needs. A payload of tag 0 is
        // all zeroes.
        unsafe { self.check(block, size, 0) }
    }
}

/// Writes and checks every byte.
#[derive(Clone, Copy)]
pub struct Full;

/// The word at `offset`, a multiple of eight: of every word its own, so that contents that moved are noticed.
#[inline(always)]
fn word_at(tag: u64, offset: usize) -> u64 {
    tag.wrapping_add(spread(offset as u64))
}

/// Compares a whole block with the words that `expected` returns for their offsets.
///
/// # Safety
/// The block is valid for reads of `size` bytes.
unsafe fn compare(block: *mut u8, size: usize, expected: impl Fn(usize) -> u64) -> Result<(), Difference> {
    // SAFETY: the caller guarantees that the block is valid for reads of `size` bytes, and only this thread uses it
    // while its operation is under way.
    let bytes = unsafe { slice::from_raw_parts(block, size) };
    for (index, part) in bytes.chunks(WORD).enumerate() {
        let expected = expected(index * WORD).to_le_bytes();
        if *part != expected[..part.len()] {
            let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            let (expected, found) = (word(&expected[..part.len()]), word(part));
            return Err(Difference { offset: index * WORD, expected, found });
        }
    }
    Ok(())
}

impl Payload for Full {
    unsafe fn write(self, block: *mut u8, kept: usize, size: usize, tag: u64) {
        // SAFETY: the caller guarantees that the block is valid for writes of `size` bytes, and only this thread uses
        // it while its operation is under way. Memory from an allocator in another library holds some value in every
        // byte.
        let bytes = unsafe { slice::from_raw_parts_mut(block, size) };
        let from = kept / WORD;
        for (index, part) in bytes.chunks_mut(WORD).enumerate().skip(from) {
            part.copy_from_slice(&word_at(tag, index * WORD).to_le_bytes()[..part.len()]);
        }
    }

    unsafe fn check(self, block: *mut u8, size: usize, tag: u64) -> Result<(), Difference> {
        // SAFETY: the caller guarantees that the block is valid for reads of `size` bytes.
        unsafe { compare(block, size, |offset| word_at(tag, offset)) }
    }

    unsafe fn check_kept(self, block: *mut u8, kept: usize, _: usize, tag: u64) -> Result<(), Difference> {
        // SAFETY: the caller guarantees that the block is valid for reads of `kept` bytes.
        unsafe { self.check(block, kept, tag) }
    }

    unsafe fn check_zero(self, block: *mut u8, size: usize) -> Result<(), Difference> {
        // SAFETY: the caller guarantees that the block is valid for reads of `size` bytes, which calloc has
        // initialised.
        unsafe { compare(block, size, |_| 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: u64 = 0x1122_3344_5566_7788;

    /// Writes a block, resizes it, and looks at it, for sizes around every border.
    fn is_consistent(payload: impl Payload) {
        let sizes: Vec<usize> = (0..40).chain(4080..4130).chain(8180..8220).collect();
        let mut memory = vec![0u8; 8300];
        let block = memory.as_mut_ptr();
        for &before in &sizes {
            for &after in sizes.iter().step_by(3) {
                // SAFETY: the memory is long enough.
                unsafe {
                    block.write_bytes(0, 8300);
                    payload.check_zero(block, before).unwrap();
                    payload.write(block, 0, before, TAG);
                    payload.check(block, before, TAG).unwrap();
                    let kept = before.min(after);
                    payload.check_kept(block, kept, before, TAG).unwrap();
                    payload.write(block, kept, after, TAG);
                    payload.check(block, after, TAG).unwrap();
                }
            }
        }
    }

    #[test]
    fn what_was_written_is_found_again() {
        is_consistent(Touched { compared: u64::MAX });
        is_consistent(Full);
        is_consistent(Untouched);
    }

    /// The offsets at which a changed byte of a block of `size` bytes is noticed.
    fn noticed(payload: impl Payload, size: usize) -> Vec<usize> {
        let mut memory = vec![0u8; size];
        let block = memory.as_mut_ptr();
        let is_noticed = |&at: &usize| {
            // SAFETY: the byte is within the memory.
            unsafe {
                payload.write(block, 0, size, TAG);
                *block.add(at) ^= 0x40;
                let found = payload.check(block, size, TAG);
                *block.add(at) ^= 0x40;
                found.is_err_and(|difference| difference.offset <= at && at < difference.offset + WORD)
            }
        };
        (0..size).filter(is_noticed).collect()
    }

    #[test]
    fn a_changed_byte_is_noticed_where_something_was_written() {
        for size in [1, 7, 8, 11, 16] {
            assert_eq!(noticed(Touched { compared: u64::MAX }, size), (0..size).collect::<Vec<_>>());
        }
        let size = 9001;
        let expected = [0, 4096, 8192, size - 8].into_iter().flat_map(|start| start..start + 8).collect::<Vec<_>>();
        assert_eq!(noticed(Touched { compared: u64::MAX }, size), expected);
        assert_eq!(noticed(Full, 531), (0..531).collect::<Vec<_>>());
        assert!(noticed(Touched { compared: 0 }, size).is_empty());
    }
}
