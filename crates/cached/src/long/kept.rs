//! Freed long blocks that a thread keeps.

use core::alloc::Layout;
use core::ptr::NonNull;

/// A few freed blocks that the page heap has placed, the oldest first.
///
/// Invariants: the first `count` places hold blocks, and `bytes` is the sum of their lengths, at most [`Kept::MOST`].
pub(crate) struct Kept {
    lengths: [u32; Kept::PLACES],
    addresses: [usize; Kept::PLACES],
    count: u32,
    bytes: u32,
}

impl Kept {
    const PLACES: usize = 16;

    /// The most bytes that a thread keeps.
    const MOST: usize = 1 << 20;

    /// The longest block that a thread keeps.
    pub(crate) const LONGEST: usize = Kept::MOST / 2;

    /// Nothing.
    pub(crate) const NOTHING: Kept =
        Kept { lengths: [0; Kept::PLACES], addresses: [0; Kept::PLACES], count: 0, bytes: 0 };

    /// Takes a block, if possible of those that were freed last, that is long enough and at most half as long again;
    /// returns its length as well.
    pub(crate) fn take(&mut self, layout: Layout) -> Option<(NonNull<u8>, usize)> {
        if layout.size() > Kept::LONGEST {
            return None;
        }
        let (size, most) = (layout.size() as u32, (layout.size() + layout.size() / 2) as u32);
        let aligned = layout.align() - 1;
        let place = (0..self.count as usize)
            .rev()
            .find(|&place| (size..=most).contains(&self.lengths[place]) && self.addresses[place] & aligned == 0)?;
        let (address, length) = self.remove(place);
        Some((block_at(address)?, length))
    }

    /// Adds a block of at most [`Kept::LONGEST`] bytes; returns those that there is no room for any more.
    pub(crate) fn add(&mut self, block: NonNull<u8>, length: usize) -> Released {
        let mut released = Released::NOTHING;
        while self.count as usize == Kept::PLACES || self.bytes as usize + length > Kept::MOST {
            released.add(self.remove(0).0);
        }
        let place = self.count as usize;
        (self.addresses[place], self.lengths[place]) = (block.as_ptr().expose_provenance(), length as u32);
        self.count += 1;
        self.bytes += length as u32;
        released
    }

    /// Takes all blocks.
    pub(crate) fn take_all(&mut self) -> Released {
        let mut released = Released::NOTHING;
        while self.count != 0 {
            released.add(self.remove(0).0);
        }
        released
    }

    /// How many blocks there are, and their bytes.
    pub(crate) fn figures(&self) -> (usize, usize) {
        (self.count as usize, self.bytes as usize)
    }

    /// Removes the block at a place, and returns its address and its length.
    fn remove(&mut self, place: usize) -> (usize, usize) {
        let removed = (self.addresses[place], self.lengths[place] as usize);
        self.count -= 1;
        self.addresses.copy_within(place + 1.., place);
        self.lengths.copy_within(place + 1.., place);
        self.bytes -= removed.1 as u32;
        removed
    }
}

/// Blocks that a thread does not keep any more, or never did.
pub(crate) struct Released {
    addresses: [usize; Kept::PLACES],
    count: usize,
}

impl Released {
    const NOTHING: Released = Released { addresses: [0; Kept::PLACES], count: 0 };

    pub(crate) fn one(block: NonNull<u8>) -> Released {
        let mut released = Released::NOTHING;
        released.add(block.as_ptr().expose_provenance());
        released
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = NonNull<u8>> {
        self.addresses[..self.count].iter().filter_map(|&address| block_at(address))
    }

    fn add(&mut self, address: usize) {
        self.addresses[self.count] = address;
        self.count += 1;
    }
}

fn block_at(address: usize) -> Option<NonNull<u8>> {
    NonNull::new(core::ptr::with_exposed_provenance_mut(address))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn block(number: usize) -> NonNull<u8> {
        NonNull::new(core::ptr::without_provenance_mut(number << 20)).unwrap()
    }

    fn of(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn what_was_freed_last_comes_back_first_if_it_suits() {
        let mut kept = Kept::NOTHING;
        for (number, length) in [(1, 40 << 10), (2, 64 << 10), (3, 40 << 10)] {
            assert_eq!(kept.add(block(number), length).each().count(), 0);
        }
        assert_eq!(kept.take(of(39 << 10, 16)), Some((block(3), 40 << 10)));
        assert_eq!(kept.take(of(26 << 10, 16)), None);
        assert_eq!(kept.take(of(60 << 10, 16)), Some((block(2), 64 << 10)));
        assert_eq!(kept.take(of(40 << 10, 2 << 20)), None);
        assert_eq!(kept.take(of(40 << 10, 1 << 20)), Some((block(1), 40 << 10)));
        assert_eq!(kept.figures(), (0, 0));
    }

    #[test]
    fn neither_too_many_nor_too_much_is_kept() {
        let mut kept = Kept::NOTHING;
        let mut gone: Vec<_> =
            (1..=40).flat_map(|number| kept.add(block(number), 36 << 10).each().collect::<Vec<_>>()).collect();
        assert_eq!((gone.len(), kept.figures()), (24, (16, 16 * (36 << 10))));
        gone.extend(kept.add(block(41), Kept::LONGEST).each());
        gone.extend(kept.add(block(42), Kept::LONGEST).each());
        assert!(kept.figures().1 <= Kept::MOST);
        gone.extend(kept.take_all().each());
        assert_eq!(kept.figures(), (0, 0));
        gone.sort();
        assert_eq!(gone, (1..=42).map(block).collect::<Vec<_>>());
    }
}
