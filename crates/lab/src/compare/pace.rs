//! How many rounds there are.

use std::time::Duration;

use super::estimate::FEWEST;

/// One more tells little.
const MOST_ROUNDS: u32 = 30;

/// What the number of rounds follows from.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// So many, if somebody said so.
    pub rounds: Option<u32>,
    /// About how long all of them may take.
    pub budget: Duration,
}

impl Pace {
    /// How many rounds there will be, of which `done` took `elapsed` together with what came before them, and each that
    /// is left takes about `each`. At least one; as many as intervals need, even if they take twice the budget.
    pub fn rounds(&self, done: u32, elapsed: Duration, each: Duration) -> u32 {
        if let Some(rounds) = self.rounds {
            return rounds;
        }
        let within = |budget: Duration| {
            let left = budget.saturating_sub(elapsed).as_secs_f64() / each.as_secs_f64().max(1e-6);
            done.saturating_add(left as u32).clamp(done.max(1), MOST_ROUNDS)
        };
        let fewest = FEWEST as u32;
        match within(self.budget) {
            few if few < fewest && within(self.budget.saturating_mul(2)) >= fewest => fewest,
            rounds => rounds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(done: u32, elapsed: u64, each: u64) -> u32 {
        let pace = Pace { rounds: None, budget: Duration::from_secs(60) };
        pace.rounds(done, Duration::from_secs(elapsed), Duration::from_secs(each))
    }

    #[test]
    fn rounds_fill_the_budget() {
        assert_eq!(rounds(0, 10, 5), 10);
        assert_eq!(rounds(4, 30, 5), 10);
        assert_eq!(rounds(10, 60, 5), 10);
        assert_eq!(rounds(0, 0, 0), MOST_ROUNDS);
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
        assert_eq!(pace.rounds(0, Duration::from_secs(1), Duration::from_secs(1)), 3);
    }
}
