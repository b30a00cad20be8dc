//! The calls of a process as the events of a trace: addresses become numbers of blocks.

use std::collections::HashMap;
use std::io::Write;

use heapwright_stream::{Call, Mapping, Record, Stack};
use heapwright_trace::{Kind, SiteId, WriteError, Writer};

use super::blocks::{Block, Blocks};
use super::clock::Rate;
use super::merge;
use super::sites::{Sampled, Sites};

/// What was seen of a process's heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Blocks that appeared by allocation.
    pub allocations: u64,
    /// Blocks that became others.
    pub resizes: u64,
    /// Blocks that were freed.
    pub frees: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Frees and resizes of addresses at which no block had been seen to appear; of the frees there is no event.
    pub unknown: u64,
    /// Blocks whose address was given out again though nobody was seen to free them; the trace frees them then.
    pub unseen_frees: u64,
    /// The most bytes that were in use at once, as asked for.
    pub peak_live: u64,
    /// How many threads made calls.
    pub threads: u64,
    live: u64,
}

impl Figures {
    /// How many events there are, without those that only name a thread.
    pub fn events(&self) -> u64 {
        self.allocations + self.resizes + self.frees + self.failed
    }

    /// How many blocks appeared.
    pub fn blocks(&self) -> u64 {
        self.allocations + self.resizes
    }
}

/// A `realloc` that has begun: the old address, and the block there if it is known.
struct Resizing {
    address: u64,
    block: Option<Block>,
}

/// When the process's counter stood where at the beginning, and how fast it runs.
pub struct Clock {
    /// Where it stood.
    pub start: u64,
    /// How fast it runs.
    pub rate: Rate,
}

/// Writes a trace from what a process tells.
pub struct Translation<W: Write> {
    writer: Writer<W>,
    clock: Option<Clock>,
    sites: Option<Sites>,
    /// Of the call in hand.
    site: Option<SiteId>,
    blocks: Blocks,
    /// By thread.
    resizing: HashMap<u32, Resizing>,
    threads: HashMap<u32, u64>,
    /// The thread of the last event and its number in the trace.
    thread: Option<(u32, u64)>,
    figures: Figures,
}

impl<W: Write> Translation<W> {
    /// Begins to write.
    pub fn to(writer: Writer<W>, clock: Option<Clock>, sites: Option<Sites>) -> Translation<W> {
        Translation {
            writer,
            clock,
            sites,
            site: None,
            blocks: Blocks::default(),
            resizing: HashMap::new(),
            threads: HashMap::new(),
            thread: None,
            figures: Figures::default(),
        }
    }

    /// Writes what one call comes to.
    pub fn take(&mut self, call: merge::Call) -> Result<(), WriteError> {
        let merge::Call { thread, record, ticks, stack } = call;
        self.site = stack.map_or(Ok(None), |stack| self.site_of(&stack))?;
        if let (Some(ticks), Some(clock)) = (ticks, &self.clock) {
            self.writer.at(clock.rate.nanoseconds(clock.start, ticks));
        }
        let Record { call, log2_align, size, address } = record;
        let align = 1 << log2_align;
        match call {
            Call::Malloc => self.allocate(thread, address, Kind::Malloc, size, align),
            Call::Calloc => self.allocate(thread, address, Kind::Calloc, size, align),
            Call::Aligned => self.allocate(thread, address, Kind::Aligned, size, align),
            Call::Free => match self.blocks.remove(address) {
                Some(block) => self.free(thread, block),
                None => {
                    self.figures.unknown += 1;
                    Ok(())
                }
            },
            Call::ResizeBegins => {
                let block = self.blocks.remove(address);
                self.resizing.insert(thread, Resizing { address, block });
                Ok(())
            }
            Call::ResizeEnds => self.resize(thread, record),
            Call::Failed => self.fail(thread, size, align),
        }
    }

    /// Code of the process is mapped there.
    pub fn see(&mut self, mapping: &Mapping<'_>) {
        if let Some(sites) = &mut self.sites {
            sites.see(mapping);
        }
    }

    fn site_of(&mut self, stack: &Stack<'_>) -> Result<Option<SiteId>, WriteError> {
        self.sites.as_mut().map_or(Ok(None), |sites| sites.site(&mut self.writer, stack))
    }

    /// The request that is written next comes from the call in hand.
    fn tell_site(&mut self) -> Result<(), WriteError> {
        self.site.take().map_or(Ok(()), |site| self.writer.from_site(site))
    }

    /// How many requests came with their stacks, if they were asked for.
    pub fn sampled(&self) -> Option<Sampled> {
        self.sites.as_ref().map(Sites::sampled)
    }

    /// Tells something of the process that was not known at the beginning.
    pub fn tell(&mut self, name: &str, text: &str) -> Result<(), WriteError> {
        self.writer.add_text(name, text)
    }

    /// Ends the trace.
    pub fn finish(mut self) -> Result<(W, Figures), WriteError> {
        if let Some(sites) = &self.sites {
            sites.name_frames(&mut self.writer)?;
        }
        Ok((self.writer.finish()?, self.figures))
    }

    /// What was seen so far.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    fn allocate(&mut self, thread: u32, address: u64, kind: Kind, size: u64, align: u64) -> Result<(), WriteError> {
        self.in_thread(thread)?;
        self.tell_site()?;
        let number = self.writer.allocate(kind, size, align)?;
        self.figures.allocations += 1;
        self.appear(address, Block { number, size })
    }

    fn free(&mut self, thread: u32, block: Block) -> Result<(), WriteError> {
        self.in_thread(thread)?;
        self.figures.frees += 1;
        self.figures.live -= block.size;
        self.writer.free(block.number)
    }

    fn fail(&mut self, thread: u32, size: u64, align: u64) -> Result<(), WriteError> {
        self.in_thread(thread)?;
        self.tell_site()?;
        self.figures.failed += 1;
        self.writer.fail(size, align)
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
                // The block stays what it was.
                block.map(|block| self.blocks.insert(from, block));
                self.fail(thread, size, align)
            }
            (_, Some(block)) => {
                self.in_thread(thread)?;
                self.tell_site()?;
                let number = self.writer.resize(block.number, size)?;
                self.figures.resizes += 1;
                self.figures.live -= block.size;
                self.appear(address, Block { number, size })
            }
            (_, None) => {
                self.figures.unknown += 1;
                self.allocate(thread, address, Kind::Malloc, size, align)
            }
        }
    }

    /// A block is at `address` from now on.
    fn appear(&mut self, address: u64, block: Block) -> Result<(), WriteError> {
        if let Some(old) = self.blocks.insert(address, block) {
            self.figures.unseen_frees += 1;
            self.figures.frees += 1;
            self.figures.live -= old.size;
            self.writer.free(old.number)?;
        }
        self.figures.live += block.size;
        self.figures.peak_live = self.figures.peak_live.max(self.figures.live);
        Ok(())
    }

    /// What follows happens in this thread of the process.
    fn in_thread(&mut self, thread: u32) -> Result<(), WriteError> {
        if self.thread.is_some_and(|(last, _)| last == thread) {
            return Ok(());
        }
        let next = self.threads.len() as u64;
        let number = *self.threads.entry(thread).or_insert(next);
        self.figures.threads = self.threads.len() as u64;
        self.thread = Some((thread, number));
        self.writer.in_thread(number)
    }
}

#[cfg(test)]
mod tests {
    use heapwright_trace::{About, Event, Reader};

    use super::*;

    const fn call(call: Call, size: u64, address: u64) -> merge::Call<'static> {
        merge::Call { thread: 0, record: Record { call, log2_align: 4, size, address }, ticks: None, stack: None }
    }

    fn translated(calls: &[merge::Call]) -> (Vec<Event>, Figures) {
        let mut file = Vec::new();
        let mut translation = Translation::to(Writer::new(&mut file, &About::default()).unwrap(), None, None);
        calls.iter().for_each(|&call| translation.take(call).unwrap());
        let (_, figures) = translation.finish().unwrap();
        (Reader::new(&file[..]).unwrap().map(Result::unwrap).collect(), figures)
    }

    fn malloc(block: u64, size: u64) -> Event {
        Event::Allocate { block, kind: Kind::Malloc, size, align: 16 }
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
        assert_eq!(events, [malloc(0, 30), malloc(1, 40), Event::Free { block: 0 }, failed]);
        assert_eq!((figures.unknown, figures.unseen_frees, figures.failed, figures.peak_live), (2, 1, 1, 40));
    }
}
