//! Side streams of a frame of events: times and call sites.
//!
//! Times: one number per event, in nanoseconds. The first counts from the beginning of the trace, each other one from
//! the event before it.
//!
//! Sites: one number per request (allocation, resize, failure): 0 for no site, else 1 + the number of the site.

use crate::batch::Batch;
use crate::encoded::Encoded;
use crate::error::Fault;
use crate::event::Event;
use crate::number;
use crate::sites::{SiteId, SiteTable};

/// Returns whether an event has an entry in the stream of sites.
fn is_request(event: &Event) -> bool {
    matches!(event, Event::Allocate { .. } | Event::Resize { .. } | Event::Failed { .. })
}

/// The encoder of the side streams.
#[derive(Default)]
pub(crate) struct SideColumns {
    /// The current time in nanoseconds since the beginning, if the writer has set one.
    now: Option<u64>,
    /// The time of the last event in the current frame.
    last: u64,
    times: Vec<u8>,
    /// The site of the next request.
    site: Option<SiteId>,
    sites: Encoded,
    /// Requests in the current frame before the first that has a site; `sites` has no entries for them yet.
    without: usize,
}

impl SideColumns {
    /// Sets the time of the events that follow. An earlier time than the current one has no effect.
    pub(crate) fn at(&mut self, nanoseconds: u64) {
        self.now = Some(self.now.map_or(nanoseconds, |now| now.max(nanoseconds)));
    }

    /// Sets the site of the next request.
    pub(crate) fn at_site(&mut self, site: SiteId) {
        self.site = Some(site);
    }

    /// Adds the time and site of an event; `before` events precede it in its frame.
    #[inline(always)]
    pub(crate) fn push(&mut self, event: &Event, before: usize) {
        if let Some(now) = self.now {
            self.push_time(now, before);
        }
        if is_request(event) {
            match self.site.take() {
                None if self.sites.length() == 0 => self.without += 1,
                site => self.push_site(site),
            }
        }
    }

    fn push_site(&mut self, site: Option<SiteId>) {
        self.push_missing(1);
        self.sites.push_number(site.map_or(0, |site| u64::from(site.index()) + 1));
    }

    /// Adds what the stream of sites has not of the requests before, and makes room for this number of sites.
    fn push_missing(&mut self, sites: usize) {
        let without = std::mem::take(&mut self.without);
        self.sites.reserve(without + sites * number::LONGEST);
        (0..without).for_each(|_| self.sites.push(0));
    }

    /// Whether the next events have neither a time nor a site that is set.
    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.now.is_none() && self.site.is_none()
    }

    /// Adds the sites of a batch, when the stream is idle.
    #[inline(always)]
    pub(crate) fn push_batch(&mut self, batch: &mut Batch<'_>) {
        if self.sites.length() == 0 && !batch.has_sites() {
            self.without += batch.requests();
        } else {
            self.push_missing(batch.requests());
            self.sites.push_bytes(batch.encoded_sites());
        }
    }

    fn push_time(&mut self, now: u64, before: usize) {
        // Events before the first known time count as happening at the beginning.
        if self.times.is_empty() {
            (self.times, self.last) = (vec![0; before], 0);
        }
        number::put(&mut self.times, now - self.last);
        self.last = now;
    }

    /// Returns the length of the longer stream, in bytes.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.times.len().max(self.sites.length())
    }

    /// Returns the contents of a frame of times and clears them; empty if no time is known.
    pub(crate) fn take_times(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.times)
    }

    /// Returns the contents of a frame of sites and clears them; empty if no request has a site.
    pub(crate) fn take_sites(&mut self) -> Vec<u8> {
        self.without = 0;
        let sites = self.sites.bytes().to_vec();
        self.sites.clear();
        sites
    }
}

/// The decoder of a side stream: of the frame of events that follows, then of the open one.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    at: usize,
    /// The number of the first event that the stream describes.
    first: u64,
    open: bool,
}

impl Stream {
    fn refill(&mut self, first: u64, fill: impl FnOnce(&mut Vec<u8>) -> Result<(), Fault>) -> Result<(), Fault> {
        (self.at, self.first, self.open) = (0, first, false);
        fill(&mut self.bytes)
    }

    /// Opens the frame of events that begins with event `first`.
    fn open(&mut self, first: u64) -> Result<(), Fault> {
        let present = !self.bytes.is_empty();
        if present && self.first != first {
            return Err(Fault::Order);
        }
        self.open = present;
        Ok(())
    }

    /// Closes the open frame and clears the stream; fails if numbers are left over.
    fn close(&mut self) -> Result<(), Fault> {
        if !self.open {
            return Ok(());
        }
        self.open = false;
        let over = self.at < self.bytes.len();
        self.bytes.clear();
        if over { Err(Fault::Side) } else { Ok(()) }
    }

    /// Returns the next number; `None` if the frame does not have this stream.
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

/// The decoder of the side streams that the caller asked for.
#[derive(Default)]
pub(crate) struct Side {
    pub(crate) wants_times: bool,
    pub(crate) wants_sites: bool,
    times: Stream,
    sites: Stream,
    /// The time and site of the event that was read last.
    pub(crate) time: Option<u64>,
    pub(crate) site: Option<SiteId>,
    /// The latest time so far. Kept across frames, because `time` is reset by each frame.
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

    /// Opens the frame of events that begins with event `first`.
    pub(crate) fn open(&mut self, first: u64) -> Result<(), Fault> {
        self.time = None;
        self.times.open(first)?;
        self.sites.open(first)
    }

    /// Closes the open frame, if there is one; fails if a stream is longer than its events.
    pub(crate) fn close(&mut self) -> Result<(), Fault> {
        self.times.close()?;
        self.sites.close()
    }

    /// Reads the time and site of this event.
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

    /// Reads a frame that begins with event `first` and has one event per time.
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
    fn time_that_runs_backwards_between_frames_is_rejected() {
        let mut side = Side::default();
        assert_eq!(read(&mut side, 0, &[5, 3]), Ok(()));
        assert_eq!(read(&mut side, 2, &[8, 0]), Ok(()));
        assert_eq!(side.time, Some(8));
        assert_eq!(read(&mut side, 4, &[7]), Err(Fault::Side));
    }

    #[test]
    fn times_that_do_not_match_the_events_are_rejected() {
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
