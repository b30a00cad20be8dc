//! How true a replay is: the memory that glibc's malloc had from the system in the run that was recorded, and in its replay.

use serde::{Deserialize, Serialize};

use super::comparison::Comparison;
use crate::number;

/// What differs by more than this share is explained.
const EXPLAINED_FROM: f64 = 0.05;

/// The most bytes that glibc's malloc had from the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fidelity {
    /// In the run that was recorded.
    pub recorded: u64,
    /// In its replay.
    pub replayed: u64,
}

impl Fidelity {
    /// `None` when either is not known.
    pub fn of(recorded: Option<u64>, replayed: Option<u64>) -> Option<Fidelity> {
        let (recorded, replayed) = (recorded.filter(|&bytes| bytes > 0)?, replayed?);
        Some(Fidelity { recorded, replayed })
    }

    /// By which share the replay had more.
    pub fn difference(&self) -> f64 {
        self.replayed as f64 / self.recorded as f64 - 1.0
    }
}

impl Comparison {
    /// How true the replay is, in words; why it differs, if it does.
    pub fn describe_fidelity(&self) -> Option<String> {
        let fidelity = self.fidelity?;
        let figures = format!(
            "Replay and recorded run: the system's malloc had {} from the system, and {} when this was recorded ({:+.1} %).",
            number::bytes(fidelity.replayed),
            number::bytes(fidelity.recorded),
            100.0 * fidelity.difference()
        );
        if fidelity.difference().abs() <= EXPLAINED_FROM {
            return Some(figures);
        }
        Some(format!("{figures} {}", self.why_they_differ()))
    }

    fn why_they_differ(&self) -> String {
        if !self.trace.is_whole {
            return "The recording was cut off, and what came after is missing here.".to_owned();
        }
        if self.trace.threads > 1 && !self.settings.threads {
            return format!(
                "glibc has heaps of their own for threads; the program had {}, and here one makes all calls (--threads \
                 makes each its own).",
                self.trace.threads
            );
        }
        "What a replay does not have: options that the program sets by mallopt or the environment, malloc_trim, and blocks from \
         before the recording."
            .to_owned()
    }
}
