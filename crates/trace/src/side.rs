//! What is told of the events of a frame beside them: when, and from where.
//!
//! Times: a number for each event, the first since the beginning, the others since the one before, in nanoseconds. Sites: a number for each
//! request (allocation, resize, failure): 0 for none, else 1 + that of the site.

use crate::error::Fault;
use crate::event::Event;
use crate::number;
use crate::sites::{SiteId, SiteTable};

/// Whether an event has a place in the stream of sites.
fn is_request(event: &Event) -> bool {
    matches!(event, Event::Allocate { .. } | Event::Resize { .. } | Event::Failed { .. })
}

/// Times and sites on their way into frames.
#[derive(Default)]
pub(crate) struct SideColumns {
    /// Nanoseconds since the beginning, once one was told.
    now: Option<u64>,
    /// The time of the last event in the frame under way.
    last: u64,
    times: Vec<u8>,
    /// Of the next request.
    site: Option<SiteId>,
    sites: Vec<u8>,
    /// Requests in the frame under way that have no entry in `sites`, which begins with the first that has a site.
    without: usize,
}

impl SideColumns {
    /// What follows happens at this time. Time does not run backwards: an earlier one is taken for the last.
    pub(crate) fn at(&mut self, nanoseconds: u64) {
        self.now = Some(self.now.map_or(nanoseconds, |now| now.max(nanoseconds)));
    }

    /// The next request comes from there.
    pub(crate) fn at_site(&mut self, site: SiteId) {
        self.site = Some(site);
    }

    /// Notes what is told of an event, of which there are so many in the frame before it.
    pub(crate) fn push(&mut self, event: &Event, before: usize) {
        if let Some(now) = self.now {
            // Those that came before any time was told happened at the beginning.
            if self.times.is_empty() {
                (self.times, self.last) = (vec![0; before], 0);
            }
            number::put(&mut self.times, now - self.last);
            self.last = now;
        }
        if is_request(event) {
            match (self.site.take(), self.sites.is_empty()) {
                (None, true) => self.without += 1,
                (None, false) => self.sites.push(0),
                (Some(site), _) => {
                    self.sites.resize(self.sites.len() + std::mem::take(&mut self.without), 0);
                    number::put(&mut self.sites, u64::from(site.index()) + 1);
                }
            }
        }
    }

    /// The longer of the two streams, in bytes.
    pub(crate) fn length(&self) -> usize {
        self.times.len().max(self.sites.len())
    }

    /// The contents of a frame of times; empty when none were told.
    pub(crate) fn take_times(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.times)
    }

    /// The contents of a frame of sites; empty when none were told.
    pub(crate) fn take_sites(&mut self) -> Vec<u8> {
        self.without = 0;
        std::mem::take(&mut self.sites)
    }
}

/// A stream that is being read: of the frame of events that follows, then of the one that is open.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    at: usize,
    /// The number of the first event that it tells of.
    first: u64,
    open: bool,
}

impl Stream {
    fn refill(&mut self, first: u64, fill: impl FnOnce(&mut Vec<u8>) -> Result<(), Fault>) -> Result<(), Fault> {
        (self.at, self.first, self.open) = (0, first, false);
        fill(&mut self.bytes)
    }

    /// The frame that begins with event `first` is opened.
    fn open(&mut self, first: u64) -> Result<(), Fault> {
        let told = !self.bytes.is_empty();
        if told && self.first != first {
            return Err(Fault::Order);
        }
        self.open = told;
        Ok(())
    }

    /// Whether nothing is left over at the end of its frame; it is empty from then on.
    fn close(&mut self) -> Result<(), Fault> {
        if !self.open {
            return Ok(());
        }
        self.open = false;
        let over = self.at < self.bytes.len();
        self.bytes.clear();
        if over { Err(Fault::Side) } else { Ok(()) }
    }

    /// The next number, if the frame has this stream.
    fn next_number(&mut self) -> Result<Option<u64>, Fault> {
        if !self.open {
            return Ok(None);
        }
        let mut rest = &self.bytes[self.at..];
        let number = number::take(&mut rest).ok_or(Fault::Side)?;
        self.at = self.bytes.len() - rest.len();
        Ok(Some(number))
    }
}

/// Times and sites on their way out of frames, as far as they are wanted.
#[derive(Default)]
pub(crate) struct Side {
    pub(crate) wants_times: bool,
    pub(crate) wants_sites: bool,
    times: Stream,
    sites: Stream,
    /// Of the event that was read last.
    pub(crate) time: Option<u64>,
    pub(crate) site: Option<SiteId>,
    /// The latest time so far: that of a frame begins anew.
    latest: u64,
    pub(crate) table: SiteTable,
}

impl Side {
    pub(crate) fn refill_times(
        &mut self,
        first: u64,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.times.refill(first, fill)
    }

    pub(crate) fn refill_sites(
        &mut self,
        first: u64,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.sites.refill(first, fill)
    }

    /// The frame that begins with event `first` is opened.
    pub(crate) fn open(&mut self, first: u64) -> Result<(), Fault> {
        self.time = None;
        self.times.open(first)?;
        self.sites.open(first)
    }

    /// The open frame, if there is one, has been read to its end.
    pub(crate) fn close(&mut self) -> Result<(), Fault> {
        self.times.close()?;
        self.sites.close()
    }

    /// Goes on to what is told of this event.
    pub(crate) fn advance(&mut self, event: &Event) -> Result<(), Fault> {
        if let Some(passed) = self.times.next_number()? {
            let now = self.time.unwrap_or(0).checked_add(passed).filter(|&now| now >= self.latest);
            self.latest = now.ok_or(Fault::Side)?;
            self.time = now;
        }
        self.site = None;
        if is_request(event)
            && let Some(number @ 1..) = self.sites.next_number()?
        {
            self.site = Some(self.table.site(number - 1).ok_or(Fault::Site)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Event = Event::Free { block: 0 };

    /// Reads a frame of events that begins with event `first`, has these times, and one event for each.
    fn read(side: &mut Side, first: u64, times: &[u8]) -> Result<(), Fault> {
        side.refill_times(first, |bytes| {
            bytes.clear();
            bytes.extend(times);
            Ok(())
        })?;
        side.open(first)?;
        times.iter().try_for_each(|_| side.advance(&FREE))?;
        side.close()
    }

    #[test]
    fn time_that_runs_backwards_from_frame_to_frame_is_damage() {
        let mut side = Side::default();
        assert_eq!(read(&mut side, 0, &[5, 3]), Ok(()));
        assert_eq!(read(&mut side, 2, &[8, 0]), Ok(()));
        assert_eq!(side.time, Some(8));
        assert_eq!(read(&mut side, 4, &[7]), Err(Fault::Side));
    }

    #[test]
    fn times_of_other_events_are_damage() {
        assert_eq!(read(&mut Side::default(), 0, &[1, 0x80]), Err(Fault::Side));
        let mut side = Side::default();
        assert_eq!(read(&mut side, 0, &[1]), Ok(()));
        side.refill_times(1, |bytes| {
            bytes.push(1);
            Ok(())
        })
        .unwrap();
        assert_eq!(side.open(2), Err(Fault::Order));
    }
}
