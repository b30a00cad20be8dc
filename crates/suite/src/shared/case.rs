//! A case of the suite, and what is measured of it.

use heapwright_workloads::shared::task::Load;

/// A case: a load, and the number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) load: Load,
    pub(super) processes: usize,
}

impl Case {
    /// Returns the length of the segment, in bytes: more than enough for all live blocks and the holes between them.
    pub(super) fn segment(self) -> usize {
        match self.load.live {
            ..=1000 if self.processes <= 8 => 16 << 20,
            live => live * self.processes * 2048,
        }
    }
}

/// The nanoseconds per operation in each round, or why the measurement failed.
pub(super) type Rounds = Result<Vec<f64>, String>;

#[cfg(test)]
mod tests {
    use heapwright_workloads::shared::task::{Figure, Pattern, Sizes, Touch};

    use super::*;

    #[test]
    pub(super) fn segments_have_room_for_twice_the_live_blocks() {
        for (live, processes) in [(1, 1), (1000, 8), (1000, 60), (10_000, 1), (10_000, 8)] {
            let load = Load {
                pattern: Pattern::Steady,
                sizes: Sizes::Mixed,
                touch: Touch::Untouched,
                live,
                figure: Figure::Mean,
            };
            let case = Case { load, processes };
            assert!(case.segment() >= 2 * 740 * live * processes, "{case:?}");
        }
    }
}
