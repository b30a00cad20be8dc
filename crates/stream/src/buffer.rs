//! Buffers, each of which one thread writes to without a lock.

use core::cell::UnsafeCell;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use heapwright_os::{Mapping, Place, Usage, copy_stack, has_thread, here, prefetch_to_write, thread_id};

use crate::paths::{Followed, PATH, PYTHON, Paths, RecentRules};
use crate::record::{CALLS_HEAD, Entry, MAPPING_HEAD, Packed, SLOT, STACK_HEAD, USAGE_SLOTS};
use crate::run::Slot;
use crate::sampler::Sampler;
use crate::turns;

mod entries;

pub use entries::Stack;

/// The length of a buffer in bytes.
pub const BUFFER: usize = 64 << 10;

/// The maximum length of a copied stack in bytes.
pub const STACK: usize = 8 << 10;

/// The number of slots of a buffer.
pub const SLOTS: u32 = ((BUFFER - 64 - size_of::<RecentRules>()) / SLOT) as u32;

/// The maximum number of slots that one call takes: a time, a turn, and its record.
pub(crate) const LARGEST_CALL: u32 = 3;

/// The maximum number of slots that a call takes without its time.
const UNTIMED_CALL: u32 = 2;

/// The stop at which a buffer is full: behind it there is no room for a call.
const END: u32 = SLOTS - UNTIMED_CALL + 1;

/// The number of slots by which the cache lines that will be written to are loaded ahead: four lines.
const AHEAD: u32 = 16;

/// The most slots that calls of a turn take while several threads write.
const TURN: u32 = 64;

/// A request of this size begins a turn then, so that the calls of one are not for many bytes.
const LARGE: u64 = 4096;

/// The average number of slots between two stops. Each distance is random, from half to one and a half of this, so that
/// a periodic program cannot align with the stops.
const BETWEEN_STOPS: u32 = 512;

/// The least number of slots between the last stop and the end.
const BEFORE_END: u32 = 64;

/// The most slots of a name of a Python function and its file.
const NAME_SLOTS: u32 = 24;

/// The most slots of a stack of Python functions, with all names.
const LARGEST_PYTHON: u32 = PYTHON as u32 * (CALLS_HEAD + NAME_SLOTS) + CALLS_HEAD + PYTHON as u32 / 2;

/// The line of a Python function, and the length in bytes of its name and its file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PythonName {
    /// The line that runs.
    pub line: u32,
    /// The length of both names, each with a zero byte.
    pub length: usize,
}

/// The owner of a buffer that is used behind the lock: all threads without a buffer of their own write to it.
pub(crate) const NO_OWNER: u32 = 0;

/// The entry of a mapping.
pub(crate) fn entry_of(mapping: &Mapping<'_>) -> Entry {
    Entry::Mapping { length: mapping.path.len() as u32, file: mapping.file, offset: mapping.offset }
}

/// The state of a buffer. States follow one another in this order, and the first follows the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Not in use: it was never opened, or the collector has read all of it. The collector sets this state, the process
    /// the other two.
    Free = 0,
    /// Open: the process adds entries.
    Open = 1,
    /// Full: the process adds no more entries.
    Full = 2,
}

/// A buffer: one thread writes, the collector reads up to [`Buffer::count`].
#[repr(C, align(64))]
pub struct Buffer {
    count: AtomicU32,
    state: AtomicU32,
    /// The number of the present turn.
    turn: AtomicU64,
    thread: AtomicU32,
    /// The system's number of the thread that writes, or [`NO_OWNER`].
    owner: AtomicU32,
    sampler: Sampler,
    /// The count at which the writer stops.
    stop: AtomicU32,
    /// The count at which the present turn began.
    turned: AtomicU32,
    /// Used by the writer only.
    recent: RecentRules,
    slots: [Slot; SLOTS as usize],
}

const _: () = assert!(size_of::<Buffer>() == BUFFER);
const _: () = assert!(PATH * 8 <= STACK);

// SAFETY: everything that changes is atomic, except the slots. Slots below `count` do not change until the buffer is
// reused, and only one writer accesses the others.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Returns the number of complete slots. Their contents are visible after this load.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Returns the state. Load it before [`Buffer::count`]: the slots of a full buffer are then all counted.
    #[must_use]
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Free,
            1 => State::Open,
            _ => State::Full,
        }
    }

    /// Marks a full buffer as read to its end, so that the process may reuse it.
    pub fn free(&self) {
        self.state.store(State::Free as u32, Ordering::Release);
    }

    /// Adds a call to the present turn, unless that is over, or the buffer is at a stop.
    ///
    /// # Safety
    /// The buffer is open. The calling thread is its owner and not inside another call of this function; or the buffer
    /// has no owner, and the caller holds the lock.
    #[inline(always)]
    #[must_use]
    pub unsafe fn append(&self, record: Packed) -> Appended {
        let count = self.count.load(Ordering::Relaxed);
        if count >= self.stop.load(Ordering::Relaxed) {
            return Appended::Stop;
        }
        self.append_behind(count, record)
    }

    /// Adds a call behind `count` slots, as [`Buffer::append`], which has checked that there is room.
    #[inline(always)]
    fn append_behind(&self, count: u32, record: Packed) -> Appended {
        if turns::are_several() && !self.goes_on(count, record) {
            return Appended::TurnOver;
        }
        self.put(count, record.to_words());
        // The collector has read the buffer that was here before: its processor has the lines.
        prefetch_to_write(self.slot(count + AHEAD).cast());
        self.count.store(count + 1, Ordering::Release);
        Appended::Yes
    }

    /// Whether the present turn goes on with a call behind `count` slots, which it is marked for then. Only to be asked
    /// while several threads write.
    #[inline(always)]
    fn goes_on(&self, count: u32, record: Packed) -> bool {
        let turn = self.turn.load(Ordering::Relaxed);
        count.wrapping_sub(self.turned.load(Ordering::Relaxed)) < TURN
            && record.size() < LARGE
            && !turns::is_over(turn)
            && turns::mark(record.address(), turn)
    }

    /// Adds a call with which a turn begins. There is room for it.
    ///
    /// # Safety
    /// As for [`Buffer::append`], which has returned [`Appended::TurnOver`].
    pub unsafe fn append_in_turn(&self, record: Packed) {
        let count = self.count.load(Ordering::Relaxed);
        self.put_turn(count, turns::begin_at(record.address()));
        self.put(count + 1, record.to_words());
        self.count.store(count + 2, Ordering::Release);
    }

    /// Puts the beginning of a turn into the slot behind `count` others.
    fn put_turn(&self, count: u32, turn: u64) {
        self.put(count, Entry::Turn(turn).to_words());
        self.turn.store(turn, Ordering::Relaxed);
        self.turned.store(count, Ordering::Relaxed);
    }

    /// Adds a call, with its time if there is one. While several threads write, one with a time begins a turn. Returns
    /// `false` when there is no room.
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
        let begins_turn = ticks.is_some() && turns::are_several();
        if begins_turn || self.append_behind(self.count.load(Ordering::Relaxed), record) == Appended::TurnOver {
            // SAFETY: the caller may write to this buffer, as this function requires.
            unsafe { self.append_in_turn(record) };
        }
        true
    }

    /// Adds a call with the stack of the calling thread, on processors on which [`heapwright_os::here`] is supported,
    /// else as [`Buffer::append_at`]. The stack is recorded as a path if `paths` has rules for it, else as a copy.
    /// Returns `false` when there is no room.
    ///
    /// # Safety
    /// As for [`Buffer::append`].
    // Not inlined, so that its frame stays until the stack is copied: a tail call would have removed the caller's.
    #[inline(never)]
    #[must_use]
    pub unsafe fn append_with_stack(&self, record: Packed, ticks: Option<u64>, paths: Option<&Paths>) -> bool {
        let place = here();
        let own = place.map_or(0..0, |place| self.sampler.own_stack(place.stack as usize));
        let has_stack = match (place, paths) {
            (Some(place), Some(paths)) if own.contains(&(place.stack as usize)) => {
                self.put_path(paths, place, &own).or_else(|| self.put_copy(place, &own))
            }
            (Some(place), _) => self.put_copy(place, &own),
            (None, _) => Some(()),
        };
        // SAFETY: the caller may write to this buffer, as this function requires.
        has_stack.is_some() && unsafe { self.append_at(record, ticks) }
    }

    /// Adds the stack of the calling thread as a path; returns `None` when a frame has no rule, or there is no room.
    /// The caller may write to the buffer, as [`Buffer::append`] requires, and `place` lies on the stack `own`.
    #[inline(always)]
    fn put_path(&self, paths: &Paths, place: Place, own: &Range<usize>) -> Option<()> {
        let count = self.count.load(Ordering::Relaxed);
        if count > SLOTS - LARGEST_CALL - CALLS_HEAD - (PATH as u32).div_ceil(2) {
            return None;
        }
        let start = place.stack as usize;
        let near = start..own.end.min(start + STACK);
        let addresses = self.slot(count + CALLS_HEAD).cast::<u64>();
        // SAFETY: there is room for all addresses of a path, and only this writer accesses slots that are not counted
        // yet.
        let store = |index, address| unsafe { addresses.add(index).write(address) };
        // SAFETY: this is a part of the thread's own stack, which is mapped from the stack pointer on.
        let entry = match unsafe { paths.follow(place, &near, &self.recent, store) }? {
            Followed::Known(number) => Entry::Path(number),
            Followed::New(length) => Entry::Calls { length: length as u32 },
        };
        self.put(count, entry.to_words());
        self.count.store(count + entry.slots(), Ordering::Release);
        Some(())
    }

    /// Adds a copy of the calling thread's stack, unless there is no room. The caller may write to the buffer, as
    /// [`Buffer::append`] requires.
    fn put_copy(&self, place: Place, own: &Range<usize>) -> Option<()> {
        let count = self.count.load(Ordering::Relaxed);
        if count > SLOTS - LARGEST_CALL - STACK_HEAD - (STACK / SLOT) as u32 {
            return None;
        }
        // SAFETY: there is room for STACK bytes, and only this writer accesses slots that are not counted yet.
        let copy = unsafe { core::slice::from_raw_parts_mut(self.slot(count + STACK_HEAD).cast::<u8>(), STACK) };
        // SAFETY: the place is this thread's, and the range that of its own stack, as this function's caller found
        // them.
        let copied = unsafe { copy_stack(place.stack as usize, own, copy) };
        let entry = Entry::Stack { length: copied as u32, instruction: place.instruction };
        self.put(count, entry.to_words());
        self.put(count + 1, [place.stack, place.frame]);
        self.put(count + 2, [place.link, 0]);
        self.count.store(count + entry.slots(), Ordering::Release);
        Some(())
    }

    /// Adds the Python functions in which the thread makes the next call, by the hashes of their frames, the innermost
    /// first. `name_of` writes the name of a frame, by its index, when the collector does not have it. Returns `false`
    /// when there is no room.
    ///
    /// # Safety
    /// As for [`Buffer::append`].
    #[must_use]
    pub unsafe fn add_python(
        &self,
        paths: &Paths,
        hashes: &[u64],
        name_of: impl Fn(usize, &mut [u8]) -> PythonName,
    ) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        if count > SLOTS - LARGEST_CALL - LARGEST_PYTHON || hashes.len() > PYTHON {
            return false;
        }
        if let Some(number) = paths.number(Paths::hash_of_python_stack(hashes)) {
            self.put(count, Entry::Python(number).to_words());
            self.count.store(count + 1, Ordering::Release);
            return true;
        }
        for (index, &hash) in hashes.iter().enumerate() {
            if paths.number(hash).is_none() {
                self.put_python_name(hash, |text| name_of(index, text));
            }
        }
        let count = self.count.load(Ordering::Relaxed);
        let entry = Entry::PythonFrames { length: hashes.len() as u32 };
        let place = self.slot(count + CALLS_HEAD).cast::<u64>();
        // SAFETY: there is room for these words, and only this writer accesses slots that are not counted yet.
        unsafe { place.copy_from_nonoverlapping(hashes.as_ptr(), hashes.len()) };
        self.put(count, entry.to_words());
        self.count.store(count + entry.slots(), Ordering::Release);
        true
    }

    fn put_python_name(&self, hash: u64, write: impl FnOnce(&mut [u8]) -> PythonName) {
        let count = self.count.load(Ordering::Relaxed);
        // SAFETY: the caller has checked that there is room, and only this writer accesses slots that are not counted.
        let text = unsafe {
            core::slice::from_raw_parts_mut(self.slot(count + CALLS_HEAD).cast::<u8>(), NAME_SLOTS as usize * SLOT)
        };
        let PythonName { line, length } = write(text);
        let entry = Entry::PythonName { hash, line, length: length.min(text.len()) as u32 };
        self.put(count, entry.to_words());
        self.count.store(count + entry.slots(), Ordering::Release);
    }

    /// Whether the buffer is at a stop that is not its end.
    #[must_use]
    pub fn is_at_stop(&self) -> bool {
        let stop = self.stop.load(Ordering::Relaxed);
        stop < END && self.count.load(Ordering::Relaxed) >= stop
    }

    /// Sets the next stop, if there is room; returns `false` when the buffer is full.
    ///
    /// # Safety
    /// As for [`Buffer::append`].
    #[must_use]
    pub unsafe fn pass_stop(&self) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        if count >= END {
            return false;
        }
        let next = count + BETWEEN_STOPS / 2 + self.sampler.below(BETWEEN_STOPS);
        self.stop.store(if next < END - BEFORE_END { next } else { END }, Ordering::Relaxed);
        true
    }

    /// Adds what the process uses before the next call in this buffer, if there is room.
    ///
    /// # Safety
    /// As for [`Buffer::append`].
    pub unsafe fn add_usage(&self, usage: &Usage) {
        if self.has_room_for(USAGE_SLOTS) {
            let count = self.count.load(Ordering::Relaxed);
            let Usage { nanoseconds, resident, faults, processor_nanoseconds } = *usage;
            self.put(count, Entry::Usage { resident, nanoseconds }.to_words());
            self.put(count + 1, [faults, processor_nanoseconds]);
            self.count.store(count + USAGE_SLOTS, Ordering::Release);
        }
    }

    /// Adds a mapping. [`Buffer::has_room_for`] must have returned that there is room for it, and the caller may write
    /// to the buffer, as [`Buffer::append`] requires.
    pub(crate) fn add_mapping(&self, mapping: &Mapping<'_>) {
        let count = self.count.load(Ordering::Relaxed);
        let (entry, path) = (entry_of(mapping), mapping.path);
        // SAFETY: there is room for the path, and only this writer accesses slots that are not counted yet: see above.
        unsafe { self.slot(count + MAPPING_HEAD).cast::<u8>().copy_from_nonoverlapping(path.as_ptr(), path.len()) };
        self.put(count, entry.to_words());
        self.put(count + 1, [mapping.range.start as u64, mapping.range.end as u64]);
        self.count.store(count + entry.slots(), Ordering::Release);
    }

    /// Adds that code is not mapped any more; returns `false` when there is no room.
    ///
    /// # Safety
    /// As for [`Buffer::append`].
    pub unsafe fn add_unmapped(&self, code: &Range<usize>) -> bool {
        if !self.has_room() {
            return false;
        }
        let count = self.count.load(Ordering::Relaxed);
        let (start, length) = (code.start as u64, code.len() as u64);
        self.put(count, Entry::Unmapped { start, length }.to_words());
        self.count.store(count + 1, Ordering::Release);
        true
    }

    /// Whether there is room for another thread's call.
    pub(crate) fn has_room(&self) -> bool {
        self.has_room_for(LARGEST_CALL)
    }

    /// Whether there is room for an entry of `slots` slots behind a thread's number.
    pub(crate) fn has_room_for(&self, slots: u32) -> bool {
        slots < SLOTS && self.count.load(Ordering::Relaxed) < SLOTS - slots
    }

    /// Returns the sampler, which chooses the calls that are recorded with their stacks.
    #[must_use]
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Sets the thread of the entries that follow. There must be room, and the caller may write to the buffer, as
    /// [`Buffer::append`] requires.
    pub(crate) fn set_thread(&self, thread: u32) {
        let count = self.count.load(Ordering::Relaxed);
        self.put(count, Entry::Thread(thread).to_words());
        self.thread.store(thread, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Release);
    }

    /// Has the next call begin a turn while several threads write, also one for a short block. The caller may write to
    /// the buffer, as [`Buffer::append`] requires.
    pub fn end_turn(&self) {
        self.turned.store(self.count.load(Ordering::Relaxed).wrapping_sub(TURN), Ordering::Relaxed);
    }

    /// Begins a turn. There must be room, and the caller may write to the buffer, as [`Buffer::append`] requires.
    fn begin_turn(&self) {
        let count = self.count.load(Ordering::Relaxed);
        self.put_turn(count, turns::begin());
        self.count.store(count + 1, Ordering::Release);
    }

    /// Returns the thread of the entries that are added.
    pub(crate) fn thread(&self) -> u32 {
        self.thread.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn put(&self, number: u32, words: [u64; 2]) {
        // SAFETY: callers have checked that the slot is within the buffer, and only the writer accesses slots that are
        // not counted yet.
        unsafe { self.slot(number).write(words) }
    }

    #[inline(always)]
    fn slot(&self, number: u32) -> *mut [u64; 2] {
        UnsafeCell::raw_get(self.slots.as_ptr().wrapping_add(number as usize))
    }

    /// Returns the system's number of the thread that writes, or [`NO_OWNER`].
    pub(crate) fn owner(&self) -> u32 {
        self.owner.load(Ordering::Relaxed)
    }

    /// Whether the buffer is open and its owner has ended.
    pub(crate) fn is_abandoned(&self) -> bool {
        let owner = self.owner();
        self.state() == State::Open && owner != NO_OWNER && !has_thread(owner)
    }

    /// Makes the calling thread, whose number is `thread`, the owner.
    pub(crate) fn hand_over(&self, thread: u32) {
        self.owner.store(thread_id(), Ordering::Relaxed);
        self.sampler.begin(thread);
        self.set_thread(thread);
        self.begin_turn();
    }

    /// Opens a free buffer, for the thread with the system's number `owner`, or [`NO_OWNER`].
    pub(crate) fn begin(&self, thread: u32, owner: u32) {
        self.owner.store(owner, Ordering::Relaxed);
        self.count.store(0, Ordering::Relaxed);
        self.stop.store(END, Ordering::Relaxed);
        self.sampler.begin(thread);
        self.set_thread(thread);
        self.begin_turn();
        self.state.store(State::Open as u32, Ordering::Release);
    }

    /// Marks the buffer as full.
    pub(crate) fn end(&self) {
        self.owner.store(NO_OWNER, Ordering::Relaxed);
        self.state.store(State::Full as u32, Ordering::Release);
    }
}

/// The outcome of [`Buffer::append`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The call was added.
    Yes,
    /// The buffer is at a stop, or full. Call [`Buffer::pass_stop`].
    Stop,
    /// The call is the first of a turn: call [`Buffer::append_in_turn`].
    TurnOver,
}

#[cfg(test)]
mod tests;
