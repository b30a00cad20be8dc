//! One call in 16 bytes.

/// The length of a record in bytes.
pub const RECORD: usize = 16;

/// What was called, and when it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `malloc`, after it.
    Malloc = 1,
    /// `calloc`, after it.
    Calloc = 2,
    /// An allocation at an alignment that was asked for, after it.
    Aligned = 3,
    /// `realloc`, before it: the address is the old one.
    ResizeBegins = 4,
    /// `realloc`, after it: the address is the new one; 0 when it failed or, to 0 bytes, freed the block.
    ResizeEnds = 5,
    /// `free`, before it.
    Free = 6,
    /// A request for a new block that failed.
    Failed = 7,
}

impl Call {
    fn from_number(number: u64) -> Option<Call> {
        Some(match number {
            1 => Call::Malloc,
            2 => Call::Calloc,
            3 => Call::Aligned,
            4 => Call::ResizeBegins,
            5 => Call::ResizeEnds,
            6 => Call::Free,
            7 => Call::Failed,
            _ => return None,
        })
    }
}

/// A call of the malloc family.
///
/// ```text
/// bit 63       60 59          54 53            0      63       48 47             0
///     call        log2 of align  size                 thread      address
/// ```
///
/// ```
/// use heapwright_stream::{Call, Record};
/// let record = Record { call: Call::Malloc, log2_align: 4, size: 100, thread: 1, address: 0x7f00_1234_5670 };
/// assert_eq!(Record::from_words(record.to_words()), Some(record));
/// assert_eq!(Record::from_words([0, 0]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What was called.
    pub call: Call,
    /// The alignment that was asked for, as a power of two; below 64.
    pub log2_align: u8,
    /// How many bytes were asked for; whatever is 2⁵⁴ or more, which no system grants, counts as 2⁵⁴ - 1.
    pub size: u64,
    /// The thread; numbers repeat after 65,536 threads.
    pub thread: u16,
    /// The block's address, the low 48 bits of it.
    pub address: u64,
}

impl Record {
    const LARGEST: u64 = (1 << 54) - 1;
    const ADDRESS: u64 = (1 << 48) - 1;

    /// The record as two words.
    #[inline(always)]
    #[must_use]
    pub const fn to_words(self) -> [u64; 2] {
        let size = if self.size < Self::LARGEST { self.size } else { Self::LARGEST };
        [
            (self.call as u64) << 60 | (self.log2_align as u64 & 63) << 54 | size,
            (self.thread as u64) << 48 | self.address & Self::ADDRESS,
        ]
    }

    /// The record that two words stand for; `None` when they stand for none.
    #[inline(always)]
    #[must_use]
    pub fn from_words([what, whose]: [u64; 2]) -> Option<Record> {
        Some(Record {
            call: Call::from_number(what >> 60)?,
            log2_align: (what >> 54 & 63) as u8,
            size: what & Self::LARGEST,
            thread: (whose >> 48) as u16,
            address: whose & Self::ADDRESS,
        })
    }
}
