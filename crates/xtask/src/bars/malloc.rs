//! The bars of the drop-in library against other mallocs, all from one run.

use std::path::PathBuf;

use anyhow::Result;

use super::bar::{Bar, all_hold, print};
use super::judgement::{Judgement, Outcome, Settings};
use heapwright_allocators::policy;
use heapwright_show::number;
use heapwright_show::table::HEADING;
use heapwright_stats::{self as stats, noise};
use heapwright_suite::Output;
use heapwright_suite::malloc::{
    Contender, Instructions, Kept, Mean, Measure, Role, Row, Selection, Subject, Suite, has_valgrind, measure,
};

/// The peers, by the prefixes of their names. The best of them is the best peer.
const PEERS: [&str; 6] = ["mimalloc2", "mimalloc3", "snmalloc", "rpmalloc", "tcmalloc", "jemalloc"];

/// The arguments of `cargo xtask bars malloc`.
#[derive(Default, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    selection: Selection,

    /// Write every run to this file, as `heapwright bench malloc --json` does
    #[arg(long, value_name = "FILE")]
    runs: Option<PathBuf>,
}

/// Measures the selected workloads under the allocators that the bars are about, and judges them.
///
/// # Errors
/// When a workload cannot be prepared or the runs cannot be written.
pub fn judge(arguments: &Arguments, settings: Settings) -> Result<Judgement> {
    let selection = &arguments.selection;
    let measured = measure(selection, settings.rounds, selection.contenders(is_peer), Subject::Both)?;
    let bars = all(measured.suite(), &measured.instructions);
    if settings.output == Output::Tables {
        measured.print();
        heapwright_show::println!("\n{HEADING}The bars{HEADING:#}");
        print(&bars);
    }
    measured.print_missing();
    print_absent(&measured.contenders);
    if let Some(path) = &arguments.runs {
        measured.write(path)?;
    }
    let outcome = match measured.interrupted {
        true => Outcome::Interrupted,
        false => Outcome::of(all_hold(&bars) && !measured.has_failures()),
    };
    Judgement::new("malloc", &bars, outcome)
}

/// Prints which tools and peers are not installed.
fn print_absent(contenders: &[Contender]) {
    if !has_valgrind() {
        heapwright_show::eprintln!(
            "xtask: instructions are not counted without valgrind; `cargo xtask peers` installs it with apt-get"
        );
    }
    let absent: Vec<&str> =
        PEERS.into_iter().filter(|peer| contenders.iter().all(|it| !it.name.starts_with(peer))).collect();
    if !absent.is_empty() {
        heapwright_show::eprintln!(
            "xtask: the best peer is the best of those installed; missing: {} (`cargo xtask peers` builds them)",
            absent.join(", ")
        );
    }
}

/// Judges a mean, whose noise is the distance to the lower end of its interval.
fn at_mean(bar: Bar, mean: &Mean, on: impl Into<String>) -> Bar {
    let noise = mean.interval.map_or(0.0, |[low, _]| noise::distance(mean.ratio / low));
    bar.at(mean.ratio, noise, on)
}

/// Returns whether the bars are about an allocator.
fn is_peer(name: &str) -> bool {
    PEERS.iter().any(|peer| name.starts_with(peer.trim_end_matches(char::is_numeric))) || name == policy::CACHED
}

/// Returns all bars, in the order in which the project lists them.
fn all(suite: Suite<'_>, instructions: &[Instructions]) -> Vec<Bar> {
    let Some(ours) = suite.places(Role::Ours).next() else { return Vec::new() };
    let judge = Judge { suite, ours };
    let mut bars = Vec::new();
    bars.extend([1.0, 0.95].map(|limit| judge.mean_over_best_peer(limit)));
    bars.push(judge.slowest());
    bars.push(judge.memory());
    bars.extend(judge.rows("start/").map(|row| judge.tiny(row)));
    bars.extend(judge.rows("pair/").map(|row| judge.over_best_peer(row, Measure::Cpu)));
    bars.extend([Measure::Elapsed, Measure::Peak].map(|measure| judge.growth(measure)));
    bars.extend(judge.rows("tails/").map(|row| judge.over_best_peer(row, Measure::SlowCall)));
    bars.push(judge.scattered());
    let published = judge.rows("program000").filter(|row| !row.name.contains('/')).chain(judge.rows("program001/"));
    bars.extend(published.map(|row| judge.over_best_peer(row, Measure::Cpu)));
    bars.extend(judge.hit_path(instructions));
    bars
}

struct Judge<'a> {
    suite: Suite<'a>,
    ours: usize,
}

impl<'a> Judge<'a> {
    fn rows(&self, beginning: &'static str) -> impl Iterator<Item = &'a Row> + use<'a> {
        self.suite.rows.iter().filter(move |row| row.name.starts_with(beginning))
    }

    fn name(&self, at: usize) -> &'a str {
        &self.suite.contenders[at].name
    }

    /// Returns the peer with the lowest mean, and that mean.
    fn best_mean(&self, measure: Measure) -> Option<(usize, f64)> {
        let means = self.suite.places(Role::Peer).filter_map(|at| Some((at, self.suite.mean(at, measure)?.ratio)));
        means.min_by(|left, right| left.1.total_cmp(&right.1))
    }

    fn mean_over_best_peer(&self, limit: f64) -> Bar {
        let bar = Bar::new("CPU time, mean of the suite, over the best single peer", limit);
        let Some((peer, over_system)) = self.best_mean(Measure::Cpu) else { return bar };
        let Some(mean) = self.suite.mean_over(self.ours, peer, Measure::Cpu) else { return bar };
        let count = self.suite.common_rows(Measure::Cpu).len();
        at_mean(bar, &mean, format!("{count} rows; best is {}, {over_system:.3} of system", self.name(peer)))
    }

    /// Judges the row that is slowest, beyond its noise, compared with the system's malloc.
    fn slowest(&self) -> Bar {
        const LIMIT: f64 = 1.03;
        let bar = Bar::new("CPU time of each program, over system", LIMIT);
        let over = |row: &'a Row| {
            let ratio = self.suite.ratio(row, self.ours, Measure::Cpu)?;
            Some((row, ratio, self.suite.noise(row, Measure::Cpu)))
        };
        let rows: Vec<(&Row, f64, f64)> = self.suite.rows.iter().filter_map(over).collect();
        let beyond = |(_, ratio, noise): &(&Row, f64, f64)| (ratio / LIMIT).ln() - noise;
        let Some(&(row, ratio, noise)) = rows.iter().max_by(|left, right| beyond(left).total_cmp(&beyond(right)))
        else {
            return bar;
        };
        let above = rows.iter().filter(|it| beyond(it) > 0.0).count();
        bar.at(ratio, noise, format!("{}; {above} of {} rows are above it by more than noise", row.name, rows.len()))
    }

    fn memory(&self) -> Bar {
        let bar = Bar::new("peak RSS, mean of the suite, over system", 1.05);
        let Some(mean) = self.suite.mean(self.ours, Measure::Peak) else { return bar };
        let best = self.best_mean(Measure::Peak);
        let best = best.map_or_else(String::new, |(at, ratio)| format!("; best peer is {}, {ratio:.3}", self.name(at)));
        at_mean(bar, &mean, format!("{} rows{best}", self.suite.common_rows(Measure::Peak).len()))
    }

    fn tiny(&self, row: &Row) -> Bar {
        let bar = Bar::new(format!("{}, peak RSS, over system", row.name), 1.1);
        let Some(ratio) = self.suite.ratio(row, self.ours, Measure::Peak) else { return bar };
        bar.at(ratio, self.suite.noise(row, Measure::Peak), self.values(row, 0, Measure::Peak))
    }

    /// Judges a row's figure divided by that of the best peer in this row.
    fn over_best_peer(&self, row: &Row, measure: Measure) -> Bar {
        let (what, limit) = match measure {
            Measure::Cpu => ("CPU time", 1.0),
            Measure::Elapsed => ("elapsed", 1.0),
            Measure::Peak => ("peak RSS", 1.0),
            Measure::SlowCall => ("slow calls", 1.2),
        };
        let bar = Bar::new(format!("{}, {what}, over the best peer", row.name), limit);
        let peers = self.suite.places(Role::Peer).filter_map(|at| Some((at, self.suite.ratio(row, at, measure)?)));
        let Some((peer, best)) = peers.min_by(|left, right| left.1.total_cmp(&right.1)) else { return bar };
        let Some(ratio) = self.suite.ratio(row, self.ours, measure) else { return bar };
        bar.at(ratio / best, self.suite.noise(row, measure), self.values(row, peer, measure))
    }

    /// Formats our figure and that of another contender in a row.
    fn values(&self, row: &Row, other: usize, measure: Measure) -> String {
        let median = |at: usize| stats::median(&row.cells[at].values(measure)).map(|it| measure.show(it));
        let [ours, theirs] = [self.ours, other].map(|at| median(at).unwrap_or_default());
        format!("{ours}; {} {theirs}", self.name(other))
    }

    fn growth(&self, measure: Measure) -> Bar {
        match self.rows("growth/64MiB").next() {
            Some(row) => self.over_best_peer(row, measure),
            None => Bar::new(format!("growth/64MiB, {}, over the best peer", measure.title()), 1.0),
        }
    }

    /// Judges the memory retained at the end, divided by the pages with live blocks.
    fn scattered(&self) -> Bar {
        const NAME: &str = "scattered/95%";
        let bar = Bar::new(format!("{NAME}, kept after 2 s over pages with a live block"), 1.1);
        let Some(row) = self.rows(NAME).next() else { return bar };
        let kept: Vec<&Kept> = row.cells[self.ours].runs.iter().filter_map(|run| run.kept.as_ref()).collect();
        let middle = |figure: &dyn Fn(&Kept) -> Option<f64>| {
            stats::median(&kept.iter().filter_map(|&kept| figure(kept)).collect::<Vec<f64>>())
        };
        let Some(over) = middle(&Kept::over_live_pages) else { return bar };
        let needed = middle(&|kept| Some(kept.live_pages? as f64)).unwrap_or_default();
        let share = middle(&|kept| Some(kept.live_pages? as f64 / kept.before.max(1) as f64)).unwrap_or_default();
        let needed = number::bytes(needed as u64);
        bar.at(over, 0.0, format!("{needed} of pages with a live block, {:.1} % of what was resident", share * 100.0))
    }

    /// Judges the instructions of malloc and of free, each at its most expensive size.
    fn hit_path(&self, instructions: &[Instructions]) -> [Bar; 2] {
        let most = |what: &str, limit: f64, figure: fn(&Instructions) -> Option<f64>| {
            let bar = Bar::new(format!("instructions of {what} on the hit path"), limit);
            let figures = |name: &str| {
                let of_name = instructions.iter().filter(move |it| it.allocator == name);
                let known: Option<Vec<(usize, f64)>> = of_name.map(|it| Some((it.bytes, figure(it)?))).collect();
                known?.into_iter().max_by(|left, right| left.1.total_cmp(&right.1))
            };
            let Some((bytes, count)) = figures(self.name(self.ours)) else { return bar };
            let peers = self.suite.places(Role::Peer).filter_map(|at| Some((self.name(at), figures(self.name(at))?.1)));
            let best = peers.min_by(|left, right| left.1.total_cmp(&right.1));
            let best = best.map_or_else(String::new, |(name, count)| format!("; best peer is {name}, {count:.1}"));
            bar.at(count, 0.0, format!("{bytes} bytes{best}"))
        };
        [most("malloc", 14.0, |it| it.malloc), most("free", 18.0, |it| it.free)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::bar::Verdict;
    use heapwright_allocators::allocator::Allocator;
    use heapwright_suite::malloc::{Cell, Figures};

    fn contenders() -> Vec<Contender> {
        let all = [
            ("system", Role::Baseline),
            ("cached", Role::Ours),
            ("a", Role::Peer),
            ("b", Role::Peer),
            ("again", Role::Noise),
        ];
        all.map(|(name, role)| Contender { name: name.to_owned(), allocator: Allocator::System, role }).to_vec()
    }

    /// A row with a figure for each contender, for every measure the same.
    fn row(name: &str, figures: [f64; 5]) -> Row {
        let cells = figures.map(|figure| {
            let run = Figures {
                cpu_seconds: Some(figure),
                elapsed_seconds: Some(figure),
                peak_rss: Some((figure * 1e6) as u64),
                slow_call_seconds: None,
                kept: None,
            };
            Cell { runs: vec![run], failure: None }
        });
        Row { name: name.to_owned(), cells: cells.to_vec() }
    }

    fn judged(rows: &[Row], instructions: &[Instructions]) -> Vec<Bar> {
        all(Suite { contenders: &contenders(), rows }, instructions)
    }

    fn bar<'a>(bars: &'a [Bar], what: &str) -> &'a Bar {
        bars.iter().find(|bar| bar.what.starts_with(what)).unwrap_or_else(|| panic!("{what}: {bars:?}"))
    }

    #[test]
    fn the_best_single_peer_of_the_suite_is_not_the_best_of_each_row() {
        // Peer `a` is best in the mean (0.5), though `b` is best in one row.
        let rows = [row("x", [1.0, 0.5, 0.25, 1.0, 1.0]), row("y", [1.0, 0.5, 1.0, 0.5, 1.0])];
        let bars = judged(&rows, &[]);
        let mean = bar(&bars, "CPU time, mean");
        assert!((mean.measured.unwrap() - 1.0).abs() < 1e-12 && mean.verdict == Verdict::Holds, "{mean:?}");
        assert!(mean.on.contains("best is a"), "{mean:?}");
        assert_eq!(bars[1].verdict, Verdict::Fails, "1.0 is not 0.95");
    }

    #[test]
    fn each_pair_is_held_against_the_peer_that_is_best_there() {
        let rows = [row("pair/16", [1.0, 0.6, 0.5, 0.9, 1.0]), row("pair/64", [1.0, 0.6, 0.9, 0.6, 1.0])];
        let bars = judged(&rows, &[]);
        let measured = |what| (bar(&bars, what).measured.unwrap(), bar(&bars, what).verdict);
        assert_eq!(measured("pair/16, CPU time"), (1.2, Verdict::Fails));
        assert_eq!(measured("pair/64, CPU time"), (1.0, Verdict::Holds));
    }

    #[test]
    fn above_a_bar_by_no_more_than_noise_is_a_tie() {
        let slow = |again: f64| judged(&[row("x", [1.0, 1.1, 1.0, 1.0, again])], &[]);
        assert_eq!(bar(&slow(1.0), "CPU time of each").verdict, Verdict::Fails);
        assert_eq!(bar(&slow(1.2), "CPU time of each").verdict, Verdict::Tie);
        assert_eq!(
            bar(&judged(&[row("x", [1.0, 1.03, 1.0, 1.0, 1.0])], &[]), "CPU time of each").verdict,
            Verdict::Holds
        );
    }

    #[test]
    fn what_is_kept_is_held_against_the_pages_in_use() {
        let mut row = row("scattered/95%", [1.0; 5]);
        let kept = |last: u64| Kept { before: 1000, after: vec![(0, 900), (2000, last)], live_pages: Some(500) };
        row.cells[1].runs[0].kept = Some(kept(600));
        let bars = judged(&[row.clone()], &[]);
        let found = bar(&bars, "scattered");
        assert_eq!((found.measured, found.verdict), (Some(1.2), Verdict::Fails));
        assert!(found.on.contains("50.0 %"), "{found:?}");
        row.cells[1].runs[0].kept = Some(kept(550));
        assert_eq!(bar(&judged(&[row], &[]), "scattered").verdict, Verdict::Holds);
    }

    #[test]
    fn instructions_are_those_of_the_size_that_takes_most() {
        let count = |allocator: &str, bytes, malloc| Instructions {
            allocator: allocator.to_owned(),
            bytes,
            malloc: Some(malloc),
            free: None,
            failure: None,
        };
        let bars = judged(&[], &[count("cached", 16, 12.0), count("cached", 64, 15.0), count("a", 16, 11.0)]);
        let malloc = bar(&bars, "instructions of malloc");
        assert_eq!((malloc.measured, malloc.verdict), (Some(15.0), Verdict::Fails));
        assert!(malloc.on.contains("64 bytes") && malloc.on.contains("a, 11.0"), "{malloc:?}");
        assert_eq!(bar(&bars, "instructions of free").verdict, Verdict::NotMeasured);
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        let bars = judged(&[], &[]);
        assert!(bars.iter().all(|bar| bar.verdict == Verdict::NotMeasured));
        assert!(bars.len() > 6 && !all_hold(&bars));
        assert!(all_hold(&[Bar::new("x", 1.0).at(1.0, 0.0, "")]));
    }

    #[test]
    fn tiny_programs_and_growth_have_their_bars() {
        let rows = [row("start/ls", [1.0, 1.2, 1.0, 1.0, 1.0]), row("growth/64MiB", [1.0, 0.5, 0.4, 1.0, 1.0])];
        let bars = judged(&rows, &[]);
        assert_eq!(bar(&bars, "start/ls, peak RSS").verdict, Verdict::Fails);
        assert_eq!(bar(&bars, "growth/64MiB, elapsed").measured, Some(1.25));
        assert_eq!(bar(&bars, "growth/64MiB, peak RSS").measured, Some(1.25));
    }
}
