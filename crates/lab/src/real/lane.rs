//! A thread that makes the calls of one recorded thread.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::{self, MaybeUninit};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::{Result, ensure};

use super::calls::Scratch;
use super::futex;
use super::op::Op;
use super::payload::Payload;
use super::player::{Entry, Player};
use super::violation::Violation;
use super::watch::Watch;
use crate::bench::lazy::{Lazy, Plain};

/// How long a stack is, and how much of it is touched beforehand, in bytes.
const STACK: usize = 256 << 10;
const TOUCHED: usize = 48 << 10;

/// A place of the table when several threads use it: a block, and whose turn it is.
#[repr(C)]
pub struct Place {
    entry: UnsafeCell<Entry>,
    /// How many operations were done on the place.
    turn: AtomicU32,
    _rest: u32,
}

// SAFETY: the entry is touched by the thread whose turn it is only.
unsafe impl Sync for Place {}

/// An operation, and when it is its turn.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Assignment {
    pub op: Op,
    /// Its number in the window.
    pub at: u32,
    /// How many operations on its place come before it.
    pub turn: u32,
}

// SAFETY: integers.
unsafe impl Plain for Assignment {}

/// What all lanes see in a window.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    pub assignments: &'a [Assignment],
    pub places: &'a [Place],
    /// The number of its first event.
    pub first: u64,
    /// Set when one of them stops: the others go on with nothing that waits for it.
    pub stopped: &'a AtomicBool,
    /// Lanes that have not finished.
    pub running: &'a AtomicU32,
}

/// Tells a lane to end.
const LEAVE: u32 = u32::MAX;

/// A thread and what it works with. Its inside belongs to the thread from [`Lane::send`] until the window's `running` says
/// that it has finished, and to the crew otherwise.
pub struct Lane<P, W> {
    go: AtomicU32,
    inside: UnsafeCell<Inside<P, W>>,
}

struct Inside<P, W> {
    player: Player<P, W>,
    violation: Option<Violation>,
    window: Option<Window<'static>>,
    work: Range<usize>,
    stack: Lazy<u8>,
    scratch: Option<Scratch>,
    thread: Option<libc::pthread_t>,
}

impl<P: Payload, W: Watch> Lane<P, W> {
    /// A lane whose thread has not begun, with a stack of its own that is touched where threads do.
    pub fn new(player: Player<P, W>, scratch: Option<Scratch>) -> Result<Lane<P, W>> {
        let mut stack = Lazy::zeroed(STACK)?;
        std::hint::black_box(&mut stack[STACK - TOUCHED..]).fill(0);
        let inside = Inside { player, violation: None, window: None, work: 0..0, stack, scratch, thread: None };
        Ok(Lane { go: AtomicU32::new(0), inside: UnsafeCell::new(inside) })
    }

    /// The inside, while the lane is idle.
    #[expect(clippy::mut_from_ref, reason = "a lane that has a thread is never borrowed mutably as a whole")]
    unsafe fn inside(&self) -> &mut Inside<P, W> {
        // SAFETY: the caller knows that nobody else is in there.
        unsafe { &mut *self.inside.get() }
    }

    /// Begins the thread.
    ///
    /// # Safety
    /// The lane has no thread, and stays where it is for as long as it has one.
    pub unsafe fn begin(&self) -> Result<()> {
        self.go.store(0, Ordering::Relaxed);
        let lane = (&raw const *self).cast_mut().cast::<c_void>();
        // SAFETY: nobody is in there without a thread.
        let inside = unsafe { self.inside() };
        let stack = inside.stack.as_mut_ptr().cast::<c_void>();
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        // SAFETY: the attributes are made before they are used; the stack is ours and nobody else's until the thread has
        // been waited for; the lane lives longer than the thread, at the same address.
        let refused = unsafe {
            libc::pthread_attr_init(attributes.as_mut_ptr());
            let refused = libc::pthread_attr_setstack(attributes.as_mut_ptr(), stack, STACK);
            let run = run::<P, W> as extern "C" fn(*mut c_void) -> *mut c_void;
            let refused = match refused {
                0 => libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, lane),
                refused => refused,
            };
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            refused
        };
        ensure!(refused == 0, "cannot begin a thread: {}", std::io::Error::from_raw_os_error(refused));
        // SAFETY: the thread was made.
        inside.thread = Some(unsafe { thread.assume_init() });
        Ok(())
    }

    /// Has the thread do a part of the window's assignments.
    ///
    /// # Safety
    /// The lane is idle, its thread has begun, and what the window names stays until it has finished.
    pub unsafe fn send(&self, window: Window<'_>, work: Range<usize>) {
        // SAFETY: the lane is idle; the caller keeps what the window names for as long.
        unsafe {
            let inside = self.inside();
            inside.window = Some(mem::transmute::<Window<'_>, Window<'static>>(window));
            inside.work = work;
        }
        self.go.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.go);
    }

    /// Does a part of the window's assignments in this thread.
    ///
    /// # Safety
    /// The lane has no thread.
    pub unsafe fn work(&self, window: Window<'_>, work: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe { self.inside() }.perform(window, work);
    }

    /// Ends the thread, if there is one.
    ///
    /// # Safety
    /// The lane is idle.
    pub unsafe fn end(&self) {
        // SAFETY: the caller's promise.
        let Some(thread) = unsafe { self.inside() }.thread.take() else { return };
        self.go.store(LEAVE, Ordering::Release);
        futex::wake_all(&self.go);
        // SAFETY: the thread was begun and has not been waited for.
        unsafe { libc::pthread_join(thread, null_mut()) };
    }

    /// What the lane noticed.
    ///
    /// # Safety
    /// The lane is idle.
    pub unsafe fn violation(&self) -> Option<Violation> {
        // SAFETY: the caller's promise.
        unsafe { self.inside() }.violation
    }

    /// Who makes its calls.
    ///
    /// # Safety
    /// The lane is idle.
    pub unsafe fn player(&self) -> &Player<P, W> {
        // SAFETY: the caller's promise.
        unsafe { &self.inside().player }
    }
}

impl<P: Payload, W: Watch> Inside<P, W> {
    fn perform(&mut self, window: Window<'_>, work: Range<usize>) {
        for assignment in &window.assignments[work] {
            let place = &window.places[assignment.op.slot()];
            if !wait_for_turn(place, assignment.turn, window.stopped) {
                return;
            }
            // SAFETY: it is this operation's turn, and nobody else's.
            let entry = unsafe { &mut *place.entry.get() };
            if let Err(violation) = self.player.perform(assignment.op, window.first + u64::from(assignment.at), entry) {
                self.violation = Some(violation);
                window.stopped.store(true, Ordering::Release);
                return;
            }
            place.turn.store(assignment.turn.wrapping_add(1), Ordering::Release);
        }
    }
}

/// Waits for the operations that come before on the same place, all of which are earlier in the trace: so there is always
/// one that need not wait. `false` when somebody has stopped.
#[inline(always)]
fn wait_for_turn(place: &Place, turn: u32, stopped: &AtomicBool) -> bool {
    const SPINS: u32 = 200;
    let mut spins = 0;
    while place.turn.load(Ordering::Acquire) != turn {
        if stopped.load(Ordering::Relaxed) {
            return false;
        }
        spins += 1;
        if spins < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
    true
}

extern "C" fn run<P: Payload, W: Watch>(lane: *mut c_void) -> *mut c_void {
    // SAFETY: the lane that began this thread, which outlives it.
    let lane = unsafe { &*lane.cast::<Lane<P, W>>().cast_const() };
    // SAFETY: until it is sent for the first time, the crew does not look into a lane that has a thread.
    if let Some(scratch) = unsafe { &lane.inside().scratch } {
        scratch.adopt();
    }
    let mut seen = 0;
    loop {
        futex::wait_while(&lane.go, seen);
        seen = lane.go.load(Ordering::Acquire);
        if seen == LEAVE {
            return null_mut();
        }
        // SAFETY: the lane was sent, and its inside is this thread's until it says that it has finished.
        let inside = unsafe { lane.inside() };
        if let Some(window) = inside.window.take() {
            inside.perform(window, inside.work.clone());
            if window.running.fetch_sub(1, Ordering::AcqRel) == 1 {
                futex::wake_all(window.running);
            }
        }
    }
}
