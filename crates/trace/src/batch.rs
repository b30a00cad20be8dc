//! Batches of events: calls of `malloc` and `free` without times, which are most events of most traces. They are
//! encoded in a memory of their own, whose length is known: this takes no more than the registers hold.

use crate::number;
use crate::opcodes::{FREE, MALLOC};
use crate::sites::SiteId;

/// The most events of a batch. Their places are bytes.
const MOST: usize = 1 << u8::BITS;

/// Distances less one, from which on a distance takes more than two bytes, and is not in a batch.
const SHORT_DISTANCE: u64 = number::SHORT as u64 - 1;
const LONG_DISTANCE: u64 = Batch::LIMIT - 1;

/// The bytes of the numbers of a batch, each of which takes up to four.
type Numbers = [u8; MOST * 4 + 4];

/// Memory for a batch, that is used again.
pub struct BatchRoom {
    opcodes: [u8; MOST],
    sizes: Numbers,
    distances: Numbers,
    /// Of each request, as in the stream of sites. All zero if no request has one.
    sites: [u32; MOST],
    /// Whether any request has a site.
    has_sites: bool,
    encoded_sites: Numbers,
}

impl Default for BatchRoom {
    fn default() -> BatchRoom {
        BatchRoom {
            opcodes: [0; MOST],
            sizes: [0; MOST * 4 + 4],
            distances: [0; MOST * 4 + 4],
            sites: [0; MOST],
            has_sites: false,
            encoded_sites: [0; MOST * 4 + 4],
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
    /// The number of the next block.
    next: u64,
    events: usize,
    /// The lengths of the encoded sizes and distances.
    sizes: usize,
    distances: usize,
}

impl<'r> Batch<'r> {
    /// Blocks of this size and longer ones are not in batches, nor frees of blocks since which as many have appeared.
    pub const LIMIT: u64 = 1 << 28;

    /// Begins a batch of `most` events, whose first block has this number.
    #[inline(always)]
    pub(crate) fn new(room: &'r mut BatchRoom, most: usize, first: u64) -> Batch<'r> {
        if std::mem::take(&mut room.has_sites) {
            room.sites = [0; MOST];
        }
        Batch { room, most: most.min(MOST), first, next: first, events: 0, sizes: 0, distances: 0 }
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
        self.next
    }

    /// Adds an allocation of fewer than [`Batch::LIMIT`] bytes without an alignment of its own, from a site that is
    /// defined or from none. The block has the number [`Batch::next`].
    #[inline(always)]
    pub fn allocate(&mut self, size: u64, site: Option<SiteId>) {
        debug_assert!(size < Batch::LIMIT && self.events < self.most);
        if let Some(site) = site {
            self.room.sites[usize::from(self.requests() as u8)] = site.index() + 1;
            self.room.has_sites = true;
        }
        self.room.opcodes[usize::from(self.events as u8)] = MALLOC;
        self.sizes = put(&mut self.room.sizes, self.sizes, size as u32);
        self.next += 1;
        self.events += 1;
    }

    /// Adds a free of `block`. Returns `false`, and does not, when [`Batch::LIMIT`] blocks have appeared since.
    #[inline(always)]
    #[must_use]
    pub fn free(&mut self, block: u64) -> bool {
        debug_assert!(self.events < self.most);
        let distance = self.next.wrapping_sub(block);
        // In this order, so that a free of a young block takes one comparison.
        self.distances = match distance.wrapping_sub(1) {
            ..SHORT_DISTANCE => put_short(&mut self.room.distances, self.distances, distance as u32),
            SHORT_DISTANCE..LONG_DISTANCE => put_middling(&mut self.room.distances, self.distances, distance as u32),
            _ => return false,
        };
        self.room.opcodes[usize::from(self.events as u8)] = FREE;
        self.events += 1;
        true
    }

    /// Returns the number of events.
    #[inline(always)]
    #[must_use]
    pub fn events(&self) -> usize {
        self.events
    }

    pub(crate) fn opcodes(&self) -> &[u8] {
        &self.room.opcodes[..self.events]
    }

    /// Returns the encoded sizes.
    pub(crate) fn sizes(&self) -> &[u8] {
        &self.room.sizes[..self.sizes]
    }

    /// Returns the encoded distances.
    pub(crate) fn distances(&self) -> &[u8] {
        &self.room.distances[..self.distances]
    }

    /// Returns the number of requests.
    #[inline(always)]
    pub(crate) fn requests(&self) -> usize {
        (self.next - self.first) as usize
    }

    /// Whether any request has a site.
    pub(crate) fn has_sites(&self) -> bool {
        self.room.has_sites
    }

    /// Returns the site of each request: 0 for none, else one more than its number.
    pub(crate) fn sites(&self) -> &[u32] {
        &self.room.sites[..self.requests()]
    }

    /// Returns the encoded sites.
    pub(crate) fn encoded_sites(&mut self) -> &[u8] {
        let requests = self.requests();
        encoded(&mut self.room.encoded_sites, &self.room.sites[..requests])
    }
}

/// Encodes numbers.
#[inline(always)]
fn encoded<'e>(bytes: &'e mut Numbers, numbers: &[u32]) -> &'e [u8] {
    let length = numbers.iter().fold(0, |length, &number| put(bytes, length, number));
    &bytes[..length]
}

/// Adds the encoding of a number below [`Batch::LIMIT`] to `length` bytes, and returns their length with it.
#[inline(always)]
fn put(bytes: &mut Numbers, length: usize, number: u32) -> usize {
    if number < number::SHORT { put_short(bytes, length, number) } else { put_middling(bytes, length, number) }
}

/// As [`put`], of a number below [`number::SHORT`].
#[inline(always)]
fn put_short(bytes: &mut Numbers, length: usize, number: u32) -> usize {
    let (short, taken) = number::short(number);
    bytes[length % (MOST * 4)..][..2].copy_from_slice(&short);
    length + taken
}

/// As [`put`], of another number.
#[inline(always)]
fn put_middling(bytes: &mut Numbers, length: usize, number: u32) -> usize {
    let (long, taken) = number::middling(number);
    bytes[length % (MOST * 4)..][..4].copy_from_slice(&long);
    length + taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::Definitions;

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

    #[test]
    fn distances_and_sizes_take_the_bytes_that_they_need() {
        let (mut room, mut expected) = (BatchRoom::default(), Vec::new());
        let mut batch = Batch::new(&mut room, MOST, 1 << 20);
        for number in [1, 0x7f, 0x80, number::SHORT - 1, number::SHORT, (1 << 20) - 1].map(u64::from) {
            assert!(batch.free(batch.next() - number));
            batch.allocate(number - 1, None);
            number::put(&mut expected, number);
        }
        assert_eq!(batch.distances(), expected);
        expected.clear();
        [0, 0x7e, 0x7f, 0x3ffe, 0x3fff, (1 << 20) - 2].iter().for_each(|&size| number::put(&mut expected, size));
        assert_eq!(batch.sizes(), expected);
        assert_eq!(batch.opcodes(), [FREE, MALLOC].repeat(6));
    }

    #[test]
    fn the_sites_of_a_batch_are_not_those_of_the_next_in_its_room() {
        let mut room = BatchRoom::default();
        let site = Definitions::default().define(&["f"]).unwrap();
        let mut batch = Batch::new(&mut room, MOST, 0);
        [None, Some(site), None].into_iter().for_each(|site| batch.allocate(10, site));
        assert_eq!((batch.sites(), batch.has_sites()), (&[0, 1, 0][..], true));
        let mut batch = Batch::new(&mut room, MOST, 3);
        (0..3).for_each(|_| batch.allocate(10, None));
        assert_eq!((batch.sites(), batch.has_sites()), (&[0; 3][..], false));
    }
}
