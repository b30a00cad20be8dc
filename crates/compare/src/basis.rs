//! The figures on which a verdict rests, and these in words.

use super::comparison::Comparison;
use super::figures::EQUAL;
use super::metric::Metric;
use heapwright_show::number;
use heapwright_stats::Estimate;

/// Where a figure of a verdict comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Replays: the allocator's calls, or the heap alone.
    Replays,
    /// A prediction of the whole program.
    Prediction,
    /// Runs of the program itself.
    Runs,
}

/// Where the time and the memory of a verdict come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basis {
    /// The time.
    pub time: Evidence,
    /// The memory.
    pub memory: Evidence,
    /// What the time of replays is.
    replayed: &'static str,
}

impl Comparison {
    /// Returns where the figures of the verdict come from: runs of the program if there are any, else predictions where
    /// the trace says enough, else replays.
    pub fn basis(&self) -> Basis {
        match self.confirmed() {
            Some(_) => Basis { time: Evidence::Runs, memory: Evidence::Runs, ..self.replayed_basis() },
            None => self.replayed_basis(),
        }
    }

    /// Returns where the figures of a verdict without runs of the program come from.
    pub fn replayed_basis(&self) -> Basis {
        let replayed = match (self.settings.threads, self.is_net()) {
            (true, _) => "elapsed time",
            (false, true) => "time in malloc and free",
            (false, false) => "time in the replay",
        };
        let of = |predicted| match self.system().and_then(|system| system.median(predicted)) {
            Some(_) => Evidence::Prediction,
            None => Evidence::Replays,
        };
        Basis { time: of(Metric::ProgramTime), memory: of(Metric::ProgramPeak), replayed }
    }
}

impl Basis {
    /// Returns the metric of the time, of those that replays have.
    pub fn time_metric(self) -> Metric {
        match self.time {
            Evidence::Prediction => Metric::ProgramTime,
            _ => Metric::Time,
        }
    }

    /// Returns the metric of the memory, of those that replays have.
    pub fn memory_metric(self) -> Metric {
        match self.memory {
            Evidence::Prediction => Metric::ProgramPeak,
            _ => Metric::Peak,
        }
    }

    /// Returns whether both figures are those of the whole program.
    pub fn is_of_the_program(self) -> bool {
        self.time != Evidence::Replays && self.memory != Evidence::Replays
    }

    /// Returns a ratio to the time with the system's malloc in words.
    pub fn time(self, ratio: Estimate) -> String {
        if ratio.is_one_within(EQUAL) {
            let time = if self.time == Evidence::Replays { "time" } else { "processor time" };
            return format!("the same {time} within 5 % ({:.2} times)", ratio.median);
        }
        match self.time {
            Evidence::Replays if ratio.median >= 2.0 => multiple(ratio, &format!("the system's {}", self.replayed)),
            Evidence::Replays => share(ratio, &format!("{} than the system's", self.replayed)),
            _ if ratio.median >= 2.0 => multiple(ratio, &format!("the processor time{}", self.whose())),
            _ => share(ratio, &format!("processor time{}", self.whose())),
        }
    }

    /// Returns a ratio to the memory with the system's malloc in words; `little` has the bytes of a difference that
    /// does not count.
    pub fn memory(self, ratio: Estimate, little: Option<u64>) -> String {
        if ratio.is_one_within(EQUAL) {
            return format!("the same memory within 5 % ({:.2} times)", ratio.median);
        }
        if let Some(bytes) = little {
            return format!("{} {} memory", number::bytes(bytes), if ratio.median < 1.0 { "less" } else { "more" });
        }
        match self.memory {
            Evidence::Replays => {
                let [low, high] = [ratio.low(), ratio.high()].map(|end| format!("{end:.2}"));
                let interval = if low == high { String::new() } else { format!(" (95 % interval {low} to {high})") };
                format!("{:.2} times the system's memory{interval}", ratio.median)
            }
            _ if ratio.median >= 2.0 => multiple(ratio, &format!("the memory{}", self.whose())),
            _ => share(ratio, &format!("memory{}", self.whose())),
        }
    }

    /// Returns what a figure of the program needs behind it where the other one is of replays.
    fn whose(self) -> &'static str {
        if self.is_of_the_program() { "" } else { " of the program" }
    }
}

/// Returns a ratio of 2 or more, as in "2.5 times the memory (95 % interval 2.4 to 2.6)".
fn multiple(ratio: Estimate, what: &str) -> String {
    format!("{:.1} times {what} (95 % interval {:.1} to {:.1})", ratio.median, ratio.low(), ratio.high())
}

/// Returns a ratio below 2, as in "18 % less memory (95 % interval 15 to 21)"; where it is not known whether it is less
/// or more, as in "between 3 % less and 12 % more memory (95 % interval)".
fn share(ratio: Estimate, what: &str) -> String {
    let ends = [1.0 - ratio.low(), ratio.high() - 1.0];
    if ends.iter().all(|&end| end > 0.0) {
        let [less, more] = ends.map(percent);
        return format!("between {less} % less and {more} % more {what} (95 % interval)");
    }
    let (word, share, ends) = match ratio.median < 1.0 {
        true => ("less", 1.0 - ratio.median, [1.0 - ratio.high(), 1.0 - ratio.low()]),
        false => ("more", ratio.median - 1.0, [ratio.low() - 1.0, ratio.high() - 1.0]),
    };
    let [from, to] = ends.map(percent);
    format!("{} % {word} {what} (95 % interval {from} to {to})", percent(share))
}

/// Returns a share as a whole number of percent.
pub fn percent(share: f64) -> String {
    match format!("{:.0}", 100.0 * share).as_str() {
        "-0" => "0".to_owned(),
        percent => percent.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_less_or_more_is_called_neither() {
        let of = |median, low, high| share(Estimate { median, interval: Some([low, high]) }, "memory");
        assert_eq!(of(0.82, 0.79, 0.85), "18 % less memory (95 % interval 15 to 21)");
        assert_eq!(of(1.25, 1.25, 1.5), "25 % more memory (95 % interval 25 to 50)");
        assert_eq!(of(0.9, 0.83, 1.13), "between 17 % less and 13 % more memory (95 % interval)");
        assert_eq!(share(Estimate::exact(0.75), "memory"), "25 % less memory (95 % interval 25 to 25)");
    }
}
