//! The bars of placement engines and heaps in a fixed region.
//!
//! Of a bar for several policies, the worst policy decides. One layer decides; the figures of the other layers are
//! printed for comparison.

use std::alloc::Layout;
use std::mem::MaybeUninit;

use anyhow::Result;
use heapwright_heaps::{COMPACT, FirstFit, FixedHeap};
use heapwright_placement::{AnyEngine, PolicyKind, Rules};
use serde::Serialize;

use super::judgement::{Judgement, Outcome, Settings};
use heapwright_allocators::baselines::SYSTEM_AGAIN;
use heapwright_allocators::peers;
use heapwright_allocators::policy;
use heapwright_show::number;
use heapwright_show::table::Table;
use heapwright_suite::{Case, Contender, Crate, Extent, Field, Kind, Layer, MMAP, NO_OP, Output, Row, SYSTEM};

/// The workloads that the bars are about.
const KINDS: [Kind; 6] = [Kind::Program000, Kind::Program001, Kind::Steady, Kind::Comb, Kind::BuddyFree, Kind::Mapped];

/// The five fits of the textbook.
const FITS: [&str; 5] = ["first", "next", "best", "worst", "random"];
/// The four of report 001.
const FOUR_FITS: [&str; 4] = ["first", "next", "best", "worst"];
const FIRST_AND_BEST: [&str; 2] = ["first", "best"];
const BUDDY: &str = "buddy";

/// The combs that are compared.
const FEW_HOLES: usize = 1000;
const MANY_HOLES: usize = 10_000_000;

/// Measures what the bars are about and judges them.
///
/// # Errors
/// When the available memory cannot be determined.
pub fn judge(settings: Settings) -> Result<Judgement> {
    let extent = Extent::Usual;
    let (layers, policies) = (Layer::ALL.to_vec(), extent.policies());
    let field = Field { layers, policies, allocators: None, peers: peers::find() };
    let cases = needed(heapwright_suite::cases(&KINDS, extent, &field));
    let rows = heapwright_suite::measure(&cases, extent, settings.rounds.map(usize::from), settings.output)?;
    let bars = of(&rows);
    if settings.output == Output::Tables {
        print(&bars);
    }
    Judgement::new("engine", &bars, Outcome::of(all_hold(&bars)))
}

/// Returns the part of `cases` that the bars need.
fn needed(mut cases: Vec<Case>) -> Vec<Case> {
    cases.retain(|case| match case.workload.kind {
        Kind::Program000 | Kind::Program001 => true,
        Kind::Comb => !case.touched && [FEW_HOLES, MANY_HOLES].contains(&case.workload.size),
        _ => !case.touched,
    });
    for case in &mut cases {
        let kind = case.workload.kind;
        case.contenders.retain(|contender| is_needed(contender, kind));
    }
    cases
}

fn is_needed(contender: &Contender, kind: Kind) -> bool {
    let subject = contender.subject.as_str();
    let is_in = |subjects: &[&str]| subjects.contains(&subject);
    let is_common = is_in(&[SYSTEM, SYSTEM_AGAIN, NO_OP]);
    is_common
        || match kind {
            Kind::Program000 => is_in(&FITS),
            Kind::Program001 => is_in(&FOUR_FITS),
            Kind::Steady => is_in(&FIRST_AND_BEST),
            Kind::Comb => is_in(&FITS) && contender.layer == Layer::Engine,
            Kind::BuddyFree => is_in(&[BUDDY, Crate::BuddySystem.name()]),
            _ => true,
        }
}

/// The side of the limit on which a bar holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Sense {
    AtMost,
    AtLeast,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Unit {
    #[serde(rename = "ratio")]
    Ratio,
    #[serde(rename = "ns")]
    Nanoseconds,
    #[serde(rename = "percent")]
    Percent,
}

/// A figure and the allocator with this figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Figure {
    value: f64,
    subject: String,
}

/// A bar and the measured figures.
#[derive(Clone, Debug, Serialize)]
struct Bar {
    what: String,
    limit: f64,
    sense: Sense,
    unit: Unit,
    /// The layer that decides.
    layer: Layer,
    engine: Option<Figure>,
    fixed: Option<Figure>,
    malloc: Option<Figure>,
    /// Whether the deciding figure is on the right side of the limit; null when it is missing.
    holds: Option<bool>,
}

impl Bar {
    fn new(what: String, limit: f64, (sense, unit): (Sense, Unit), layer: Layer) -> Bar {
        Bar { what, limit, sense, unit, layer, engine: None, fixed: None, malloc: None, holds: None }
    }

    /// Fills in `figure` of each layer, and decides.
    fn measured(mut self, figure: impl Fn(Layer) -> Option<Figure>) -> Bar {
        self.engine = figure(Layer::Engine);
        self.fixed = figure(Layer::Fixed);
        self.malloc = figure(Layer::Malloc);
        self.holds = self.figure(self.layer).map(|figure| match self.sense {
            Sense::AtMost => figure.value <= self.limit,
            Sense::AtLeast => figure.value >= self.limit,
        });
        self
    }

    fn figure(&self, layer: Layer) -> Option<&Figure> {
        match layer {
            Layer::Engine => self.engine.as_ref(),
            Layer::Fixed => self.fixed.as_ref(),
            Layer::Malloc => self.malloc.as_ref(),
        }
    }

    fn cells(&self) -> [String; 6] {
        let sign = match self.sense {
            Sense::AtMost => "<=",
            Sense::AtLeast => ">=",
        };
        let write = |value: f64| match self.unit {
            Unit::Ratio => number::short(value),
            Unit::Nanoseconds => format!("{} ns", number::short(value)),
            Unit::Percent => format!("{value:.1} %"),
        };
        let cell = |layer: Layer| {
            let mark = if layer == self.layer { "*" } else { "" };
            self.figure(layer).map_or_else(
                || format!("-{mark}"),
                |figure| format!("{} {}{mark}", figure.subject, write(figure.value)),
            )
        };
        [
            self.what.clone(),
            format!("{sign} {}", write(self.limit)),
            cell(Layer::Engine),
            cell(Layer::Fixed),
            cell(Layer::Malloc),
            match self.holds {
                Some(true) => "holds",
                Some(false) => "FAILS",
                None => "not measured",
            }
            .to_owned(),
        ]
    }
}

const AT_MOST_TIMES: (Sense, Unit) = (Sense::AtMost, Unit::Ratio);

/// The key of a measurement.
#[derive(Clone, Copy)]
struct Place<'a> {
    kind: Kind,
    size: usize,
    part: &'a str,
    touched: bool,
}

impl Place<'_> {
    fn holds(&self, row: &Row) -> bool {
        let parameter = |name: &str| row.parameters.get(name);
        let size = self.kind.size_name().and_then(parameter).and_then(|size| size.as_u64());
        let part = parameter("part").and_then(|part| part.as_str());
        row.workload == self.kind.name()
            && row.touched == self.touched
            && size.is_none_or(|size| size == self.size as u64)
            && part.is_none_or(|part| part == self.part)
    }

    fn find<'r>(&self, rows: &'r [Row], layer: Layer, subject: &str) -> Option<&'r Row> {
        rows.iter().find(|row| row.layer == layer && row.subject == subject && self.holds(row))
    }
}

/// Returns the largest of the subjects' figures; `None` when any of them is missing.
fn worst_of(subjects: &[&str], figure: impl Fn(&str) -> Option<f64>) -> Option<Figure> {
    let figures: Option<Vec<Figure>> =
        subjects.iter().map(|&subject| Some(Figure { value: figure(subject)?, subject: subject.to_owned() })).collect();
    figures?.into_iter().max_by(|a, b| a.value.total_cmp(&b.value))
}

/// Returns the time of the slowest of `subjects`, divided by the system malloc's.
fn over_system(rows: &[Row], place: Place<'_>, layer: Layer, subjects: &[&str]) -> Option<Figure> {
    worst_of(subjects, |subject| place.find(rows, layer, subject)?.over_system)
}

fn program000(rows: &[Row]) -> impl Iterator<Item = Bar> {
    [(false, 0.15, "not touched"), (true, 0.85, "touched")].into_iter().map(move |(touched, limit, words)| {
        let place = Place { kind: Kind::Program000, size: 0, part: "program", touched };
        Bar::new(format!("report 000, {words}, over system"), limit, AT_MOST_TIMES, Layer::Malloc)
            .measured(|layer| over_system(rows, place, layer, &FITS))
    })
}

fn program001(rows: &[Row]) -> impl Iterator<Item = Bar> {
    let places = [(false, "not touched"), (true, "touched")]
        .into_iter()
        .flat_map(|touch| Kind::Program001.parts().iter().map(move |&part| (touch, part)));
    places.map(move |((touched, words), part)| {
        let limit = if part.ends_with("4096") && !touched { 0.1 } else { 1.0 };
        let place = Place { kind: Kind::Program001, size: 0, part, touched };
        Bar::new(format!("report 001, {part}, {words}, over system"), limit, AT_MOST_TIMES, Layer::Fixed)
            .measured(|layer| over_system(rows, place, layer, &FOUR_FITS))
    })
}

fn steady(rows: &[Row]) -> impl Iterator<Item = Bar> {
    let places = [(1000, 1.4), (10_000, 1.1), (100_000, 1.0), (1_000_000, 1.0)];
    let times = places.into_iter().map(move |(size, limit)| {
        let place = Place { kind: Kind::Steady, size, part: "pair", touched: false };
        Bar::new(
            format!("steady, {} live, over system", number::grouped(size as u64)),
            limit,
            AT_MOST_TIMES,
            Layer::Engine,
        )
        .measured(|layer| over_system(rows, place, layer, &FIRST_AND_BEST))
    });
    let place = Place { kind: Kind::Steady, size: 1_000_000, part: "pair", touched: false };
    let tail = Bar::new("steady, 1,000,000 live, p99.99 over system".to_owned(), 0.4, AT_MOST_TIMES, Layer::Engine)
        .measured(|layer| {
            let system = place.find(rows, Layer::Malloc, SYSTEM)?.p9999?;
            worst_of(&FIRST_AND_BEST, |subject| Some(place.find(rows, layer, subject)?.p9999? / system))
        });
    times.chain([tail])
}

/// Returns the mean time of an allocate and a free in a comb: both of a request that fits no hole, or of the holes
/// themselves.
fn comb_pair(rows: &[Row], layer: Layer, subject: &str, size: usize, parts: [&str; 2]) -> Option<f64> {
    let time = |part| Place { kind: Kind::Comb, size, part, touched: false }.find(rows, layer, subject)?.ns_per_op;
    Some((time(parts[0])? + time(parts[1])?) / 2.0)
}

fn comb(rows: &[Row]) -> impl Iterator<Item = Bar> {
    let pairs = [("a request that fits no hole", ["miss", "miss"]), ("frees and fills", ["free", "fill"])];
    pairs.into_iter().map(move |(words, parts)| {
        Bar::new(format!("comb, {words}, 10^7 holes over 10^3"), 3.0, AT_MOST_TIMES, Layer::Engine).measured(|layer| {
            worst_of(&FITS, |subject| {
                let many = comb_pair(rows, layer, subject, MANY_HOLES, parts)?;
                Some(many / comb_pair(rows, layer, subject, FEW_HOLES, parts)?)
            })
        })
    })
}

fn buddy_free(rows: &[Row]) -> Bar {
    let place = Place { kind: Kind::BuddyFree, size: 50_000, part: "free", touched: false };
    let time = |layer, subject: &str| place.find(rows, layer, subject)?.ns_per_op;
    let peer = Crate::BuddySystem.name();
    let theirs = time(Layer::Fixed, peer).map_or("-".to_owned(), number::short);
    let what = format!("buddy free at 50,000 holes ({peer}: {theirs} ns)");
    Bar::new(what, 100.0, (Sense::AtMost, Unit::Nanoseconds), Layer::Fixed)
        .measured(|layer| worst_of(&[BUDDY], |subject| time(layer, subject)))
}

/// Returns the size of the metadata, in per cent of the region that it describes.
fn metadata_share(kind: PolicyKind) -> Option<f64> {
    const REGION: usize = 1 << 30;
    let cells = AnyEngine::metadata_cells(kind, REGION, &Rules::default()).ok()?;
    Some((cells * size_of::<u64>()) as f64 / REGION as f64 * 100.0)
}

fn metadata() -> impl Iterator<Item = Bar> {
    let groups: [(&[&str], f64); 2] = [(&["first", "next", "worst"], 2.1), (&["best"], 2.6)];
    groups.into_iter().map(|(policies, limit)| {
        let what = "metadata of a 1 GiB region, 16-byte granules".to_owned();
        Bar::new(what, limit, (Sense::AtMost, Unit::Percent), Layer::Engine).measured(|layer| {
            worst_of(policies, |name| metadata_share(PolicyKind::from_name(name).filter(|_| layer == Layer::Engine)?))
        })
    })
}

/// Returns the payload of requests of `bytes` bytes, in per cent of a 1 KiB region that also contains the heap's handle
/// and metadata.
fn payload_share(bytes: usize) -> Option<f64> {
    const REGION: usize = 1024;
    let mut region = [MaybeUninit::uninit(); REGION];
    let heap = FixedHeap::<FirstFit>::carve((), &mut region, &COMPACT).ok()?;
    let layout = Layout::from_size_align(bytes, 8).ok()?;
    let blocks = std::iter::from_fn(|| heap.allocate(layout).ok()).count();
    Some((blocks * bytes) as f64 / REGION as f64 * 100.0)
}

fn payload() -> impl Iterator<Item = Bar> {
    [(16, 85.0), (24, 85.0), (40, 85.0), (100, 78.0)].into_iter().map(|(bytes, limit)| {
        let what = format!("payload of a 1 KiB region, requests of {bytes} bytes, 8-byte granules");
        Bar::new(what, limit, (Sense::AtLeast, Unit::Percent), Layer::Fixed)
            .measured(|layer| worst_of(&["first"], |_| payload_share(bytes).filter(|_| layer == Layer::Fixed)))
    })
}

fn mapped(rows: &[Row]) -> Bar {
    let place = Place { kind: Kind::Mapped, size: 128, part: "pair", touched: false };
    Bar::new("mapped over a bare mmap+munmap".to_owned(), 1.1, AT_MOST_TIMES, Layer::Malloc).measured(|layer| {
        let bare = place.find(rows, Layer::Malloc, MMAP)?.ns_per_op?;
        worst_of(&[policy::MAPPED], |subject| Some(place.find(rows, layer, subject)?.ns_per_op? / bare))
    })
}

/// Returns all bars, judged by `rows`.
fn of(rows: &[Row]) -> Vec<Bar> {
    program000(rows)
        .chain(program001(rows))
        .chain(steady(rows))
        .chain(comb(rows))
        .chain([buddy_free(rows)])
        .chain(metadata())
        .chain(payload())
        .chain([mapped(rows)])
        .collect()
}

/// Prints the bars as a table.
fn print(bars: &[Bar]) {
    heapwright_show::println!("\nThe bars (* marks the layer that decides; the named policy is the worst one)");
    let mut table = Table::new(["what", "bar", "engine", "fixed", "malloc", ""]);
    bars.iter().for_each(|bar| table.row(bar.cells()));
    heapwright_show::print!("{table}");
}

/// Returns whether every bar holds. A bar without a figure does not.
fn all_hold(bars: &[Bar]) -> bool {
    bars.iter().all(|bar| bar.holds == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(sense: Sense, limit: f64, value: Option<f64>) -> Bar {
        let figure = value.map(|value| Figure { value, subject: "first".to_owned() });
        Bar::new("x".to_owned(), limit, (sense, Unit::Ratio), Layer::Engine)
            .measured(|layer| figure.clone().filter(|_| layer == Layer::Engine))
    }

    #[test]
    fn the_one_that_does_worst_holds_the_bar() {
        let worst = worst_of(&FIRST_AND_BEST, |subject| Some(if subject == "best" { 2.0 } else { 1.0 })).unwrap();
        assert_eq!((worst.value, worst.subject.as_str()), (2.0, "best"));
        assert_eq!(
            worst_of(&FIRST_AND_BEST, |subject| (subject == "best").then_some(1.0)),
            None,
            "a missing one is not passed over"
        );
    }

    #[test]
    fn a_bar_holds_on_its_side_and_never_without_a_figure() {
        let verdicts = |sense| [Some(0.9), Some(1.0), Some(1.1), None].map(|value| bar(sense, 1.0, value).holds);
        assert_eq!(verdicts(Sense::AtMost), [Some(true), Some(true), Some(false), None]);
        assert_eq!(verdicts(Sense::AtLeast), [Some(false), Some(true), Some(true), None]);
        assert!(all_hold(&[bar(Sense::AtMost, 1.0, Some(1.0))]));
        assert!(!all_hold(&[bar(Sense::AtMost, 1.0, Some(1.0)), bar(Sense::AtMost, 1.0, None)]));
    }

    #[test]
    fn what_needs_no_measuring_is_there_without() {
        let bars = of(&[]);
        let known: Vec<&Bar> = bars.iter().filter(|bar| bar.holds.is_some()).collect();
        assert_eq!(known.len(), 2 + 4, "metadata and payload");
        assert!(known.iter().all(|bar| bar.unit == Unit::Percent));
    }
}
