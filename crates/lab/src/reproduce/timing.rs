//! Times of a published program: the policies as they stand and through the drop-in library, the system's malloc, and
//! every allocator library on this machine, in rounds, each measurement in a process of its own.

use heapwright_placement::{Generator, PolicyKind};

use super::row::{Figure, Row, Verdict};
use crate::allocator::Allocator;
use crate::child::{self, Job};
use crate::peers;
use crate::policy;
use crate::programs::{Layer, Program, Touch};
use crate::progress::Progress;
use crate::stats::Spread;

/// The name of the row that everything is measured against.
pub const SYSTEM: &str = "system";
/// The system's malloc once more, as if it were another allocator: what differs here is noise.
const AGAIN: &str = "system again";

/// Somebody in a race, and how it goes.
struct Runner {
    name: String,
    allocator: Allocator,
    layer: Layer,
    /// The seconds of each part in each round, untouched and touched.
    rounds: [Vec<Vec<f64>>; 2],
    /// Why it was taken out.
    failure: Option<String>,
}

impl Runner {
    fn new(name: &str, allocator: Allocator, layer: Layer) -> Runner {
        Runner { name: name.to_owned(), allocator, layer, rounds: [Vec::new(), Vec::new()], failure: None }
    }

    /// Runs once, unless it failed before: what hangs once is not waited for again.
    fn run(&mut self, program: Program, touch: Touch) {
        if self.failure.is_some() {
            return;
        }
        match child::perform(&self.allocator, &Job::Program { program, layer: self.layer, touch }) {
            Ok(parts) => self.rounds[touch as usize].push(parts),
            Err(error) => self.failure = Some(format!("not measured: {error:#}")),
        }
    }

    /// The seconds of one part, by round.
    fn part(&self, touch: Touch, part: usize) -> Vec<f64> {
        self.rounds[touch as usize].iter().filter_map(|parts| parts.get(part).copied()).collect()
    }
}

/// The times of one program.
pub struct Race {
    /// The report's number.
    pub report: &'static str,
    /// The program.
    pub program: Program,
    /// The policies whose engine takes part.
    pub engines: &'static [PolicyKind],
    /// The policies under which a heap in a fixed region takes part.
    pub regions: &'static [PolicyKind],
    /// The one figure by which the report compares several runs.
    pub summary: fn(&[f64]) -> Option<f64>,
    /// The tables, one per part of the program.
    pub tables: &'static [Published],
}

/// A published table of times.
pub struct Published {
    /// Its name.
    pub table: &'static str,
    /// What its figures are in.
    pub unit: Unit,
    /// Names of our rows, and the published runs that they are comparable with.
    pub runs: &'static [(&'static str, &'static [f64])],
    /// Why ours differ, when they do.
    pub why: &'static str,
    /// A row whose published figure comes from a defect, and what that is.
    pub defect: Option<(&'static str, &'static str)>,
}

/// What published times are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

impl Unit {
    fn in_seconds(self) -> f64 {
        match self {
            Unit::Seconds => 1.0,
            Unit::Milliseconds => 1e-3,
        }
    }
}

/// What the names of the rows mean, for those who read the tables.
pub const LEGEND: &str = "\
first to mapped: through the drop-in library; (region): a heap in one fixed region; (engine): placement alone.
untouched: the program never writes to its memory, as the published ones; touched: it writes to each 4 KiB of it.
Processor time, medians of rounds in shuffled order, each run a process of its own; ± half the distance between quartiles.";

impl Race {
    /// Runs everybody `rounds` times, in turns, and returns the rows of all tables.
    pub fn run(&self, rounds: usize) -> Vec<Row> {
        let mut runners = self.runners();
        let progress = Progress::new(&format!("{}: times", self.report), rounds * runners.len() * Touch::BOTH.len());
        for round in 0..rounds {
            for at in shuffled(runners.len(), round as u64) {
                progress.at(&runners[at].name);
                for touch in Touch::BOTH {
                    runners[at].run(self.program, touch);
                    progress.step();
                }
            }
        }
        let mut rows = Vec::new();
        for (part, published) in self.tables.iter().enumerate() {
            for runner in &runners {
                for touch in Touch::BOTH {
                    let (ours, system) = (runner.part(touch, part), runners[0].part(touch, part));
                    let cells = self.cells(published, &runner.name, touch, &ours, &system);
                    rows.extend(cells.map(|row| match &runner.failure {
                        Some(failure) => row.note(failure),
                        None => row,
                    }));
                }
            }
        }
        rows
    }

    fn runners(&self) -> Vec<Runner> {
        let malloc = |name: &str, allocator| Runner::new(name, allocator, Layer::Malloc);
        let inside = |name: &str, layer| Runner::new(name, Allocator::System, layer);
        let mut runners = vec![malloc(SYSTEM, Allocator::System), malloc(AGAIN, Allocator::System)];
        runners.extend(policy::names().map(|name| malloc(name, Allocator::Heapwright(name))));
        for &kind in self.regions {
            runners.push(inside(&format!("{} (region)", kind.name()), Layer::Fixed(kind)));
        }
        for &kind in self.engines {
            runners.push(inside(&format!("{} (engine)", kind.name()), Layer::Engine(kind)));
        }
        if self.program == Program::Pairs {
            runners.push(inside("bare mmap + munmap", Layer::BareMappings));
        }
        runners.extend(peers::find().into_iter().map(|peer| malloc(&peer.name, Allocator::Peer(peer.clone()))));
        runners
    }

    /// A runner's time in one table, and its ratio to the system's.
    fn cells(&self, published: &Published, name: &str, touch: Touch, ours: &[f64], system: &[f64]) -> [Row; 2] {
        let ratios: Vec<f64> = ours.iter().zip(system).map(|(ours, system)| ours / system).collect();
        let cell = |column: &str, unit, values: &[f64]| {
            let row = Row::new(self.report, published.table, name, column, unit);
            match Spread::of(values) {
                Some(spread) => {
                    let several = values.len() > 1;
                    let range = several.then_some([spread.low, spread.high]);
                    Row { spread: range, ..row.ours(Figure::Real(spread.median)) }
                }
                None => row,
            }
        };
        let time = cell(touch.name(), "seconds", ours);
        let ratio = cell(&format!("{}, over system", touch.name()), "ratio", &ratios);
        let seconds = published.seconds(name, self.summary).filter(|_| touch == Touch::Untouched);
        let Some(seconds) = seconds else { return [time, ratio] };
        let reason = if name == SYSTEM { "another machine" } else { published.why };
        let time = published.judged(time.published(Figure::Real(seconds)), name, reason);
        match published.seconds(SYSTEM, self.summary).filter(|_| name != SYSTEM) {
            Some(system) => {
                let over_system = ratio.published(Figure::Real(seconds / system));
                [time, published.judged(over_system, name, published.why)]
            }
            None => [time, ratio],
        }
    }
}

/// The numbers below `count` in an order of this seed's. What one process leaves of the system's memory decides about the
/// next one's page faults, so nobody is to have the same neighbour in every round.
pub fn shuffled(count: usize, mut seed: u64) -> Vec<usize> {
    let mut random = Generator(&mut seed);
    let mut order: Vec<usize> = (0..count).collect();
    for end in (1..count).rev() {
        order.swap(end, random.below(end + 1));
    }
    order
}

impl Published {
    /// The published time that our row of this name is comparable with.
    fn seconds(&self, name: &str, summary: fn(&[f64]) -> Option<f64>) -> Option<f64> {
        let (_, runs) = self.runs.iter().find(|(row, _)| *row == name)?;
        summary(runs).map(|figure| figure * self.unit.in_seconds())
    }

    /// Times are within when they differ by less than a factor of two.
    fn judged(&self, row: Row, name: &str, reason: &str) -> Row {
        if let Some((_, what)) = self.defect.filter(|(defective, _)| *defective == name) {
            return row.verdict(Verdict::Defect).note(what);
        }
        let (Some(published), Some(ours)) = (row.published, row.ours) else { return row };
        match (0.5..=2.0).contains(&(ours.as_f64() / published.as_f64())) {
            true => row.verdict(Verdict::Within),
            false => row.verdict(Verdict::Differs).note(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffling_loses_nobody_and_changes_with_the_round() {
        let mut order = shuffled(20, 1);
        assert_ne!(order, shuffled(20, 2));
        order.sort_unstable();
        assert!(order.into_iter().eq(0..20));
    }
}
