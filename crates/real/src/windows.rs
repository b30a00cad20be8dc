//! The division of a script into windows, within which threads are free to run ahead of one another.
//!
//! A window ends
//!
//! - at every multiple of a fixed number of events;
//! - where a thread begins after another has ended: they never live side by side;
//! - before threads could have more bytes live at one time than were recorded, by more than a bound;
//! - where the clock moves.

use super::op::{Op, code};
use super::span::Span;

/// The windows of a script.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// For each window, the number of the first event after it.
    pub ends: Vec<u64>,
    /// Maximal number of threads in one window. Always counts the first thread.
    pub threads: usize,
}

/// The rules of a division.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Each multiple of this number ends a window.
    pub length: u64,
    /// The bound of the bytes by which threads may exceed what was live in the recorded program.
    pub ahead: u64,
    /// The first and the last event of each thread.
    pub spans: &'a [Span],
}

/// Divides a script, operation by operation.
#[derive(Debug)]
pub struct Divider<'a> {
    rules: Rules<'a>,
    windows: Windows,
    /// The number of the next event.
    at: u64,
    /// The first event of the current window.
    first: u64,
    thread: usize,
    /// Threads that have begun and not been ended.
    alive: usize,
    /// How many of them have had their last event in the current window.
    ended: usize,
    /// Bytes allocated less bytes freed since the beginning of the window, by all threads, and the maximum of that.
    live: i64,
    most: i64,
    /// The same for each thread that has calls in the window.
    shares: Vec<Share>,
    /// The sum of the maxima of all threads: no order of their calls has more bytes live at one time.
    possible: i64,
    /// The threads that have calls in the window.
    busy: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    live: i64,
    most: i64,
    is_busy: bool,
}

impl<'a> Divider<'a> {
    /// At the first event.
    pub fn new(rules: Rules<'a>) -> Divider<'a> {
        Divider {
            rules,
            windows: Windows { ends: Vec::new(), threads: 1 },
            at: 0,
            first: 0,
            thread: 0,
            alive: 1,
            ended: 0,
            live: 0,
            most: 0,
            shares: vec![Share::default(); rules.spans.len()],
            possible: 0,
            busy: Vec::new(),
        }
    }

    /// Adds an operation, in front of which the clock moves or does not.
    pub fn push(&mut self, op: Op, clock: Clock) {
        let begins = op.code() == code::THREAD && self.begins(op.slot());
        let growth = growth(op);
        if self.at.is_multiple_of(self.rules.length)
            || clock == Clock::Moves
            || begins && self.ended > 0
            || self.excess_with(growth) > self.rules.ahead as i64
        {
            self.end_window();
        }
        if op.code() == code::THREAD {
            self.thread = op.slot();
            self.alive += usize::from(begins);
            self.windows.threads = self.windows.threads.max(self.alive);
        }
        self.grow(growth);
        // The first thread is the worker's own, which stays.
        self.ended += usize::from(self.thread > 0 && self.rules.spans[self.thread].last == self.at);
        self.at += 1;
    }

    /// Whether a thread's first event is the next one.
    fn begins(&self, thread: usize) -> bool {
        thread > 0 && self.rules.spans[thread].first == self.at
    }

    /// Returns how far beyond the recorded maximum the threads could get in this window, if it included a call of this
    /// growth by the current thread.
    fn excess_with(&self, growth: i64) -> i64 {
        let share = self.shares[self.thread];
        let raised = (share.live + growth - share.most).max(0);
        self.possible + raised - self.most.max(self.live + growth)
    }

    fn grow(&mut self, growth: i64) {
        if growth == 0 {
            return;
        }
        let share = &mut self.shares[self.thread];
        if !share.is_busy {
            share.is_busy = true;
            self.busy.push(self.thread);
        }
        share.live += growth;
        self.possible += (share.live - share.most).max(0);
        share.most = share.most.max(share.live);
        self.live += growth;
        self.most = self.most.max(self.live);
    }

    /// Ends the window before the next event, unless it is empty.
    fn end_window(&mut self) {
        if self.first == self.at {
            return;
        }
        self.windows.ends.push(self.at);
        self.first = self.at;
        self.alive -= std::mem::take(&mut self.ended);
        (self.live, self.most, self.possible) = (0, 0, 0);
        for thread in self.busy.drain(..) {
            self.shares[thread] = Share::default();
        }
    }

    /// Returns the windows.
    pub fn finish(mut self) -> Windows {
        self.end_window();
        self.windows
    }
}

/// Whether the clock moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    Moves,
    Runs,
}

/// Returns the bytes that an operation allocates and writes, less those that it frees.
fn growth(op: Op) -> i64 {
    match op.code() {
        code::MALLOC | code::CALLOC | code::ALIGNED => op.written() as i64,
        code::RESIZE => op.written() as i64 - op.before() as i64,
        code::FREE => -(op.before() as i64),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Divides operations, each of which is of the thread in front of it.
    fn divided(calls: &[(u32, Op)], length: u64, ahead: u64) -> Windows {
        let ops = with_threads(calls);
        let spans = spans(&ops);
        let mut divider = Divider::new(Rules { length, ahead, spans: &spans });
        ops.iter().for_each(|&op| divider.push(op, Clock::Runs));
        divider.finish()
    }

    /// Puts an operation in front of each change of threads.
    fn with_threads(calls: &[(u32, Op)]) -> Vec<Op> {
        let (mut ops, mut current) = (Vec::new(), 0);
        for &(thread, op) in calls {
            if thread != current {
                ops.push(Op::thread(thread));
            }
            ops.push(op);
            current = thread;
        }
        ops
    }

    fn spans(ops: &[Op]) -> Vec<Span> {
        let (mut spans, mut current) = (vec![Span { first: u64::MAX, last: 0 }], 0);
        for (&op, at) in ops.iter().zip(0..) {
            if op.code() == code::THREAD {
                current = op.slot();
            }
            if spans.len() <= current {
                spans.resize(current + 1, Span { first: u64::MAX, last: 0 });
            }
            spans[current] = Span { first: spans[current].first.min(at), last: at };
        }
        spans
    }

    #[test]
    fn threads_one_after_another_have_a_window_each() {
        let calls: Vec<_> = (1..=5).flat_map(|thread| [(thread, Op::lost()); 3]).collect();
        assert_eq!(divided(&calls, 1000, 1 << 20), Windows { ends: vec![4, 8, 12, 16, 20], threads: 2 });
    }

    #[test]
    fn threads_that_overlap_by_one_event_share_a_window() {
        // The second begins just before the last event of the first, and the third after it.
        let calls = [
            (1, Op::lost()),
            (1, Op::lost()),
            (2, Op::lost()),
            (1, Op::lost()),
            (2, Op::lost()),
            (3, Op::lost()),
            (2, Op::lost()),
        ];
        let ops = with_threads(&calls);
        let third = ops.iter().position(|&op| op == Op::thread(3)).unwrap() as u64;
        assert_eq!(divided(&calls, 1000, 1 << 20), Windows { ends: vec![third, ops.len() as u64], threads: 3 });
        // The change to the second thread is the first event of the second.
        let apart = [(1, Op::lost()), (1, Op::lost()), (2, Op::lost())];
        assert_eq!(divided(&apart, 1000, 1 << 20), Windows { ends: vec![3, 5], threads: 2 });
    }

    #[test]
    fn windows_have_no_more_than_their_length() {
        let calls = vec![(0, Op::lost()); 2500];
        assert_eq!(divided(&calls, 1000, 1 << 20), Windows { ends: vec![1000, 2000, 2500], threads: 1 });
    }

    #[test]
    fn windows_end_where_the_clock_moves() {
        let spans = [Span { first: 0, last: 99 }];
        let mut divider = Divider::new(Rules { length: 1000, ahead: 1, spans: &spans });
        let clock = |event| if [0, 7, 50].contains(&event) { Clock::Moves } else { Clock::Runs };
        (0..100).for_each(|event| divider.push(Op::lost(), clock(event)));
        assert_eq!(divider.finish().ends, [7, 50, 100]);
    }

    #[test]
    fn one_thread_alone_is_not_ahead_of_any() {
        let calls: Vec<_> = (0..1000).map(|slot| (1, Op::malloc(slot, 1 << 20, None))).collect();
        assert_eq!(divided(&calls, 1 << 20, 1), Windows { ends: vec![1001], threads: 2 });
    }

    /// The most bytes that can be live in any order of a window's calls that keeps those of each thread.
    fn most_in_any_order(ops: &[Op], thread_before: usize, live_before: i64) -> (i64, i64, usize) {
        let (mut live, mut thread) = (live_before, thread_before);
        let mut shares = std::collections::HashMap::<usize, (i64, i64)>::new();
        for &op in ops {
            if op.code() == code::THREAD {
                thread = op.slot();
            }
            let share = shares.entry(thread).or_default();
            share.0 += growth(op);
            share.1 = share.1.max(share.0);
            live += growth(op);
        }
        (live_before + shares.values().map(|share| share.1).sum::<i64>(), live, thread)
    }

    #[test]
    fn no_order_of_calls_has_more_live_than_the_bound_allows() {
        let mut random = fastrand::Rng::with_seed(7);
        for ahead in [1, 5_000, 100_000] {
            let (mut calls, mut live) = (Vec::new(), Vec::new());
            for slot in 0..3000 {
                let thread = random.u32(0..5);
                if live.len() > 100 {
                    let (slot, size) = live.swap_remove(random.usize(0..live.len()));
                    calls.push((thread, Op::free(slot, size)));
                }
                let size = random.u64(1..4000);
                live.push((slot, size));
                calls.push((random.u32(0..5), Op::malloc(slot, size, None)));
            }
            let ops = with_threads(&calls);
            let windows = divided(&calls, 1 << 20, ahead);
            let recorded = ops.iter().scan(0, |live, &op| {
                *live += growth(op);
                Some(*live)
            });
            let peak = recorded.max().unwrap();
            let (mut start, mut thread, mut live) = (0, 0, 0);
            for &end in &windows.ends {
                let window = &ops[start..end as usize];
                let (most, after, next) = most_in_any_order(window, thread, live);
                assert!(most <= peak + ahead as i64, "{most} in {start}..{end}, {peak}");
                (start, thread, live) = (end as usize, next, after);
            }
            assert_eq!(start, ops.len());
        }
    }
}
