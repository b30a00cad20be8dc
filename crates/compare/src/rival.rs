//! A row held against the system's malloc: what is shown of its time and its memory, and that in words.

use super::basis::{Basis, Evidence};
use super::comparison::Comparison;
use super::confirmation::{Confirmation, Confirmed, ProgramRun};
use super::figures::{EQUAL, LITTLE_BYTES};
use super::pace::comparisons;
use super::row::Row;
use heapwright_stats::{Estimate, paired_ratios};

/// A difference below this share is not shown by any interval, however little noise there is.
const LEAST: f64 = 0.02;

/// Where figures of one allocator differ by more than this share, only a difference of twice the noise is shown.
pub const MOST_NOISE: f64 = 0.10;

/// Predictions of the program's time may be wrong by this share (docs/truth.md): one that promises less is no reason.
pub const PREDICTED: f64 = 0.07;

/// A predicted time that is less by more than this share may really be less by more than a twentieth, however short its
/// interval is: of a hundred that were predicted to be 2 to 7 % less, a third were more than 7 % less (docs/truth.md).
const LITTLE_PREDICTED: f64 = 0.02;

/// A row that you could choose, compared with the system's malloc. The intervals of all rivals hold at the same time,
/// in 95 % of all comparisons.
#[derive(Clone, Debug)]
pub struct Rival<'a> {
    /// The row.
    pub row: &'a Row,
    /// Its time over the system's.
    pub time: Estimate,
    /// Its memory over the system's.
    pub memory: Estimate,
    /// Where both come from.
    basis: Basis,
    /// The system's memory, in bytes.
    base: f64,
    /// By how much the times and the memory of one allocator differ.
    noise: [f64; 2],
}

impl Comparison {
    /// Returns the rows that can be chosen instead of the system's malloc: they were measured, and refused no request
    /// that the system's malloc served.
    ///
    /// If the program itself was run, those that it was run under, with the figures of these runs.
    pub fn rivals(&self) -> Vec<Rival<'_>> {
        self.confirmed().map_or_else(|| self.replayed_rivals(), |runs| self.confirmed_rivals(runs))
    }

    fn confirmed_rivals<'a>(&'a self, runs: &Confirmation) -> Vec<Rival<'a>> {
        let noise = [ProgramRun::PROCESSOR, ProgramRun::PEAK].map(|figure| runs.noise(figure).unwrap_or(0.0));
        let base = runs.system().and_then(|system| runs.figure(system, ProgramRun::PEAK)).map(|peak| peak.median);
        let open: Vec<&Confirmed> =
            runs.rows.iter().filter(|row| row.kind.is_a_rival() && row.note.is_none()).collect();
        let (comparisons, basis) = (comparisons(open.len()), self.basis());
        let rival = |confirmed: &Confirmed| {
            let ratio = |figure| Estimate::one_of(comparisons, &runs.ratios(confirmed, figure)?);
            let (time, memory) = (ratio(ProgramRun::PROCESSOR)?, ratio(ProgramRun::PEAK)?);
            Some(Rival { row: self.row(&confirmed.name)?, time, memory, basis, base: base?, noise })
        };
        open.into_iter().filter_map(rival).collect()
    }

    fn replayed_rivals(&self) -> Vec<Rival<'_>> {
        let Some(system) = self.system() else { return Vec::new() };
        let rows: Vec<&Row> = self.rows.iter().filter(|row| is_open(row, system)).collect();
        let (comparisons, basis) = (comparisons(rows.len()), self.basis());
        let metrics = [basis.time_metric(), basis.memory_metric()];
        let noise = metrics.map(|metric| self.noise_of(metric).unwrap_or(0.0));
        let base = system.median(basis.memory_metric());
        let rival = |row| {
            let ratio = |metric| {
                let values = [row, system].map(|row| self.in_each_round(row, metric));
                Estimate::one_of(comparisons, &paired_ratios(&values[0], &values[1])?)
            };
            let (time, memory) = (ratio(metrics[0])?, ratio(metrics[1])?);
            Some(Rival { row, time, memory, basis, base: base?, noise })
        };
        rows.into_iter().filter_map(rival).collect()
    }
}

/// Returns whether a row can be chosen instead of the system's malloc.
fn is_open(row: &Row, system: &Row) -> bool {
    row.kind.is_a_rival() && row.note.is_none() && !row.rounds.is_empty() && row.refused <= system.refused
}

impl Rival<'_> {
    /// Shown to be faster, and by more than a twentieth as far as is known; as far as is predicted, by [`PREDICTED`].
    pub fn is_faster(&self) -> bool {
        let least = if self.basis.time == Evidence::Prediction { PREDICTED } else { EQUAL };
        is_less(self.time, self.noise[0]) && self.time.median < 1.0 - least
    }

    /// Shown to be smaller, and by more than a twentieth as far as is known.
    pub fn is_smaller(&self) -> bool {
        is_less(self.memory, self.noise[1]) && self.memory.median < 1.0 - EQUAL && !self.is_little()
    }

    /// Predicted to be faster, but by less than predictions may be wrong: more rounds do not decide about it.
    pub fn is_beyond_predictions(&self) -> bool {
        self.basis.time == Evidence::Prediction && self.time.is_below(1.0 - LITTLE_PREDICTED) && !self.is_faster()
    }

    /// Shown to be better in one way, and not worse by more than a twentieth in the other.
    pub fn is_better(&self) -> bool {
        (self.is_faster() && !self.may_be_larger()) || (self.is_smaller() && !self.may_be_slower())
    }

    /// Faster than another rival by more than a twentieth, as far as is known.
    pub fn is_faster_than(&self, other: &Rival) -> bool {
        self.time.median < (1.0 - EQUAL) * other.time.median
    }

    /// Smaller than another rival by more than a twentieth, as far as is known.
    pub fn is_smaller_than(&self, other: &Rival) -> bool {
        self.memory.median < (1.0 - EQUAL) * other.memory.median
    }

    /// Shown not to be better: in neither way by more than a twentieth, or worse in one.
    pub fn is_out(&self) -> bool {
        let may_be_better = self.may_be_faster() || self.may_be_smaller();
        !may_be_better || self.time.is_above(1.0 + EQUAL) || (self.memory.is_above(1.0 + EQUAL) && !self.is_little())
    }

    /// Returns the product of time and memory.
    pub fn cost(&self) -> f64 {
        self.time.median * self.memory.median
    }

    fn may_be_slower(&self) -> bool {
        self.time.may_be_above(1.0 + EQUAL)
    }

    fn may_be_larger(&self) -> bool {
        self.memory.may_be_above(1.0 + EQUAL) && !self.is_little()
    }

    fn may_be_faster(&self) -> bool {
        let may_be_wrong = self.basis.time == Evidence::Prediction && self.time.median < 1.0 - LITTLE_PREDICTED;
        may_be_wrong || self.time.may_be_below(1.0 - EQUAL)
    }

    fn may_be_smaller(&self) -> bool {
        self.memory.may_be_below(1.0 - EQUAL) && !self.is_little()
    }

    /// Returns whether the memory differs by a few pages only, whatever share that is.
    fn is_little(&self) -> bool {
        self.memory.distance_from_one().is_some_and(|share| share * self.base <= LITTLE_BYTES)
    }

    /// Returns what is better, then the other figure: "18 % less time in malloc and free (95 % interval 15 to 21) at
    /// the same memory within 5 % (1.04 times)". A share of more than a twentieth comes first, even if it is a few
    /// pages.
    pub fn evidence(&self) -> String {
        let (time, memory) = (self.time_in_words(), self.memory_in_words());
        let takes = if self.basis.is_of_the_program() { "the program takes " } else { "" };
        let evidence = match self.is_faster() {
            true if self.memory.median > 1.0 + EQUAL => format!("at {memory}, {takes}{time}"),
            true => format!("{takes}{time} {} {memory}", self.joint(self.memory)),
            false => format!("{takes}{memory} {} {time}", self.joint(self.time)),
        };
        format!("{evidence}{}", self.provenance())
    }

    /// Returns what it costs, then what it is better in.
    pub fn offer(&self) -> String {
        let (price, gain) = match self.is_faster() {
            true => (self.memory_in_words(), self.time_in_words()),
            false => (self.time_in_words(), self.memory_in_words()),
        };
        match self.basis.is_of_the_program() {
            true => format!("at {price}, the program takes {gain} with {}", self.row.title()),
            false => format!("at {price}, {} takes {gain}", self.row.title()),
        }
    }

    /// Returns what is not decided of it.
    pub fn open_question(&self) -> String {
        let of = |what: &str, ratio: Estimate| format!("{what} {:.2} to {:.2}", ratio.low(), ratio.high());
        let time = self.may_be_faster().then(|| of("time", self.time));
        let memory = self.may_be_smaller().then(|| of("memory", self.memory));
        let figures: Vec<String> = time.into_iter().chain(memory).collect();
        format!("{} ({})", self.row.title(), figures.join(", "))
    }

    /// Returns what is not decided of one that is worse in one way, and seems to be better in the other by more than a
    /// twentieth.
    pub fn open_gain(&self) -> Option<String> {
        let of = |what: &str, ratio: Estimate| {
            format!("{} ({what} {:.2} to {:.2})", self.row.title(), ratio.low(), ratio.high())
        };
        let seems = |ratio: Estimate| ratio.median < 1.0 - EQUAL;
        let time = seems(self.time) && !self.is_faster() && !self.is_beyond_predictions();
        let memory = seems(self.memory) && !self.is_smaller() && !self.is_little();
        match (time, memory) {
            (true, _) => Some(of("time", self.time)),
            (false, true) => Some(of("memory", self.memory)),
            (false, false) => None,
        }
    }

    /// Returns its memory in words.
    pub fn memory_in_words(&self) -> String {
        let little = self.is_little().then(|| ((self.memory.median - 1.0).abs() * self.base) as u64);
        self.basis.memory(self.memory, little)
    }

    /// Returns its time in words.
    pub fn time_in_words(&self) -> String {
        self.basis.time(self.time)
    }

    /// Returns the word between the better figure and the `other`.
    fn joint(&self, other: Estimate) -> &'static str {
        if self.basis.is_of_the_program() && !other.is_one_within(EQUAL) { "and" } else { "at" }
    }

    /// Returns in a word how the figures came about, where they are the program's.
    fn provenance(&self) -> &'static str {
        match (self.basis.is_of_the_program(), self.basis.time) {
            (false, _) => "",
            (true, Evidence::Runs) => ", as measured",
            (true, _) => ", as predicted",
        }
    }
}

/// Returns whether a ratio is shown to be below 1 by more than the noise.
fn is_less(ratio: Estimate, noise: f64) -> bool {
    let least = if noise > MOST_NOISE { 2.0 * noise } else { noise.max(LEAST) };
    ratio.is_below(1.0 - least)
}
