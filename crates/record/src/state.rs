//! The stream of this process, from its first call to its end.

use core::fmt::Write;
use core::ptr::{NonNull, null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering, compiler_fence};

use heapwright_os::{
    FileError, Line, Lock, Output, at_fork, errno_kept, set_thread_word, thread_number, thread_word, uncancelled,
    undisturbed, variable,
};
use heapwright_stream::{Appended, Buffer, Call, Header, Limits, Origin, Packed, Record, Recording, VARIABLE};

use crate::detail::{self, Detail};
use crate::system;

/// What there is to record to.
#[expect(clippy::large_enum_variant, reason = "there is one of them, in static memory, and no heap to put the path in")]
enum State {
    /// Nobody has looked yet.
    New(Origin),
    /// Nothing is recorded.
    Off,
    /// The stream.
    On(Recording),
}

static STATE: Lock<State> = Lock::new(State::New(Origin::Exec));

/// Whether nothing is recorded, so that nobody need take the lock to learn it.
static OFF: AtomicBool = AtomicBool::new(false);

/// The header of a stream that has ended, for calls are still counted; null while there is none.
static ENDED: AtomicPtr<Header> = AtomicPtr::new(null_mut());

/// Added to the address of a thread's buffer in its word: the thread is not writing to it. A word without it is 0 in a
/// thread that has no buffer, or belongs to a thread whose writing was interrupted by a signal.
const AT_REST: usize = 1;

/// Instead of [`AT_REST`] when calls are recorded with more than there is room for in 16 bytes: such threads take the longer way.
const AT_REST_AT_LENGTH: usize = 2;

/// Records a call of this thread; returns the block's address. (So that whatever takes longer is the last that is called,
/// and nothing need be saved for it.)
#[inline(always)]
pub(crate) fn note(call: Call, align: usize, size: usize, block: *mut u8) -> *mut u8 {
    let log2_align = align.trailing_zeros() as u8;
    let record = Record { call, log2_align, size: size as u64, address: block.expose_provenance() as u64 }.packed();
    let word = thread_word();
    if word & AT_REST == 0 {
        return note_without_buffer(record);
    }
    let buffer = with_exposed_provenance::<Buffer>(word - AT_REST);
    set_thread_word(word - AT_REST);
    compiler_fence(Ordering::SeqCst);
    // SAFETY: the buffer is mapped as long as the thread has its address, and the thread's own; that it is at rest means that
    // nothing else of this thread is writing.
    match unsafe { (*buffer).append(record) } {
        Appended::Yes => {
            compiler_fence(Ordering::SeqCst);
            set_thread_word(word);
            block
        }
        Appended::Full => note_in_next_buffer(record, Detail::NONE),
        Appended::Far { ticket } => note_far(record, ticket),
    }
}

/// Called when the library is loaded.
pub(crate) extern "C" fn start() {
    undisturbed(begin);
}

/// Called when the process ends: what was loaded late is told, for whoever comes to its stacks when there is nobody left to ask.
pub(crate) extern "C" fn end() {
    if Detail::is_asked_for() {
        undisturbed(|| {
            if let State::On(recording) = &mut *STATE.lock() {
                errno_kept(|| detail::tell_mappings(recording));
            }
        });
    }
}

/// Records a call whose ticket is far from those before.
#[cold]
#[inline(never)]
fn note_far(record: Packed, ticket: u64) -> *mut u8 {
    let buffer = thread_word();
    // SAFETY: as in `note`.
    unsafe { (*with_exposed_provenance::<Buffer>(buffer)).append_far(record, ticket) };
    compiler_fence(Ordering::SeqCst);
    set_thread_word(buffer + AT_REST);
    block_of(record)
}

/// Goes on to the next buffer; this one is full.
#[cold]
#[inline(never)]
fn note_in_next_buffer(record: Packed, detail: Detail) -> *mut u8 {
    undisturbed(|| {
        let full = with_exposed_provenance::<Buffer>(thread_word());
        set_thread_word(0);
        let mut state = STATE.lock();
        let State::On(recording) = &mut *state else { return };
        // SAFETY: as in `note`.
        let next = recording.renew(unsafe { &*full });
        write(recording, next, record, Some(detail));
    });
    block_of(record)
}

/// Records a call with its time, or its stack.
fn note_at_length(record: Packed, word: usize) -> *mut u8 {
    let buffer = word - AT_REST_AT_LENGTH;
    set_thread_word(buffer);
    compiler_fence(Ordering::SeqCst);
    // SAFETY: as in `note`.
    let buffer = unsafe { &*with_exposed_provenance::<Buffer>(buffer) };
    let detail = Detail::of(record, buffer);
    // SAFETY: as in `note`.
    if !unsafe { detail.append(buffer, record) } {
        return note_in_next_buffer(record, detail);
    }
    compiler_fence(Ordering::SeqCst);
    set_thread_word(word);
    block_of(record)
}

/// Records a call of a thread that has no buffer yet, or takes the longer way, or whose word says that it is writing to it.
#[cold]
#[inline(never)]
fn note_without_buffer(record: Packed) -> *mut u8 {
    let word = thread_word();
    if word & AT_REST_AT_LENGTH != 0 {
        return note_at_length(record, word);
    }
    if OFF.load(Ordering::Relaxed) {
        return block_of(record);
    }
    if let Some(header) = NonNull::new(ENDED.load(Ordering::Acquire)) {
        // SAFETY: it is mapped until a child of this process makes a stream of its own.
        unsafe { header.as_ref() }.lose_call();
        return block_of(record);
    }
    undisturbed(|| {
        begin();
        let mut state = STATE.lock();
        let State::On(recording) = &mut *state else { return };
        let own = if thread_word() == 0 { recording.attach(thread_number()) } else { None };
        write(recording, own, record, None);
    });
    block_of(record)
}

fn block_of(record: Packed) -> *mut u8 {
    with_exposed_provenance_mut(record.address() as usize)
}

/// Writes to `own`, which is the thread's from now on, or else to what all threads share, where no stacks are told. What is told
/// beside the call is decided here, unless it has been.
fn write(recording: &mut Recording, own: Option<NonNull<Buffer>>, record: Packed, detail: Option<Detail>) {
    match own {
        Some(buffer) => {
            // SAFETY: buffers lie where they are as long as the recording.
            let own = unsafe { buffer.as_ref() };
            // SAFETY: it is this thread's, as of now, and has room, for it is new.
            let _has_room = unsafe { detail.unwrap_or_else(|| Detail::of(record, own)).append(own, record) };
            let at_rest = if Detail::is_asked_for() { AT_REST_AT_LENGTH } else { AT_REST };
            set_thread_word(buffer.as_ptr().expose_provenance() | at_rest);
        }
        None => recording.append(thread_number(), record, detail::ticks_if_timed()),
    }
    if recording.has_ended() {
        ENDED.store(core::ptr::from_ref(recording.header()).cast_mut(), Ordering::Release);
    }
}

/// Makes the stream, if it has not been made.
fn begin() {
    watch_forks();
    let mut state = STATE.lock();
    if let State::New(origin) = *state {
        *state = errno_kept(|| uncancelled(|| open(origin)));
        OFF.store(matches!(*state, State::Off), Ordering::Relaxed);
    }
}

fn open(origin: Origin) -> State {
    let begun = variable(VARIABLE, |directory| Recording::begin(directory, origin, Limits::USUAL));
    match begun {
        Some(Ok(mut recording)) => {
            system::tell(recording.header());
            detail::ask();
            detail::tell_mappings(&mut recording);
            State::On(recording)
        }
        // The collector has gone, which has told whoever wants to know.
        Some(Err(FileError::NotFound)) => State::Off,
        Some(Err(error)) => {
            let mut line = Line::<512>::new();
            let _ = writeln!(line, "heapwright: this process is not recorded: no stream can be made: {error}");
            Output::standard_error().write(line.bytes());
            State::Off
        }
        None => State::Off,
    }
}

/// Has forks noticed, from before the first call on: whoever registers first locks last and unlocks first, so that
/// other libraries' handlers may allocate. Done outside of the lock, for it allocates where very many have registered.
fn watch_forks() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if WATCHED.swap(true, Ordering::Relaxed) {
        return;
    }
    if at_fork(before_fork, after_fork_in_parent, after_fork_in_child).is_err() {
        Output::standard_error().write(b"heapwright: forks are not noticed: there is no memory for a handler\n");
    }
}

extern "C" fn before_fork() {
    STATE.hold();
}

extern "C" fn after_fork_in_parent() {
    // SAFETY: this thread took the lock before it forked.
    unsafe { STATE.let_go() };
}

/// The child leaves its parent's stream alone and makes one of its own, with its first call.
extern "C" fn after_fork_in_child() {
    // SAFETY: this thread's likeness in the parent took the lock before it forked.
    unsafe { STATE.let_go_in_child() };
    set_thread_word(0);
    ENDED.store(null_mut(), Ordering::Relaxed);
    system::tell_nobody();
    let mut state = STATE.lock();
    if !matches!(*state, State::Off) {
        *state = State::New(Origin::Fork);
    }
}
