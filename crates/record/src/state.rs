//! The stream of this process, from its first call to its end.

use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};

use heapwright_os::{FileError, Line, Lock, Output, at_fork, errno_kept, thread_number, uncancelled, variable};
use heapwright_stream::{Call, Limits, Origin, Record, Recording, VARIABLE};

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

/// Records a call of this thread.
#[inline(always)]
pub(crate) fn note(call: Call, align: usize, size: usize, block: *mut u8) {
    if OFF.load(Ordering::Relaxed) {
        return;
    }
    let log2_align = align.trailing_zeros() as u8;
    let thread = thread_number() as u16;
    let record = Record { call, log2_align, size: size as u64, thread, address: block.addr() as u64 };
    let mut state = STATE.lock();
    match &mut *state {
        State::On(recording) => recording.append(record),
        State::Off => {}
        State::New(_) => {
            drop(state);
            begin(Some(record));
        }
    }
}

/// Called when the library is loaded.
pub(crate) extern "C" fn start() {
    begin(None);
}

/// Makes the stream, if it has not been made, and records the call that came first.
#[cold]
#[inline(never)]
fn begin(first: Option<Record>) {
    watch_forks();
    let mut state = STATE.lock();
    if let State::New(origin) = *state {
        *state = errno_kept(|| uncancelled(|| open(origin)));
        OFF.store(matches!(*state, State::Off), Ordering::Relaxed);
    }
    if let (State::On(recording), Some(record)) = (&mut *state, first) {
        recording.append(record);
    }
}

fn open(origin: Origin) -> State {
    let begun = variable(VARIABLE, |directory| Recording::begin(directory, origin, Limits::USUAL));
    match begun {
        Some(Ok(recording)) => State::On(recording),
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
    let mut state = STATE.lock();
    if !matches!(*state, State::Off) {
        *state = State::New(Origin::Fork);
    }
}
