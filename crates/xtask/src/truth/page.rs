//! Writes docs/truth.md from a template and the cases.

use std::fmt::Write;

use heapwright_show::number;
use heapwright_stats::Estimate;

use super::case::{Case, Judged};
use super::figures::{Figure, Measure};
use super::itself::Trial;
use super::programs::Group;
use super::real::PEERS;
use super::summary;

/// The page with places for the figures, and what is written by hand.
const TEMPLATE: &str = include_str!("template.md");

/// The number of predictions in the table of the worst.
const WORST: usize = 12;

/// Returns the page.
pub fn page(cases: &[Case], missing: &[&str], trials: &[Trial]) -> String {
    let groups = [Group::Real, Group::Misleading].map(|group| (group, of_group(cases, group)));
    let verdicts: String = groups.iter().map(|(group, cases)| verdicts(*group, cases)).collect();
    let tables: String = groups.iter().flat_map(|(_, cases)| cases.iter()).map(|case| program(case)).collect();
    let parts = [
        ("machine", machine(cases, missing)),
        ("summary", summary::table(cases, trials)),
        ("worst", worst(&groups[0].1)),
        ("verdicts", verdicts),
        ("programs", tables),
    ];
    parts.into_iter().fold(TEMPLATE.to_owned(), |page, (name, text)| {
        page.replace(&format!("{{{{{name}}}}}"), text.trim_end_matches('\n'))
    })
}

fn of_group(cases: &[Case], group: Group) -> Vec<&Case> {
    cases.iter().filter(|case| case.program.group == group).collect()
}

/// Where it was measured, with which allocators, and what is missing.
fn machine(cases: &[Case], missing: &[&str]) -> String {
    let Some(first) = cases.first() else { return "Nothing was measured.".to_owned() };
    let version = |(name, version): &(String, Option<String>)| Some(format!("{name} is {}", version.as_ref()?));
    let versions: Vec<String> = first.versions.iter().filter_map(version).collect();
    let mut text = format!(
        "Measured on {}. Programs: {}; rounds of real runs: {}.",
        first.machine.as_deref().unwrap_or("an unknown machine"),
        cases.len(),
        cases.iter().map(|case| case.rounds).min().unwrap_or_default(),
    );
    if !versions.is_empty() {
        text += &format!(" Of the allocators, {}.", versions.join(", "));
    }
    let is_there = |peer: &&str| first.versions.iter().any(|(name, _)| name == peer);
    let absent: Vec<&str> = PEERS.into_iter().filter(|peer| !is_there(peer)).collect();
    for (what, names) in [("Allocators that were not there", &absent[..]), ("Not measured", missing)] {
        if !names.is_empty() {
            text += &format!(" {what}: {}.", names.join(", "));
        }
    }
    wrapped(&text)
}

/// The predictions of peak RSS that are farthest from what is real, and those of time.
fn worst(cases: &[&Case]) -> String {
    let mut rows: Vec<(f64, String)> = Vec::new();
    for case in cases {
        for figure in &case.reality.memory.rows {
            let Some(error) = figure.error() else { continue };
            let [real, predicted] =
                [Some(figure.real.median), figure.predicted].map(|peak| shown(Measure::Memory, peak));
            let error_shown = percent(error);
            let row =
                format!("| {} | {} | {real} | {predicted} | {error_shown} |\n", case.program.name, figure.allocator);
            rows.push((error.abs(), row));
        }
    }
    if rows.is_empty() {
        return "No peak was predicted.".to_owned();
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let head = "| program | allocator | real peak | predicted | error |\n|---|---|---:|---:|---:|\n";
    head.to_owned() + &rows.into_iter().take(WORST).map(|(_, row)| row).collect::<String>()
}

fn verdicts(group: Group, cases: &[&Case]) -> String {
    if cases.is_empty() {
        return String::new();
    }
    let has_confirmed = cases.iter().any(|case| case.confirmed.is_some());
    let confirmed = if has_confirmed { (" with `--confirm` | reality |", "---|---|") } else { ("", "") };
    let mut text = format!(
        "### {}\n\n| program | verdict | reality |{}\n|---|---|---|{}\n",
        group.title(),
        confirmed.0,
        confirmed.1
    );
    for case in cases {
        let mut row = format!("| {} | {} |", case.program.name, summary::in_words(&case.verdict));
        if has_confirmed {
            let words = |judged: &Judged| format!(" {} |", summary::in_words(judged));
            row += &case.confirmed.as_ref().map_or_else(|| " - | - |".to_owned(), words);
        }
        text += &(row + "\n");
    }
    text + "\n"
}

/// The figures of a program under every allocator.
fn program(case: &Case) -> String {
    let spread = |measure| shown_percent(case.figures(measure).spread_of_runs());
    let [memory, time] = [Measure::Memory, Measure::Time].map(spread);
    let about = format!(
        "What it does: {}. Half of all runs are within {memory} of their median in peak RSS, {time} in processor time.",
        case.program.about
    );
    let mut text = format!("### {}\n\n{}\n\n", case.program.name, wrapped(&about));
    let confirmed = case.confirmed.as_ref().map(|judged| ("With `--confirm`", judged));
    for (which, judged) in [Some(("The verdict", &case.verdict)), confirmed].into_iter().flatten() {
        text += &format!("{}\n\n", wrapped(&format!("{which}: \"{}.\"", judged.text)));
    }
    text += "| allocator | real peak | predicted | error | real time | predicted | error |\n";
    text += "|---|---:|---:|---:|---:|---:|---:|\n";
    for figure in &case.reality.memory.rows {
        let time = case.reality.time.row(&figure.allocator);
        let cells = cells(Measure::Memory, Some(figure)) + &cells(Measure::Time, time);
        let _ = writeln!(text, "| {} |{cells}", figure.allocator);
    }
    for note in &case.notes {
        let _ = writeln!(text, "\n{}", wrapped(note));
    }
    text + "\n"
}

fn cells(measure: Measure, figure: Option<&Figure>) -> String {
    let Some(figure) = figure else { return " - | - | - |".to_owned() };
    let error = shown_signed(figure.error());
    format!(" {} | {} | {error} |", with_interval(measure, figure.real), shown(measure, figure.predicted))
}

fn with_interval(measure: Measure, estimate: Estimate) -> String {
    let [low, middle, high] =
        [estimate.low(), estimate.median, estimate.high()].map(|figure| shown(measure, Some(figure)));
    if low == high { middle } else { format!("{middle} ({low} to {high})") }
}

fn shown(measure: Measure, figure: Option<f64>) -> String {
    match (measure, figure) {
        (_, None) => "-".to_owned(),
        (Measure::Memory, Some(bytes)) => number::bytes(bytes.max(0.0) as u64),
        (Measure::Time, Some(seconds)) => number::seconds(seconds),
    }
}

fn shown_signed(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), percent)
}

fn shown_percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// Formats an error with its sign.
fn percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

/// Breaks a paragraph into lines that fit.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 120;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::evidence::{Evidence, RealRow, RealRun};
    use super::super::list;
    use super::*;

    fn case(name: &str, verdict: &str, text: &str) -> Case {
        let runs = |ratio: f64| {
            let run = |at: u32| RealRun {
                seconds: 1.0,
                cpu_seconds: ratio * (1.0 + f64::from(at) / 1000.0),
                peak_rss: (ratio * f64::from(100 << 20)) as u64,
            };
            (0..10).map(run).collect::<Vec<RealRun>>()
        };
        let real = |name: &str, ratio| RealRow { name: name.to_owned(), version: None, note: None, runs: runs(ratio) };
        let predicted = |name: &str, ratio: f64| {
            let of = |figure: f64| serde_json::json!({"median": figure, "interval": null});
            let program = serde_json::json!({"peak": of(ratio * f64::from(100 << 20)), "processor": of(ratio)});
            serde_json::json!({"name": name, "kind": "allocator", "program": program})
        };
        let compared = serde_json::json!({
            "recommendation": {"verdict": verdict, "choice": "x", "text": text},
            "results": [predicted("system", 1.01), predicted("x", 0.9), predicted("y", 1.3)]});
        let rows = vec![real("system", 1.0), real("x", 1.2), real("y", 1.4), real("system (A/A)", 1.0)];
        let program = list::all().find(|program| program.name == name).unwrap();
        Case::of(program, &Evidence::new(name, rows, compared, None, 1.0)).unwrap()
    }

    #[test]
    fn the_page_has_figures_in_every_place() {
        let text = "Use x: 10 % less time than the system's at the same memory within 5 % (0.98 times).";
        let cases = [case("jq", "change", text), case("idle", "unknown", "Nothing can be said: noise.")];
        let page = page(&cases, &["perl"], &[]);
        assert!(!page.contains("{{"), "{page}");
        for part in [
            "Programs: 2; rounds of real runs: 10. Allocators that were not there: mimalloc2,",
            " Not measured: perl.",
            "| real programs: error of the predicted peak RSS | median 7.1 %, 90th percentile 21.4 %, worst 25.0 % (jq \
             under x), of 3 | 1.5, 4, 8 % |",
            "by more than 3 %, ordered right | 2 of 3 (66.7 %) |",
            "| real programs: verdicts that reality contradicts | 1 (1 about time) of 1; 0 say nothing | 0 |",
            "| programs built to mislead: verdicts that reality contradicts | 0 of 1; 1 say nothing | 0 |",
            "| jq | use x | **contradicted**: x really takes 20 % more processor time (95 % interval 20 to 20); x \
             really takes 20 % more memory (95 % interval 20 to 20) |",
            "| jq | x | 120 MiB | 90.0 MiB | -25.0 % |",
            "The verdict: \"Nothing can be said: noise.\"",
            "| y | 140 MiB | 130 MiB | -7.1 % |",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
    }

    #[test]
    fn paragraphs_are_broken_into_lines() {
        let text = "word ".repeat(60);
        assert!(wrapped(&text).lines().all(|line| line.len() <= 120) && wrapped(&text).lines().count() == 3);
    }
}
