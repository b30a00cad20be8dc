//! The summary of an import.

use super::Format;

/// Lines of one kind that were not imported as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The number of lines.
    pub count: u64,
    /// The first five: line number from 1, and the line, truncated to 120 characters.
    pub first: Vec<(u64, String)>,
}

impl LeftOut {
    const EXAMPLES: usize = 5;
    const LONGEST: usize = 120;

    pub(super) fn add(&mut self, number: u64, line: &str) {
        self.count += 1;
        if self.first.len() < Self::EXAMPLES {
            self.first.push((number, line.chars().take(Self::LONGEST).collect()));
        }
    }
}

/// The summary of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The format of the source.
    pub format: Option<Format>,
    /// The number of lines read; of entries, for a format without lines.
    pub lines: u64,
    /// The number of events written.
    pub events: u64,
    /// The number of blocks allocated before the source begins; the trace allocates them first.
    pub before: u64,
    /// The number of valid lines that are not about blocks: headers, notes, frees of a null pointer.
    pub passed_over: u64,
    /// The number of valid lines about other processes than the imported one.
    pub of_other_processes: u64,
    /// The processes in the source, in the order of their first lines, if the format records them: at most 4,096.
    pub processes: Vec<u64>,
    /// Invalid lines.
    pub not_understood: LeftOut,
    /// Frees and resizes of blocks that are not live.
    pub unknown_blocks: LeftOut,
    /// Allocations at the address of a live block, which the trace frees first: the source lacks its free.
    pub reused_places: LeftOut,
    /// The number of call sites left out because the trace reached its limit.
    pub sites_left_out: u64,
}
