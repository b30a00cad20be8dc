//! The figures of a row: their names, units and order.

use serde::{Deserialize, Serialize};

use heapwright_show::number;

/// A figure of a row. In all of them less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Predicted processor time of the whole program.
    ProgramTime,
    /// That over its time with the system's malloc.
    #[serde(rename = "program-time/system")]
    ProgramTimeOverSystem,
    /// Predicted peak of the resident bytes of the whole program.
    ProgramPeak,
    /// That over its peak with the system's malloc.
    #[serde(rename = "program-peak/system")]
    ProgramPeakOverSystem,
    /// Time of a real replay.
    Time,
    /// That time over the system malloc's, of the same rounds.
    #[serde(rename = "time/system")]
    TimeOverSystem,
    /// The most resident bytes of the heap alone.
    Peak,
    /// Those over the most bytes asked for.
    #[serde(rename = "peak/asked")]
    PeakOverAsked,
    /// The mean of the resident bytes over the run.
    Average,
    /// Page faults.
    Faults,
    /// The 50th percentile of the times of single calls.
    P50,
    /// The 99th percentile.
    P99,
    /// The 99.99th percentile.
    P9999,
    /// The longest of a run.
    Max,
    /// The peak length of the simulated heap.
    Heap,
    /// That over the most bytes asked for.
    #[serde(rename = "heap/asked")]
    HeapOverAsked,
    /// External fragmentation when the heap was first at its longest.
    External,
    /// Its mean over the events.
    ExternalMean,
    /// Internal fragmentation when the heap was first at its longest.
    Internal,
    /// Its mean over the events.
    InternalMean,
    /// Holes when the heap was first at its longest.
    Holes,
    /// Their mean number over the events.
    HolesMean,
    /// Blocks cut in two.
    Splits,
    /// Merges of neighbouring holes.
    Coalesces,
    /// Blocks resized by moving them.
    Moved,
}

/// What a figure is a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Things.
    Count,
    /// From 0 to 1.
    Share,
    /// A ratio to another figure.
    Ratio,
}

/// How figures come about; those of one origin stand in one table when they do not all fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From real replays and what is known of the recorded process.
    Predicted,
    /// By real replays.
    Measured,
    /// By real replays in which each call was timed.
    Timed,
    /// By a simulation.
    Simulated,
}

impl Origin {
    /// All of them, in the order of tables.
    pub const ALL: [Origin; 4] = [Origin::Predicted, Origin::Measured, Origin::Timed, Origin::Simulated];
}

impl Metric {
    /// All of them, in the order of tables.
    pub const ALL: [Metric; 25] = [
        Metric::ProgramTime,
        Metric::ProgramTimeOverSystem,
        Metric::ProgramPeak,
        Metric::ProgramPeakOverSystem,
        Metric::Time,
        Metric::TimeOverSystem,
        Metric::Peak,
        Metric::PeakOverAsked,
        Metric::Average,
        Metric::Faults,
        Metric::P50,
        Metric::P99,
        Metric::P9999,
        Metric::Max,
        Metric::Heap,
        Metric::HeapOverAsked,
        Metric::External,
        Metric::ExternalMean,
        Metric::Internal,
        Metric::InternalMean,
        Metric::Holes,
        Metric::HolesMean,
        Metric::Splits,
        Metric::Coalesces,
        Metric::Moved,
    ];

    /// Returns its name, in conditions, files and `--columns`.
    pub fn name(self) -> &'static str {
        match self {
            Metric::ProgramTime => "program-time",
            Metric::ProgramTimeOverSystem => "program-time/system",
            Metric::ProgramPeak => "program-peak",
            Metric::ProgramPeakOverSystem => "program-peak/system",
            Metric::Time => "time",
            Metric::TimeOverSystem => "time/system",
            Metric::Peak => "peak",
            Metric::PeakOverAsked => "peak/asked",
            Metric::Average => "average",
            Metric::Faults => "faults",
            Metric::P50 => "p50",
            Metric::P99 => "p99",
            Metric::P9999 => "p9999",
            Metric::Max => "max",
            Metric::Heap => "heap",
            Metric::HeapOverAsked => "heap/asked",
            Metric::External => "external",
            Metric::ExternalMean => "external-mean",
            Metric::Internal => "internal",
            Metric::InternalMean => "internal-mean",
            Metric::Holes => "holes",
            Metric::HolesMean => "holes-mean",
            Metric::Splits => "splits",
            Metric::Coalesces => "coalesces",
            Metric::Moved => "moved",
        }
    }

    /// Returns the metric of this name.
    pub fn from_name(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Returns what stands above its column.
    pub fn heading(self) -> &'static str {
        match self {
            Metric::ProgramTime => "program time",
            Metric::ProgramPeak => "program peak",
            Metric::TimeOverSystem | Metric::ProgramTimeOverSystem | Metric::ProgramPeakOverSystem => "/ system",
            Metric::Peak => "peak RSS",
            Metric::PeakOverAsked | Metric::HeapOverAsked => "/ asked",
            Metric::Average => "mean RSS",
            Metric::P9999 => "p99.99",
            Metric::Heap => "peak heap",
            Metric::ExternalMean => "ext. mean",
            Metric::InternalMean => "int. mean",
            Metric::HolesMean => "holes mean",
            other => other.name(),
        }
    }

    /// Returns what it is a number of.
    pub fn unit(self) -> Unit {
        match self {
            Metric::ProgramTime | Metric::Time | Metric::P50 | Metric::P99 | Metric::P9999 | Metric::Max => {
                Unit::Seconds
            }
            Metric::ProgramPeak | Metric::Peak | Metric::Average | Metric::Heap => Unit::Bytes,
            Metric::ProgramTimeOverSystem
            | Metric::ProgramPeakOverSystem
            | Metric::TimeOverSystem
            | Metric::PeakOverAsked
            | Metric::HeapOverAsked => Unit::Ratio,
            Metric::External | Metric::ExternalMean | Metric::Internal | Metric::InternalMean => Unit::Share,
            Metric::Faults | Metric::Holes | Metric::HolesMean | Metric::Splits | Metric::Coalesces | Metric::Moved => {
                Unit::Count
            }
        }
    }

    /// Returns how it comes about.
    pub fn origin(self) -> Origin {
        match self {
            Metric::ProgramTime
            | Metric::ProgramTimeOverSystem
            | Metric::ProgramPeak
            | Metric::ProgramPeakOverSystem => Origin::Predicted,
            Metric::Time
            | Metric::TimeOverSystem
            | Metric::Peak
            | Metric::PeakOverAsked
            | Metric::Average
            | Metric::Faults => Origin::Measured,
            Metric::P50 | Metric::P99 | Metric::P9999 | Metric::Max => Origin::Timed,
            _ => Origin::Simulated,
        }
    }

    /// Returns a figure as people read it.
    pub fn show(self, figure: f64) -> String {
        self.unit().show(figure)
    }

    /// Two figures as people read them, so that they differ where the figures do.
    pub fn show_apart(self, figure: f64, other: f64) -> [String; 2] {
        /// The most decimals, with which any two figures differ.
        const MOST: usize = 17;
        let shown = [figure, other].map(|figure| self.show(figure));
        if figure == other || shown[0] != shown[1] {
            return shown;
        }
        let mut precise =
            (3..=MOST).map(|decimals| [figure, other].map(|figure| self.unit().show_to(figure, decimals)));
        precise.find(|[figure, other]| figure != other).unwrap_or(shown)
    }
}

impl Unit {
    /// Returns a figure as people read it.
    pub fn show(self, figure: f64) -> String {
        match self {
            Unit::Seconds => number::seconds(figure),
            Unit::Bytes => number::bytes(figure.round() as u64),
            Unit::Count => number::grouped(figure.round() as u64),
            Unit::Share => format!("{:.1} %", 100.0 * figure),
            Unit::Ratio => format!("{figure:.2}x"),
        }
    }

    /// Returns a figure with this many decimals.
    fn show_to(self, figure: f64, decimals: usize) -> String {
        match self {
            Unit::Seconds => format!("{figure:.decimals$} s"),
            Unit::Bytes => format!("{} B", number::grouped(figure.round() as u64)),
            Unit::Count => format!("{figure:.decimals$}"),
            Unit::Share => format!("{:.decimals$} %", 100.0 * figure),
            Unit::Ratio => format!("{figure:.decimals$}x"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_differ_are_shown_to_differ() {
        let ratio = |figure, other| Metric::HeapOverAsked.show_apart(figure, other);
        assert_eq!(ratio(1.5, 1.25), ["1.50x", "1.25x"]);
        assert_eq!(ratio(1.5, 1.5), ["1.50x", "1.50x"]);
        assert_eq!(ratio(4.0 / 3.0, 1.33), ["1.333x", "1.330x"]);
        assert_eq!(ratio(1.0001, 1.0), ["1.0001x", "1.0000x"]);
        assert_eq!(Metric::Heap.show_apart(30_199_999.0, 30_200_000.0), ["30,199,999 B", "30,200,000 B"]);
    }

    #[test]
    fn names_lead_back_and_are_those_of_json() {
        for metric in Metric::ALL {
            assert_eq!(Metric::from_name(metric.name()), Some(metric));
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
        }
        assert_eq!(Metric::from_name("speed"), None);
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(Metric::Time.show(0.0451), "45.1 ms");
        assert_eq!(Metric::Peak.show(1536.4), "1.50 KiB");
        assert_eq!(Metric::External.show(0.1234), "12.3 %");
        assert_eq!(Metric::HeapOverAsked.show(1.0349), "1.03x");
        assert_eq!(Metric::Splits.show(12345.0), "12,345");
    }
}
