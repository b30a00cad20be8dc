//! What became of a trace that was imported.

use super::Format;

/// Lines that are not in the trace, and why is clear from where they are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many.
    pub count: u64,
    /// The first few: line number from 1, and the line, cut when long.
    pub first: Vec<(u64, String)>,
}

impl LeftOut {
    const KEPT: usize = 5;
    const LONGEST: usize = 120;

    pub(super) fn add(&mut self, number: u64, line: &str) {
        self.count += 1;
        if self.first.len() < Self::KEPT {
            self.first.push((number, line.chars().take(Self::LONGEST).collect()));
        }
    }
}

/// What became of a trace that was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// What the source was read as.
    pub format: Option<Format>,
    /// Lines read; entries, where a format has no lines.
    pub lines: u64,
    /// Events written.
    pub events: u64,
    /// Blocks that lived before the source begins, and are allocated at the beginning of the trace.
    pub before: u64,
    /// Lines that say something, but of no heap's blocks: headers, notes, frees of nothing.
    pub passed_over: u64,
    /// Lines that are not understood.
    pub not_understood: LeftOut,
    /// Frees and resizes of blocks that do not live.
    pub unknown_blocks: LeftOut,
    /// Allocations at a place where a block still lived; that block is taken to have been freed unseen.
    pub reused_places: LeftOut,
    /// Call sites that are not in the trace, because it would have more than a trace may hold.
    pub sites_left_out: u64,
}
