//! What a thread writes to: a buffer of its own, without a lock.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use heapwright_os::{Mapping, Place, has_thread, here, is_single_threaded, thread_id};

use crate::record::{Entry, MAPPING_HEAD, Packed, SLOT, STACK_HEAD, TICKETS};
use crate::sampler::Sampler;

/// The length of a buffer in bytes.
pub const BUFFER: usize = 64 << 10;

/// How much of a stack is copied at most, in bytes.
pub const STACK: usize = 3 << 10;

/// How many slots a buffer has.
pub const SLOTS: u32 = ((BUFFER - 64) / SLOT) as u32;

/// How many slots one call takes at most: a time, a base, and its record.
pub(crate) const LARGEST_CALL: u32 = 3;

/// The same of a call without its time.
const UNTIMED_CALL: u32 = 2;

/// Nobody's: for whoever has the lock.
const NOBODY: u32 = 0;

/// The next ticket. The first ones are so large that no base is near them: every buffer begins with a base.
static TICKET: AtomicU64 = AtomicU64::new(2 * TICKETS);

/// How a mapping is told.
pub(crate) fn entry_of(mapping: &Mapping<'_>) -> Entry {
    Entry::Mapping { length: mapping.path.len() as u32, offset: mapping.offset }
}

/// A copy of the upper end of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'b> {
    /// Where its thread was.
    pub place: Place,
    /// What lay from the stack pointer on.
    pub bytes: &'b [u8],
}

/// What becomes of a buffer. It goes from one state to the next, and from the last to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// To be used: it was never begun, or all of it has been read. The collector puts it into this state, the process the other two.
    Free = 0,
    /// Something may be added.
    Open = 1,
    /// Nothing will be added.
    Full = 2,
}

/// A buffer: one thread writes, the collector reads up to [`Buffer::count`].
#[repr(C, align(64))]
pub struct Buffer {
    count: AtomicU32,
    state: AtomicU32,
    base: AtomicU64,
    thread: AtomicU32,
    /// The system's number of the thread that writes, or [`NOBODY`].
    owner: AtomicU32,
    sampler: Sampler,
    _unused: [u32; 2],
    slots: [UnsafeCell<[u64; 2]>; SLOTS as usize],
}

const _: () = assert!(size_of::<Buffer>() == BUFFER);

// SAFETY: whatever changes is atomic, but the slots; those below `count` do not change while it is open, and those above belong
// to one writer.
unsafe impl Sync for Buffer {}

/// What a call's ticket would be that comes now.
pub(crate) fn next_ticket() -> u64 {
    TICKET.load(Ordering::Relaxed)
}

/// Takes a ticket: each is given once, and what happens after what has another's has a higher one.
#[inline(always)]
fn take_ticket() -> u64 {
    if is_single_threaded() {
        let ticket = TICKET.load(Ordering::Relaxed);
        TICKET.store(ticket + 1, Ordering::Relaxed);
        ticket
    } else {
        TICKET.fetch_add(1, Ordering::Relaxed)
    }
}

impl Buffer {
    /// How many slots are complete. Whoever sees the number sees what is in them.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Its state; what it was is in the slots, see [`Buffer::count`], which is to be asked after it.
    #[must_use]
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Free,
            1 => State::Open,
            _ => State::Full,
        }
    }

    /// What slot `number` holds, which is below [`Buffer::count`]; `None` when that is nothing.
    #[inline(always)]
    #[must_use]
    pub fn entry(&self, number: u32) -> Option<Entry> {
        let slot = self.slots.get(number as usize)?;
        // SAFETY: the slot is complete: nobody writes to it.
        Entry::from_words(unsafe { slot.get().read() })
    }

    /// Says that all of a full buffer has been read.
    pub fn free(&self) {
        self.state.store(State::Free as u32, Ordering::Release);
    }

    /// Adds a call, with the next ticket.
    ///
    /// # Safety
    /// The buffer is open, and the caller is its owner and not within another call of this function; or it is nobody's, and
    /// the caller has the lock.
    #[inline(always)]
    #[must_use]
    pub unsafe fn append(&self, record: Packed) -> Appended {
        let count = self.count.load(Ordering::Relaxed);
        if count > SLOTS - UNTIMED_CALL {
            return Appended::Full;
        }
        let ticket = take_ticket();
        let since_base = ticket.wrapping_sub(self.base.load(Ordering::Relaxed));
        if since_base >= TICKETS {
            return Appended::Far { ticket };
        }
        self.put(count, record.to_words(since_base));
        self.count.store(count + 1, Ordering::Release);
        Appended::Yes
    }

    /// Adds a call whose ticket is far from the buffer's base.
    ///
    /// # Safety
    /// As for [`Buffer::append`], which has returned [`Appended::Far`].
    pub unsafe fn append_far(&self, record: Packed, ticket: u64) {
        let count = self.count.load(Ordering::Relaxed);
        self.base.store(ticket, Ordering::Relaxed);
        self.put(count, Entry::Base(ticket).to_words());
        self.put(count + 1, record.to_words(0));
        self.count.store(count + 2, Ordering::Release);
    }

    /// Adds a call, with the next ticket and with its time if there is one; `false` when there is no room, in which case no
    /// ticket is taken.
    ///
    /// # Safety
    /// As for [`Buffer::append`].
    #[must_use]
    pub unsafe fn append_at(&self, record: Packed, ticks: Option<u64>) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        if count > SLOTS - LARGEST_CALL {
            return false;
        }
        if let Some(ticks) = ticks {
            self.put(count, Entry::Time(ticks).to_words());
            self.count.store(count + 1, Ordering::Release);
        }
        // SAFETY: the caller's promise.
        if let Appended::Far { ticket } = unsafe { self.append(record) } {
            // SAFETY: as above.
            unsafe { self.append_far(record, ticket) };
        }
        true
    }

    /// Adds a call with the stack of the calling thread, where it is known how to ask for it, and otherwise as
    /// [`Buffer::append_at`]; `false` when there is no room.
    ///
    /// # Safety
    /// As for [`Buffer::append`].
    // Not inlined, so that its frame is there until the stack is copied: of who calls it last of all there is nothing left.
    #[inline(never)]
    #[must_use]
    pub unsafe fn append_with_stack(&self, record: Packed, ticks: Option<u64>) -> bool {
        let place = here();
        let count = self.count.load(Ordering::Relaxed);
        if count > SLOTS - LARGEST_CALL - STACK_HEAD - (STACK / SLOT) as u32 {
            return false;
        }
        if let Some(place) = place {
            // SAFETY: there is room for so much, and what is not counted yet is this writer's.
            let copy = unsafe { core::slice::from_raw_parts_mut(self.slot(count + STACK_HEAD).cast::<u8>(), STACK) };
            let copied = self.sampler.copy_stack(place.stack as usize, copy);
            let entry = Entry::Stack { length: copied as u32, instruction: place.instruction };
            self.put(count, entry.to_words());
            self.put(count + 1, [place.stack, place.frame]);
            self.put(count + 2, [place.link, 0]);
            self.count.store(count + entry.slots(), Ordering::Release);
        }
        // SAFETY: the caller's promise.
        unsafe { self.append_at(record, ticks) }
    }

    /// Tells of a mapping. There has to be room for it, as [`Buffer::has_room_for`] has it, and the caller may write, as for
    /// [`Buffer::append`].
    pub(crate) fn add_mapping(&self, mapping: &Mapping<'_>) {
        let count = self.count.load(Ordering::Relaxed);
        let (entry, path) = (entry_of(mapping), mapping.path);
        // SAFETY: the caller's promise; what is not counted yet is this writer's.
        unsafe { self.slot(count + MAPPING_HEAD).cast::<u8>().copy_from_nonoverlapping(path.as_ptr(), path.len()) };
        self.put(count, entry.to_words());
        self.put(count + 1, [mapping.range.start as u64, mapping.range.end as u64]);
        self.count.store(count + entry.slots(), Ordering::Release);
    }

    /// The stack that begins at slot `number`, which is below [`Buffer::count`]; `None` when there is none.
    #[must_use]
    pub fn stack(&self, number: u32) -> Option<Stack<'_>> {
        let Entry::Stack { length, instruction } = self.entry(number)? else { return None };
        let ([stack, frame], [link, _]) = (self.words(number.checked_add(1)?)?, self.words(number.checked_add(2)?)?);
        let bytes = self.bytes(number.checked_add(STACK_HEAD)?, length)?;
        Some(Stack { place: Place { instruction, stack, frame, link }, bytes })
    }

    /// The mapping that begins at slot `number`, which is below [`Buffer::count`]; `None` when there is none.
    #[must_use]
    pub fn mapping(&self, number: u32) -> Option<Mapping<'_>> {
        let Entry::Mapping { length, offset } = self.entry(number)? else { return None };
        let [start, end] = self.words(number.checked_add(1)?)?;
        let path = self.bytes(number.checked_add(MAPPING_HEAD)?, length)?;
        Some(Mapping { range: start as usize..end as usize, is_executable: true, is_guard: false, offset, path })
    }

    fn words(&self, number: u32) -> Option<[u64; 2]> {
        let slot = self.slots.get(number as usize)?;
        // SAFETY: as for `entry`.
        Some(unsafe { slot.get().read() })
    }

    /// So many bytes from a slot on.
    fn bytes(&self, number: u32, length: u32) -> Option<&[u8]> {
        let rest = self.slots.get(number as usize..)?;
        let length = length as usize;
        // SAFETY: the slots are complete: nobody writes to them until the buffer is used again.
        (length <= size_of_val(rest)).then(|| unsafe { core::slice::from_raw_parts(rest.as_ptr().cast(), length) })
    }

    /// Whether there is room for another thread's call.
    pub(crate) fn has_room(&self) -> bool {
        self.has_room_for(LARGEST_CALL)
    }

    /// Whether there is room for what takes so many slots, behind a thread's number.
    pub(crate) fn has_room_for(&self, slots: u32) -> bool {
        slots < SLOTS && self.count.load(Ordering::Relaxed) < SLOTS - slots
    }

    /// What says which of its calls are told with their stacks.
    #[must_use]
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// What follows is called by this thread. There has to be room, and the caller may write, as for [`Buffer::append`].
    pub(crate) fn set_thread(&self, thread: u32) {
        let count = self.count.load(Ordering::Relaxed);
        self.put(count, Entry::Thread(thread).to_words());
        self.thread.store(thread, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Release);
    }

    /// The thread of what is added now.
    pub(crate) fn thread(&self) -> u32 {
        self.thread.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn put(&self, number: u32, words: [u64; 2]) {
        // SAFETY: `append` has seen that there are slots up to here, and they are this writer's until they are counted.
        unsafe { self.slot(number).write(words) }
    }

    #[inline(always)]
    fn slot(&self, number: u32) -> *mut [u64; 2] {
        UnsafeCell::raw_get(self.slots.as_ptr().wrapping_add(number as usize))
    }

    /// Whether another thread can go on here: it is open, its owner has ended, and there is room.
    pub(crate) fn is_abandoned(&self) -> bool {
        let owner = self.owner.load(Ordering::Relaxed);
        self.state() == State::Open && owner != NOBODY && self.has_room() && !has_thread(owner)
    }

    /// Makes the calling thread, whose number is `thread`, the owner.
    pub(crate) fn hand_over(&self, thread: u32) {
        self.owner.store(thread_id(), Ordering::Relaxed);
        self.sampler.begin(thread);
        self.set_thread(thread);
    }

    /// Opens a free buffer, for the calling thread or for nobody.
    pub(crate) fn begin(&self, thread: u32, for_whom: Whose) {
        let owner = if for_whom == Whose::TheCallers { thread_id() } else { NOBODY };
        self.owner.store(owner, Ordering::Relaxed);
        self.base.store(0, Ordering::Relaxed);
        self.count.store(0, Ordering::Relaxed);
        self.sampler.begin(thread);
        self.set_thread(thread);
        self.state.store(State::Open as u32, Ordering::Release);
    }

    /// Nothing more is added.
    pub(crate) fn end(&self) {
        self.owner.store(NOBODY, Ordering::Relaxed);
        self.state.store(State::Full as u32, Ordering::Release);
    }
}

/// What became of a call that was to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is there.
    Yes,
    /// There is no room; no ticket was taken.
    Full,
    /// It has this ticket and needs another base: [`Buffer::append_far`] is to be called.
    Far {
        /// The ticket.
        ticket: u64,
    },
}

/// Whose a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The calling thread's.
    TheCallers,
    /// Nobody's: all threads that have none write to it, behind the lock.
    Everybodys,
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;
    use std::vec::Vec;

    use super::*;
    use crate::record::{Call, Record};

    fn open() -> Box<Buffer> {
        // SAFETY: all zeroes is a free buffer.
        let buffer = unsafe { Box::<Buffer>::new_zeroed().assume_init() };
        buffer.begin(3, Whose::TheCallers);
        buffer
    }

    const RECORD: Record = Record { call: Call::Malloc, log2_align: 4, size: 7, address: 0x100 };

    /// The entries of a buffer with the slots that they begin at, as a reader sees them.
    fn entries(buffer: &Buffer) -> Vec<(u32, Entry)> {
        let mut at = 0;
        let next = || {
            let entry = (at < buffer.count()).then(|| (at, buffer.entry(at).unwrap()))?;
            at += entry.1.slots();
            Some(entry)
        };
        core::iter::from_fn(next).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "there are no registers")]
    fn a_call_is_told_with_its_stack_as_long_as_there_is_room() {
        let (buffer, mut calls, marked) = (open(), 0, [0x0123_4567_89ab_cdef_u64; 4]);
        // SAFETY: the buffer is this thread's.
        while unsafe { buffer.append_with_stack(core::hint::black_box(RECORD.packed()), Some(calls)) } {
            calls += 1;
        }
        core::hint::black_box(&marked);
        assert_eq!(Entry::Stack { length: STACK as u32, instruction: 0 }.slots(), STACK_HEAD + (STACK / SLOT) as u32);
        let entries = entries(&buffer);
        let stacks: Vec<Stack<'_>> = entries.iter().filter_map(|&(at, _)| buffer.stack(at)).collect();
        assert_eq!(stacks.len() as u64, calls);
        assert!(calls >= u64::from(SLOTS) / (STACK / SLOT + 5) as u64, "{calls}");
        for stack in &stacks {
            assert!(stack.bytes.len() <= STACK && stack.place.stack < marked.as_ptr().addr() as u64);
            assert!(stack.bytes.windows(32).any(|bytes| bytes == marked.map(u64::to_le_bytes).as_flattened()));
        }
        let count = |wanted: fn(&Entry) -> bool| entries.iter().filter(|(_, entry)| wanted(entry)).count() as u64;
        assert_eq!(count(|entry| matches!(entry, Entry::Call { .. })), calls);
        assert_eq!(count(|entry| matches!(entry, Entry::Time(_))), calls);
    }

    #[test]
    fn a_mapping_is_told_as_it_is() {
        let buffer = open();
        let path = [b'p'; 4096];
        let told = [1, 15, 16, 17, 4096].map(|length| {
            let path = &path[..length];
            Mapping { range: 0x1000..0x5000, is_executable: true, is_guard: false, offset: 0x7000, path }
        });
        for mapping in &told {
            assert!(buffer.has_room_for(entry_of(mapping).slots()));
            buffer.add_mapping(mapping);
        }
        assert!(entries(&buffer).iter().filter_map(|&(at, _)| buffer.mapping(at)).eq(told));
        assert!(!buffer.has_room_for(SLOTS) && !buffer.has_room_for(u32::MAX));
    }

    #[test]
    fn what_does_not_fit_into_a_buffer_is_not_there() {
        let buffer = open();
        for length in [(BUFFER - 64) as u32, u32::MAX] {
            let entries = [Entry::Stack { length, instruction: 0 }, Entry::Mapping { length, offset: 0 }];
            for (at, entry) in (SLOTS - 2..).zip(entries) {
                buffer.put(at, entry.to_words());
                buffer.put(1, entry.to_words());
                assert!(buffer.stack(at).is_none() && buffer.mapping(at).is_none());
                assert!(buffer.stack(1).is_none() && buffer.mapping(1).is_none());
            }
        }
        assert!(buffer.stack(SLOTS).is_none() && buffer.stack(u32::MAX).is_none());
    }
}
