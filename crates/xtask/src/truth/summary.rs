//! The figures of the bars, over all programs.

use heapwright_stats::FEWEST;

use super::case::{Case, Judged};
use super::errors::Errors;
use super::figures::Measure;
use super::itself::Trial;
use super::orderings::{Orderings, median_tau};
use super::programs::Group;
use super::real::POLICY;
use super::verdicts::{Finding, Judgement};

/// Returns the table: what was measured, and the bar.
pub fn table(cases: &[Case], trials: &[Trial]) -> String {
    let of = |group| cases.iter().filter(|case| case.program.group == group).collect::<Vec<&Case>>();
    let (real, misleading) = (of(Group::Real), of(Group::Misleading));
    let all: Vec<&Case> = cases.iter().collect();
    let rows = [
        row("real programs: error of the predicted peak RSS", errors(&real, Measure::Memory), "1.5, 4, 8 %"),
        row("the same malloc run twice: difference of peak RSS", spreads(&real, Measure::Memory), "-"),
        row(
            "real programs: pairs of allocators whose peak RSS differs by more than 3 %, ordered right",
            share(&real, Measure::Memory),
            ">= 97 %",
        ),
        row("real programs: error of the predicted processor time", errors(&real, Measure::Time), "-"),
        row("the same malloc run twice: difference of processor time", spreads(&real, Measure::Time), "-"),
        row(
            "real programs: pairs whose processor time differs beyond the noise, ordered right",
            share(&real, Measure::Time),
            ">= 90 %",
        ),
        row("the same: Kendall's tau, median over programs", tau(&real), "-"),
        row("real programs: verdicts that reality contradicts", contradicted(&real, plain), "0"),
        row("programs built to mislead: verdicts that reality contradicts", contradicted(&misleading, plain), "0"),
        row("all programs: verdicts with `--confirm` that reality contradicts", contradicted(&all, confirmed), "0"),
        row("an allocator is 10 % better: verdicts that name one", found(&all, plain), ">= 80 %"),
        row("the same with `--confirm`", found(&all, confirmed), ">= 80 %"),
        row("the system's malloc with itself: comparisons that recommend something", itself(trials), "<= 2 %"),
    ];
    "| what | measured | bar |\n|---|---|---|\n".to_owned() + &rows.concat()
}

/// Returns a verdict and what reality says of it, as two cells.
pub fn in_words(judged: &Judged) -> String {
    let found = match judged.finding {
        Finding::Missed => ", but another is 10 % better",
        Finding::Silent => "; an allocator is 10 % better",
        Finding::Found | Finding::Nothing => "",
    };
    let reality = match &judged.judgement {
        Judgement::Silent => "-".to_owned(),
        Judgement::Holds => "holds".to_owned(),
        Judgement::Contradicted(reasons) => format!("**contradicted**: {}", reasons.join("; ")),
        Judgement::Unclear => "not judged".to_owned(),
    };
    format!("{} | {reality}{found}", judged.advice)
}

fn row(what: &str, measured: String, bar: &str) -> String {
    format!("| {what} | {measured} | {bar} |\n")
}

/// The allocators of the bars: all but the policy that takes part because `compare` needs one.
fn is_of_the_bars(allocator: &str) -> bool {
    allocator != POLICY
}

fn errors(cases: &[&Case], measure: Measure) -> String {
    let errors = cases.iter().flat_map(|case| {
        let rows = case.figures(measure).rows.iter().filter(|row| is_of_the_bars(&row.allocator));
        rows.map(|row| (format!("{} under {}", case.program.name, row.allocator), row.error()))
    });
    let total: usize = cases.iter().map(|case| case.figures(measure).rows.len()).sum();
    match Errors::of(errors) {
        None if total == 0 => "not measured".to_owned(),
        None => "not predicted".to_owned(),
        Some(errors) => {
            let unknown = match errors.unknown {
                0 => String::new(),
                unknown => format!("; {unknown} not predicted"),
            };
            let [median, p90, worst] = [errors.median, errors.p90, errors.worst].map(percent);
            let (count, worst_of) = (errors.count, errors.worst_of);
            format!("median {median}, 90th percentile {p90}, worst {worst} ({worst_of}), of {count}{unknown}")
        }
    }
}

fn spreads(cases: &[&Case], measure: Measure) -> String {
    let spreads = cases.iter().map(|case| (case.program.name.to_owned(), case.figures(measure).spread()));
    Errors::of(spreads).map_or_else(not_measured, |errors| {
        let [median, p90, worst] = [errors.median, errors.p90, errors.worst].map(percent);
        format!("median {median}, 90th percentile {p90}, worst {worst} ({})", errors.worst_of)
    })
}

fn orderings(cases: &[&Case], measure: Measure) -> Vec<Orderings> {
    let of = |case: &&Case| {
        let mut figures = case.figures(measure).clone();
        figures.rows.retain(|row| is_of_the_bars(&row.allocator));
        Orderings::of(&figures, measure)
    };
    cases.iter().map(of).collect()
}

fn share(cases: &[&Case], measure: Measure) -> String {
    let mut all = Orderings::default();
    orderings(cases, measure).into_iter().for_each(|one| all += one);
    match all.share() {
        Some(share) => format!("{} of {} ({})", all.right, all.pairs(), percent(share)),
        None if cases.is_empty() => not_measured(),
        None if all.unknown > 0 => format!("not predicted ({} pairs)", all.unknown),
        None if cases.iter().any(|case| case.rounds < FEWEST) => format!("fewer than {FEWEST} rounds"),
        None => "no such pair".to_owned(),
    }
}

fn tau(cases: &[&Case]) -> String {
    median_tau(&orderings(cases, Measure::Time)).map_or_else(|| "-".to_owned(), |tau| format!("{tau:.2}"))
}

fn plain(case: &Case) -> Option<&Judged> {
    Some(&case.verdict)
}

fn confirmed(case: &Case) -> Option<&Judged> {
    case.confirmed.as_ref()
}

/// Of the verdicts that say something, how many reality contradicts.
fn contradicted(cases: &[&Case], which: fn(&Case) -> Option<&Judged>) -> String {
    let judged: Vec<&Judged> = cases.iter().filter_map(|case| which(case)).collect();
    if judged.is_empty() {
        return not_measured();
    }
    let count = |is: fn(&Judgement) -> bool| judged.iter().filter(|judged| is(&judged.judgement)).count();
    let contradicted = count(|judgement| matches!(judgement, Judgement::Contradicted(_)));
    let of_time = match count(is_about_time) {
        0 => String::new(),
        of_time => format!(" ({of_time} about time)"),
    };
    let silent = count(|judgement| *judgement == Judgement::Silent);
    let unclear = count(|judgement| *judgement == Judgement::Unclear);
    let unclear = if unclear > 0 { format!(", {unclear} not understood") } else { String::new() };
    format!("{contradicted}{of_time} of {}; {silent} say nothing{unclear}", judged.len())
}

/// Returns whether reality contradicts what a verdict says of time.
fn is_about_time(judgement: &Judgement) -> bool {
    let Judgement::Contradicted(reasons) = judgement else { return false };
    reasons.iter().any(|reason| reason.contains("processor time"))
}

fn found(cases: &[&Case], which: fn(&Case) -> Option<&Judged>) -> String {
    let findings: Vec<Finding> = cases.iter().filter_map(|case| Some(which(case)?.finding)).collect();
    if findings.is_empty() {
        return not_measured();
    }
    let count = |finding| findings.iter().filter(|found| **found == finding).count();
    let (found, silent, missed) = (count(Finding::Found), count(Finding::Silent), count(Finding::Missed));
    match found + silent + missed {
        0 => "none is".to_owned(),
        all => {
            let share = percent(found as f64 / all as f64);
            format!("{found} of {all} ({share}); {silent} say nothing, {missed} name none that is")
        }
    }
}

fn itself(trials: &[Trial]) -> String {
    if trials.is_empty() {
        return not_measured();
    }
    let wrong = |trials: &[&Trial]| trials.iter().filter(|trial| trial.is_wrong()).count();
    let all: Vec<&Trial> = trials.iter().collect();
    let loaded: Vec<&Trial> = trials.iter().filter(|trial| trial.is_loaded).collect();
    let silent = trials.iter().filter(|trial| trial.verdict == "unknown").count();
    let share = percent(wrong(&all) as f64 / all.len() as f64);
    format!(
        "{} of {} ({share}); of {} on a loaded machine {}; {silent} say nothing",
        wrong(&all),
        all.len(),
        loaded.len(),
        wrong(&loaded)
    )
}

fn not_measured() -> String {
    "not measured".to_owned()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
