//! The fidelity of a replay: the memory that glibc's malloc got from the system when the program was recorded, and in
//! the replay.

use super::comparison::{Comparison, FAITHFUL};
use heapwright_show::number;

/// What differs by more than this share is explained.
const EXPLAINED_FROM: f64 = 0.05;

impl Comparison {
    /// How true the replay is, in words; why it differs, if it does.
    pub fn describe_fidelity(&self) -> Option<String> {
        if self.settings.rounds == 0 {
            return None;
        }
        let Some(fidelity) = self.fidelity else {
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
