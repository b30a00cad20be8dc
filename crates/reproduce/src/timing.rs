//! Times of a published program: the policies alone and through the drop-in library, the system's malloc, and every
//! allocator library found on this machine. Measured in rounds, each measurement in a process of its own.

use heapwright_placement::{Generator, PolicyKind};

use super::row::{Figure, Row, Verdict};
use crate::child::Task;
use heapwright_allocators::allocator::Allocator;
use heapwright_allocators::peers;
use heapwright_allocators::policy;
use heapwright_show::progress::Progress;
use heapwright_stats::{Estimate, paired_ratios};
use heapwright_workloads::published::programs::Layer;
use heapwright_workloads::published::programs::Program;
use heapwright_workloads::published::programs::Touch;

/// The name of the baseline's row.
pub const SYSTEM: &str = "system";
/// The baseline measured a second time, as another allocator (A/A): the difference is noise.
const AGAIN: &str = "system again";

/// An allocator in a race, and its times.
struct Runner {
    name: String,
    allocator: Allocator,
    layer: Layer,
    /// The seconds of each part in each round: untouched, then touched.
    rounds: [Vec<Vec<f64>>; 2],
    /// Why it is no longer measured.
    failure: Option<String>,
}

impl Runner {
    fn new(name: &str, allocator: Allocator, layer: Layer) -> Runner {
        Runner { name: name.to_owned(), allocator, layer, rounds: [Vec::new(), Vec::new()], failure: None }
    }

    /// Runs the program once, unless it failed before: a run that hangs is not repeated.
    fn run(&mut self, program: Program, touch: Touch) {
        if self.failure.is_some() {
            return;
        }
        match (Task { program, layer: self.layer, touch }).perform(&self.allocator) {
            Ok(parts) => self.rounds[touch as usize].push(parts),
            Err(error) => self.failure = Some(format!("not measured: {error:#}")),
        }
    }

    /// Returns the seconds of one part, by round.
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
    /// The policies measured as an engine.
    pub engines: &'static [PolicyKind],
    /// The policies measured as a heap in a fixed region.
    pub regions: &'static [PolicyKind],
    /// The figure by which the report summarises several runs.
    pub summary: fn(&[f64]) -> Option<f64>,
    /// The tables, one per part of the program.
    pub tables: &'static [Published],
}

/// A published table of times.
pub struct Published {
    /// Its name.
    pub table: &'static str,
    /// The unit of its figures.
    pub unit: Unit,
    /// Names of our rows, and the published runs with which they are comparable.
    pub runs: &'static [(&'static str, &'static [f64])],
    /// Why ours differ, when they do.
    pub why: &'static str,
    /// A row whose published figure comes from a defect, and the defect.
    pub defect: Option<(&'static str, &'static str)>,
}

/// The unit of published times.
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

/// The legend of the tables.
pub const LEGEND: &str = "\
first to mapped: through the drop-in library; (region): a heap in one fixed region; (engine): placement alone.
untouched: the program never writes to its memory, as the published ones; touched: it writes to each 4 KiB of it.
Processor time, medians of rounds in random order, each run in a process of its own; ± half the 95 % interval, from six
rounds up.";

impl Race {
    /// Runs every allocator `rounds` times, interleaved, and returns the rows of all tables.
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

    /// Returns a runner's time in one table, and its ratio to the system's.
    fn cells(&self, published: &Published, name: &str, touch: Touch, ours: &[f64], system: &[f64]) -> [Row; 2] {
        let ratios = paired_ratios(ours, system).unwrap_or_default();
        let cell = |column: &str, unit, values: &[f64]| {
            let row = Row::new(self.report, published.table, name, column, unit);
            match Estimate::of(values) {
                Some(Estimate { median, interval }) => Row { spread: interval, ..row.ours(Figure::Real(median)) },
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

/// Returns the numbers below `count` in random order. The state in which a process leaves the system's memory
/// influences the page faults of the next one, so the order differs in every round.
pub fn shuffled(count: usize, mut seed: u64) -> Vec<usize> {
    let mut random = Generator(&mut seed);
    let mut order: Vec<usize> = (0..count).collect();
    for end in (1..count).rev() {
        order.swap(end, random.below(end + 1));
    }
    order
}

impl Published {
    /// Returns the published time with which our row of this name is comparable.
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
