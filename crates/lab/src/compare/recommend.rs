//! What to do, in two sentences with their evidence. The rules are those of `docs/compare.md`.

use serde::{Deserialize, Serialize};

use super::comparison::{Comparison, Row};
use super::estimate::Estimate;
use super::fragmentation::fragmentation;
use super::metric::Metric;
use super::subject::Kind;

/// A difference in time below this share does not count, however little noise there is.
const LEAST_TIME: f64 = 0.02;

/// A difference in memory below this share, or so many bytes, does not count.
const LEAST_MEMORY: f64 = 0.02;
const LEAST_BYTES: f64 = 256.0 * 1024.0;

/// What is better in one way may be worse in the other by this share.
const TOLERATED: f64 = 0.05;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recommendation {
    /// What came out.
    pub verdict: Verdict,
    /// The row to choose.
    pub choice: Option<String>,
    /// One sentence on whom to choose, one on fragmentation.
    pub text: String,
}

/// What came out of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Somebody is better than the system's malloc, and not worse in anything.
    Change,
    /// Somebody is better in one way and worse in another.
    Depends,
    /// Nobody is better.
    Keep,
    /// There is too little to go by.
    Unknown,
}

/// A row beside the system's malloc.
struct Rival<'a> {
    row: &'a Row,
    /// Its time and its memory over the system's.
    time: Estimate,
    memory: Estimate,
    /// The bytes by which their memory differs.
    bytes: f64,
}

impl Rival<'_> {
    fn is_faster(&self, noise: f64) -> bool {
        self.time.high() < 1.0 - noise.max(LEAST_TIME)
    }

    fn is_slower(&self, noise: f64) -> bool {
        self.time.low() > 1.0 + noise.max(LEAST_TIME)
    }

    fn is_smaller(&self) -> bool {
        self.memory.high() < 1.0 - LEAST_MEMORY && self.bytes > LEAST_BYTES
    }

    fn is_larger(&self) -> bool {
        self.memory.low() > 1.0 + LEAST_MEMORY && self.bytes > LEAST_BYTES
    }

    /// Better in one way, and as good in the other or nearly so.
    fn is_better(&self, noise: f64) -> bool {
        let nearly_as_fast = !self.is_slower(noise) || self.time.median <= 1.0 + TOLERATED;
        let nearly_as_small = !self.is_larger() || self.memory.median <= 1.0 + TOLERATED;
        (self.is_faster(noise) && nearly_as_small) || (self.is_smaller() && nearly_as_fast)
    }

    fn cost(&self) -> f64 {
        self.time.median * self.memory.median
    }

    /// Its time and its memory in words.
    fn evidence(&self) -> String {
        format!("{} at {}", time_in_words(self.time), self.memory_in_words())
    }

    fn memory_in_words(&self) -> String {
        if self.is_smaller() || self.is_larger() {
            format!("{:.2} times its memory", self.memory.median)
        } else {
            "the same memory".to_owned()
        }
    }
}

/// What a comparison comes to.
pub fn recommend(comparison: &Comparison) -> Recommendation {
    let (verdict, choice, first) = choose(comparison);
    let text = match fragmentation(comparison) {
        Some(second) => format!("{first} {second}"),
        None => first,
    };
    Recommendation { verdict, choice, text }
}

/// The first sentence, and what it rests on.
fn choose(comparison: &Comparison) -> (Verdict, Option<String>, String) {
    let unknown = |why: String| (Verdict::Unknown, None, why);
    if comparison.settings.rounds == 0 {
        return unknown("Nothing was really replayed, so nothing is known of time.".to_owned());
    }
    let Some(system) = comparison.system().filter(|system| system.note.is_none()) else {
        return unknown(
            "The system's malloc could not be measured, and there is nothing to hold the others against.".to_owned(),
        );
    };
    let Some(noise) = comparison.noise() else {
        let rounds = comparison.settings.rounds;
        return unknown(format!(
            "Nothing can be said of so few rounds ({rounds}; it takes {}): give it more time with --budget, or --rounds.",
            super::estimate::FEWEST
        ));
    };
    let rivals: Vec<Rival> = comparison.rows.iter().filter_map(|row| rival(comparison, row, system)).collect();
    let best = rivals.iter().filter(|rival| rival.is_better(noise)).min_by(|a, b| a.cost().total_cmp(&b.cost()));
    if let Some(best) = best {
        let sentence = format!("Use {}: {}.", best.row.title(), best.evidence());
        return (Verdict::Change, Some(best.row.name.clone()), sentence);
    }
    let keep = |verdict, sentence| (verdict, Some(system.name.clone()), sentence);
    match trade_off(&rivals, noise) {
        Some(offers) => {
            keep(Verdict::Depends, format!("Keep the system's malloc unless one thing matters more: {offers}."))
        }
        None => keep(
            Verdict::Keep,
            format!(
                "Keep the system's malloc: no allocator is better than it within the noise (times differ by {:.1} % where \
                 nothing differs).",
                100.0 * noise
            ),
        ),
    }
}

/// The row beside the system's, if one could choose it: it was measured, and refused nothing that the system did not.
fn rival<'a>(comparison: &Comparison, row: &'a Row, system: &Row) -> Option<Rival<'a>> {
    let is_open = matches!(row.kind, Kind::Policy | Kind::Allocator) && row.note.is_none();
    if !is_open || row.refused > system.refused {
        return None;
    }
    Some(Rival {
        row,
        time: comparison.ratio(row, system, Metric::Time)?,
        memory: comparison.ratio(row, system, Metric::Peak)?,
        bytes: (row.median(Metric::Peak)? - system.median(Metric::Peak)?).abs(),
    })
}

/// The fastest and the smallest of those that are so at the cost of the other.
fn trade_off(rivals: &[Rival], noise: f64) -> Option<String> {
    let least = |by: fn(&Rival) -> f64, is_offer: &dyn Fn(&Rival) -> bool| {
        rivals.iter().filter(|rival| is_offer(rival)).min_by(|a, b| by(a).total_cmp(&by(b)))
    };
    let fastest = least(|rival| rival.time.median, &|rival| rival.is_faster(noise));
    let smallest = least(|rival| rival.memory.median, &|rival| rival.is_smaller());
    let mut offers: Vec<String> = Vec::new();
    for rival in [fastest, smallest].into_iter().flatten() {
        let offer = format!("{} takes {}", rival.row.title(), rival.evidence());
        if !offers.contains(&offer) {
            offers.push(offer);
        }
    }
    (!offers.is_empty()).then(|| offers.join("; "))
}

/// A time over the system's, as in "18 % less time than the system's malloc (95 % interval 15 to 21)".
fn time_in_words(time: Estimate) -> String {
    let interval = |low: f64, high: f64| format!("95 % interval {} to {}", percent(low), percent(high));
    match time.median {
        ratio if ratio >= 2.0 => {
            format!("{ratio:.1} times the system's time (95 % interval {:.1} to {:.1})", time.low(), time.high())
        }
        ratio if ratio < 1.0 => {
            let spread = interval(1.0 - time.high(), 1.0 - time.low());
            format!("{} % less time in malloc and free than the system's ({spread})", percent(1.0 - ratio))
        }
        ratio => {
            let spread = interval(time.low() - 1.0, time.high() - 1.0);
            format!("{} % more time in malloc and free than the system's ({spread})", percent(ratio - 1.0))
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0}", 100.0 * share).replace("-0", "0")
}

impl Row {
    /// The name in a sentence.
    pub fn title(&self) -> String {
        match (self.kind, self.name.as_str()) {
            (Kind::System, _) => "the system's malloc".to_owned(),
            (Kind::Policy, "buddy") => "buddies".to_owned(),
            (Kind::Policy, "mapped") => "a mapping per block".to_owned(),
            (Kind::Policy, policy) => format!("{policy} fit"),
            (_, name) => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{Synthetic, row};
    use super::*;

    fn first_sentence(comparison: Synthetic) -> (Verdict, String) {
        let recommendation = recommend(&comparison.build());
        (recommendation.verdict, recommendation.text)
    }

    #[test]
    fn who_is_faster_at_nearly_the_same_memory_is_recommended() {
        let (verdict, text) = first_sentence(Synthetic::beside([row("fast", 0.82, 1.04), row("slow", 1.5, 1.0)]));
        assert_eq!(verdict, Verdict::Change);
        assert!(
            text.starts_with("Use fast: 18 % less time in malloc and free than the system's (95 % interval 1"),
            "{text}"
        );
        assert!(text.contains("at 1.04 times its memory."), "{text}");
    }

    #[test]
    fn who_is_smaller_at_the_same_time_is_recommended() {
        let (verdict, text) = first_sentence(Synthetic::beside([row("small", 1.0, 0.7)]));
        assert_eq!(verdict, Verdict::Change, "{text}");
        assert!(text.contains("at 0.70 times its memory"), "{text}");
    }

    #[test]
    fn of_several_the_one_with_the_least_of_both_is_recommended() {
        let rows = [row("fast", 0.70, 1.04), row("small", 0.98, 0.6), row("good", 0.9, 0.9)];
        let recommendation = recommend(&Synthetic::beside(rows).build());
        assert_eq!(recommendation.choice.as_deref(), Some("small"));
    }

    #[test]
    fn what_lies_within_the_noise_is_no_reason() {
        let comparison = Synthetic::beside([row("same", 0.97, 1.0)]).noise(0.05);
        let (verdict, text) = first_sentence(comparison);
        assert_eq!(verdict, Verdict::Keep);
        assert!(text.contains("within the noise"), "{text}");
    }

    #[test]
    fn a_hundredth_is_no_reason_however_sure() {
        assert_eq!(first_sentence(Synthetic::beside([row("same", 0.99, 1.0)]).noise(0.0)).0, Verdict::Keep);
        assert_eq!(first_sentence(Synthetic::beside([row("same", 1.0, 0.99)]).noise(0.0)).0, Verdict::Keep);
    }

    #[test]
    fn all_worse_means_keep() {
        let (verdict, text) = first_sentence(Synthetic::beside([row("slow", 1.4, 1.0), row("large", 1.0, 1.5)]));
        assert_eq!(verdict, Verdict::Keep, "{text}");
    }

    #[test]
    fn time_for_memory_depends() {
        let rows = [row("fast", 0.5, 2.0), row("small", 3.0, 0.5), row("worse", 1.5, 1.5)];
        let (verdict, text) = first_sentence(Synthetic::beside(rows));
        assert_eq!(verdict, Verdict::Depends);
        assert!(text.contains("fast takes 50 % less time") && text.contains("at 2.00 times its memory"), "{text}");
        assert!(text.contains("small takes 3.0 times the system's time"), "{text}");
        assert!(!text.contains("worse"), "{text}");
    }

    #[test]
    fn a_little_memory_is_nothing() {
        let comparison = Synthetic::beside([row("fast", 0.8, 1.4)]).peak(500_000.0);
        let (verdict, text) = first_sentence(comparison);
        assert_eq!(verdict, Verdict::Change);
        assert!(text.contains("at the same memory"), "{text}");
    }

    #[test]
    fn who_refuses_requests_or_fails_is_not_recommended() {
        let mut comparison = Synthetic::beside([row("fast", 0.5, 1.0), row("broken", 0.4, 1.0)]).build();
        comparison.rows[1].refused = Some(1);
        comparison.rows[2].note = Some("lost its contents".to_owned());
        assert_eq!(recommend(&comparison).verdict, Verdict::Keep);
    }

    #[test]
    fn a_few_rounds_say_nothing() {
        let (verdict, text) = first_sentence(Synthetic::beside([row("fast", 0.5, 1.0)]).rounds(3));
        assert_eq!(verdict, Verdict::Unknown);
        assert!(text.contains("so few rounds (3; it takes 6)"), "{text}");
    }

    #[test]
    fn without_real_replays_nothing_is_said_of_time() {
        let (verdict, text) = first_sentence(Synthetic::beside([row("fast", 0.5, 1.0)]).rounds(0));
        assert_eq!((verdict, text.contains("nothing is known of time")), (Verdict::Unknown, true));
    }

    #[test]
    fn without_a_system_to_compare_with_nothing_is_recommended() {
        let mut comparison = Synthetic::beside([row("fast", 0.5, 1.0)]).build();
        comparison.rows[0].note = Some("crashed".to_owned());
        assert_eq!(recommend(&comparison).verdict, Verdict::Unknown);
    }

    #[test]
    fn a_policy_is_named_as_people_name_it() {
        let text = first_sentence(Synthetic::beside([row("best", 0.5, 1.0)]).policies()).1;
        assert!(text.starts_with("Use best fit: 50 % less"), "{text}");
    }
}
