//! The number of rounds.

use heapwright_stats::{FEWEST, enough_for, fewest_for};
use std::time::Duration;

/// More rounds add little information, but for very many rivals.
const MOST_ROUNDS: u32 = 30;

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

impl Pace {
    /// Returns the total number of rounds, at least one. `done` of them took `elapsed`, with everything before them;
    /// each further one takes about `each`. The number that `comparisons` simultaneous intervals need, or that one
    /// interval needs, is kept even if it takes twice the budget.
    pub fn rounds(&self, comparisons: usize, done: u32, elapsed: Duration, each: Duration) -> u32 {
        if let Some(rounds) = self.rounds {
            return rounds;
        }
        let goals = [enough_for(comparisons), fewest_for(comparisons), FEWEST].map(|rounds| rounds as u32);
        let within = |budget: Duration| {
            let left = budget.saturating_sub(elapsed).as_secs_f64() / each.as_secs_f64().max(1e-6);
            done.saturating_add(left as u32).clamp(done.max(1), MOST_ROUNDS.max(goals[0]).max(done))
        };
        let (rounds, at_most) = (within(self.budget), within(self.budget.saturating_mul(2)));
        let goal = goals.into_iter().find(|&goal| goal <= at_most);
        goal.map_or(rounds, |goal| rounds.max(goal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(done: u32, elapsed: u64, each: u64) -> u32 {
        let pace = Pace { rounds: None, budget: Duration::from_secs(60) };
        pace.rounds(1, done, Duration::from_secs(elapsed), Duration::from_secs(each))
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
        let rounds = |comparisons, each| pace.rounds(comparisons, 0, Duration::ZERO, Duration::from_secs(each));
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
        assert_eq!(pace.rounds(26, 0, Duration::from_secs(1), Duration::from_secs(1)), 3);
    }
}
