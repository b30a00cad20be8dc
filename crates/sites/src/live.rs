//! What the blocks of each call site take at several moments of a trace.

use std::path::Path;

use anyhow::{Context, Result};
use heapwright_host::names::Shown;
use heapwright_recording::sampling::Sampling;
use heapwright_simulate::choice::open;
use heapwright_trace::{Event, LiveBlocks, Reader, SiteId};

use crate::tally::{deviation, square};

/// Live requested bytes by call site, estimated if the trace is sampled.
pub struct Live {
    sampling: Sampling,
    /// By [`slot`].
    bytes: Vec<u64>,
    /// The sum of the squared sizes of the blocks that stand for others.
    squares: u128,
    /// The slot and the size of each live block.
    blocks: LiveBlocks<(u32, u64)>,
}

/// Returns the index of a site: 0 is that of blocks without one.
fn slot(site: Option<SiteId>) -> usize {
    site.map_or(0, |site| site.index() as usize + 1)
}

impl Live {
    fn new(sampling: Sampling) -> Live {
        Live { sampling, bytes: Vec::new(), squares: 0, blocks: LiveBlocks::default() }
    }

    /// Returns what a block adds to the bytes of its site, and to the squares.
    fn added(&self, slot: usize, size: u64) -> (u64, u128) {
        let weight = if slot > 0 { self.sampling.weight(size) } else { 1 };
        (size.saturating_mul(weight), if weight > 1 { square(size) } else { 0 })
    }

    /// Returns the live bytes of a site.
    pub fn of(&self, site: Option<SiteId>) -> u64 {
        self.bytes.get(slot(site)).copied().unwrap_or(0)
    }

    /// Returns the standard deviation of the estimate of all bytes.
    pub fn deviation(&self) -> f64 {
        deviation(self.squares, self.sampling.every)
    }

    /// Reads a trace and calls `take` with the index of each moment and what is live then. Moments are numbers of
    /// calls of the program, in ascending order; those behind the end of the trace are left out. Takes time that is
    /// linear in the number of events, and memory that is linear in the number of live blocks.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub fn at_each(path: &Path, moments: &[u64], mut take: impl FnMut(usize, &Live)) -> Result<()> {
        let mut trace = open(path)?.with_sites();
        Live::follow(&mut trace, moments, &mut take).with_context(|| path.shown().into_owned())
    }

    fn follow(trace: &mut Reader<'_>, moments: &[u64], take: &mut impl FnMut(usize, &Live)) -> Result<()> {
        let mut live = Live::new(Sampling::of(trace.about()));
        for (at, &moment) in moments.iter().enumerate() {
            while trace.calls_read() < moment {
                let Some(event) = trace.next_call()? else { return Ok(()) };
                live.change(&event, trace.site());
            }
            take(at, &live);
        }
        Ok(())
    }

    fn change(&mut self, event: &Event, site: Option<SiteId>) {
        match *event {
            Event::Allocate { block, size, .. } => self.add(block, size, site),
            Event::Resize { block, becomes, size } => {
                self.remove(block);
                self.add(becomes, size, site);
            }
            Event::Free { block } => self.remove(block),
            Event::Failed { .. } | Event::Thread { .. } => {}
        }
    }

    fn add(&mut self, block: u64, size: u64, site: Option<SiteId>) {
        let at = slot(site);
        if self.bytes.len() <= at {
            self.bytes.resize(at + 1, 0);
        }
        let (bytes, squares) = self.added(at, size);
        // Only absurd sizes of damaged traces wrap.
        self.bytes[at] = self.bytes[at].wrapping_add(bytes);
        self.squares = self.squares.wrapping_add(squares);
        self.blocks.insert(block, (at as u32, size));
    }

    fn remove(&mut self, block: u64) {
        if let Some((_, (at, size))) = self.blocks.remove(block) {
            let (bytes, squares) = self.added(at as usize, size);
            self.bytes[at as usize] = self.bytes[at as usize].wrapping_sub(bytes);
            self.squares = self.squares.wrapping_sub(squares);
        }
    }
}

#[cfg(test)]
mod tests {
    use heapwright_trace::{About, Kind, Writer};

    use super::*;

    #[test]
    fn each_moment_has_what_was_live_after_its_events() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &About::default()).unwrap();
        let [f, g] = ["f", "g"].map(|name| writer.define_site(&[name]).unwrap());
        writer.from_site(f).unwrap();
        let first = writer.allocate(Kind::Malloc, 10, 16).unwrap();
        writer.allocate(Kind::Malloc, 7, 16).unwrap();
        writer.from_site(g).unwrap();
        let moved = writer.resize(first, 30).unwrap();
        writer.free(moved).unwrap();
        writer.finish().unwrap();
        let mut trace = Reader::new(&file[..]).unwrap().with_sites();
        let mut found = Vec::new();
        let take = &mut |at: usize, live: &Live| found.push((at, live.of(Some(f)), live.of(Some(g)), live.of(None)));
        Live::follow(&mut trace, &[0, 1, 2, 3, 4, 9], take).unwrap();
        let mut live = Live::new(Sampling { every: 2, long: 500 });
        live.add(1, 30, Some(f));
        live.add(2, 1000, None);
        live.add(3, 40, Some(g));
        live.add(4, 500, Some(g));
        live.add(5, 600, Some(g));
        live.remove(5);
        assert_eq!((live.of(Some(f)), live.of(Some(g)), live.of(None)), (60, 580, 1000));
        assert!((live.deviation() - 50.0 * 2.0_f64.sqrt()).abs() < 1e-9, "nor is what stands for itself");
        let expected = [(0, 0, 0, 0), (1, 10, 0, 0), (2, 10, 0, 7), (3, 0, 30, 7), (4, 0, 0, 7)];
        assert_eq!(found, expected, "the last moment is behind the end");
    }
}
