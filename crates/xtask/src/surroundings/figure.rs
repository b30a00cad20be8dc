//! The figures: what is run, in which surrounding, and the bar of each number that it prints.

/// A program of `crates/malloc/tests/programs` in a surrounding.
pub struct Run {
    /// The options of the launcher `under`.
    pub surrounding: &'static [&'static str],
    /// The program's source.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: &'static [&'static str],
    /// The numbers that it prints.
    pub figures: &'static [Figure],
}

/// A number that a program prints.
pub struct Figure {
    /// Its name in the table.
    pub what: &'static str,
    /// Its name in the output; empty when the program prints only a number.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The bar.
    pub bar: Bar,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Microseconds.
    Microseconds,
    /// A count or a ratio.
    Plain,
}

/// A bar for the median of our figures, `ours`, and that of the system's malloc, `system`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// `ours` is at least this.
    AtLeast(f64),
    /// `ours` is at most this.
    AtMost(f64),
    /// `ours - system` is at most this.
    OverAtMost(f64),
    /// `ours / system` is at most this.
    RatioAtMost(f64),
    /// `ours / system` is at least this.
    RatioAtLeast(f64),
    /// Measured only.
    None,
}

impl Bar {
    /// Returns whether it holds; `None` when there is no bar.
    pub fn holds(self, ours: f64, system: f64) -> Option<bool> {
        match self {
            Bar::AtLeast(least) => Some(ours >= least),
            Bar::AtMost(most) => Some(ours <= most),
            Bar::OverAtMost(most) => Some(ours - system <= most),
            Bar::RatioAtMost(most) => Some(ours <= most * system),
            Bar::RatioAtLeast(least) => Some(ours >= least * system),
            Bar::None => None,
        }
    }
}

const MIB: f64 = 1048576.0;
const MB: f64 = 1e6;

const fn figure(what: &'static str, name: &'static str, unit: Unit, bar: Bar) -> Figure {
    Figure { what, name, unit, bar }
}

/// All runs.
pub const RUNS: &[Run] = &[
    Run {
        surrounding: &["--data=268435456"],
        program: "fill.c",
        arguments: &["1048576", "1073741824", "all"],
        figures: &[figure("usable, RLIMIT_DATA 256 MiB, 1 MiB", "", Unit::Bytes, Bar::AtLeast(250.0 * MIB))],
    },
    Run {
        surrounding: &["--data=268435456"],
        program: "fill.c",
        arguments: &["100", "1073741824", "all"],
        figures: &[figure("usable, RLIMIT_DATA 256 MiB, 100 bytes", "", Unit::Bytes, Bar::RatioAtLeast(0.97))],
    },
    Run {
        surrounding: &["--as=4294967296"],
        program: "fill.c",
        arguments: &["1048576", "1000000000000", "first"],
        figures: &[figure("usable, RLIMIT_AS 4 GiB, 1 MiB", "", Unit::Bytes, Bar::AtLeast(4000.0 * MIB))],
    },
    Run {
        surrounding: &[],
        program: "fill.c",
        arguments: &["1073741824", "70368744177664", "none"],
        figures: &[figure("largest sum up to 64 TiB, 1 GiB", "", Unit::Bytes, Bar::RatioAtLeast(0.9))],
    },
    Run {
        surrounding: &[],
        program: "footprint.c",
        arguments: &["locked"],
        figures: &[figure("resident after mlockall", "", Unit::Bytes, Bar::OverAtMost(2.0 * MB))],
    },
    Run {
        surrounding: &[],
        program: "footprint.c",
        arguments: &["core"],
        figures: &[figure("length of a core", "", Unit::Bytes, Bar::AtMost(8.0 * MB))],
    },
    Run {
        surrounding: &[],
        program: "footprint.c",
        arguments: &["data"],
        figures: &[figure("VmData, a hundred blocks", "", Unit::Bytes, Bar::AtMost(8.0 * MB))],
    },
    Run {
        surrounding: &[],
        program: "bars.c",
        arguments: &["holes"],
        figures: &[
            figure("slab, 100,000 misaligned long holes", "per-slab-us", Unit::Microseconds, Bar::AtMost(2.0)),
            figure("slab, the worst thousand", "worst-thousand-us", Unit::Microseconds, Bar::None),
        ],
    },
    Run {
        surrounding: &[],
        program: "bars.c",
        arguments: &["pairs"],
        figures: &[
            figure(
                "pairs of 33-256 KiB, 2 threads over 1, over computing",
                "scaling-over-computing",
                Unit::Plain,
                Bar::AtLeast(0.9),
            ),
            figure("pairs of 33-256 KiB, 2 threads over 1", "scaling", Unit::Plain, Bar::None),
            figure("computing, 2 threads over 1", "scaling-computing", Unit::Plain, Bar::None),
            figure("nanoseconds per pair, 1 thread", "ns-per-pair", Unit::Plain, Bar::None),
        ],
    },
    Run {
        surrounding: &[],
        program: "bars.c",
        arguments: &["vectors-1.5"],
        figures: &[
            figure("two vectors by 1.5, realloc", "realloc-us", Unit::Microseconds, Bar::RatioAtMost(1.2)),
            figure("two vectors by 1.5, peak", "peak-bytes", Unit::Bytes, Bar::RatioAtMost(1.005)),
        ],
    },
    Run {
        surrounding: &[],
        program: "bars.c",
        arguments: &["vectors-2"],
        figures: &[
            figure("two vectors by 2, realloc", "realloc-us", Unit::Microseconds, Bar::RatioAtMost(1.2)),
            figure("two vectors by 2, peak", "peak-bytes", Unit::Bytes, Bar::RatioAtMost(1.005)),
        ],
    },
    Run {
        surrounding: &[],
        program: "bars.c",
        arguments: &["sleeper"],
        figures: &[
            figure("kept for a sleeper, of 111 MB", "kept-bytes", Unit::Bytes, Bar::AtMost(5.0 * MB)),
            figure("the same after malloc_trim", "kept-after-trim-bytes", Unit::Bytes, Bar::AtMost(5.0 * MB)),
        ],
    },
    Run {
        surrounding: &[],
        program: "bars.c",
        arguments: &["batches"],
        figures: &[figure("batches on their way, nothing live", "kept-bytes", Unit::Bytes, Bar::OverAtMost(4.0 * MIB))],
    },
    Run {
        surrounding: &[],
        program: "bars.c",
        arguments: &["moves"],
        figures: &[figure("moves of 10, 12, 14 bytes, 1,000 trials", "moves", Unit::Plain, Bar::AtMost(0.0))],
    },
];
