//! The fidelity of a replay: what the recorded process used, and what the replay of the system's malloc used.

use super::basis::percent;
use super::comparison::{Comparison, FAITHFUL};
use super::figures::{EQUAL, LITTLE_BYTES};
use super::metric::Metric;
use super::program::ALIKE;
use heapwright_show::number;

/// What differs by more than this share is explained.
const EXPLAINED_FROM: f64 = 0.05;

impl Comparison {
    /// Returns how true the replay is, in words; why it differs, if it does.
    pub fn describe_fidelity(&self) -> Option<String> {
        if self.settings.rounds == 0 {
            return None;
        }
        let texts = [self.describe_system_memory(), self.describe_program()];
        Some(texts.into_iter().flatten().collect::<Vec<String>>().join(" "))
    }

    /// Returns the memory that glibc's malloc had from the system.
    fn describe_system_memory(&self) -> Option<String> {
        let Some(fidelity) = self.fidelity else {
            if self.recorded.peak_anonymous.is_some() {
                return None;
            }
            return Some(
                "Whether the replay is like the recorded run is not known: the trace does not say how much memory the \
                 system's malloc had."
                    .to_owned(),
            );
        };
        let figures = format!(
            "Replay and recorded run: the system's malloc had {} from the system, and {} when this was recorded \
             ({:+.1} %).",
            number::bytes(fidelity.replayed),
            number::bytes(fidelity.recorded),
            100.0 * fidelity.difference()
        );
        if fidelity.difference().abs() <= EXPLAINED_FROM {
            return Some(figures);
        }
        Some(format!("{figures} {}", self.why_they_differ()))
    }

    /// Returns the replay of the system's malloc beside the whole recorded process.
    fn describe_program(&self) -> Option<String> {
        let (recorded, system) = (&self.recorded, self.system()?);
        let bytes = |figure: f64| number::bytes(figure as u64);
        let count = |figure: f64| number::grouped(figure as u64);
        let pair = |replayed: Option<f64>, recorded: Option<f64>, show: fn(f64) -> String, what: &str| {
            Some(format!("{} and {} {what}", show(replayed?), show(recorded?)))
        };
        let known = |figure: Option<u64>| figure.map(|figure| figure as f64);
        let peak = system.median(Metric::Peak);
        let mean = system.median(Metric::Average);
        let parts: Vec<String> = [
            pair(peak, known(recorded.peak_anonymous), bytes, "of anonymous memory at the peak"),
            pair(mean, known(recorded.average_anonymous), bytes, "in the mean"),
            pair(system.median(Metric::Faults), known(recorded.faults), count, "page faults"),
            pair(self.replayed_malloc_seconds(), recorded.malloc_seconds, number::seconds, "in malloc and free"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let what = "The replayed heap of the system's malloc, and the whole recorded process:";
        (!parts.is_empty()).then(|| format!("{what} {}.", parts.join(", ")))
    }

    /// Returns why nothing can be said of the program's time, if the replay's calls do not take as long as the recorded
    /// ones.
    pub fn doubt_of_time(&self) -> Option<(String, String)> {
        if self.are_calls_alike() {
            return None;
        }
        let replayed = self.replayed_malloc_seconds()?;
        let without_faults = self.replayed_without_faults().filter(|&seconds| seconds < replayed);
        let without_faults =
            without_faults.map(|seconds| format!(" ({} without page faults)", number::seconds(seconds)));
        let why = format!(
            "malloc and free took {} when this was recorded, and {}{} in the replay of the system's malloc, which is \
             not within {} to {} times",
            number::seconds(self.recorded.malloc_seconds?),
            number::seconds(replayed),
            without_faults.unwrap_or_default(),
            1.0 / ALIKE[1],
            1.0 / ALIKE[0],
        );
        Some((why, self.to_measure_the_program()))
    }

    /// Returns why nothing can be said of the program's memory, if the heap alone has more than the whole program had.
    pub fn doubt_of_memory(&self) -> Option<(String, String)> {
        let recorded = self.recorded.peak_anonymous? as f64;
        let heap = self.system()?.median(Metric::Peak)?;
        if heap - recorded <= LITTLE_BYTES.max(EQUAL * recorded) {
            return None;
        }
        let why = format!(
            "the heap alone has {} in the replay of the system's malloc, {} % more than the whole program had when \
             this was recorded ({}), so that the replay touches memory that the program did not",
            number::bytes(heap as u64),
            percent(heap / recorded - 1.0),
            number::bytes(recorded as u64)
        );
        Some((why, self.to_measure_the_program()))
    }

    /// Returns why the replay does not stand for the recorded run, if it does not, and what to do about it.
    pub fn unfaithful(&self) -> Option<(String, String)> {
        let fidelity = self.fidelity.filter(|fidelity| !fidelity.is_faithful())?;
        let why = format!(
            "the replay is not like the recorded run (memory of the system's malloc {:+.1} %, and more than {:.0} % is \
             too much)",
            100.0 * fidelity.difference(),
            100.0 * FAITHFUL
        );
        Some((why, self.why_they_differ()))
    }

    fn why_they_differ(&self) -> String {
        if !self.trace.is_whole {
            return "The recording was cut off, and what came after is missing here.".to_owned();
        }
        if self.trace.threads > 1 && !self.settings.threads {
            return format!(
                "glibc has heaps of their own for threads; the program had {}, and here one makes all calls, because \
                 of --one-thread.",
                self.trace.threads
            );
        }
        "What a replay does not have: options that the program sets by mallopt or the environment, malloc_trim, and \
         blocks from before the recording."
            .to_owned()
    }
}
