//! What the blocks of each call site take at several moments of a trace.

use std::path::Path;

use anyhow::{Context, Result};
use heapwright_host::names::Shown;
use heapwright_simulate::choice::open;
use heapwright_trace::{Event, LiveBlocks, Reader, SiteId};

use crate::tally::{deviation, square};

/// Live requested bytes by call site.
#[derive(Default)]
pub struct Live {
    /// By [`slot`].
    bytes: Vec<u64>,
    /// The sum of the squared sizes of the blocks that have a site.
    squares: u128,
    /// The slot and the size of each live block.
    blocks: LiveBlocks<(u32, u64)>,
}

/// Returns the index of a site: 0 is that of blocks without one.
fn slot(site: Option<SiteId>) -> usize {
    site.map_or(0, |site| site.index() as usize + 1)
}

/// Returns what a block adds to the squares.
fn sampled_square(slot: usize, size: u64) -> u128 {
    if slot > 0 { square(size) } else { 0 }
}

impl Live {
    /// Returns the live bytes of a site.
    pub fn of(&self, site: Option<SiteId>) -> u64 {
        self.bytes.get(slot(site)).copied().unwrap_or(0)
    }

    /// Returns the standard deviation of the estimate of all bytes, where one request in `every` has a site.
    pub fn deviation(&self, every: u64) -> f64 {
        deviation(self.squares, every)
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
        let mut live = Live::default();
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
        // Only absurd sizes of damaged traces wrap.
        self.bytes[at] = self.bytes[at].wrapping_add(size);
        self.squares = self.squares.wrapping_add(sampled_square(at, size));
        self.blocks.insert(block, (at as u32, size));
    }

    fn remove(&mut self, block: u64) {
        if let Some((_, (at, size))) = self.blocks.remove(block) {
            self.bytes[at as usize] = self.bytes[at as usize].wrapping_sub(size);
            self.squares = self.squares.wrapping_sub(sampled_square(at as usize, size));
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
        let mut live = Live::default();
        live.add(1, 30, Some(f));
        live.add(2, 1000, None);
        live.add(3, 40, Some(g));
        assert!((live.deviation(2) - 50.0 * 2.0_f64.sqrt()).abs() < 1e-9, "what has no site is in no estimate");
        let expected = [(0, 0, 0, 0), (1, 10, 0, 0), (2, 10, 0, 7), (3, 0, 30, 7), (4, 0, 0, 7)];
        assert_eq!(found, expected, "the last moment is behind the end");
    }
}
