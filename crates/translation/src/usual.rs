//! Calls of `malloc` and `free` with nothing unusual about them, which are most calls of most programs: they become
//! events in batches.

use heapwright_stream::{Record, Usual};
use heapwright_trace::Batch;

use super::blocks::{Block, Blocks};
use super::sites::Sites;

/// The calls of a run that are usual, as a batch of events.
pub struct UsualCalls<'t> {
    /// Their events.
    pub batch: Batch<'t>,
    /// The live blocks.
    pub blocks: &'t mut Blocks,
    /// The sites, if they are recorded.
    pub sites: Option<&'t mut Sites>,
    /// Live requested bytes.
    pub live: u64,
    /// Their peak.
    pub peak: u64,
}

impl Usual for UsualCalls<'_> {
    #[inline(always)]
    fn take_malloc(&mut self, record: Record, path: Option<u32>) -> bool {
        let site = match path.and_then(|path| Some(self.sites.as_ref()?.known_site(path))) {
            None => None,
            Some(Some(site)) => site,
            Some(None) => return false,
        };
        let Record { address, size, .. } = record;
        if !self.blocks.insert_usual(address, Block { number: self.batch.next(), size }) {
            return false;
        }
        self.batch.allocate(size, site);
        if let (Some(_), Some(sites)) = (path, &mut self.sites) {
            sites.count_known(site);
        }
        self.live += size;
        self.peak = self.peak.max(self.live);
        true
    }

    #[inline(always)]
    fn take_free(&mut self, record: Record) -> bool {
        let Some(block) = self.blocks.remove_usual(record.address) else { return false };
        if !self.batch.free(block.number) {
            self.blocks.insert(record.address, block);
            return false;
        }
        self.live -= block.size;
        true
    }
}

const _: () = assert!(Block::LONG <= Batch::LIMIT);

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use heapwright_stream::{Buffer, Call};
    use heapwright_trace::{About, Event, Reader, Writer};

    use super::*;
    use crate::merge::{self, More, Sink};
    use crate::translation::{Figures, Translation};

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
            // The first slot is the base.
            let run = buffer.run(1..buffer.count(), 0);
            assert_eq!(translation.take_run(part[0].thread, run).unwrap().rest(), 0);
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
