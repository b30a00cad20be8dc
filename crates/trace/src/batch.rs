//! Batches of events: calls of `malloc` and `free` without times, which are most events of most traces. They are
//! gathered as plain numbers, and encoded together: neither loop needs more than the registers hold.

use crate::columns::{FREE, MALLOC};
use crate::number;
use crate::sites::SiteId;

/// The most events of a batch. Their places are bytes.
const MOST: usize = 1 << u8::BITS;

/// Memory for a batch, that is used again.
pub struct BatchRoom {
    opcodes: [u8; MOST],
    sizes: [u32; MOST],
    distances: [u32; MOST],
    /// Of each request, as in the stream of sites.
    sites: [u32; MOST],
    /// The bytes of the numbers of one of these.
    encoded: [u8; MOST * 4 + 4],
}

impl Default for BatchRoom {
    fn default() -> BatchRoom {
        BatchRoom {
            opcodes: [0; MOST],
            sizes: [0; MOST],
            distances: [0; MOST],
            sites: [0; MOST],
            encoded: [0; MOST * 4 + 4],
        }
    }
}

/// A batch of events, which [`Writer::add_batch`](crate::Writer::add_batch) adds to the trace.
pub struct Batch<'r> {
    room: &'r mut BatchRoom,
    /// The number of events at most.
    most: usize,
    /// The number of the first block.
    first: u64,
    requests: usize,
    frees: usize,
    /// The sites of all requests or-ed: 0 when none has one.
    sites: u32,
}

impl<'r> Batch<'r> {
    /// Blocks of this size and longer ones are not in batches, nor frees of blocks since which as many have appeared.
    pub const LIMIT: u64 = 1 << 28;

    /// Begins a batch of `most` events, whose first block has this number.
    #[inline(always)]
    pub(crate) fn new(room: &'r mut BatchRoom, most: usize, first: u64) -> Batch<'r> {
        Batch { room, most: most.min(MOST), first, requests: 0, frees: 0, sites: 0 }
    }

    /// Returns how many events the batch may have.
    #[inline(always)]
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of the next block.
    #[inline(always)]
    #[must_use]
    pub fn next(&self) -> u64 {
        self.first + self.requests as u64
    }

    /// Adds an allocation of fewer than [`Batch::LIMIT`] bytes without an alignment of its own, from a site that is
    /// defined or from none. The block has the number [`Batch::next`].
    #[inline(always)]
    pub fn allocate(&mut self, size: u64, site: Option<SiteId>) {
        debug_assert!(size < Batch::LIMIT && self.events() < self.most);
        let site = site.map_or(0, |site| site.index() + 1);
        self.room.opcodes[usize::from(self.events() as u8)] = MALLOC;
        self.room.sizes[usize::from(self.requests as u8)] = size as u32;
        self.room.sites[usize::from(self.requests as u8)] = site;
        self.sites |= site;
        self.requests += 1;
    }

    /// Adds a free of `block`. Returns `false`, and does not, when [`Batch::LIMIT`] blocks have appeared since.
    #[inline(always)]
    #[must_use]
    pub fn free(&mut self, block: u64) -> bool {
        debug_assert!(self.events() < self.most);
        let distance = self.next().wrapping_sub(block);
        if distance.wrapping_sub(1) >= Batch::LIMIT - 1 {
            return false;
        }
        self.room.opcodes[usize::from(self.events() as u8)] = FREE;
        self.room.distances[usize::from(self.frees as u8)] = distance as u32;
        self.frees += 1;
        true
    }

    /// Returns the number of events.
    #[inline(always)]
    #[must_use]
    pub fn events(&self) -> usize {
        self.requests + self.frees
    }

    pub(crate) fn opcodes(&self) -> &[u8] {
        &self.room.opcodes[..self.events()]
    }

    /// Returns the encoded sizes.
    pub(crate) fn sizes(&mut self) -> &[u8] {
        encoded(&mut self.room.encoded, &self.room.sizes[..self.requests])
    }

    /// Returns the encoded distances.
    pub(crate) fn distances(&mut self) -> &[u8] {
        encoded(&mut self.room.encoded, &self.room.distances[..self.frees])
    }

    /// Returns the number of requests.
    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    /// Whether any request has a site.
    pub(crate) fn has_sites(&self) -> bool {
        self.sites != 0
    }

    /// Returns the site of each request: 0 for none, else one more than its number.
    pub(crate) fn sites(&self) -> &[u32] {
        &self.room.sites[..self.requests]
    }

    /// Returns the encoded sites.
    pub(crate) fn encoded_sites(&mut self) -> &[u8] {
        encoded(&mut self.room.encoded, &self.room.sites[..self.requests])
    }
}

/// Encodes numbers.
#[inline(always)]
fn encoded<'e>(bytes: &'e mut [u8; MOST * 4 + 4], numbers: &[u32]) -> &'e [u8] {
    let mut length = 0;
    for &number in numbers {
        let at = length % (MOST * 4);
        if number < number::SHORT {
            let (short, taken) = number::short(number);
            bytes[at..][..2].copy_from_slice(&short);
            length += taken;
        } else {
            let (long, taken) = number::middling(number);
            bytes[at..][..4].copy_from_slice(&long);
            length += taken;
        }
    }
    &bytes[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_encoded_in_batches_as_one_by_one() {
        let powers = (0..28).map(|bits| 1_u32 << bits);
        let numbers: Vec<u32> = powers.flat_map(|power| [power - 1, power, power + 1, power | power >> 1]).collect();
        let mut expected = Vec::new();
        numbers.iter().for_each(|&number| number::put(&mut expected, number.into()));
        assert_eq!(encoded(&mut [0; MOST * 4 + 4], &numbers), expected);
        let longest = [Batch::LIMIT as u32 - 1; MOST];
        assert_eq!(encoded(&mut [0; MOST * 4 + 4], &longest), [0xff, 0xff, 0xff, 0x7f].repeat(MOST));
    }

    #[test]
    fn a_free_of_a_block_that_is_too_old_or_not_there_is_not_in_a_batch() {
        let mut room = BatchRoom::default();
        let mut batch = Batch::new(&mut room, 10, Batch::LIMIT);
        assert!(!batch.free(0) && !batch.free(Batch::LIMIT) && !batch.free(u64::MAX));
        assert!(batch.free(1) && batch.free(Batch::LIMIT - 1));
        assert_eq!((batch.events(), batch.distances()), (2, &[0xff, 0xff, 0xff, 0x7f, 1][..]));
    }
}
