//! A worker thread that makes the calls of one recorded thread.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::{Context, Result};
use heapwright_host::threads::Thread;

use super::calls::Scratch;
use super::observer::Observer;
use super::op::Op;
use super::payload::Payload;
use super::player::{Entry, Player};
use super::violation::Violation;
use heapwright_host::futex;
use heapwright_host::lazy::{Lazy, Plain};

/// Length of a worker thread's stack, in bytes.
const STACK: usize = 256 << 10;
/// The bytes of it that are touched before the run.
const TOUCHED: usize = 48 << 10;

/// A slot of the table of blocks when several threads use it: the block, and a counter that orders the threads.
#[repr(C)]
pub struct Place {
    entry: UnsafeCell<Entry>,
    /// Number of operations done on this slot.
    turn: AtomicU32,
    _rest: u32,
}

// SAFETY: a thread accesses the entry only while `turn` equals the number of its operation, which the previous thread
// sets with release ordering after its own last access.
unsafe impl Sync for Place {}

/// An operation and its position among the operations on the same slot.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Assignment {
    pub op: Op,
    /// Its number in the window.
    pub at: u32,
    /// Number of operations on its slot that come before it.
    pub turn: u32,
}

// SAFETY: an assignment consists of integers without padding: any bytes are a valid value.
unsafe impl Plain for Assignment {}

/// What all lanes share in a window.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    pub assignments: &'a [Assignment],
    pub places: &'a [Place],
    /// The number of its first event.
    pub first: u64,
    /// Set when a lane stops at a violation: lanes that wait for it stop too.
    pub stopped: &'a AtomicBool,
    /// Lanes that have not finished.
    pub running: &'a AtomicU32,
}

/// The value of `go` that ends a lane's thread.
const LEAVE: u32 = u32::MAX;

/// A thread and its state. The state belongs to the thread from [`Lane::send`] until the thread has decremented the
/// window's `running`, and to [`Workers`](super::workers::Workers) otherwise.
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
    thread: Option<Thread>,
}

impl<P: Payload, W: Observer> Lane<P, W> {
    /// Returns a lane without a thread. Its stack is mapped, and touched where threads usually use it.
    pub fn new(player: Player<P, W>, scratch: Option<Scratch>) -> Result<Lane<P, W>> {
        let mut stack = Lazy::zeroed(STACK)?;
        std::hint::black_box(&mut stack[STACK - TOUCHED..]).fill(0);
        let inside = Inside { player, violation: None, window: None, work: 0..0, stack, scratch, thread: None };
        Ok(Lane { go: AtomicU32::new(0), inside: UnsafeCell::new(inside) })
    }

    /// Returns the state.
    ///
    /// # Safety
    /// The caller has the state to itself: it is the lane's thread between [`Lane::send`] and the end of its work, or
    /// the owner of the lane while it is idle.
    #[expect(clippy::mut_from_ref, reason = "a lane that has a thread is never borrowed mutably as a whole")]
    unsafe fn inside(&self) -> &mut Inside<P, W> {
        // SAFETY: the caller has the state to itself, so no other reference to it exists.
        unsafe { &mut *self.inside.get() }
    }

    /// Starts the thread.
    ///
    /// # Safety
    /// The lane has no thread, and stays where it is for as long as it has one.
    pub unsafe fn begin(&self) -> Result<()> {
        self.go.store(0, Ordering::Relaxed);
        let lane = (&raw const *self).cast_mut().cast::<c_void>();
        // SAFETY: the lane has no thread yet, so only the caller can access the state.
        let inside = unsafe { self.inside() };
        let stack = inside.stack.as_mut_ptr();
        // SAFETY: the stack belongs to this lane and is unmapped only after the thread was joined. The lane outlives
        // the thread at the same address, as the caller guarantees.
        let thread = unsafe { Thread::start(stack, STACK, run::<P, W>, lane) };
        inside.thread = Some(thread.context("cannot start a thread")?);
        Ok(())
    }

    /// Hands the thread a range of the window's assignments.
    ///
    /// # Safety
    /// The lane is idle and has a thread. Everything that the window borrows outlives the work, that is, until the
    /// window's `running` is 0.
    pub unsafe fn send(&self, window: Window<'_>, work: Range<usize>) {
        // SAFETY: the lane is idle, so the caller has its state to itself. The thread uses the window only until
        // `running` is 0, and the caller keeps all that it borrows until then: the longer lifetime is never relied on.
        unsafe {
            let inside = self.inside();
            inside.window = Some(mem::transmute::<Window<'_>, Window<'static>>(window));
            inside.work = work;
        }
        self.go.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.go);
    }

    /// Performs a range of the window's assignments in the calling thread.
    ///
    /// # Safety
    /// The lane has no thread.
    pub unsafe fn work(&self, window: Window<'_>, work: Range<usize>) {
        // SAFETY: the lane has no thread, so only the caller can access its state.
        unsafe { self.inside() }.perform(window, work);
    }

    /// Ends the thread, if there is one.
    ///
    /// # Safety
    /// The lane is idle.
    pub unsafe fn end(&self) {
        // SAFETY: the lane is idle: its thread waits for `go` and does not access the state.
        let Some(thread) = unsafe { self.inside() }.thread.take() else { return };
        self.go.store(LEAVE, Ordering::Release);
        futex::wake_all(&self.go);
        thread.join();
    }

    /// Returns the violation that the lane found, if any.
    ///
    /// # Safety
    /// The lane is idle.
    pub unsafe fn violation(&self) -> Option<Violation> {
        // SAFETY: the lane is idle: its thread waits for `go` and does not access the state.
        unsafe { self.inside() }.violation
    }

    /// Returns the player that makes its calls.
    ///
    /// # Safety
    /// The lane is idle.
    pub unsafe fn player(&self) -> &Player<P, W> {
        // SAFETY: the lane is idle: its thread waits for `go` and does not access the state.
        unsafe { &self.inside().player }
    }
}

impl<P: Payload, W: Observer> Inside<P, W> {
    fn perform(&mut self, window: Window<'_>, work: Range<usize>) {
        for assignment in &window.assignments[work] {
            let place = &window.places[assignment.op.slot()];
            if !wait_for_turn(place, assignment.turn, window.stopped) {
                return;
            }
            // SAFETY: `turn` equals the number of this operation on the slot, and no other operation has that number:
            // this thread alone accesses the entry.
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

/// Waits for the earlier operations on the same slot. All of them are earlier in the trace, so at least one thread can
/// always go on. Returns `false` when another lane has stopped.
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

extern "C" fn run<P: Payload, W: Observer>(lane: *mut c_void) -> *mut c_void {
    // SAFETY: `lane` is the address of the lane that started this thread; it outlives the thread and does not move.
    let lane = unsafe { &*lane.cast::<Lane<P, W>>().cast_const() };
    // SAFETY: after it has started the thread, the owner does not access the state before the first `send`.
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
        // SAFETY: `go` has changed, so the lane was sent work, and the state belongs to this thread until it decrements
        // `running`.
        let inside = unsafe { lane.inside() };
        if let Some(window) = inside.window.take() {
            inside.perform(window, inside.work.clone());
            if window.running.fetch_sub(1, Ordering::AcqRel) == 1 {
                futex::wake_all(window.running);
            }
        }
    }
}
