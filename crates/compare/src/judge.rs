//! Whether conditions hold in a comparison.

use super::baseline;
use super::comparison::Comparison;
use super::condition::{Condition, Limit, Name, point};
use super::figures::LITTLE_BYTES;
use super::metric::{Metric, Origin, Unit};
use super::row::{Kind, Row};
use super::subject::Subject;
use heapwright_stats::{Estimate, FEWEST};

/// In place of a row: the bytes asked for, the same figure in the baseline.
const ASKED: &str = "asked";
const BASELINE: &str = "baseline";

/// A condition, and whose figures it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    condition: Condition,
    row: String,
    limit: Against,
}

/// The reference that a figure is compared with.
#[derive(Clone, Debug, PartialEq)]
enum Against {
    Figure(f64),
    Asked(f64),
    Baseline(f64),
    Row(f64, String),
}

/// Who there will be, before anything is measured.
pub struct Field<'a> {
    /// The subjects.
    pub subjects: &'a [Subject],
    /// Whether they are really replayed.
    pub is_measured: bool,
    /// Whether there is a baseline.
    pub has_baseline: bool,
    /// Whose figures are meant where no row is named.
    pub subject: Option<&'a str>,
}

impl Field<'_> {
    /// Who and what a condition is about.
    ///
    /// # Errors
    /// When it names a row or a figure that the comparison will not have.
    pub fn resolve(&self, condition: &Condition) -> Result<Judgement, String> {
        let row = self.row(condition)?;
        let limit = match &condition.limit {
            Limit::Figure(figure) => Against::Figure(*figure),
            Limit::Times(times, Some(reference)) => self.reference(condition, *times, reference)?,
            Limit::Times(times, None) => self.usual_reference(condition, *times, &row)?,
        };
        Ok(Judgement { condition: condition.clone(), row, limit })
    }

    fn row(&self, condition: &Condition) -> Result<String, String> {
        let metric = condition.metric;
        if metric.origin() != Origin::Simulated && !self.is_measured {
            return Err(point(&condition.text, 0, "this figure takes real replays, which --policies-only leaves out"));
        }
        match (&condition.row, self.subject) {
            (Some(row), _) => self.find(condition, row),
            (None, Some(subject)) => self.find(condition, &Name { name: subject.to_owned(), at: 0 }),
            (None, None) => self.usual_row(metric).ok_or_else(|| point(&condition.text, 0, "no row has such a figure")),
        }
    }

    /// The system's malloc for what is measured, best fit (or the first policy) for what is simulated.
    fn usual_row(&self, metric: Metric) -> Option<String> {
        let has_it = |subject: &&Subject| match metric.origin() {
            Origin::Simulated => subject.kind == Kind::Policy,
            _ => subject.kind == Kind::System,
        };
        let candidates = || self.subjects.iter().filter(has_it);
        let best = candidates().find(|subject| subject.name() == "best");
        best.or_else(|| candidates().next()).map(|subject| subject.name().to_owned())
    }

    fn find(&self, condition: &Condition, row: &Name) -> Result<String, String> {
        if self.subjects.iter().any(|subject| subject.name() == row.name) {
            return Ok(row.name.clone());
        }
        let names: Vec<&str> = self.subjects.iter().map(Subject::name).collect();
        Err(point(&condition.text, row.at, &format!("there is no row {}; there are {}", row.name, names.join(", "))))
    }

    fn reference(&self, condition: &Condition, times: f64, reference: &Name) -> Result<Against, String> {
        match reference.name.as_str() {
            ASKED if is_of_the_heap(condition.metric) => Ok(Against::Asked(times)),
            ASKED => {
                let what = "only memory of the heap can be compared with what was asked for";
                Err(point(&condition.text, reference.at, what))
            }
            BASELINE if self.has_baseline => Ok(Against::Baseline(times)),
            BASELINE => Err(point(&condition.text, reference.at, "there is no baseline: --baseline FILE.json")),
            _ => Ok(Against::Row(times, self.find(condition, reference)?)),
        }
    }

    /// Returns the baseline; without one, what was asked for if it is memory of the heap, otherwise the system's
    /// malloc.
    fn usual_reference(&self, condition: &Condition, times: f64, row: &str) -> Result<Against, String> {
        if self.has_baseline {
            return Ok(Against::Baseline(times));
        }
        if is_of_the_heap(condition.metric) {
            return Ok(Against::Asked(times));
        }
        match self.usual_row(condition.metric).filter(|usual| usual != row) {
            Some(usual) => Ok(Against::Row(times, usual)),
            None => Err(point(
                &condition.text,
                condition.text.len(),
                "times what? Name it, as in `2x of mimalloc`, or give a --baseline FILE.json",
            )),
        }
    }
}

/// Returns whether a figure is memory that what was asked for is a part of, and nothing else.
fn is_of_the_heap(metric: Metric) -> bool {
    metric.unit() == Unit::Bytes && metric.origin() != Origin::Predicted
}

/// What comes of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It does not hold.
    Passes,
    /// It may hold: the interval of the figure reaches to both sides of the limit, or there is none. And why.
    MayFail(String),
    /// It holds for the whole interval, or cannot be judged. And why.
    Fails(String),
}

/// A figure in a form that can be compared with a number: itself, or its ratio to a reference.
struct Measured {
    figure: Estimate,
    limit: f64,
    /// The figure in words, with its unit.
    shown: String,
    /// The limit in words.
    limit_shown: String,
}

impl Judgement {
    /// Judges a comparison. Of a part of what the program did no condition passes, nor of one that failed: the rest may
    /// meet it.
    pub fn outcome(&self, comparison: &Comparison, baseline: Option<&Comparison>) -> Outcome {
        let outcome = self.outcome_so_far(comparison, baseline);
        let trace = &comparison.trace;
        if matches!(outcome, Outcome::Fails(_)) {
            return outcome;
        }
        let why = if trace.is_in_part() {
            format!("{} is incomplete", trace.file)
        } else if let Some(failure) = &trace.failure {
            format!(
                "the program failed ({failure}); if it did all of its work, record it by `heapwright record`, and \
                 compare the trace"
            )
        } else {
            return outcome;
        };
        Outcome::Fails(format!("{}: cannot be judged: {why}", self.condition.text))
    }

    fn outcome_so_far(&self, comparison: &Comparison, baseline: Option<&Comparison>) -> Outcome {
        let Condition { text, metric, operator, .. } = &self.condition;
        let Measured { figure, limit, shown, limit_shown } = match self.measured(comparison, baseline) {
            Ok(measured) => measured,
            Err(why) => return Outcome::Fails(format!("{text}: cannot be judged: {why}")),
        };
        let what = format!("{text}: {} of {} is {shown}, the limit is {limit_shown}", metric.name(), self.row);
        let interval = match metric.origin() {
            Origin::Simulated => Some([figure.median; 2]),
            _ => figure.interval,
        };
        match interval.map(|ends| ends.map(|end| operator.holds(end, limit))) {
            Some([true, true]) => Outcome::Fails(what),
            Some([false, false]) => Outcome::Passes,
            Some(_) => {
                let remedy = match metric {
                    Metric::ProgramPeak | Metric::ProgramPeakOverSystem => {
                        "the kernel counts resident memory to 256 KiB only"
                    }
                    Metric::Peak | Metric::PeakOverAsked => {
                        "more rounds may decide, though the kernel counts resident memory to 256 KiB only"
                    }
                    _ => "more rounds would decide",
                };
                Outcome::MayFail(format!("{what}: its interval reaches to both sides; {remedy}"))
            }
            None => Outcome::MayFail(format!("{what}: not decided, since fewer than {FEWEST} rounds have no interval")),
        }
    }

    /// Relates the figure to the limit: with a reference by their ratio, round by round where both have the same
    /// rounds.
    fn measured(&self, comparison: &Comparison, baseline: Option<&Comparison>) -> Result<Measured, String> {
        let metric = self.condition.metric;
        let own = figure(comparison, &self.row, metric)?;
        let (times, reference, base, ratio) = match &self.limit {
            Against::Figure(limit) => {
                let ends = interval_in_words(&own, |end| metric.show(end));
                let [shown, limit_shown] = metric.show_apart(own.median, *limit);
                return Ok(Measured { figure: own, limit: *limit, shown: format!("{shown}{ends}"), limit_shown });
            }
            Against::Asked(times) => {
                let asked = comparison.trace.peak_asked as f64;
                let ratio = (asked > 0.0).then(|| own.times(1.0 / asked));
                (*times, "what was asked for", asked, ratio)
            }
            Against::Row(times, name) => {
                let base = figure(comparison, name, metric)?.median;
                let rows = comparison.row(&self.row).zip(comparison.row(name));
                let ratio = match metric.origin() {
                    Origin::Simulated => (base > 0.0).then(|| own.times(1.0 / base)),
                    _ => rows
                        .and_then(|(row, base)| comparison.ratio(row, base, metric))
                        .map(|ratio| ratio.widened(LITTLE_BYTES / resident_bytes(comparison, metric, base))),
                };
                (*times, name.as_str(), base, ratio)
            }
            Against::Baseline(times) => {
                let before = baseline.ok_or("there is no baseline")?;
                let base = figure(before, &self.row, metric).map_err(|why| format!("in the baseline, {why}"))?.median;
                let change = |row| baseline::change(comparison, before, row, metric);
                (*times, "the baseline's", base, comparison.row(&self.row).and_then(change))
            }
        };
        let ratio = ratio.ok_or_else(|| format!("{reference} {} is 0", metric.name()))?;
        let ends = interval_in_words(&ratio, |end| format!("{end:.3}"));
        let shown = format!("{}, {:.3} times {reference}{ends}", metric.show(own.median), ratio.median);
        Ok(Measured { figure: ratio, limit: times, shown, limit_shown: metric.show(times * base) })
    }
}

/// Returns the resident bytes that a figure stands for; infinitely many for one that is no peak of resident memory.
fn resident_bytes(comparison: &Comparison, metric: Metric, figure: f64) -> f64 {
    match metric {
        Metric::ProgramPeak | Metric::Peak => figure,
        Metric::PeakOverAsked => figure * comparison.trace.peak_asked as f64,
        _ => f64::INFINITY,
    }
}

/// Returns the ends of an interval, unless they read the same.
fn interval_in_words(estimate: &Estimate, show: impl Fn(f64) -> String) -> String {
    match estimate.interval.map(|ends| ends.map(&show)) {
        Some([low, high]) if low != high => format!(" (95 % interval {low} to {high})"),
        _ => String::new(),
    }
}

fn figure(comparison: &Comparison, row: &str, metric: Metric) -> Result<Estimate, String> {
    let row: &Row = comparison.row(row).ok_or_else(|| format!("there is no row {row}"))?;
    row.figures.get(&metric).copied().ok_or_else(|| match &row.note {
        Some(note) => format!("{} has no {}: {note}", row.name, metric.name()),
        None => format!("{} has no {}", row.name, metric.name()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{Synthetic, row};
    use super::super::trace::Trace;
    use super::*;
    use heapwright_allocators::allocator::Allocator;
    use heapwright_allocators::peers::Peer;

    fn subjects() -> Vec<Subject> {
        let peer = |name: &str| Subject {
            kind: Kind::Allocator,
            allocator: Allocator::Peer(Peer { name: name.to_owned(), library: "/l.so".into() }),
        };
        let mut subjects = vec![Subject { kind: Kind::System, allocator: Allocator::System }, peer("mine")];
        subjects.extend(Subject::policies(&["first", "best"], None));
        subjects
    }

    fn comparison(peak: f64) -> Comparison {
        let rows = [row("mine", 1.3, 1.2)];
        Synthetic::beside(rows)
            .noise(0.0)
            .peak(peak)
            .over_asked(1.25)
            .simulated(&[("first", 1.5), ("best", 1.1)])
            .build()
    }

    fn failure(text: &str, baseline: Option<&Comparison>) -> Option<String> {
        match outcome(text, &comparison(64e6), baseline) {
            Outcome::Passes => None,
            Outcome::Fails(why) => Some(why),
            Outcome::MayFail(why) => panic!("{why}"),
        }
    }

    fn outcome(text: &str, comparison: &Comparison, baseline: Option<&Comparison>) -> Outcome {
        let subjects = subjects();
        let field = Field { subjects: &subjects, is_measured: true, has_baseline: baseline.is_some(), subject: None };
        let judgement = field.resolve(&Condition::parse(text).unwrap()).unwrap_or_else(|error| panic!("{error}"));
        judgement.outcome(comparison, baseline)
    }

    #[test]
    fn of_a_part_of_a_program_no_condition_passes() {
        let whole = comparison(64e6);
        let cut = Comparison { trace: Trace { is_whole: false, ..whole.trace.clone() }, ..whole.clone() };
        let limited = Trace { incomplete: Some("limited".to_owned()), ..whole.trace.clone() };
        let limited = Comparison { trace: limited, ..whole.clone() };
        for part in [&cut, &limited] {
            let Outcome::Fails(why) = outcome("peak > 1.3x", part, None) else { panic!("{:?}", part.trace) };
            assert!(why.starts_with("peak > 1.3x: cannot be judged: ") && why.ends_with("is incomplete"), "{why}");
            let Outcome::Fails(why) = outcome("peak > 1.2x", part, None) else { panic!("{:?}", part.trace) };
            assert!(why.contains("1.250 times"), "{why}");
        }
        assert_eq!(outcome("peak > 1.3x", &whole, None), Outcome::Passes);
    }

    #[test]
    fn of_a_program_that_failed_no_condition_passes() {
        let mut failed = comparison(64e6);
        failed.trace.failure = Some("exit status: 4".to_owned());
        let Outcome::Fails(why) = outcome("peak > 1.3x", &failed, None) else { panic!("it passes") };
        assert!(why.starts_with("peak > 1.3x: cannot be judged: the program failed (exit status: 4)"), "{why}");
        assert!(matches!(outcome("peak > 1.2x", &failed, None), Outcome::Fails(why) if why.contains("1.250 times")));
    }

    #[test]
    fn memory_is_held_against_what_was_asked_for() {
        assert_eq!(failure("peak > 1.3x", None), None);
        let failed = failure("peak > 1.2x", None).unwrap();
        assert!(failed.contains("peak of system is 61.0 MiB, 1.250 times what was asked for"), "{failed}");
        assert!(failed.ends_with("the limit is 58.6 MiB"), "{failed}");
    }

    #[test]
    fn with_a_baseline_everything_is_held_against_it() {
        assert_eq!(failure("peak > 1.05x", Some(&comparison(64e6))), None);
        let failed = failure("peak > 1.05x", Some(&comparison(32e6))).unwrap();
        assert!(failed.contains("2.000 times the baseline's"), "{failed}");
        let failed = failure("heap > 1.05x asked", Some(&comparison(32e6))).unwrap();
        assert!(failed.contains("1.100 times what was asked for"), "{failed}");
    }

    #[test]
    fn rows_are_held_against_rows() {
        assert_eq!(failure("time of mine > 1.4x", None), None);
        assert!(failure("time of mine > 1.2x", None).unwrap().contains("1.300 times system"));
        assert!(failure("peak of mine > 1.1x of system", None).unwrap().contains("1.200 times system"));
        assert!(failure("heap of first > 1.2x of best", None).unwrap().contains("1.364 times best"));
    }

    #[test]
    fn rows_whose_memory_differs_by_a_few_pages_only_may_be_alike() {
        let build = |peak| Synthetic::beside([row("mine", 1.0, 1.04)]).noise(0.0).peak(peak).over_asked(1.0).build();
        for text in ["peak of mine > 1.02x of system", "peak/asked of mine > 1.02x of system"] {
            assert!(matches!(outcome(text, &build(4e6), None), Outcome::MayFail(why) if why.contains("256 KiB")));
            assert!(matches!(outcome(text, &build(64e6), None), Outcome::Fails(_)));
        }
    }

    #[test]
    fn simulated_figures_are_those_of_best_fit_unless_somebody_is_named() {
        assert!(failure("heap/asked > 1.05x", None).unwrap().contains("heap/asked of best is 1.10x"));
        assert_eq!(failure("heap/asked > 1.2x", None), None);
        assert!(failure("heap/asked of first > 1.2x", None).is_some());
    }

    #[test]
    fn only_a_whole_interval_beyond_the_limit_fails() {
        let noisy = |rounds| {
            let rows = [row("mine", 1.3, 1.2)];
            Synthetic::beside(rows).noise(0.1).rounds(rounds).build()
        };
        let outcome = |text: &str, rounds| outcome(text, &noisy(rounds), None);
        assert!(matches!(outcome("time of mine > 1.1x", 12), Outcome::Fails(why) if why.contains("95 % interval 1.2")));
        assert!(matches!(outcome("time of mine > 1.3x", 12), Outcome::MayFail(why) if why.contains("both sides")));
        assert!(matches!(outcome("time of mine > 1300ms", 12), Outcome::MayFail(_)));
        assert!(matches!(outcome("time of mine < 1.3x", 12), Outcome::MayFail(_)));
        assert_eq!(outcome("time of mine > 1.5x", 12), Outcome::Passes);
        assert!(matches!(outcome("time of mine > 1.1x", 5), Outcome::MayFail(why) if why.contains("fewer than 6")));
        assert!(matches!(outcome("time/system of mine > 1.1x", 12), Outcome::Fails(_)));
        assert!(matches!(outcome("peak/asked of mine > 1.1x of system", 12), Outcome::Fails(_)));
    }

    #[test]
    fn a_baseline_is_compared_by_intervals_too() {
        let build = |time, rounds| Synthetic::beside([row("mine", time, 1.0)]).noise(0.1).rounds(rounds).build();
        let against = |time, rounds| outcome("time of mine > 1.1x", &build(time, rounds), Some(&build(1.0, 12)));
        assert!(matches!(against(1.3, 12), Outcome::Fails(_)));
        assert!(matches!(against(1.1, 12), Outcome::MayFail(_)));
        assert_eq!(against(0.9, 12), Outcome::Passes);
        assert!(matches!(against(1.3, 3), Outcome::MayFail(_)));
    }

    #[test]
    fn what_cannot_be_judged_has_failed() {
        let failed = failure("external > 30%", None).unwrap();
        assert!(failed.contains("cannot be judged: best has no external"), "{failed}");
        assert!(failure("external > 1.1x", Some(&comparison(1e6))).unwrap().contains("cannot be judged"));
    }

    #[test]
    fn who_and_what_there_is_not_is_pointed_at() {
        let subjects = subjects();
        let resolve = |text: &str, is_measured, subject| {
            let field = Field { subjects: &subjects, is_measured, has_baseline: false, subject };
            field.resolve(&Condition::parse(text).unwrap()).unwrap_err()
        };
        assert!(
            resolve("peak of nobody > 1x", true, None).starts_with("there is no row nobody; there are system, mine")
        );
        assert!(resolve("peak of nobody > 1x", true, None).ends_with("\n          ^"));
        assert!(resolve("peak > 1x baseline", true, None).contains("--baseline FILE.json"));
        assert!(resolve("time > 1x asked", true, None).contains("only memory of the heap"));
        assert!(resolve("time > 1.2x", true, None).starts_with("times what?"));
        assert!(resolve("peak > 1.2x", false, None).contains("--policies-only leaves out"));
        assert!(resolve("peak > 1.2x", true, Some("other")).starts_with("there is no row other"));
    }
}
