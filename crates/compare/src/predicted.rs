//! The predicted figures of a row.

use std::collections::BTreeMap;

use heapwright_stats::Estimate;
use serde::{Deserialize, Serialize};

use super::metric::Metric;

/// The predicted figures of the whole program; `None` where the trace does not say enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Peak resident bytes, as the kernel counts them for a process that ended.
    pub peak: Option<Estimate>,
    /// Processor time in seconds.
    pub processor: Option<Estimate>,
    /// Processor time over that with the system's malloc.
    pub processor_over_system: Option<Estimate>,
    /// Peak over that with the system's malloc.
    pub peak_over_system: Option<Estimate>,
}

impl Predicted {
    /// Returns the predictions among these figures; `None` without any.
    pub fn of(figures: &BTreeMap<Metric, Estimate>) -> Option<Predicted> {
        let figure = |metric| figures.get(&metric).copied();
        let predicted = Predicted {
            peak: figure(Metric::ProgramPeak),
            processor: figure(Metric::ProgramTime),
            processor_over_system: figure(Metric::ProgramTimeOverSystem),
            peak_over_system: figure(Metric::ProgramPeakOverSystem),
        };
        (predicted.peak.is_some() || predicted.processor.is_some()).then_some(predicted)
    }
}
