//! A script performed by as many threads as were recorded.
//!
//! The script is cut into windows. Within one, every thread makes its own calls in their order, at its own pace, but an
//! operation on a block waits for those before it on the same block, whichever thread makes them. All threads finish a
//! window before any begins the next. A thread begins in the window in which it is first seen, and ends after the window
//! of its last event.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::{Context, Result};

use super::futex;
use super::lane::{Assignment, Lane, Place, Window};
use super::op::{Op, code};
use super::payload::Payload;
use super::player::Player;
use super::violation::Violation;
use super::watch::Watch;
use crate::bench::lazy::{Lazy, Plain};

// SAFETY: integers.
unsafe impl Plain for Place {}

/// No thread uses the lane.
const NOBODY: u32 = u32::MAX;

/// Threads, and the windows that they are given.
pub struct Crew<P: Payload, W: Watch> {
    lanes: Box<[Lane<P, W>]>,
    /// Of each lane: the thread that uses it, where its work begins, and how much there is.
    rota: Box<[Turn]>,
    /// Of each thread, its lane and one; 0 before it begins.
    lane_of: Lazy<u32>,
    /// Of each thread, the number of its last event.
    last: Lazy<u64>,
    places: Lazy<Place>,
    /// How many operations each place has seen.
    uses: Lazy<u32>,
    assignments: Lazy<Assignment>,
    /// The lane of the thread under way.
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

/// How large a crew has to be.
#[derive(Clone, Copy)]
pub struct Size {
    /// Threads of the trace.
    pub threads: usize,
    /// Those that are there in one window at most.
    pub lanes: usize,
    /// Blocks that live at one time.
    pub slots: usize,
    /// Operations in a window.
    pub window: usize,
}

impl<P: Payload, W: Watch> Crew<P, W> {
    /// A crew; `last` has the number of each thread's last event.
    pub fn new(size: Size, last: Lazy<u64>, lane: impl Fn() -> Result<Lane<P, W>>) -> Result<Crew<P, W>> {
        let lanes: Vec<Lane<P, W>> = (0..size.lanes).map(|_| lane()).collect::<Result<_>>()?;
        Ok(Crew {
            rota: vec![Turn { thread: NOBODY, start: 0, len: 0 }; lanes.len()].into_boxed_slice(),
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

    /// Those who make the calls.
    pub fn members(&self) -> impl Iterator<Item = &Player<P, W>> {
        // SAFETY: all lanes are idle but within `perform_window`.
        self.lanes.iter().map(|lane| unsafe { lane.player() })
    }

    /// Gives each thread its part of a window; threads that are first seen in it begin.
    pub fn share_out(&mut self, ops: &[Op]) -> Result<()> {
        let start = self.current;
        self.rota.iter_mut().for_each(|turn| turn.len = 0);
        if self.lane_of[0] == 0 {
            self.enter(0)?;
        }
        for op in ops {
            if op.code() == code::THREAD {
                self.current = self.enter(op.slot())?;
            } else if op.is_call() {
                self.rota[self.current].len += 1;
            }
        }
        let mut end = 0;
        for turn in &mut self.rota {
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
            let turn = &mut self.rota[self.current];
            self.assignments[turn.start + turn.len] = Assignment { op, at, turn: *uses };
            *uses = uses.wrapping_add(1);
            turn.len += 1;
        }
    }

    /// The lane of a thread, which begins if it has not.
    fn enter(&mut self, thread: usize) -> Result<usize> {
        if let Some(lane) = self.lane_of[thread].checked_sub(1) {
            return Ok(lane as usize);
        }
        let free = self.rota.iter().position(|turn| turn.thread == NOBODY);
        let lane = free.context("more threads at one time than were counted")?;
        self.rota[lane].thread = thread as u32;
        self.lane_of[thread] = lane as u32 + 1;
        // The first thread is this one: some allocators know the main thread from others.
        if thread > 0 {
            // SAFETY: nobody used the lane, and the box of lanes does not move.
            unsafe { self.lanes[lane].begin() }?;
        }
        Ok(lane)
    }

    /// Performs the window that was prepared, whose first event has this number.
    pub fn perform_window(&mut self, first: u64) -> Result<(), Violation> {
        let window = Window {
            assignments: &self.assignments,
            places: &self.places,
            first,
            stopped: &self.stopped,
            running: &self.running,
        };
        let others = self.rota.iter().skip(1).filter(|turn| turn.len > 0).count();
        self.running.store(others as u32, Ordering::Release);
        for (lane, turn) in self.lanes.iter().zip(&self.rota).skip(1).filter(|(_, turn)| turn.len > 0) {
            // SAFETY: all lanes are idle between windows, those with work have threads, and this function does not
            // return before they have finished.
            unsafe { lane.send(window, turn.start..turn.start + turn.len) };
        }
        let own = self.rota[0];
        // SAFETY: the first lane is this thread's.
        unsafe { self.lanes[0].work(window, own.start..own.start + own.len) };
        loop {
            match self.running.load(Ordering::Acquire) {
                0 => break,
                running => futex::wait_while(&self.running, running),
            }
        }
        let violations = self.lanes.iter().filter_map(|lane| {
            // SAFETY: all have finished.
            unsafe { lane.violation() }
        });
        violations.min_by_key(|violation| violation.event).map_or(Ok(()), Err)
    }

    /// Ends the threads that have nothing to do any more after `done` events.
    pub fn end_threads(&mut self, done: u64) {
        for (lane, turn) in self.lanes.iter().zip(&mut self.rota).skip(1) {
            if turn.thread != NOBODY && self.last[turn.thread as usize] < done {
                // SAFETY: all lanes are idle between windows.
                unsafe { lane.end() };
                turn.thread = NOBODY;
            }
        }
    }
}

impl<P: Payload, W: Watch> Drop for Crew<P, W> {
    fn drop(&mut self) {
        // SAFETY: all lanes are idle between windows; no thread may outlive what it works with.
        self.lanes.iter().for_each(|lane| unsafe { lane.end() });
    }
}
