//! What a buffer contains, as the collector reads it. Slots are given by their numbers, which are below
//! [`Buffer::count`]. Nothing that they contain is trusted: a program may have overwritten them.

use core::ops::Range;

use heapwright_os::{Mapping, Place, Usage};

use super::Buffer;
use crate::record::{CALLS_HEAD, Entry, MAPPING_HEAD, STACK_HEAD};
use crate::run::Run;

/// A copy of the upper end of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'b> {
    /// The registers of its thread.
    pub place: Place,
    /// The bytes from the stack pointer on.
    pub bytes: &'b [u8],
}

impl Buffer {
    /// Returns the entry at slot `number`, which is below [`Buffer::count`]; `None` when it is not an entry.
    #[inline(always)]
    #[must_use]
    pub fn entry(&self, number: u32) -> Option<Entry> {
        let slot = self.slots.get(number as usize)?;
        // SAFETY: slots below the count are not written to until the buffer is reused, which the collector permits.
        Entry::from_words(unsafe { slot.get().read() })
    }

    /// Returns the run of calls that begins with the slots `range`, which is below [`Buffer::count`].
    #[inline]
    #[must_use]
    pub fn run(&self, range: Range<u32>) -> Run<'_> {
        Run::of(self.slots.get(range.start as usize..range.end as usize).unwrap_or_default())
    }

    /// Returns the name of a Python function and that of its file, which begin at slot `number`, below
    /// [`Buffer::count`]; `None` when it is another entry.
    #[must_use]
    pub fn python_name(&self, number: u32) -> Option<(&[u8], &[u8])> {
        let Entry::PythonName { length, .. } = self.entry(number)? else { return None };
        let mut texts = self.bytes(number.checked_add(CALLS_HEAD)?, length)?.split(|&byte| byte == 0);
        Some((texts.next()?, texts.next()?))
    }

    /// Returns the stack that begins at slot `number`, which is below [`Buffer::count`]; `None` when there is none.
    #[must_use]
    pub fn stack(&self, number: u32) -> Option<Stack<'_>> {
        let Entry::Stack { length, instruction } = self.entry(number)? else { return None };
        let ([stack, frame], [link, _]) = (self.words(number.checked_add(1)?)?, self.words(number.checked_add(2)?)?);
        let bytes = self.bytes(number.checked_add(STACK_HEAD)?, length)?;
        Some(Stack { place: Place { instruction, stack, frame, link }, bytes })
    }

    /// Returns the addresses of the path, or the hashes of the frames of Python functions, that begins at slot
    /// `number`, which is below [`Buffer::count`]; `None` when there is none.
    #[must_use]
    pub fn calls(&self, number: u32) -> Option<&[u64]> {
        let (Entry::Calls { length } | Entry::PythonFrames { length }) = self.entry(number)? else { return None };
        let words = self.slots.get(number.checked_add(CALLS_HEAD)? as usize..)?;
        let length = length as usize;
        // SAFETY: slots below the count are not written to until the buffer is reused, which the collector permits; the
        // length is within the buffer.
        (length <= words.len() * 2).then(|| unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), length) })
    }

    /// Returns the mapping that begins at slot `number`, which is below [`Buffer::count`]; `None` when there is none.
    #[must_use]
    pub fn mapping(&self, number: u32) -> Option<Mapping<'_>> {
        let Entry::Mapping { length, file, offset } = self.entry(number)? else { return None };
        let [start, end] = self.words(number.checked_add(1)?)?;
        let path = self.bytes(number.checked_add(MAPPING_HEAD)?, length)?;
        let range = start as usize..end as usize;
        Some(Mapping { range, is_executable: true, is_guard: false, offset, file, path })
    }

    /// Returns what the process used, which begins at slot `number`, below [`Buffer::count`]; `None` when it is another
    /// entry.
    #[must_use]
    pub fn usage(&self, number: u32) -> Option<Usage> {
        let Entry::Usage { resident, nanoseconds } = self.entry(number)? else { return None };
        let [faults, processor_nanoseconds] = self.words(number.checked_add(1)?)?;
        Some(Usage { nanoseconds, resident, faults, processor_nanoseconds })
    }

    fn words(&self, number: u32) -> Option<[u64; 2]> {
        let slot = self.slots.get(number as usize)?;
        // SAFETY: slots below the count are not written to until the buffer is reused, which the collector permits.
        Some(unsafe { slot.get().read() })
    }

    /// Returns `length` bytes from a slot on; `None` when the buffer is shorter.
    fn bytes(&self, number: u32, length: u32) -> Option<&[u8]> {
        let rest = self.slots.get(number as usize..)?;
        let length = length as usize;
        // SAFETY: slots below the count are not written to until the buffer is reused, which the collector permits; the
        // length is within the buffer.
        (length <= size_of_val(rest)).then(|| unsafe { core::slice::from_raw_parts(rest.as_ptr().cast(), length) })
    }
}
