//! The number of rounds.

use heapwright_stats::{FEWEST, enough_for, fewest_for};
use std::time::Duration;

/// More rounds add little information where there is little noise, but for very many rivals.
const MOST_ROUNDS: u32 = 30;

/// The same where two replays of the same allocator may differ by more than [`LITTLE_NOISE`].
const MOST_NOISY_ROUNDS: u32 = 200;

/// The share up to which differences between equals are little noise: half of what is a difference.
const LITTLE_NOISE: f64 = 0.025;

/// Returns the number of intervals for this number of rivals: each has one of its time and one of its memory.
pub fn comparisons(rivals: usize) -> usize {
    2 * rivals
}

/// Determines the number of rounds.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The number of rounds, if fixed.
    pub rounds: Option<u32>,
    /// About how long all of them may take.
    pub budget: Duration,
}

/// How far the rounds are.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// Rounds that were made.
    pub done: u32,
    /// How long they took, with everything before them.
    pub elapsed: Duration,
    /// About how long a further one takes.
    pub each: Duration,
    /// By which share the times of one allocator differ, as far as is known.
    pub noise: Option<f64>,
}

impl Pace {
    /// Returns the total number of rounds, at least one: the number that fits into the budget, up to a maximum that is
    /// higher where there is noise. The number that `comparisons` simultaneous intervals need, or that one interval
    /// needs, is kept even if it takes twice the budget.
    pub fn rounds(&self, comparisons: usize, stage: Stage) -> u32 {
        if let Some(rounds) = self.rounds {
            return rounds;
        }
        let Stage { done, elapsed, each, noise } = stage;
        let is_noisy = noise.is_some_and(|noise| noise > LITTLE_NOISE);
        let most = if is_noisy { MOST_NOISY_ROUNDS } else { MOST_ROUNDS };
        let goals = [enough_for(comparisons), fewest_for(comparisons), FEWEST].map(|rounds| rounds as u32);
        let within = |budget: Duration| {
            let left = budget.saturating_sub(elapsed).as_secs_f64() / each.as_secs_f64().max(1e-6);
            done.saturating_add(left as u32).clamp(done.max(1), most.max(goals[0]).max(done))
        };
        let (rounds, at_most) = (within(self.budget), within(self.budget.saturating_mul(2)));
        let goal = goals.into_iter().find(|&goal| goal <= at_most);
        goal.map_or(rounds, |goal| rounds.max(goal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(done: u32, elapsed: u64, each: u64) -> Stage {
        Stage { done, elapsed: Duration::from_secs(elapsed), each: Duration::from_secs(each), noise: None }
    }

    fn rounds(done: u32, elapsed: u64, each: u64) -> u32 {
        let pace = Pace { rounds: None, budget: Duration::from_secs(60) };
        pace.rounds(1, stage(done, elapsed, each))
    }

    #[test]
    fn noise_is_met_with_rounds() {
        let pace = Pace { rounds: None, budget: Duration::from_secs(60) };
        let rounds = |noise| {
            let each = Duration::from_millis(400);
            pace.rounds(1, Stage { each, noise, ..stage(30, 12, 0) })
        };
        assert_eq!([None, Some(0.02), Some(0.12)].map(rounds), [30, 30, 150]);
    }

    #[test]
    fn rounds_fill_the_budget() {
        assert_eq!(rounds(0, 10, 5), 10);
        assert_eq!(rounds(4, 30, 5), 10);
        assert_eq!(rounds(10, 60, 5), 10);
        assert_eq!(rounds(0, 0, 0), MOST_ROUNDS);
    }

    #[test]
    fn many_rivals_take_more_rounds_within_twice_the_budget() {
        let pace = Pace { rounds: None, budget: Duration::from_secs(60) };
        let rounds = |comparisons, each| pace.rounds(comparisons, stage(0, 0, each));
        assert_eq!([6, 8, 10, 12, 16, 30].map(|each| rounds(26, each)), [14, 14, 11, 6, 6, 2]);
        assert_eq!(rounds(1, 10), 9);
    }

    #[test]
    fn there_is_one_in_any_case_and_enough_for_intervals_within_twice_the_budget() {
        assert_eq!(rounds(0, 100, 500), 1);
        assert_eq!(rounds(1, 600, 500), 1);
        assert_eq!(rounds(0, 30, 14), 6);
        assert_eq!(rounds(5, 100, 14), 6);
        assert_eq!(rounds(0, 30, 20), 1);
    }

    #[test]
    fn who_says_how_many_gets_them() {
        let pace = Pace { rounds: Some(3), budget: Duration::ZERO };
        assert_eq!(pace.rounds(26, stage(0, 1, 1)), 3);
    }
}
