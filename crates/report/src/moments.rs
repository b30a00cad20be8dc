//! What the stacks of a trace hold at several moments, so that the page can show any.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use anyhow::Result;
use heapwright_sites::Live;
use serde::Serialize;

use super::nodes::Nodes;

/// Moments at equal distances; the peak is another.
const EVEN: u64 = 96;

/// A stack is left out of a moment at which it holds less than this share of the whole: the page draws no part that is
/// narrower.
const LEAST_SHARE: f64 = 0.001;

/// The most values of all moments together. The least share is doubled until there are no more.
const MOST_VALUES: usize = 100_000;

/// What the stacks held at some moments, the earliest first.
#[derive(Serialize)]
pub struct Moments {
    /// What holds less than this share at a moment is left out.
    least_share: f64,
    /// Which row is the peak.
    peak: usize,
    rows: Vec<Row>,
}

/// What the stacks held at one moment.
#[derive(Serialize)]
struct Row {
    /// After this many events.
    event: u64,
    held: u64,
    /// The standard deviation of that; 0 unless the trace is sampled.
    deviation: f64,
    /// The nodes of the tree that are not left out, in ascending order, and what they hold.
    nodes: Vec<u32>,
    bytes: Vec<u64>,
}

/// The length of a trace and its peak, in calls of the program.
#[derive(Clone, Copy)]
pub struct Times {
    pub events: u64,
    pub peak: u64,
}

impl Times {
    /// Returns the moments, and which of them is the peak.
    fn moments(self) -> (Vec<u64>, usize) {
        let step = self.events.div_ceil(EVEN).max(1);
        let even = (1..=self.events / step).map(|at| at * step);
        let all: BTreeSet<u64> = even.chain([self.peak.min(self.events), self.events]).collect();
        let peak = all.range(..self.peak).count();
        (all.into_iter().collect(), peak)
    }
}

impl Moments {
    /// Reads a trace for what the stacks of its sites hold.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub fn read(trace: &Path, times: Times, stacks: &Nodes) -> Result<Moments> {
        let (events, peak) = times.moments();
        let mut moments = Moments { least_share: LEAST_SHARE, peak, rows: Vec::with_capacity(events.len()) };
        Live::at_each(trace, &events, |at, live| {
            let sums = stacks.sums(|site| live.of(site));
            let mut row = Row {
                event: events[at],
                held: sums[0],
                deviation: live.deviation(),
                nodes: Vec::new(),
                bytes: Vec::new(),
            };
            (row.nodes, row.bytes) = (1..).zip(sums.into_iter().skip(1)).filter(|&(_, sum)| sum > 0).unzip();
            row.keep(moments.least_share);
            moments.rows.push(row);
            moments.limit();
        })?;
        Ok(moments)
    }

    /// Leaves out more while there are too many values.
    fn limit(&mut self) {
        while self.rows.iter().map(|row| row.nodes.len()).sum::<usize>() > MOST_VALUES {
            self.least_share *= 2.0;
            self.rows.iter_mut().for_each(|row| row.keep(self.least_share));
        }
    }

    /// Returns all nodes that some moment has.
    pub fn nodes(&self) -> impl Iterator<Item = u32> {
        self.rows.iter().flat_map(|row| row.nodes.iter().copied())
    }

    /// Gives the nodes the numbers that they have in the page.
    pub fn renumber(&mut self, numbers: &HashMap<u32, u32>) {
        let nodes = self.rows.iter_mut().flat_map(|row| &mut row.nodes);
        nodes.for_each(|node| *node = numbers[node]);
    }
}

impl Row {
    /// Leaves out what holds less than a share of the whole.
    fn keep(&mut self, share: f64) {
        let least = self.held as f64 * share;
        let large = self.nodes.iter().copied().zip(self.bytes.iter().copied());
        (self.nodes, self.bytes) = large.filter(|&(_, bytes)| bytes as f64 >= least).unzip();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_few_and_have_the_peak_and_the_end() {
        let all = |events, peak| Times { events, peak }.moments();
        assert_eq!(all(0, 0), (vec![0], 0));
        assert_eq!(all(3, 2), (vec![1, 2, 3], 1));
        let (moments, peak) = all(50_000_000, 12_345_678);
        assert!(moments.len() <= EVEN as usize + 2 && moments.is_sorted());
        assert_eq!((moments[peak], moments.last()), (12_345_678, Some(&50_000_000)));
    }
}
