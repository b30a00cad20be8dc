//! Verdicts, judged against reality.

use heapwright_stats::Estimate;

use super::claims::{Advice, Claim, Said};
use super::figures::{Figures, Measure};

/// Differences of at most this share do not count, as in the rules of verdicts.
const EQUAL: f64 = 0.05;

/// A difference that a verdict should find.
const LARGE: f64 = 0.10;

/// A difference in memory of at most this number of bytes is none, as in the rules of verdicts.
const LEAST_BYTES: f64 = 256.0 * 1024.0;

/// What verdicts are about, in the order in which contradictions are listed.
const MEASURES: [Measure; 2] = [Measure::Time, Measure::Memory];

/// The figures of a program that verdicts are about.
pub struct Reality {
    /// Peak RSS.
    pub memory: Figures,
    /// Processor time.
    pub time: Figures,
}

/// What reality says of a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It says nothing.
    Silent,
    /// Reality does not contradict it.
    Holds,
    /// What is really different.
    Contradicted(Vec<String>),
    /// Its words were not understood.
    Unclear,
}

/// Whether a verdict names an allocator that is really much better, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// No allocator is.
    Nothing,
    /// It names one.
    Found,
    /// It says nothing.
    Silent,
    /// It names others, or none.
    Missed,
}

impl Reality {
    /// Judges what is advised.
    pub fn judge(&self, advice: &Advice) -> Judgement {
        let reasons: Vec<String> = match advice {
            Advice::Silence => return Judgement::Silent,
            Advice::Unclear => return Judgement::Unclear,
            Advice::Keep => self.rivals().into_iter().filter_map(|name| self.against_keeping(name)).collect(),
            Advice::Use(claims) => claims.iter().flat_map(|claim| self.against(claim)).collect(),
            Advice::Partly(claim) => MEASURES.into_iter().filter_map(|measure| self.inverted(claim, measure)).collect(),
        };
        if reasons.is_empty() { Judgement::Holds } else { Judgement::Contradicted(reasons) }
    }

    /// Returns whether the advice names an allocator that really takes a tenth less time or memory.
    pub fn finding(&self, advice: &Advice) -> Finding {
        let better: Vec<&str> = self.rivals().into_iter().filter(|name| self.is_much_better(name)).collect();
        if better.is_empty() {
            Finding::Nothing
        } else if matches!(advice, Advice::Silence | Advice::Unclear) {
            Finding::Silent
        } else if advice.names().iter().any(|name| better.contains(name)) {
            Finding::Found
        } else {
            Finding::Missed
        }
    }

    fn rivals(&self) -> Vec<&str> {
        self.memory.rows.iter().map(|row| row.allocator.as_str()).filter(|&name| name != "system").collect()
    }

    fn figures(&self, measure: Measure) -> &Figures {
        match measure {
            Measure::Memory => &self.memory,
            Measure::Time => &self.time,
        }
    }

    /// Returns what is wrong with an offer: less was claimed of what is really more, or more than 5 % more was not
    /// named.
    fn against(&self, claim: &Claim) -> Vec<String> {
        let of = |measure| self.inverted(claim, measure).or_else(|| self.unnamed(claim, measure));
        MEASURES.into_iter().filter_map(of).collect()
    }

    /// Returns what is really more of what was claimed to be less.
    fn inverted(&self, claim: &Claim, measure: Measure) -> Option<String> {
        let ratio = self.figures(measure).over_system(&claim.allocator)?;
        let is_worse = ratio.is_above(1.0) && ratio.median > 1.0 + self.noise(measure);
        let is_inverted = claim.of(measure) == Said::Less && is_worse;
        is_inverted.then(|| format!("{} really takes {}", claim.allocator, in_words(measure, ratio)))
    }

    /// Returns what is really more than 5 % more, without having been named.
    fn unnamed(&self, claim: &Claim, measure: Measure) -> Option<String> {
        let ratio = self.figures(measure).over_system(&claim.allocator)?;
        let is_unnamed = claim.of(measure) != Said::More && ratio.is_above(1.0 + EQUAL);
        is_unnamed.then(|| format!("{} really takes {}", claim.allocator, in_words(measure, ratio)))
    }

    /// Returns what is wrong with keeping the system's malloc: another is really better by more than 5 % in one figure,
    /// and not worse by more than that in the other.
    fn against_keeping(&self, name: &str) -> Option<String> {
        let better = |measure, other| {
            let (ratio, price) = (self.gain(name, measure)?, self.figures(other).over_system(name)?);
            let is_better = ratio.is_below(1.0 - EQUAL) && !price.may_be_above(1.0 + EQUAL);
            is_better.then(|| format!("{name} really takes {}", in_words(measure, ratio)))
        };
        better(Measure::Time, Measure::Memory).or_else(|| better(Measure::Memory, Measure::Time))
    }

    fn is_much_better(&self, name: &str) -> bool {
        let is_so = |measure| {
            self.gain(name, measure)
                .is_some_and(|ratio| ratio.median <= 1.0 - LARGE && ratio.is_below(1.0 - self.noise(measure)))
        };
        is_so(Measure::Time) || is_so(Measure::Memory)
    }

    /// Returns an allocator's figure over the system's, if it is less by more than counts.
    fn gain(&self, name: &str, measure: Measure) -> Option<Estimate> {
        let figures = self.figures(measure);
        let ratio = figures.over_system(name)?;
        let saved = (1.0 - ratio.median) * figures.system()?.real.median;
        let least = if measure == Measure::Memory { LEAST_BYTES } else { 0.0 };
        (saved > least && ratio.median < 1.0 - self.noise(measure)).then_some(ratio)
    }

    fn noise(&self, measure: Measure) -> f64 {
        self.figures(measure).noise().unwrap_or(0.0)
    }
}

/// Returns a ratio in words: "12 % more memory (95 % interval 11 to 14)".
fn in_words(measure: Measure, ratio: Estimate) -> String {
    let what = match measure {
        Measure::Memory => "memory",
        Measure::Time => "processor time",
    };
    let percent = |share: f64| format!("{:.0}", 100.0 * share);
    let (word, share, [from, to]) = match ratio.median < 1.0 {
        true => ("less", 1.0 - ratio.median, [1.0 - ratio.high(), 1.0 - ratio.low()]),
        false => ("more", ratio.median - 1.0, [ratio.low() - 1.0, ratio.high() - 1.0]),
    };
    format!("{} % {word} {what} (95 % interval {} to {})", percent(share), percent(from), percent(to))
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::figures;
    use super::*;

    const MIB: f64 = 1024.0 * 1024.0;

    /// An allocator x with these ratios of time and memory to the system's.
    fn reality(time: f64, memory: f64) -> Reality {
        let of = |base: f64, ratio: f64| figures(&[("system", base, None), ("x", base * ratio, None)]);
        Reality { memory: of(100.0 * MIB, memory), time: of(1.0, time) }
    }

    fn advised(time: Said, memory: Said) -> Advice {
        Advice::Use(vec![Claim { allocator: "x".to_owned(), time, memory }])
    }

    fn is_contradicted(reality: &Reality, advice: &Advice) -> bool {
        matches!(reality.judge(advice), Judgement::Contradicted(_))
    }

    #[test]
    fn less_is_contradicted_by_more() {
        let less = advised(Said::Less, Said::Same);
        assert!(is_contradicted(&reality(1.02, 1.0), &less));
        assert!(!is_contradicted(&reality(0.99, 1.0), &less), "less than was claimed, but less");
        assert!(!is_contradicted(&reality(1.0001, 1.0), &less), "within the noise");
        let smaller = advised(Said::Nothing, Said::Less);
        assert!(is_contradicted(&reality(1.0, 1.1), &smaller) && !is_contradicted(&reality(1.0, 0.5), &smaller));
    }

    #[test]
    fn a_price_of_a_twentieth_must_be_named() {
        assert!(is_contradicted(&reality(0.8, 1.08), &advised(Said::Less, Said::Same)));
        assert!(is_contradicted(&reality(0.8, 1.08), &advised(Said::Less, Said::Nothing)));
        assert!(!is_contradicted(&reality(0.8, 1.08), &advised(Said::Less, Said::More)));
        assert!(!is_contradicted(&reality(0.8, 1.04), &advised(Said::Less, Said::Same)));
        let judged = reality(0.8, 1.08).judge(&advised(Said::Less, Said::Same));
        let Judgement::Contradicted(reasons) = judged else { panic!("{judged:?}") };
        assert_eq!(reasons, ["x really takes 8 % more memory (95 % interval 8 to 8)"]);
    }

    #[test]
    fn keeping_is_contradicted_by_an_allocator_that_is_better_without_a_price() {
        assert!(is_contradicted(&reality(0.9, 1.0), &Advice::Keep));
        assert!(is_contradicted(&reality(1.0, 0.9), &Advice::Keep));
        assert!(!is_contradicted(&reality(0.9, 1.2), &Advice::Keep));
        assert!(!is_contradicted(&reality(0.97, 0.97), &Advice::Keep));
    }

    #[test]
    fn a_few_pages_are_no_gain() {
        let of = |ratio: f64| figures(&[("system", MIB, None), ("x", MIB * ratio, None)]);
        let few = Reality { memory: of(0.8), time: of(1.0) };
        assert!(!is_contradicted(&few, &Advice::Keep));
        assert_eq!(few.finding(&Advice::Keep), Finding::Nothing);
    }

    #[test]
    fn what_is_much_better_is_found_missed_or_passed_over_in_silence() {
        let much = reality(0.85, 1.3);
        assert_eq!(much.finding(&advised(Said::Less, Said::More)), Finding::Found);
        assert_eq!(much.finding(&Advice::Keep), Finding::Missed);
        assert_eq!(much.finding(&Advice::Silence), Finding::Silent);
        assert_eq!(reality(0.95, 1.0).finding(&Advice::Silence), Finding::Nothing);
        let other = Advice::Use(vec![Claim { allocator: "y".to_owned(), ..Claim::default() }]);
        assert_eq!(much.finding(&other), Finding::Missed);
    }

    #[test]
    fn where_one_figure_is_all_that_is_said_the_other_is_not_judged() {
        let partly = Advice::Partly(Claim { allocator: "x".to_owned(), memory: Said::Less, ..Claim::default() });
        assert!(!is_contradicted(&reality(2.0, 0.8), &partly) && is_contradicted(&reality(1.0, 1.1), &partly));
        assert_eq!(reality(2.0, 0.8).finding(&partly), Finding::Found);
    }

    #[test]
    fn silence_is_not_judged() {
        assert_eq!(reality(0.5, 0.5).judge(&Advice::Silence), Judgement::Silent);
        assert_eq!(reality(0.5, 0.5).judge(&Advice::Unclear), Judgement::Unclear);
    }
}
