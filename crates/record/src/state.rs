//! The recording of this process, from its first call to its end.

use core::fmt::Write;
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use heapwright_os::{
    FileError, HeldAcrossForks, Line, Lock, Locked, Output, errno_kept, hold_across_forks, process_id,
    set_second_thread_word, set_thread_word, sleep_for_a_millisecond, thread_number, thread_word, uncancelled,
    undisturbed,
};
use heapwright_stream::{
    Appended, Buffer, Call, Header, Limits, Origin, Packed, Record, Recording, note_forked, note_refusal,
};

use crate::detail::{self, Detail};
use crate::directory;
use crate::glibc;
use crate::marked;
use crate::python;
use crate::rest::{
    AT_REST, AT_REST_DETAILED, AT_REST_TIMED, AT_REST_WITH_STACKS, at_rest, begin_to_write, end_writing,
    is_to_be_timed, own_buffer, take_mark,
};
use crate::system::{self, block_of};
use crate::timing;
use crate::usage;

/// The state of the recording.
enum State {
    /// Not started.
    New(Origin),
    /// Not recording.
    Off,
    /// Recording to a stream.
    On(Recording),
}

static STATE: Lock<State> = Lock::new(State::New(Origin::Exec));

/// Whether the state is [`State::Off`], readable without the lock.
static OFF: AtomicBool = AtomicBool::new(false);

/// The process whose threads take the lock: it has loaded this library, or is the child of a `fork` that was noticed.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The header of a stream that has ended, in which lost calls are counted; null while there is none.
static ENDED: AtomicPtr<Header> = AtomicPtr::new(null_mut());

/// Records a call of this thread; returns the block's address, so that the slow code paths are tail calls, for which no
/// registers are saved.
#[inline(always)]
pub(crate) fn note(call: Call, align: usize, size: usize, block: *mut u8) -> *mut u8 {
    let log2_align = align.trailing_zeros() as u8;
    note_packed(Record { call, log2_align, size: size as u64, address: block.expose_provenance() as u64 }.packed())
}

#[inline(always)]
fn note_packed(record: Packed) -> *mut u8 {
    let rest = thread_word();
    let fits = if record.is_request() { AT_REST } else { AT_REST | AT_REST_WITH_STACKS };
    if rest & fits == 0 {
        return note_without_buffer(record);
    }
    let buffer = begin_to_write();
    if buffer.is_null() {
        return note_without_buffer(record);
    }
    // SAFETY: the buffer is mapped as long as the thread's second word has its address, and this thread is its owner.
    // The thread was at rest, hence this call has not interrupted another one that was writing.
    match unsafe { (*buffer).append(record) } {
        Appended::Yes => {
            end_writing(rest);
            block_of(record)
        }
        Appended::Stop => note_at_stop(record),
        Appended::TurnOver => note_in_turn(record),
    }
}

/// Creates the stream, in the process that has loaded the library.
pub(crate) fn begin_here() {
    PROCESS.store(process_id(), Ordering::Relaxed);
    undisturbed(begin);
}

/// Adds what the process uses at its end, and the mappings of libraries that were loaded late. The collector may get to
/// their stacks when the process has ended and its mappings cannot be read any more.
pub(crate) fn complete() {
    undisturbed(|| {
        let Some(mut state) = lock_state() else { return };
        if let State::On(recording) = &mut *state {
            errno_kept(|| {
                detail::add_mappings(recording);
                usage::record_last(recording.header());
            });
        }
    });
}

/// Adds what the process uses, if that was not done for a while and the thread has a buffer.
pub(crate) fn add_usage_if_due() {
    if !usage::is_due() {
        return;
    }
    undisturbed(|| {
        // Held so that no child is forked while a file is open, which the child would keep open.
        let Some(state) = lock_state() else { return };
        let State::On(recording) = &*state else { return };
        let buffer = own_buffer();
        if thread_word() == 0 || buffer.is_null() {
            return;
        }
        if let Some(usage) = usage::if_due(recording.header()) {
            // SAFETY: the buffer is this thread's and mapped as long as the recording lives, and the thread is not
            // writing to it.
            unsafe { (*buffer).add_usage(&usage) };
        }
    });
}

/// Waits until the collector has read all calls until now, for `most` milliseconds at most; returns how long it waited.
pub(crate) fn await_collector(most: u32) -> u32 {
    let Some(question) = with_header(Header::ask) else { return 0 };
    let is_settled = |header: &Header| header.is_answered(question) || header.is_closed();
    let mut waited = 0;
    while waited < most && with_header(is_settled) == Some(false) {
        uncancelled(sleep_for_a_millisecond);
        waited += 1;
    }
    waited
}

/// Does `work` while this thread holds the lock of the state, and no handler of a signal interrupts it; `None`, and
/// does not, where the lock cannot be had ([`lock_state`]).
pub(crate) fn exclusively<R>(work: impl FnOnce() -> R) -> Option<R> {
    undisturbed(|| lock_state().map(|_held| work()))
}

/// Returns what `read` finds in the header of this process's stream, if it has one.
fn with_header<R>(read: impl FnOnce(&Header) -> R) -> Option<R> {
    match &*lock_state()? {
        State::On(recording) => Some(read(recording.header())),
        _ => None,
    }
}

/// Adds that code is not mapped any more. In the thread's own buffer, between the calls before and after it.
pub(crate) fn add_unmapped(code: &Range<usize>) {
    undisturbed(|| {
        let Some(mut state) = lock_state() else { return };
        let State::On(recording) = &mut *state else { return };
        detail::note_unloaded();
        let buffer = own_buffer();
        let is_at_rest = thread_word() != 0 && !buffer.is_null();
        // SAFETY: the buffer is this thread's and mapped as long as the recording lives, and the thread is not writing
        // to it.
        if !is_at_rest || !unsafe { (*buffer).add_unmapped(code) } {
            recording.add_unmapped(thread_number(), code);
        }
    });
}

/// Records a call with which a turn of this thread begins.
#[inline(never)]
fn note_in_turn(record: Packed) -> *mut u8 {
    // SAFETY: the buffer is this thread's and mapped as long as the recording lives, and `append` has just returned
    // `TurnOver`.
    unsafe { (*own_buffer()).append_in_turn(record) };
    end_writing(at_rest());
    block_of(record)
}

/// Records a call when the thread's buffer is at a stop: the next call is to be timed. Or the buffer is full.
#[cold]
#[inline(never)]
fn note_at_stop(record: Packed) -> *mut u8 {
    // SAFETY: the buffer is this thread's, and mapped as long as the recording lives.
    let buffer = unsafe { &*own_buffer() };
    // SAFETY: the buffer is this thread's, and its word without a mark of rest keeps this thread's other calls from it.
    if unsafe { !buffer.pass_stop() || !buffer.append_at(record, None) } {
        return note_in_next_buffer(record, Detail::NONE);
    }
    end_writing(AT_REST_TIMED);
    block_of(record)
}

/// Records a call in the thread's next buffer; the present one is full.
#[cold]
#[inline(never)]
fn note_in_next_buffer(record: Packed, detail: Detail) -> *mut u8 {
    undisturbed(|| {
        let full = own_buffer();
        set_second_thread_word(0);
        let Some(mut state) = lock_state() else { return };
        let State::On(recording) = &mut *state else { return };
        // SAFETY: the buffer was this thread's until now, and is mapped as long as the recording lives.
        let next = recording.renew(unsafe { &*full });
        if let (Some(next), Some(usage)) = (next, usage::if_due(recording.header())) {
            // SAFETY: buffers stay mapped as long as the recording lives. This thread has become the buffer's owner,
            // and its second word does not have the address yet, so that no other call writes to it.
            unsafe { next.as_ref().add_usage(&usage) };
        }
        write(recording, next, record, Some(detail));
    });
    block_of(record)
}

/// Records a call with its time or stack, unless the thread has no buffer any more; returns whether it did.
fn note_in_detail(record: Packed) -> bool {
    // SAFETY: the buffer is this thread's, and mapped as long as the recording lives.
    let Some(buffer) = (unsafe { begin_to_write().as_ref() }) else { return false };
    let detail = Detail::of(record, buffer);
    // SAFETY: the buffer is this thread's and was at rest, hence this call has not interrupted another one that was
    // writing.
    if !unsafe { detail.append(buffer, record) } {
        note_in_next_buffer(record, detail);
        return true;
    }
    // SAFETY: the buffer is this thread's, and its word without a mark of rest keeps other calls of this thread from
    // it.
    let is_next_timed = buffer.is_at_stop() && unsafe { buffer.pass_stop() };
    end_writing(if is_next_timed { AT_REST_TIMED } else { at_rest() });
    true
}

/// Records a call of a thread that has no buffer yet, records times or stacks, was to time its next call, or was
/// interrupted while it was writing.
#[cold]
#[inline(never)]
fn note_without_buffer(record: Packed) -> *mut u8 {
    if is_to_be_timed() {
        // A call that is not timed.
        take_mark();
        return note_packed(record);
    }
    if marked::is_enabled() {
        return match marked::select(record) {
            Some(selected) => {
                note_slowly(selected);
                block_of(record)
            }
            None => block_of(record),
        };
    }
    note_slowly(record)
}

/// As [`note_without_buffer`], of a call that is recorded and not timed.
fn note_slowly(record: Packed) -> *mut u8 {
    if thread_word() & (AT_REST_DETAILED | AT_REST_WITH_STACKS) != 0 && note_in_detail(record) {
        return block_of(record);
    }
    if OFF.load(Ordering::Relaxed) {
        return block_of(record);
    }
    if let Some(header) = NonNull::new(ENDED.load(Ordering::Acquire)) {
        // SAFETY: a header stays mapped until a child of this process creates a stream of its own, which forgets it
        // first.
        unsafe { header.as_ref() }.lose_call(record);
        return block_of(record);
    }
    undisturbed(|| {
        begin();
        let Some(mut state) = lock_state() else { return };
        let State::On(recording) = &mut *state else { return };
        let own = if own_buffer().is_null() { recording.attach(thread_number()) } else { None };
        write(recording, own, record, None);
    });
    block_of(record)
}

/// Takes the lock of the state. `None`, and nothing is recorded, in a child made by the bare system call, when a thread
/// holds it that the child does not have.
fn lock_state() -> Option<Locked<'static, State>> {
    /// How long such a child waits, in milliseconds, and more where the machine is loaded. In vain as a rule: a thread
    /// holds the lock for long while it waits for the collector, and the child does not have that thread.
    const PATIENCE: u32 = 50;
    /// The child that has waited in vain.
    static GIVEN_UP: AtomicU32 = AtomicU32::new(0);
    let process = process_id();
    if process == PROCESS.load(Ordering::Relaxed) {
        return Some(STATE.lock());
    }
    // The child of a `vfork` gets it: its parent's threads run.
    let mut waited = 0;
    while GIVEN_UP.load(Ordering::Relaxed) != process {
        if let Some(locked) = STATE.try_lock() {
            return Some(locked);
        }
        if waited == PATIENCE {
            GIVEN_UP.store(process, Ordering::Relaxed);
        }
        uncancelled(sleep_for_a_millisecond);
        waited += 1;
    }
    None
}

/// Returns whether this process is recorded.
pub(crate) fn is_on() -> bool {
    !OFF.load(Ordering::Relaxed) && ENDED.load(Ordering::Relaxed).is_null()
}

/// Writes a call to `own`, which is the thread's buffer from now on, or else to the shared buffer, without a stack.
/// Decides on time and stack unless `detail` is given.
fn write(recording: &mut Recording, own: Option<NonNull<Buffer>>, record: Packed, detail: Option<Detail>) {
    match own {
        Some(buffer) => {
            // SAFETY: buffers stay mapped as long as the recording lives.
            let own = unsafe { buffer.as_ref() };
            let detail = detail.unwrap_or_else(|| Detail::of(record, own));
            // SAFETY: this thread has become the buffer's owner, and its second word does not have the address yet, so
            // that no other call writes to it.
            if !unsafe { detail.append(own, record) } {
                // The buffer is the rest of one that another thread has left, too short for a stack. The next is empty.
                let next = recording.renew(own);
                return write(recording, next, record, Some(detail));
            }
            set_second_thread_word(buffer.as_ptr().expose_provenance());
            end_writing(at_rest());
        }
        None => recording.append(thread_number(), record, detail::ticks_if_timed()),
    }
    if recording.has_ended() {
        ENDED.store(core::ptr::from_ref(recording.header()).cast_mut(), Ordering::Release);
        timing::detach();
    }
}

/// Creates the stream, unless that was tried before.
fn begin() {
    register_fork_handlers();
    python::find();
    glibc::look_for_operators();
    let Some(mut state) = lock_state() else { return };
    if let State::New(origin) = *state {
        let opened = open_into(&mut state, origin);
        drop(state);
        if let Err(error) = opened {
            report_refusal(error);
        }
    }
}

/// Replaces the state by an opened recording, or by [`State::Off`], which stays.
// Not inlined: it takes more of the stack than `begin`, which each thread calls, also one whose stack is short.
#[cold]
#[inline(never)]
fn open_into(state: &mut State, origin: Origin) -> Result<(), FileError> {
    let opened = errno_kept(|| uncancelled(|| open(origin)));
    let outcome = opened.as_ref().map(|_| ()).map_err(|&error| error);
    *state = opened.unwrap_or(State::Off);
    OFF.store(matches!(*state, State::Off), Ordering::Relaxed);
    outcome
}

/// Reports why no stream can be made. Called without the lock: standard error may be a pipe that is full.
#[cold]
#[inline(never)]
fn report_refusal(error: FileError) {
    let mut line = Line::<512>::new();
    let _ = writeln!(line, "heapwright: this process is not recorded: no stream can be made: {error}");
    errno_kept(|| uncancelled(|| Output::standard_error().write(line.bytes())));
}

fn open(origin: Origin) -> Result<State, FileError> {
    // A forked child has its parent's settings, whatever has become of the environment.
    if origin == Origin::Exec {
        detail::read_settings();
        directory::keep();
    }
    let limits = Limits { has_paths: detail::records_stacks(), ..Limits::USUAL };
    let begun = directory::with(|directory| Recording::begin(directory, origin, limits));
    match begun {
        Some(Ok(mut recording)) => {
            system::attach(recording.header());
            timing::attach(recording.header());
            usage::begin(recording.header());
            if glibc::misses_operators() {
                recording.header().note_missed_operators();
            }
            detail::attach(recording.paths());
            detail::add_mappings(&mut recording);
            Ok(State::On(recording))
        }
        // There is no directory, or the collector has ended, and has reported why.
        None | Some(Err(FileError::NotFound)) => Ok(State::Off),
        Some(Err(error)) => {
            directory::with(|directory| note_refusal(directory, error));
            Err(error)
        }
    }
}

/// Registers the handlers of forks, before the first call: the handlers that are registered first lock last and unlock
/// first, so that those of other libraries may allocate. Called without the lock: when many handlers are registered,
/// this allocates.
fn register_fork_handlers() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    if hold_across_forks::<Forks>().is_err() {
        Output::standard_error()
            .write(b"heapwright: forked children are not recorded: there is no memory for a handler\n");
    }
}

/// The lock that is held while this process forks.
struct Forks;

impl HeldAcrossForks for Forks {
    type State = State;

    fn lock() -> &'static Lock<State> {
        &STATE
    }

    /// The child does not use its parent's stream, and creates one of its own with its first call.
    unsafe fn after_fork_in_child(state: &mut State) {
        set_thread_word(0);
        set_second_thread_word(0);
        note_forked();
        PROCESS.store(process_id(), Ordering::Relaxed);
        ENDED.store(null_mut(), Ordering::Relaxed);
        system::detach();
        timing::detach();
        detail::detach();
        if !matches!(state, State::Off) {
            *state = State::New(Origin::Fork);
        }
    }
}
