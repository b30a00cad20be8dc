//! A script performed by a pool of worker threads, one per recorded thread.
//!
//! The script is cut into [windows](super::windows). Within a window, every thread makes its own calls in order,
//! without waiting for the other threads. The exception is an operation on a block: it waits for the earlier operations
//! on that block, in any thread. All threads finish a window before the next one begins. A thread starts in the window
//! of its first event and ends after the window of its last event.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::{Context, Result};

use super::lane::{Assignment, Lane, Place, Window};
use super::observer::Observer;
use super::op::{Op, code};
use super::payload::Payload;
use super::player::Player;
use super::violation::Violation;
use heapwright_host::futex;
use heapwright_host::lazy::{Lazy, Plain};

// SAFETY: a place consists of integers without padding: any bytes are a valid value.
unsafe impl Plain for Place {}

/// The thread of a lane that is free.
const FREE_LANE: u32 = u32::MAX;

/// The worker threads, and the tables of the current window.
pub struct Workers<P: Payload, W: Observer> {
    lanes: Box<[Lane<P, W>]>,
    /// For each lane: its thread and its share of the window's operations.
    schedule: Box<[Turn]>,
    /// For each thread, its lane plus one; 0 before it starts.
    lane_of: Lazy<u32>,
    /// For each thread, the number of its last event.
    last: Lazy<u64>,
    places: Lazy<Place>,
    /// Number of operations on each place so far.
    uses: Lazy<u32>,
    assignments: Lazy<Assignment>,
    /// The lane of the thread whose events come next.
    current: usize,
    stopped: AtomicBool,
    running: AtomicU32,
}

#[derive(Clone, Copy)]
struct Turn {
    thread: u32,
    start: usize,
    len: usize,
}

/// The lengths of the tables.
#[derive(Clone, Copy)]
pub struct Size {
    /// Threads of the trace.
    pub threads: usize,
    /// Maximal number of threads in one window.
    pub lanes: usize,
    /// Maximal number of live blocks.
    pub slots: usize,
    /// Operations in a window.
    pub window: usize,
}

impl<P: Payload, W: Observer> Workers<P, W> {
    /// Allocates all tables. `last` has the number of each thread's last event.
    pub fn new(size: Size, last: Lazy<u64>, lane: impl Fn() -> Result<Lane<P, W>>) -> Result<Workers<P, W>> {
        let lanes: Vec<Lane<P, W>> = (0..size.lanes).map(|_| lane()).collect::<Result<_>>()?;
        Ok(Workers {
            schedule: vec![Turn { thread: FREE_LANE, start: 0, len: 0 }; lanes.len()].into_boxed_slice(),
            lanes: lanes.into_boxed_slice(),
            lane_of: Lazy::committed(size.threads)?,
            last,
            places: Lazy::committed(size.slots)?,
            uses: Lazy::committed(size.slots)?,
            assignments: Lazy::committed(size.window)?,
            current: 0,
            stopped: AtomicBool::new(false),
            running: AtomicU32::new(0),
        })
    }

    /// The players of all lanes.
    pub fn players(&self) -> impl Iterator<Item = &Player<P, W>> {
        // SAFETY: lanes work only within `perform_window`, which borrows this mutably, so all of them are idle here.
        self.lanes.iter().map(|lane| unsafe { lane.player() })
    }

    /// Returns the number of threads that make calls, the caller's included.
    pub fn threads(&self) -> usize {
        1 + self.schedule.iter().skip(1).filter(|turn| turn.thread != FREE_LANE).count()
    }

    /// Assigns the operations of a window to the lanes of their threads. Starts the threads whose first event is in it.
    pub fn share_out(&mut self, ops: &[Op]) -> Result<()> {
        let start = self.current;
        self.schedule.iter_mut().for_each(|turn| turn.len = 0);
        if self.lane_of[0] == 0 {
            self.enter(0)?;
        }
        for op in ops {
            if op.code() == code::THREAD {
                self.current = self.enter(op.slot())?;
            } else if op.is_call() {
                self.schedule[self.current].len += 1;
            }
        }
        let mut end = 0;
        for turn in &mut self.schedule {
            turn.start = end;
            end += turn.len;
            turn.len = 0;
        }
        self.current = start;
        for (at, &op) in ops.iter().enumerate() {
            self.assign(op, at as u32);
        }
        Ok(())
    }

    fn assign(&mut self, op: Op, at: u32) {
        if op.code() == code::THREAD {
            self.current = self.lane_of[op.slot()] as usize - 1;
        } else if op.is_call() {
            let uses = &mut self.uses[op.slot()];
            let turn = &mut self.schedule[self.current];
            self.assignments[turn.start + turn.len] = Assignment { op, at, turn: *uses };
            *uses = uses.wrapping_add(1);
            turn.len += 1;
        }
    }

    /// Returns the lane of a thread, which is started first if it has none.
    fn enter(&mut self, thread: usize) -> Result<usize> {
        if let Some(lane) = self.lane_of[thread].checked_sub(1) {
            return Ok(lane as usize);
        }
        let free = self.schedule.iter().position(|turn| turn.thread == FREE_LANE);
        let lane = free.context("more threads at one time than were counted")?;
        self.schedule[lane].thread = thread as u32;
        self.lane_of[thread] = lane as u32 + 1;
        // The first thread is this one: some allocators know the main thread from others.
        if thread > 0 {
            // SAFETY: the lane was free, so it has no thread, and the boxed slice of lanes never moves or shrinks.
            unsafe { self.lanes[lane].begin() }?;
        }
        Ok(lane)
    }

    /// Performs the window that [`Workers::share_out`] prepared. `first` is the number of its first event.
    pub fn perform_window(&mut self, first: u64) -> Result<(), Violation> {
        let window = Window {
            assignments: &self.assignments,
            places: &self.places,
            first,
            stopped: &self.stopped,
            running: &self.running,
        };
        let others = self.schedule.iter().skip(1).filter(|turn| turn.len > 0).count();
        self.running.store(others as u32, Ordering::Release);
        for (lane, turn) in self.lanes.iter().zip(&self.schedule).skip(1).filter(|(_, turn)| turn.len > 0) {
            // SAFETY: all lanes are idle between windows, those with work have threads, and this function does not
            // return before they have finished.
            unsafe { lane.send(window, turn.start..turn.start + turn.len) };
        }
        let own = self.schedule[0];
        // SAFETY: the first lane has no thread of its own; this thread performs its work and does not return before it
        // is done.
        unsafe { self.lanes[0].work(window, own.start..own.start + own.len) };
        loop {
            match self.running.load(Ordering::Acquire) {
                0 => break,
                running => futex::wait_while(&self.running, running),
            }
        }
        let violations = self.lanes.iter().filter_map(|lane| {
            // SAFETY: `running` is 0, so all lanes have finished their work and are idle.
            unsafe { lane.violation() }
        });
        violations.min_by_key(|violation| violation.event).map_or(Ok(()), Err)
    }

    /// Ends the threads without further events after the first `done` events.
    pub fn end_threads(&mut self, done: u64) {
        for (lane, turn) in self.lanes.iter().zip(&mut self.schedule).skip(1) {
            if turn.thread != FREE_LANE && self.last[turn.thread as usize] < done {
                // SAFETY: `perform_window` returns after all lanes have finished, so this lane is idle.
                unsafe { lane.end() };
                turn.thread = FREE_LANE;
            }
        }
    }
}

impl<P: Payload, W: Observer> Drop for Workers<P, W> {
    fn drop(&mut self) {
        // SAFETY: `perform_window` returns after all lanes have finished, so all are idle and can be ended and joined.
        self.lanes.iter().for_each(|lane| unsafe { lane.end() });
    }
}
