//! Whether fragmentation is a program's problem, in one sentence. The rules are those of `docs/compare.md`.

use super::comparison::{Comparison, Row};
use super::metric::Metric;
use crate::number;

/// A heap below this, in bytes, is not worth a thought.
const SMALL: u64 = 1 << 20;

/// Nor is less than this, in bytes, over what was asked for.
const LITTLE: f64 = 256.0 * 1024.0;

/// Memory up to so many times what was asked for is no problem.
const NO_PROBLEM: f64 = 1.10;

/// A policy helps if it needs so much less.
const HELPS: f64 = 0.95;

/// Where memory goes, and whether placing blocks otherwise would help. `None` when nothing is known of it.
pub fn fragmentation(comparison: &Comparison) -> Option<String> {
    let asked = comparison.trace.peak_asked;
    if asked < SMALL {
        return Some(format!(
            "Fragmentation is not your problem: the program never asked for more than {} at one time.",
            number::bytes(asked)
        ));
    }
    let (policy, least) = best_policy(comparison)?;
    let policy_needs = format!("{} needs {least:.2} times the bytes asked for at their peak", policy.title());
    let bound = "the least that any allocator without moving needs is 1.00";
    let Some(system) = comparison.system().and_then(|system| system.median(Metric::PeakOverAsked)) else {
        return Some(match least <= NO_PROBLEM {
            true => format!("Fragmentation need not be your problem: {policy_needs}, {bound}."),
            false => format!("Any heap would be fragmented by these requests: {policy_needs}, {bound}."),
        });
    };
    let over = (system - 1.0).max(0.0) * asked as f64;
    let wasted = number::bytes(over as u64);
    Some(if system <= NO_PROBLEM || over <= LITTLE {
        format!("Fragmentation is not your problem: the system's malloc takes {system:.2}, {policy_needs}, {bound}.")
    } else if least <= system * HELPS {
        format!(
            "Fragmentation and overhead cost you {wasted}, which another placement would give back: the system's malloc takes \
             {system:.2}, {policy_needs}, {bound}."
        )
    } else {
        format!(
            "Fragmentation costs you {wasted}, and no placement would give it back: the system's malloc takes {system:.2}, \
             {policy_needs}; only moving blocks, or asking otherwise, would."
        )
    })
}

/// The policy with the smallest simulated heap, and that over the bytes asked for.
fn best_policy(comparison: &Comparison) -> Option<(&Row, f64)> {
    let rows = comparison.rows.iter().filter_map(|row| Some((row, row.median(Metric::HeapOverAsked)?)));
    rows.min_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::Synthetic;
    use super::*;

    fn sentence(over_asked: f64, policies: &[(&'static str, f64)]) -> String {
        fragmentation(&Synthetic::beside([]).over_asked(over_asked).simulated(policies).build()).unwrap()
    }

    #[test]
    fn little_over_what_was_asked_for_is_no_problem() {
        let text = sentence(1.04, &[("first", 1.06), ("best", 1.03)]);
        assert!(text.starts_with("Fragmentation is not your problem: the system's malloc takes 1.04"), "{text}");
        assert!(text.contains("best fit needs 1.03 times the bytes asked for"), "{text}");
    }

    #[test]
    fn much_that_a_policy_would_save_is_told_in_bytes() {
        let text = sentence(2.0, &[("best", 1.1)]);
        assert!(
            text.starts_with("Fragmentation and overhead cost you 30.5 MiB, which another placement would"),
            "{text}"
        );
    }

    #[test]
    fn much_that_no_policy_would_save_is_told_as_such() {
        let text = sentence(2.0, &[("best", 1.95)]);
        assert!(text.contains("no placement would give it back"), "{text}");
    }

    #[test]
    fn a_small_heap_is_not_worth_a_thought() {
        let comparison = Synthetic::beside([]).peak(500_000.0).over_asked(3.0).build();
        assert!(fragmentation(&comparison).unwrap().contains("never asked for more than 163 KiB"));
    }

    #[test]
    fn a_few_pages_are_no_problem_whatever_their_share() {
        let comparison = Synthetic::beside([]).peak(1.3e6).over_asked(1.2).simulated(&[("best", 1.0)]).build();
        assert!(fragmentation(&comparison).unwrap().starts_with("Fragmentation is not your problem"));
    }

    #[test]
    fn simulations_alone_tell_of_policies() {
        let without = |least| {
            let mut comparison = Synthetic::beside([]).simulated(&[("best", least)]).build();
            comparison.rows.retain(|row| row.name == "best");
            fragmentation(&comparison).unwrap()
        };
        assert!(without(1.03).starts_with("Fragmentation need not be your problem: best fit needs 1.03"));
        assert!(without(1.5).starts_with("Any heap would be fragmented by these requests"));
    }

    #[test]
    fn without_policies_nothing_is_said() {
        assert_eq!(fragmentation(&Synthetic::beside([]).build()), None);
    }
}
