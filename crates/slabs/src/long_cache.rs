//! The cache of freed long blocks of a thread.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::scarcity;

/// The bytes that the caches of all threads may hold together: many threads that sleep keep no more.
const BUDGET: usize = 16 << 20;

/// The bytes of the budget that caches have reserved.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// A few freed blocks of the page heap, the oldest first.
///
/// Invariants: the first `count` places hold blocks, and `bytes` is the sum of their lengths, at most `room`, which is
/// at most [`LongCache::MOST`].
pub struct LongCache {
    lengths: [u32; LongCache::PLACES],
    addresses: [usize; LongCache::PLACES],
    count: u32,
    bytes: u32,
    /// The bytes that this cache has reserved of the budget of all.
    room: u32,
    /// Whether a block was taken since [`LongCache::take_unused`] was called.
    is_used: bool,
}

impl LongCache {
    const PLACES: usize = 16;

    /// The most bytes in the cache.
    const MOST: usize = 1 << 20;

    /// The length of the longest block in a cache.
    pub const LONGEST: usize = LongCache::MOST / 2;

    /// The empty cache.
    pub(crate) const EMPTY: LongCache = LongCache {
        lengths: [0; LongCache::PLACES],
        addresses: [0; LongCache::PLACES],
        count: 0,
        bytes: 0,
        room: 0,
        is_used: false,
    };

    /// The step in which a cache reserves bytes.
    const STEP: usize = 128 << 10;

    /// Takes the block that was freed last of those that are long enough and at most half as long again; returns its
    /// length as well.
    pub fn take(&mut self, layout: Layout) -> Option<(NonNull<u8>, usize)> {
        if layout.size() > LongCache::LONGEST {
            return None;
        }
        let (size, most) = (layout.size() as u32, (layout.size() + layout.size() / 2) as u32);
        let aligned = layout.align() - 1;
        let place = (0..self.count as usize)
            .rev()
            .find(|&place| (size..=most).contains(&self.lengths[place]) && self.addresses[place] & aligned == 0)?;
        let (address, length) = self.remove(place);
        self.is_used = true;
        Some((block_at(address)?, length))
    }

    /// Adds a block of at most [`LongCache::LONGEST`] bytes; returns the oldest blocks if there is no room for them any
    /// more, or the block itself.
    pub fn add(&mut self, block: NonNull<u8>, length: usize) -> Evicted {
        let mut evicted = Evicted::EMPTY;
        while self.count as usize == LongCache::PLACES || !self.has_room(length) {
            if self.count == 0 {
                return Evicted::one(block);
            }
            evicted.add(self.remove(0).0);
        }
        let place = self.count as usize;
        (self.addresses[place], self.lengths[place]) = (block.as_ptr().expose_provenance(), length as u32);
        self.count += 1;
        self.bytes += length as u32;
        evicted
    }

    /// Whether `length` bytes more fit, if need be after more of the budget is reserved.
    fn has_room(&mut self, length: usize) -> bool {
        if scarcity::purges_at_once() {
            return false;
        }
        let wanted = self.bytes as usize + length;
        if wanted <= self.room as usize {
            return true;
        }
        let more = (wanted - self.room as usize).next_multiple_of(Self::STEP);
        if self.room as usize + more > Self::MOST {
            return false;
        }
        if RESERVED.fetch_add(more, Ordering::Relaxed) + more > BUDGET {
            RESERVED.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.room += more as u32;
        true
    }

    /// Takes all blocks, and returns what was reserved for them.
    pub fn take_all(&mut self) -> Evicted {
        let mut evicted = Evicted::EMPTY;
        while self.count != 0 {
            evicted.add(self.remove(0).0);
        }
        RESERVED.fetch_sub(core::mem::take(&mut self.room) as usize, Ordering::Relaxed);
        evicted
    }

    /// Takes all blocks if none was taken since the last call.
    pub fn take_unused(&mut self) -> Evicted {
        if core::mem::take(&mut self.is_used) { Evicted::EMPTY } else { self.take_all() }
    }

    /// Returns the number of blocks, and their bytes.
    pub fn figures(&self) -> (usize, usize) {
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

/// Blocks to be freed in the page heap.
pub struct Evicted {
    addresses: [usize; LongCache::PLACES],
    count: usize,
}

impl Evicted {
    const EMPTY: Evicted = Evicted { addresses: [0; LongCache::PLACES], count: 0 };

    /// Returns a set of one block.
    pub fn one(block: NonNull<u8>) -> Evicted {
        let mut evicted = Evicted::EMPTY;
        evicted.add(block.as_ptr().expose_provenance());
        evicted
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over the blocks.
    pub fn each(&self) -> impl Iterator<Item = NonNull<u8>> {
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
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::vec::Vec;

    use super::*;

    /// The tests share the budget.
    fn one_at_a_time() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn block(number: usize) -> NonNull<u8> {
        NonNull::new(core::ptr::without_provenance_mut(number << 20)).unwrap()
    }

    fn of(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn the_block_freed_last_is_reused_first_if_it_suits() {
        let _turn = one_at_a_time();
        let mut cache = LongCache::EMPTY;
        for (number, length) in [(1, 40 << 10), (2, 64 << 10), (3, 40 << 10)] {
            assert_eq!(cache.add(block(number), length).each().count(), 0);
        }
        assert_eq!(cache.take(of(39 << 10, 16)), Some((block(3), 40 << 10)));
        assert_eq!(cache.take(of(26 << 10, 16)), None);
        assert_eq!(cache.take(of(60 << 10, 16)), Some((block(2), 64 << 10)));
        assert_eq!(cache.take(of(40 << 10, 2 << 20)), None);
        assert_eq!(cache.take(of(40 << 10, 1 << 20)), Some((block(1), 40 << 10)));
        assert_eq!(cache.figures(), (0, 0));
        cache.take_all();
    }

    #[test]
    fn the_cache_is_bounded_in_blocks_and_bytes() {
        let _turn = one_at_a_time();
        let mut cache = LongCache::EMPTY;
        let mut gone: Vec<_> =
            (1..=40).flat_map(|number| cache.add(block(number), 36 << 10).each().collect::<Vec<_>>()).collect();
        assert_eq!((gone.len(), cache.figures()), (24, (16, 16 * (36 << 10))));
        gone.extend(cache.add(block(41), LongCache::LONGEST).each());
        gone.extend(cache.add(block(42), LongCache::LONGEST).each());
        assert!(cache.figures().1 <= LongCache::MOST);
        gone.extend(cache.take_all().each());
        assert_eq!(cache.figures(), (0, 0));
        gone.sort();
        assert_eq!(gone, (1..=42).map(block).collect::<Vec<_>>());
    }

    #[test]
    fn many_caches_together_are_bounded() {
        let _turn = one_at_a_time();
        let mut caches: Vec<_> = (0..200).map(|_| LongCache::EMPTY).collect();
        for cache in &mut caches {
            for number in 1..=8 {
                cache.add(block(number), 120 << 10);
            }
        }
        let held = |caches: &[LongCache]| caches.iter().map(|cache| cache.figures().1).sum::<usize>();
        assert!((BUDGET / 2..=BUDGET).contains(&held(&caches)), "{}", held(&caches));
        for cache in &mut caches {
            cache.take_all();
        }
        let mut one = LongCache::EMPTY;
        assert!(one.add(block(1), LongCache::LONGEST).is_empty());
        one.take_all();
    }
}
