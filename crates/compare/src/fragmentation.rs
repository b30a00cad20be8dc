//! Whether fragmentation is a program's problem, in one sentence. `docs/compare.md` states the rules.

use super::comparison::Comparison;
use super::figures::LITTLE_BYTES;
use super::metric::Metric;
use super::rival::Rival;
use super::row::Row;
use heapwright_show::number;

/// The fragmentation of a heap below this size, in bytes, does not matter.
const SMALL: u64 = 1 << 20;

/// Memory up to this ratio to what was asked for is no problem.
const NO_PROBLEM: f64 = 1.10;

/// Memory that another would give back counts from this share of the system's memory up.
const HELPS: f64 = 0.05;

/// Returns a sentence on the memory lost to fragmentation and on whether another placement would help; `None` without
/// figures.
pub fn fragmentation(comparison: &Comparison) -> Option<String> {
    let asked = comparison.trace.peak_asked;
    if asked < SMALL {
        return Some(format!(
            "Fragmentation is not your problem: the program never asked for more than {} at one time.",
            number::bytes(asked)
        ));
    }
    match comparison.system().filter(|system| !system.rounds.is_empty()) {
        Some(system) => measured(comparison, system),
        None => simulated(comparison),
    }
}

/// Returns what simulations alone tell.
fn simulated(comparison: &Comparison) -> Option<String> {
    let Some((policy, least)) = best_policy(comparison) else {
        let is_simulated = comparison.rows.iter().any(|row| row.median(Metric::HeapOverAsked).is_some());
        return is_simulated
            .then(|| "Every policy refuses requests: the heap may not be so long as they need.".to_owned());
    };
    if is_of_one_length(comparison) {
        let heap = policy.median(Metric::Heap)?;
        let length = number::bytes(heap as u64);
        return Some(format!("Every request finds room under {} in a heap of {length}.", policy.title()));
    }
    let needs = format!(
        "{} needs {least:.2} times the bytes asked for at their peak, the least that any allocator without moving \
         needs is 1.00",
        policy.title()
    );
    Some(match least <= NO_PROBLEM {
        true => format!("Fragmentation need not be your problem: {needs}."),
        false => format!(
            "Every policy that was simulated is fragmented by these requests: {needs}. Another allocator may need \
             less; real replays show it."
        ),
    })
}

/// Returns what measurements tell: measured memory is compared with measured memory only, since a simulated heap has no
/// metadata, no caches and no pages.
fn measured(comparison: &Comparison, system: &Row) -> Option<String> {
    let (peak, asked) = (system.median(Metric::Peak)?, comparison.trace.peak_asked as f64);
    let over = peak - asked;
    let takes = format!("the system's malloc takes {:.2} times the bytes asked for at their peak", peak / asked);
    if over <= LITTLE_BYTES.max((NO_PROBLEM - 1.0) * asked) {
        return Some(format!("Fragmentation is not your problem: {takes}."));
    }
    let cost = format!("Fragmentation and overhead cost you {}: {takes}", number::bytes(over as u64));
    let rivals = comparison.rivals();
    let by_memory = |a: &&Rival, b: &&Rival| a.memory.median.total_cmp(&b.memory.median);
    let Some(least) = rivals.iter().min_by(by_memory) else { return Some(format!("{cost}.")) };
    let back = peak - least.row.median(Metric::Peak)?;
    Some(if back >= LITTLE_BYTES.max(HELPS * peak) && least.memory.is_below(1.0) {
        format!("{cost}. Of this, {} gives back {}, as measured.", least.row.title(), number::bytes(back as u64))
    } else if back > 0.0 {
        let back = number::bytes(back as u64);
        format!("{cost}. No other that was measured gives much of it back: {} {back}.", least.row.title())
    } else {
        format!("{cost}. No other that was measured gives any of it back.")
    })
}

/// Returns whether simulated heaps do not grow, so that their length says nothing of the policy.
fn is_of_one_length(comparison: &Comparison) -> bool {
    comparison.settings.rules.as_deref().is_some_and(|rules| rules.split(',').any(|rule| rule == "growth=fixed"))
}

/// Returns the policy with the smallest simulated heap of those that serve every request, and that over the bytes asked
/// for.
fn best_policy(comparison: &Comparison) -> Option<(&Row, f64)> {
    let serving = comparison.rows.iter().filter(|row| row.refused.unwrap_or(0) == 0);
    let rows = serving.filter_map(|row| Some((row, row.median(Metric::HeapOverAsked)?)));
    rows.min_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{Synthetic, row};
    use super::*;

    fn sentence(over_asked: f64, memory: f64) -> String {
        let comparison = Synthetic::beside([row("good", 1.0, memory), row("large", 1.0, 1.5)]).policies();
        fragmentation(&comparison.over_asked(over_asked).simulated(&[("best", 0.5)]).build()).unwrap()
    }

    #[test]
    fn in_a_region_the_length_says_nothing() {
        let mut comparison = Synthetic::beside([]).policies().simulated(&[("best", 9.0)]).build();
        comparison.rows.iter_mut().for_each(|row| row.rounds.clear());
        comparison.settings.rules = Some("granule=16,growth=fixed,limit=1024".to_owned());
        assert!(fragmentation(&comparison).unwrap().starts_with("Every request finds room under best fit"));
        comparison.rows.iter_mut().for_each(|row| row.refused = Some(1));
        assert!(fragmentation(&comparison).unwrap().starts_with("Every policy refuses requests"));
    }

    #[test]
    fn little_over_what_was_asked_for_is_no_problem() {
        let text = sentence(1.04, 0.5);
        assert_eq!(
            text,
            "Fragmentation is not your problem: the system's malloc takes 1.04 times the bytes asked for at their peak."
        );
    }

    #[test]
    fn what_is_given_back_is_measured_memory_less_measured_memory() {
        let text = sentence(2.0, 0.75);
        assert!(
            text.starts_with("Fragmentation and overhead cost you 30.5 MiB: the system's malloc takes 2.00"),
            "{text}"
        );
        assert!(text.ends_with("Of this, good fit gives back 15.3 MiB, as measured."), "{text}");
    }

    #[test]
    fn a_simulated_heap_gives_nothing_back() {
        assert!(sentence(2.0, 0.97).ends_with("gives much of it back: good fit 1.83 MiB."), "{}", sentence(2.0, 0.97));
        assert!(sentence(2.0, 1.1).ends_with("No other that was measured gives any of it back."));
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
        assert!(without(1.5).starts_with("Every policy that was simulated is fragmented by these requests: best fit"));
        assert!(without(1.5).ends_with("Another allocator may need less; real replays show it."));
    }

    #[test]
    fn without_figures_nothing_is_said() {
        let comparison = Synthetic::beside([]).rounds(0).build();
        assert_eq!(fragmentation(&comparison), None);
    }
}
