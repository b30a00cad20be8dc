//! Calls of `malloc` and `free` with nothing unusual about them, which are most calls of most programs: they become
//! events in batches.

use std::fs::File;

use heapwright_stream::{Record, Run, Usual};
use heapwright_trace::{Batch, BatchRoom, SiteId, WriteError, Writer};

use super::blocks::{Block, Blocks};
use super::figures::Figures;
use super::sites::Sites;

/// What a batch of events changes.
pub struct Batched<'t, S> {
    /// The trace.
    pub writer: &'t mut Writer<File>,
    /// The sites, or [`NoSites`].
    pub sites: S,
    /// The live blocks.
    pub blocks: &'t mut Blocks,
    /// The counts so far.
    pub figures: &'t mut Figures,
    /// Memory for the batch.
    pub room: &'t mut BatchRoom,
}

impl<S: SitesOfPaths> Batched<'_, S> {
    /// Writes a batch of the usual calls with which a run begins, and returns the rest of the run.
    #[inline(never)]
    pub fn write_usual(self, run: Run<'_>) -> Result<Run<'_>, WriteError> {
        let Batched { writer, sites, blocks, figures, room } = self;
        let batch = writer.batch(room);
        let (most, first) = (batch.most(), batch.next());
        let (peak, below_peak) = (figures.peak_live, figures.peak_live - figures.live);
        let mut usual = UsualCalls { batch, blocks, sites, below_peak, peak };
        let rest = run.pass_usual(most, &mut usual);
        let UsualCalls { batch, below_peak, peak, .. } = usual;
        let allocations = batch.next() - first;
        figures.allocations += allocations;
        figures.frees += batch.events() as u64 - allocations;
        (figures.live, figures.peak_live) = (peak - below_peak, peak);
        writer.add_batch(batch)?;
        Ok(rest)
    }
}

/// The calls of a run that are usual, as a batch of events.
struct UsualCalls<'t, S> {
    batch: Batch<'t>,
    blocks: &'t mut Blocks,
    sites: S,
    /// Live requested bytes, as what they are below their peak: one number changes with each call.
    below_peak: u64,
    peak: u64,
}

/// The sites of paths. Calls with and without them are taken by loops of their own: the loop without them needs no more
/// than the registers hold.
pub trait SitesOfPaths {
    /// Returns the site of a path, or that it has none; `None` when the path is not known.
    fn known_site(&self, path: u32) -> Option<Option<SiteId>>;
    /// Counts a request from such a site.
    fn count_known(&mut self, site: Option<SiteId>);
}

impl SitesOfPaths for &mut Sites {
    #[inline(always)]
    fn known_site(&self, path: u32) -> Option<Option<SiteId>> {
        Sites::known_site(self, path)
    }

    #[inline(always)]
    fn count_known(&mut self, site: Option<SiteId>) {
        Sites::count_known(self, site);
    }
}

/// In place of the sites when they are not recorded.
pub struct NoSites;

impl SitesOfPaths for NoSites {
    #[inline(always)]
    fn known_site(&self, _: u32) -> Option<Option<SiteId>> {
        None
    }

    #[inline(always)]
    fn count_known(&mut self, _: Option<SiteId>) {}
}

impl<S: SitesOfPaths> Usual for UsualCalls<'_, S> {
    #[inline(always)]
    fn take_malloc(&mut self, record: Record, path: Option<u32>) -> bool {
        let Some(site) = path.map_or(Some(None), |path| self.sites.known_site(path)) else { return false };
        let Record { address, size, .. } = record;
        if !self.blocks.insert_usual(address, Block { number: self.batch.next(), size }) {
            return false;
        }
        self.batch.allocate(size, site);
        if path.is_some() {
            self.sites.count_known(site);
        }
        match self.below_peak.checked_sub(size) {
            Some(below) => self.below_peak = below,
            None => (self.below_peak, self.peak) = (0, raised(self.peak, size - self.below_peak)),
        }
        true
    }

    #[inline(always)]
    fn take_free(&mut self, record: Record) -> bool {
        let Some(block) = self.blocks.remove_usual(record.address) else { return false };
        if !self.batch.free(block.number) {
            self.blocks.insert(record.address, block);
            return false;
        }
        self.below_peak += block.size;
        true
    }
}

/// Raises a peak. Not inlined, so that the peak takes no register of the loop: it rarely changes.
#[cold]
#[inline(never)]
fn raised(peak: u64, by: u64) -> u64 {
    peak + by
}

const _: () = assert!(Block::LONG <= Batch::LIMIT);

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use heapwright_stream::{Buffer, Call, Entry};
    use heapwright_trace::{About, Event, Reader, Writer};

    use super::*;
    use crate::merge::{self, More, Sink};
    use crate::translation::Translation;

    /// Random calls of a program of several threads: some unusual ones among many of `malloc` and `free`.
    fn random_calls(count: u64) -> Vec<merge::Call> {
        let (mut random, mut calls, mut thread) = (fastrand::Rng::with_seed(7), Vec::new(), 0);
        while (calls.len() as u64) < count {
            if random.u8(..50) == 0 {
                thread = random.u32(..3);
            }
            let address = (1 + random.u64(..300)) << 13 | random.u64(..4) << 4;
            let size = if random.u8(..100) == 0 { random.u64(..1 << 30) } else { random.u64(..30_000) };
            let kinds: &[Call] = match random.u8(..100) {
                0 => &[Call::ResizeBegins, Call::ResizeEnds],
                1 => &[Call::Failed],
                2 => &[Call::Calloc],
                // Now and then where a block is, or where none is.
                3..50 => &[Call::Malloc],
                _ => &[Call::Free],
            };
            let record = |&call: &Call| Record { call, log2_align: 4, size, address };
            calls.extend(kinds.iter().map(record).map(|record| merge::Call { thread, record }));
        }
        calls
    }

    /// Returns the events and counts of what `write` writes.
    fn written(write: impl FnOnce(&mut Translation)) -> (Vec<Event>, Figures) {
        let mut file = tempfile::tempfile().unwrap();
        let writer = Writer::new(file.try_clone().unwrap(), &About::default()).unwrap();
        let mut translation = Translation::to(writer, 0, None, None);
        write(&mut translation);
        translation.write_end().unwrap();
        file.rewind().unwrap();
        (Reader::new(file).unwrap().map(Result::unwrap).collect(), translation.figures().clone())
    }

    /// Writes calls to buffers, and passes them on as runs of their threads.
    fn write_in_runs(translation: &mut Translation, calls: &[merge::Call]) {
        for part in calls.chunk_by(|one, next| one.thread == next.thread).flat_map(|part| part.chunks(1000)) {
            // SAFETY: a buffer consists of integers, for which zeros are valid.
            let buffer = unsafe { Box::<Buffer>::new_zeroed().assume_init() };
            // SAFETY: this thread alone uses the buffer.
            part.iter().for_each(|call| assert!(unsafe { buffer.append_at(call.record.packed(), None) }));
            let mut at = 0;
            while at < buffer.count() {
                // Other tests record in other threads, so that turns are short.
                at += u32::from(matches!(buffer.entry(at), Some(Entry::Turn(_))));
                let rest = translation.take_run(part[0].thread, buffer.run(at..buffer.count())).unwrap().rest();
                assert!(rest < buffer.count() - at, "nothing is taken at {at}");
                at = buffer.count() - rest;
            }
        }
    }

    #[test]
    fn runs_of_calls_are_written_as_the_calls_one_by_one() {
        let calls = random_calls(300_000);
        let one_by_one = |translation: &mut Translation| {
            calls.iter().for_each(|&call| translation.take_with(call, &More::default()).unwrap());
        };
        let (events, figures) = written(one_by_one);
        let (in_runs, figures_in_runs) = written(|translation| write_in_runs(translation, &calls));
        assert_eq!(figures_in_runs, figures);
        assert!(in_runs == events, "{:?}", in_runs.iter().zip(&events).position(|(one, other)| one != other));
        let counts = [figures.unseen_frees, figures.unknown, figures.resizes, figures.failed, figures.threads];
        assert!(counts[..4].iter().all(|&count| count > 100) && counts[4] == 3, "{counts:?}");
    }
}
