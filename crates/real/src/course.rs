//! The course of a run: where batches end, and what happens between them.

use std::time::Duration;

use heapwright_host::lazy::Lazy;
use heapwright_host::process::thread_count;
use heapwright_host::shown_time::ShownTime;

use super::timeline::Mark;

/// The most time that a run sleeps during the pauses of the recorded program.
const MOST_SLEEP: Duration = Duration::from_millis(100);

/// The ends of batches.
pub struct Batches {
    ends: Lazy<u64>,
    next: usize,
}

impl Batches {
    /// The batches that end before these events, which are in ascending order.
    pub fn new(ends: Lazy<u64>) -> Batches {
        Batches { ends, next: 0 }
    }

    /// Returns the number of operations from event `at` to the end of its batch. `at` never decreases.
    pub fn distance(&mut self, at: u64) -> usize {
        while self.ends.get(self.next).is_some_and(|&end| end <= at) {
            self.next += 1;
        }
        self.ends.get(self.next).map_or(usize::MAX, |&end| (end - at) as usize)
    }
}

/// The pauses of the recorded program: the shown clock moves on, and threads of the allocator get some time.
pub struct Pauses<'a> {
    marks: &'a [Mark],
    shown: ShownTime,
    /// The part of each pause that the run sleeps.
    part: f64,
}

impl<'a> Pauses<'a> {
    /// Before the run.
    pub fn new(marks: &'a [Mark]) -> Pauses<'a> {
        Pauses { marks, shown: ShownTime::start(), part: part_slept(marks) }
    }

    /// Moves the clock to the time of event `at`. Sleeps a part of the pauses before it if the process has more threads
    /// than the replay's own `threads`: those of the allocator.
    pub fn end_before(&mut self, at: u64, threads: usize) {
        while let Some((mark, later)) = self.marks.split_first()
            && mark.event <= at
        {
            self.marks = later;
            let (elapsed, pause) = (Duration::from_nanos(mark.nanoseconds), Duration::from_nanos(mark.pause));
            if mark.pause > 0 && thread_count().is_none_or(|all| all > threads) {
                self.shown.sleep_through(pause, elapsed, pause.mul_f64(self.part));
            } else {
                self.shown.reach(elapsed);
            }
        }
    }
}

/// Returns the part of each pause that a run sleeps, so that all of them together take at most [`MOST_SLEEP`].
fn part_slept(marks: &[Mark]) -> f64 {
    let all = Duration::from_nanos(marks.iter().map(|mark| mark.pause).sum());
    if all <= MOST_SLEEP { 1.0 } else { MOST_SLEEP.as_secs_f64() / all.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_end_where_they_are_told_to() {
        let mut ends = Lazy::zeroed(3).unwrap();
        ends.copy_from_slice(&[10, 11, 500]);
        let mut batches = Batches::new(ends);
        assert_eq!([0, 9, 10, 11, 400].map(|at| batches.distance(at)), [10, 1, 1, 489, 100]);
        assert_eq!(batches.distance(500), usize::MAX);
    }

    #[test]
    fn a_run_sleeps_a_tenth_of_a_second_at_most() {
        let marks = |pauses: &[u64]| -> Vec<Mark> {
            pauses
                .iter()
                .map(|&milliseconds| Mark { event: 0, nanoseconds: 0, pause: milliseconds * 1_000_000 })
                .collect()
        };
        assert_eq!(part_slept(&[]), 1.0);
        assert_eq!(part_slept(&marks(&[10, 90])), 1.0);
        assert!((part_slept(&marks(&[100, 900])) - 0.1).abs() < 1e-9);
        assert!((part_slept(&marks(&[60_000_000])) * 60_000.0 - 0.1).abs() < 1e-9);
    }
}
