//! Translates the calls of a process to the events of a trace: addresses become block numbers.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use anyhow::Result;
use heapwright_stream::{Call, Mapping, Record, Run, Stack, Usage};
use heapwright_trace::{BatchRoom, Kind, SiteId, WriteError, Writer};

use super::blocks::{Block, Blocks};
use super::clock::Rate;
use super::figures::Figures;
use super::merge::{self, CallPath, More, Python, PythonName, Sink};
use super::samples::Samples;
use super::sites::{Sampled, Sites};
use super::source::Source;
use super::usual::{Batched, NoSites};

/// A `realloc` that has begun: the old address, and the block there if one is recorded.
struct Resizing {
    address: u64,
    block: Option<Block>,
}

/// Converts ticks of the process's counter to nanoseconds since the start.
pub struct Clock {
    /// The counter at the start.
    pub start: u64,
    /// The counter's rate.
    pub rate: Rate,
}

/// Writes a trace from a process's stream.
pub struct Translation {
    writer: Writer<File>,
    clock: Option<Clock>,
    sites: Option<Sites>,
    /// The site of the current call.
    site: Option<SiteId>,
    blocks: Blocks,
    /// By thread.
    resizing: HashMap<u32, Resizing, foldhash::fast::RandomState>,
    threads: HashMap<u32, u64, foldhash::fast::RandomState>,
    /// The thread of the last event and its number in the trace.
    thread: Option<(u32, u64)>,
    figures: Figures,
    /// Pages that were resident when a long block began, by its address.
    resident: HashMap<u64, u64, foldhash::fast::RandomState>,
    samples: Samples,
    room: Box<BatchRoom>,
}

impl Translation {
    /// Starts a trace of a process whose recording began at `began`, by [`heapwright_os::now_nanoseconds`].
    pub fn to(writer: Writer<File>, began: u64, clock: Option<Clock>, sites: Option<Sites>) -> Translation {
        Translation {
            writer,
            clock,
            sites,
            site: None,
            blocks: Blocks::default(),
            resizing: HashMap::default(),
            threads: HashMap::default(),
            thread: None,
            figures: Figures::default(),
            resident: HashMap::default(),
            samples: Samples::since(began),
            room: Box::default(),
        }
    }

    /// Reads a batch of what is in a stream now and writes its events. Returns whether there was anything.
    ///
    /// # Errors
    /// When the stream is damaged or the trace cannot be written.
    pub fn read(&mut self, source: &mut Source) -> Result<bool> {
        source.read(self)
    }

    /// Writes the calls of `malloc` and `free` with which a run begins, up to the first that is unusual: of another
    /// thread than the last event, from a site that is not known yet, of an unknown or a very long block, at the end of
    /// a frame. Returns the rest of the run.
    fn take_batch<'b>(&mut self, thread: u32, run: Run<'b>) -> Result<Run<'b>, WriteError> {
        if self.thread.is_none_or(|(last, _)| last != thread) {
            return Ok(run);
        }
        let Translation { writer, sites, blocks, figures, room, .. } = self;
        match sites {
            Some(sites) => Batched { writer, sites, blocks, figures, room }.write_usual(run),
            None => Batched { writer, sites: NoSites, blocks, figures, room }.write_usual(run),
        }
    }

    /// Writes the events of one call.
    #[inline(always)]
    fn write(&mut self, thread: u32, record: Record) -> Result<(), WriteError> {
        let Record { call, log2_align, size, address } = record;
        match call {
            Call::Malloc => self.allocate(thread, address, Kind::Malloc, size, 1 << log2_align),
            Call::Free => match self.blocks.remove(address) {
                Some(block) => self.free(thread, block),
                None => {
                    self.figures.unknown += 1;
                    Ok(())
                }
            },
            _ => self.write_rare(thread, call, log2_align, size, address),
        }
    }

    /// Writes the events of a call that is neither `malloc` nor `free`.
    // Takes the fields of the record, which stay in registers of the caller.
    #[inline(never)]
    fn write_rare(
        &mut self,
        thread: u32,
        call: Call,
        log2_align: u8,
        size: u64,
        address: u64,
    ) -> Result<(), WriteError> {
        let align = 1 << log2_align;
        let record = Record { call, log2_align, size, address };
        match call {
            // Written by `write`.
            Call::Malloc | Call::Free => Ok(()),
            Call::Calloc => self.allocate(thread, address, Kind::Calloc, size, align),
            Call::Aligned => self.allocate(thread, address, Kind::Aligned, size, align),
            Call::ResizeBegins => {
                let block = self.blocks.remove(address);
                self.resizing.insert(thread, Resizing { address, block });
                Ok(())
            }
            Call::ResizeEnds => self.resize(thread, record),
            Call::Failed => self.fail(thread, size, align),
            Call::Resident => self.count_pages(&record),
        }
    }

    /// Takes what is recorded of a call besides its arguments: it belongs to the events that follow.
    fn note(&mut self, more: &More<'_>) -> Result<(), WriteError> {
        if let Some(usage) = more.usage {
            self.sample(&usage)?;
        }
        self.site = match (more.path, more.stack) {
            (Some(path), _) => self.site_of_path(path, more.python)?,
            (None, Some(stack)) => self.site_of(&stack, more.python)?,
            (None, None) => None,
        };
        if let (Some(ticks), Some(clock)) = (more.ticks, &self.clock) {
            self.writer.at(clock.rate.nanoseconds(clock.start, ticks));
        }
        Ok(())
    }

    fn site_of(&mut self, stack: &Stack<'_>, python: Option<Python<'_>>) -> Result<Option<SiteId>, WriteError> {
        self.sites.as_mut().map_or(Ok(None), |sites| sites.site(&mut self.writer, stack, python))
    }

    fn site_of_path(&mut self, path: CallPath<'_>, python: Option<Python<'_>>) -> Result<Option<SiteId>, WriteError> {
        self.sites.as_mut().map_or(Ok(None), |sites| sites.site_of_path(&mut self.writer, path, python))
    }

    /// Writes the site of the request that follows, if the current call has one.
    #[inline(always)]
    fn write_site(&mut self) -> Result<(), WriteError> {
        if let Some(site) = self.site.take() {
            self.writer.from_site(site)?;
        }
        Ok(())
    }

    /// Returns the map of made code and its length, if it was longer than what is read: see [`Sites::cut_map`].
    pub fn cut_map(&self) -> Option<(&Path, u64)> {
        self.sites.as_ref()?.cut_map()
    }

    /// Returns the counts of requests with stacks, if stacks were requested.
    pub fn sampled(&self) -> Option<Sampled> {
        self.sites.as_ref().map(Sites::sampled)
    }

    /// Adds a sample of what the process uses after the events so far.
    pub fn sample(&mut self, usage: &Usage) -> Result<(), WriteError> {
        self.samples.add(usage, &mut self.writer)
    }

    /// Returns the samples of the process so far.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Adds an entry to the trace's description that was not known at the start.
    pub fn annotate(&mut self, name: &str, text: &str) -> Result<(), WriteError> {
        self.writer.add_text(name, text)
    }

    /// Writes the events so far to the file, so that they survive this process.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.writer.flush_frame()
    }

    /// Returns the number of events in the valid part of the file.
    pub fn events_written(&self) -> u64 {
        self.writer.events_written()
    }

    /// Returns the length of the valid part of the file.
    pub fn written(&self) -> u64 {
        self.writer.written()
    }

    /// Closes the trace and what else is open, and returns what has many parts: dropping it takes milliseconds.
    pub fn memory(self) -> impl Send + 'static {
        (self.sites.map(Sites::memory), self.blocks)
    }

    /// Finishes the trace; nothing can be added afterwards.
    pub fn write_end(&mut self) -> Result<(), WriteError> {
        self.samples.end(&mut self.writer)?;
        // Frames are named for seconds perhaps, and without their names they are worth as much.
        self.writer.flush_frame()?;
        if let Some(sites) = &mut self.sites {
            sites.name_frames(&mut self.writer)?;
        }
        self.writer.write_end()
    }

    /// Returns the counts so far.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Notes how many pages of a block are resident when it begins; when it ends, writes how many were touched.
    fn count_pages(&mut self, record: &Record) -> Result<(), WriteError> {
        let Record { log2_align: when, size: pages, address, .. } = *record;
        if when == 0 {
            self.resident.insert(address, pages);
            return Ok(());
        }
        let Some(before) = self.resident.remove(&address) else { return Ok(()) };
        let Some(block) = self.blocks.get(address) else { return Ok(()) };
        match touched(block.size, address, before, pages) {
            Some(pages) => self.writer.touched(block.number, pages),
            None => Ok(()),
        }
    }

    #[inline(always)]
    fn allocate(&mut self, thread: u32, address: u64, kind: Kind, size: u64, align: u64) -> Result<(), WriteError> {
        self.in_thread(thread)?;
        self.make_way(address)?;
        self.write_site()?;
        let number = self.writer.allocate(kind, size, align)?;
        self.figures.allocations += 1;
        self.appear(address, Block { number, size });
        Ok(())
    }

    #[inline(always)]
    fn free(&mut self, thread: u32, block: Block) -> Result<(), WriteError> {
        self.in_thread(thread)?;
        self.end(block)
    }

    /// Writes that a block is freed. What the limit of the trace leaves out is not counted.
    #[inline(always)]
    fn end(&mut self, block: Block) -> Result<(), WriteError> {
        self.writer.free(block.number)?;
        self.figures.frees += 1;
        self.figures.live -= block.size;
        Ok(())
    }

    fn fail(&mut self, thread: u32, size: u64, align: u64) -> Result<(), WriteError> {
        self.in_thread(thread)?;
        self.write_site()?;
        self.writer.fail(size, align)?;
        self.figures.failed += 1;
        Ok(())
    }

    fn resize(&mut self, thread: u32, record: Record) -> Result<(), WriteError> {
        let Record { log2_align, size, address, .. } = record;
        let align = 1 << log2_align;
        let old = self.resizing.remove(&thread);
        let (from, block) = old.map_or((0, None), |old| (old.address, old.block));
        match (address, block) {
            (0, Some(block)) if size == 0 => self.free(thread, block),
            (0, None) if size == 0 => {
                self.figures.unknown += 1;
                Ok(())
            }
            (0, block) => {
                // The resize failed: the block stays as it was.
                block.map(|block| self.blocks.insert(from, block));
                self.fail(thread, size, align)
            }
            (_, Some(block)) => {
                self.in_thread(thread)?;
                self.make_way(address)?;
                self.write_site()?;
                let number = self.writer.resize(block.number, size)?;
                self.figures.resizes += 1;
                self.figures.live -= block.size;
                self.appear(address, Block { number, size });
                Ok(())
            }
            (_, None) => {
                self.figures.unknown += 1;
                self.allocate(thread, address, Kind::Malloc, size, align)
            }
        }
    }

    /// Frees the block at an address that is returned again: its free was not seen.
    #[inline(always)]
    fn make_way(&mut self, address: u64) -> Result<(), WriteError> {
        match self.blocks.remove(address) {
            Some(old) => self.free_unseen(old),
            None => Ok(()),
        }
    }

    #[inline(never)]
    fn free_unseen(&mut self, block: Block) -> Result<(), WriteError> {
        self.figures.unseen_frees += 1;
        self.end(block)
    }

    /// Records a block at `address`, where there is none.
    #[inline(always)]
    fn appear(&mut self, address: u64, block: Block) {
        self.blocks.insert(address, block);
        self.figures.live += block.size;
        self.figures.peak_live = self.figures.peak_live.max(self.figures.live);
    }

    /// Writes the thread of the events that follow, if it changes.
    #[inline(always)]
    fn in_thread(&mut self, thread: u32) -> Result<(), WriteError> {
        if self.thread.is_none_or(|(last, _)| last != thread) {
            self.switch_to(thread)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn switch_to(&mut self, thread: u32) -> Result<(), WriteError> {
        let next = self.threads.len() as u64;
        let number = *self.threads.entry(thread).or_insert(next);
        self.figures.threads = self.threads.len() as u64;
        self.thread = Some((thread, number));
        self.writer.in_thread(number)
    }
}

impl Sink for Translation {
    fn take_run<'b>(&mut self, thread: u32, mut run: Run<'b>) -> Result<Run<'b>> {
        loop {
            run = self.take_batch(thread, run)?;
            let Some((record, path, rest)) = run.split_first() else { return Ok(run) };
            self.site = path.map_or(Ok(None), |path| self.site_of_path(CallPath::Known(path), None))?;
            self.write(thread, record)?;
            run = rest;
        }
    }

    fn take_with(&mut self, call: merge::Call, more: &More<'_>) -> Result<()> {
        self.note(more)?;
        Ok(self.write(call.thread, call.record)?)
    }

    fn add_mapping(&mut self, mapping: &Mapping<'_>) {
        self.sites.iter_mut().for_each(|sites| sites.add_mapping(mapping));
    }

    fn remove_code(&mut self, code: Range<u64>) {
        self.sites.iter_mut().for_each(|sites| sites.remove_code(&code));
    }

    fn add_python_name(&mut self, name: &PythonName<'_>) {
        self.sites.iter_mut().for_each(|sites| sites.add_python_name(name));
    }
}

/// Returns how many pages of a block the program touched, of which `before` were resident when it began and `after`
/// when it ended; `None` when it touched all of them, for all that is known.
///
/// Pages that were resident before may have been touched or not: the same share of them as of the others is counted.
fn touched(size: u64, address: u64, before: u64, after: u64) -> Option<u64> {
    const PAGE: u64 = 4096;
    let whole = (address.checked_add(size)? / PAGE).saturating_sub(address.div_ceil(PAGE));
    let fresh = whole.checked_sub(before).filter(|&fresh| fresh > 0)?;
    let touched = after.checked_sub(before).filter(|&touched| touched < fresh)?;
    Some((u128::from(touched) * u128::from(whole) / u128::from(fresh)) as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use heapwright_trace::{About, Event, Reader};

    use super::*;

    const fn call(call: Call, size: u64, address: u64) -> merge::Call {
        let record = Record { call, log2_align: 4, size, address };
        merge::Call { thread: 0, record }
    }

    fn translated(calls: &[merge::Call]) -> (Vec<Event>, Figures) {
        let mut file = tempfile::tempfile().unwrap();
        let writer = Writer::new(file.try_clone().unwrap(), &About::default()).unwrap();
        let mut translation = Translation::to(writer, 0, None, None);
        calls.iter().for_each(|&call| translation.take_with(call, &More::default()).unwrap());
        translation.write_end().unwrap();
        file.rewind().unwrap();
        (Reader::new(file).unwrap().map(Result::unwrap).collect(), translation.figures)
    }

    fn malloc(block: u64, size: u64) -> Event {
        Event::Allocate { block, kind: Kind::Malloc, size, align: 16 }
    }

    #[test]
    fn untouched_pages_are_those_that_were_not_there_before_either() {
        // A fresh block of 100 pages, of which 3 were touched; one of which all were.
        assert_eq!(touched(100 * 4096, 0x10000, 0, 3), Some(3));
        assert_eq!(touched(100 * 4096, 0x10000, 0, 100), None);
        // Half was there before, and half of the rest was touched.
        assert_eq!(touched(100 * 4096, 0x10000, 50, 75), Some(50));
        // All was there before, or some has been given back: nothing is known.
        assert_eq!(touched(100 * 4096, 0x10000, 100, 100), None);
        assert_eq!(touched(100 * 4096, 0x10000, 50, 40), None);
        // A block that begins within a page has one whole page less.
        assert_eq!(touched(100 * 4096, 0x10010, 0, 99), None);
        assert_eq!(touched(100, 0x10010, 0, 0), None);
    }

    #[test]
    fn what_the_process_used_belongs_before_its_call() {
        let usage = |nanoseconds| Usage { nanoseconds, resident: nanoseconds, faults: 0, processor_nanoseconds: 0 };
        let with = |nanoseconds| More { usage: Some(usage(nanoseconds)), ..More::default() };
        let mut file = tempfile::tempfile().unwrap();
        let writer = Writer::new(file.try_clone().unwrap(), &About::default()).unwrap();
        let mut translation = Translation::to(writer, 100, None, None);
        let other = merge::Call { thread: 1, ..call(Call::Malloc, 30, 0x300) };
        translation.take_with(call(Call::Malloc, 10, 0x100), &More::default()).unwrap();
        translation.take_with(call(Call::Free, 0, 0x100), &with(150)).unwrap();
        translation.take_with(other, &with(160)).unwrap();
        translation.sample(&usage(170)).unwrap();
        translation.write_end().unwrap();
        file.rewind().unwrap();
        let mut found = Vec::new();
        let read = Reader::new(file).unwrap();
        read.each_sample(|sample| found.push((sample.event, sample.nanoseconds, sample.resident))).unwrap();
        // The change of threads is an event.
        assert_eq!(found, [(1, 50, 150), (2, 60, 160), (4, 70, 170)]);
    }

    #[test]
    fn a_block_that_failed_to_be_resized_is_still_there() {
        let (events, figures) = translated(&[
            call(Call::Malloc, 10, 0x100),
            call(Call::ResizeBegins, 1 << 50, 0x100),
            call(Call::ResizeEnds, 1 << 50, 0),
            call(Call::Free, 0, 0x100),
        ]);
        let failed = Event::Failed { size: 1 << 50, align: 16 };
        assert_eq!(events, [malloc(0, 10), failed, Event::Free { block: 0 }]);
        assert_eq!((figures.failed, figures.unknown, figures.peak_live), (1, 0, 10));
    }

    #[test]
    fn an_address_may_be_used_by_another_while_its_block_moves() {
        let other = merge::Call { thread: 7, ..call(Call::Malloc, 20, 0x100) };
        let (events, figures) = translated(&[
            call(Call::Malloc, 10, 0x100),
            call(Call::ResizeBegins, 30, 0x100),
            other,
            call(Call::ResizeEnds, 30, 0x200),
        ]);
        let threads = [Event::Thread { thread: 1 }, Event::Thread { thread: 0 }];
        let resize = Event::Resize { block: 0, becomes: 2, size: 30 };
        assert_eq!(events, [malloc(0, 10), threads[0], malloc(1, 20), threads[1], resize]);
        assert_eq!((figures.peak_live, figures.threads, figures.unseen_frees), (50, 2, 0));
    }

    #[test]
    fn what_was_not_seen_is_counted() {
        let (events, figures) = translated(&[
            call(Call::Free, 0, 0x500),
            call(Call::ResizeBegins, 30, 0x600),
            call(Call::ResizeEnds, 30, 0x600),
            call(Call::Malloc, 40, 0x600),
            call(Call::Failed, 1 << 50, 0),
        ]);
        let failed = Event::Failed { size: 1 << 50, align: 16 };
        assert_eq!(events, [malloc(0, 30), Event::Free { block: 0 }, malloc(1, 40), failed]);
        assert_eq!((figures.unknown, figures.unseen_frees, figures.failed, figures.peak_live), (2, 1, 1, 40));
    }
}
