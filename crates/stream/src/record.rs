//! Entries of a buffer: a call in 16 bytes, and the entries between calls.

/// The length of a slot in bytes. A record takes one slot, other entries one or several.
pub const SLOT: usize = 16;

/// The function that was called, and whether it was recorded before or after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `malloc`, after it.
    Malloc = 1,
    /// `calloc`, after it.
    Calloc = 2,
    /// An allocation at a requested alignment, after it.
    Aligned = 3,
    /// `realloc`, before it: the address is the old one.
    ResizeBegins = 4,
    /// `realloc`, after it: the address is the new one; 0 when it failed or, to 0 bytes, freed the block.
    ResizeEnds = 5,
    /// `free`, before it.
    Free = 6,
    /// A request for a new block that failed.
    Failed = 7,
    /// No call, but how many whole pages of a block are resident: the size counts them. The alignment is 1 (its
    /// logarithm 0) when the block has just begun, and 2 when it is about to end.
    Resident = 13,
}

impl Call {
    /// Whether it is a whole call, or the end of one: each call of the program has one such record. The others are the
    /// beginning of a resize and what is noted of long blocks.
    #[must_use]
    pub const fn ends_call(self) -> bool {
        !matches!(self, Call::ResizeBegins | Call::Resident)
    }

    // Not inlined, so that the most frequent calls take a comparison each, and no table of jumps.
    #[cold]
    #[inline(never)]
    fn from_number(number: u64) -> Option<Call> {
        Some(match number {
            1 => Call::Malloc,
            2 => Call::Calloc,
            3 => Call::Aligned,
            4 => Call::ResizeBegins,
            5 => Call::ResizeEnds,
            6 => Call::Free,
            7 => Call::Failed,
            13 => Call::Resident,
            _ => return None,
        })
    }
}

/// A call of the malloc family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What was called.
    pub call: Call,
    /// The base-2 logarithm of the requested alignment; below 64.
    pub log2_align: u8,
    /// The requested size in bytes. Sizes from 2⁵⁴ on, which no system grants, are recorded as 2⁵⁴ - 1.
    pub size: u64,
    /// The block's address, a multiple of 16 below 2⁴⁸.
    pub address: u64,
}

/// Number of slots before the copy of a stack, and before the path of a mapping.
pub(crate) const STACK_HEAD: u32 = 3;
pub(crate) const MAPPING_HEAD: u32 = 2;

/// Number of slots before the addresses of a path.
pub(crate) const CALLS_HEAD: u32 = 1;

/// Number of slots of what the process uses.
pub(crate) const USAGE_SLOTS: u32 = 2;

pub(crate) const MALLOC: u64 = Call::Malloc as u64;
pub(crate) const FREE: u64 = Call::Free as u64;
const RESIZE_BEGINS: u64 = Call::ResizeBegins as u64;
const RESIZE_ENDS: u64 = Call::ResizeEnds as u64;
const RESIDENT: u64 = Call::Resident as u64;
const TURN: u64 = 8;
const THREAD: u64 = 9;
const TIME: u64 = 10;
const STACK: u64 = 11;
const MAPPING: u64 = 12;
const USAGE: u64 = 14;
const PATH: u64 = 15;

const MOST_RESIDENT: u64 = (1 << 60) - 1;
const MOST_UNMAPPED: u64 = (1 << 56) - 1;

impl Record {
    const LARGEST: u64 = (1 << 54) - 1;
    const ADDRESS: u64 = !15;

    /// Returns the record as it is stored.
    #[inline(always)]
    #[must_use]
    pub const fn packed(self) -> Packed {
        let size = if self.size < Self::LARGEST { self.size } else { Self::LARGEST };
        let what = (self.call as u64) << 60 | (self.log2_align as u64 & 63) << 54 | size;
        Packed { what, address: self.address }
    }
}

/// A [`Record`] in two words: they stay in registers.
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    what: u64,
    address: u64,
}

impl Record {
    /// Returns the call that these words of a slot are; `None` when they are another entry.
    #[inline(always)]
    pub(crate) fn from_words(words: [u64; 2]) -> Option<Record> {
        let call = match words[0] >> 60 {
            FREE => Call::Free,
            MALLOC => Call::Malloc,
            number => Call::from_number(number)?,
        };
        Some(Record::of_call(call, words))
    }

    #[inline(always)]
    const fn of_call(call: Call, [what, more]: [u64; 2]) -> Record {
        let (log2_align, size) = ((what >> 54 & 63) as u8, what & Record::LARGEST);
        Record { call, log2_align, size, address: more & Record::ADDRESS }
    }
}

impl Packed {
    /// The block's address.
    #[inline(always)]
    #[must_use]
    pub const fn address(self) -> u64 {
        self.address
    }

    /// [`Record::size`].
    #[inline(always)]
    #[must_use]
    pub const fn size(self) -> u64 {
        self.what & Record::LARGEST
    }

    /// Whether it is the result of a request for a block.
    #[inline(always)]
    #[must_use]
    pub const fn is_request(self) -> bool {
        !matches!(self.what >> 60, FREE | RESIZE_BEGINS | RESIDENT)
    }

    /// [`Call::ends_call`].
    #[must_use]
    pub const fn ends_call(self) -> bool {
        !matches!(self.what >> 60, RESIZE_BEGINS | RESIDENT)
    }

    /// Whether it gives a block back, or begins to resize it.
    #[inline(always)]
    #[must_use]
    pub const fn is_release(self) -> bool {
        matches!(self.what >> 60, FREE | RESIZE_BEGINS)
    }

    /// Whether it is the result of a resize.
    #[inline(always)]
    #[must_use]
    pub const fn is_resized(self) -> bool {
        self.what >> 60 == RESIZE_ENDS
    }

    /// Returns the words of the record.
    #[inline(always)]
    pub(crate) const fn to_words(self) -> [u64; 2] {
        [self.what, self.address]
    }
}

/// An entry of a buffer.
///
/// ```text
/// bit 63       60 59          54 53            0      63                           0
///     call        log2 of align  size                 address
///     8 (turn)    0                                   number
///     9 (thread)  0                                   number
///     10 (time)   0                                   ticks
///     11 (stack)  length of the copy in bytes         instruction
///                 then 2 slots: stack pointer, frame pointer, link register, 0; then the copy
///     12 (mapping) length of the path in bytes        offset in the file
///                 then a slot: start, end; then the path
///        (unmapped) 1 in bits 56 to 59, length        start
///     13 (resident) 0: begins, 1: ends  pages          as of a call
///     14 (usage)  resident bytes                      nanoseconds
///                 then a slot: page faults, nanoseconds of processor time
///     15 (path)   0                                   number
///     15 (calls)  number of addresses, from 1 on      0
///                 then a slot for two addresses each
///        (python) 1 in bits 56 to 59                  number of a stack of Python functions
///                 2 there, number of frames           0, then a slot for the hashes of two frames each
///                 3 there, line, length of the name   hash of a frame, then the name and the file
/// ```
///
/// ```
/// use heapwright_stream::{Call, Entry, Record};
/// let record = Record { call: Call::Malloc, log2_align: 4, size: 100, address: 0x7f00_1234_5670 };
/// let entry = Entry::Call(record);
/// assert_eq!(Entry::from_words(entry.to_words()), Some(entry));
/// assert_eq!(Entry::from_words([0, 0]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A call.
    Call(Record),
    /// The beginning of a turn in this buffer, by its number: see [`Appended`](crate::Appended).
    Turn(u64),
    /// The thread of the entries that follow in this buffer.
    Thread(u32),
    /// The time at which the next call in this buffer was recorded, in [`heapwright_os::ticks`].
    Time(u64),
    /// The [`Stack`](crate::Stack) of the next call in this buffer.
    Stack {
        /// The length of the copy in bytes.
        length: u32,
        /// The instruction pointer.
        instruction: u64,
    },
    /// The stack of the next call in this buffer, as the number of a path in [`Paths`](crate::Paths).
    Path(u32),
    /// The stack of the next call in this buffer, as the addresses of its frames.
    Calls {
        /// Their number, from 1 on.
        length: u32,
    },
    /// The Python functions in which the thread makes the next call in this buffer, by the number of their stack.
    Python(u32),
    /// The same, by the hashes of the frames.
    PythonFrames {
        /// Their number.
        length: u32,
    },
    /// The name of a frame of a Python function.
    PythonName {
        /// The hash of the frame.
        hash: u64,
        /// The line; below 2²⁴.
        line: u32,
        /// The length in bytes of the function's name and its file's, each with a zero byte.
        length: u32,
    },
    /// A [`Mapping`](crate::Mapping) of a file with code.
    Mapping {
        /// The length of the path in bytes.
        length: u32,
        /// The lowest 24 bits of the file's number.
        file: u32,
        /// The offset in the file at which it begins.
        offset: u64,
    },
    /// Code that is not mapped any more: its library was unloaded.
    Unmapped {
        /// The address of its first byte.
        start: u64,
        /// The number of its bytes; below 2⁵⁶.
        length: u64,
    },
    /// The beginning of a [`Usage`](heapwright_os::Usage) of the process before the next call in this buffer.
    Usage {
        /// Resident anonymous memory in bytes; below 2⁶⁰.
        resident: u64,
        /// The time.
        nanoseconds: u64,
    },
}

/// Returns the call of `malloc` or `free` that these words of a slot are, with its number; `None` when they are another
/// entry.
#[inline(always)]
pub(crate) fn usual_call(words: [u64; 2]) -> Option<(u64, Record)> {
    let number = words[0] >> 60;
    let call = match number {
        FREE => Call::Free,
        MALLOC => Call::Malloc,
        _ => return None,
    };
    Some((number, Record::of_call(call, words)))
}

/// Returns the number of the path that these words of a slot are; `None` when they are another entry.
#[inline(always)]
pub(crate) fn known_path([what, more]: [u64; 2]) -> Option<u32> {
    (what == PATH << 60).then_some(more as u32)
}

impl Entry {
    /// Returns the number of slots that the entry takes, with the data that follows it.
    #[inline(always)]
    #[must_use]
    pub const fn slots(self) -> u32 {
        match self {
            Entry::Stack { length, .. } => STACK_HEAD + length.div_ceil(SLOT as u32),
            Entry::Mapping { length, .. } => MAPPING_HEAD + length.div_ceil(SLOT as u32),
            Entry::Usage { .. } => USAGE_SLOTS,
            Entry::Calls { length } | Entry::PythonFrames { length } => CALLS_HEAD + length.div_ceil(2),
            Entry::PythonName { length, .. } => CALLS_HEAD + length.div_ceil(SLOT as u32),
            _ => 1,
        }
    }

    /// Returns the entry as two words.
    #[must_use]
    pub const fn to_words(self) -> [u64; 2] {
        match self {
            Entry::Call(record) => record.packed().to_words(),
            Entry::Turn(number) => [TURN << 60, number],
            Entry::Thread(number) => [THREAD << 60, number as u64],
            Entry::Time(ticks) => [TIME << 60, ticks],
            Entry::Stack { length, instruction } => [STACK << 60 | length as u64, instruction],
            Entry::Path(number) => [PATH << 60, number as u64],
            Entry::Calls { length } => [PATH << 60 | length as u64, 0],
            Entry::Python(number) => [PATH << 60 | 1 << 56, number as u64],
            Entry::PythonFrames { length } => [PATH << 60 | 2 << 56 | length as u64, 0],
            Entry::PythonName { hash, line, length } => {
                [PATH << 60 | 3 << 56 | (line as u64 & 0xff_ffff) << 32 | length as u64, hash]
            }
            Entry::Mapping { length, file, offset } => {
                [MAPPING << 60 | (file as u64 & 0xff_ffff) << 32 | length as u64, offset]
            }
            Entry::Unmapped { start, length } => [MAPPING << 60 | 1 << 56 | length & MOST_UNMAPPED, start],
            Entry::Usage { resident, nanoseconds } => [USAGE << 60 | resident & MOST_RESIDENT, nanoseconds],
        }
    }

    /// The inverse of [`Entry::to_words`]; `None` when the words are not an entry.
    #[inline(always)]
    #[must_use]
    pub fn from_words([what, more]: [u64; 2]) -> Option<Entry> {
        Some(match what >> 60 {
            TURN => Entry::Turn(more),
            THREAD => Entry::Thread(more as u32),
            TIME => Entry::Time(more),
            STACK => Entry::Stack { length: what as u32, instruction: more },
            PATH => match (what >> 56 & 15, what as u32) {
                (0, 0) => Entry::Path(more as u32),
                (0, length) => Entry::Calls { length },
                (1, _) => Entry::Python(more as u32),
                (2, length) => Entry::PythonFrames { length },
                (3, length) => Entry::PythonName { hash: more, line: (what >> 32) as u32 & 0xff_ffff, length },
                _ => return None,
            },
            MAPPING => match what >> 56 & 15 {
                0 => Entry::Mapping { length: what as u32, file: (what >> 32) as u32 & 0xff_ffff, offset: more },
                1 => Entry::Unmapped { start: more, length: what & MOST_UNMAPPED },
                _ => return None,
            },
            USAGE => Entry::Usage { resident: what & MOST_RESIDENT, nanoseconds: more },
            _ => Entry::Call(Record::from_words([what, more])?),
        })
    }
}
