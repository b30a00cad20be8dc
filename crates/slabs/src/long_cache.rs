//! The cache of freed long blocks of a thread.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::classes::PAGE;
use crate::scarcity;

/// The bytes that the caches of all threads may hold together: many threads that sleep keep no more.
const BUDGET: usize = 16 << 20;

/// The bytes of the budget that caches have reserved.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// A few freed blocks of the page heap, the oldest first.
///
/// A cache that does not suffice makes its thread take the arena's lock. Where other threads hold it at that time, the
/// cache becomes larger ([`LongCache::widen`]), and smaller again when that ends.
///
/// Invariants: the first `count` places hold blocks, and `bytes` is the sum of their lengths, at most `room`, which is
/// at most [`LongCache::MOST_CONTENDED`], and at most `most` after [`LongCache::take_unused`].
pub struct LongCache {
    blocks: [Cached; LongCache::PLACES],
    count: u32,
    bytes: u32,
    /// The bytes that this cache has reserved of the budget of all.
    room: u32,
    /// The most bytes that are added to: from [`LongCache::MOST`] to [`LongCache::MOST_CONTENDED`].
    most: u32,
    /// Whether the cache became larger since [`LongCache::take_unused`] was called.
    is_contended: bool,
    /// Whether a block was taken since [`LongCache::take_unused`] was called.
    is_used: bool,
}

/// A block in a cache: its address, a multiple of the page, and below it its length in pages.
#[derive(Clone, Copy)]
struct Cached(usize);

impl Cached {
    fn new(address: usize, length: usize) -> Cached {
        Cached(address | (length / PAGE))
    }

    fn address(self) -> usize {
        self.0 & !(PAGE - 1)
    }

    fn length(self) -> usize {
        self.0 % PAGE * PAGE
    }
}

const _: () = assert!(LongCache::LONGEST / PAGE < PAGE);

impl LongCache {
    const PLACES: usize = 32;

    /// Where the number of blocks and their bytes lie in a cache, each a word of four bytes.
    #[cfg(not(loom))]
    pub(crate) const FIGURES_AT: [usize; 2] =
        [core::mem::offset_of!(LongCache, count), core::mem::offset_of!(LongCache, bytes)];

    /// The most bytes in the cache of a thread that does not wait for others.
    const MOST: usize = 1 << 20;

    /// The most bytes in any cache.
    const MOST_CONTENDED: usize = 4 << 20;

    /// The length of the longest block in a cache.
    pub const LONGEST: usize = LongCache::MOST / 2;

    /// The empty cache.
    pub(crate) const EMPTY: LongCache = LongCache {
        blocks: [Cached(0); LongCache::PLACES],
        count: 0,
        bytes: 0,
        room: 0,
        most: LongCache::MOST as u32,
        is_contended: false,
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
        let most = layout.size() + layout.size() / 2;
        let suits = |block: &Cached| {
            (layout.size()..=most).contains(&block.length()) && block.address().is_multiple_of(layout.align())
        };
        let place = self.blocks[..self.count as usize].iter().rposition(suits)?;
        let taken = self.remove(place);
        self.is_used = true;
        Some((block_at(taken.address())?, taken.length()))
    }

    /// Adds a block of at most [`LongCache::LONGEST`] bytes, a multiple of the page; returns the oldest blocks if there
    /// is no room for them any more, or the block itself.
    pub fn add(&mut self, block: NonNull<u8>, length: usize) -> Evicted {
        let mut evicted = Evicted::EMPTY;
        while self.count as usize == LongCache::PLACES || !self.has_room(length) {
            if self.count == 0 {
                return Evicted::one(block);
            }
            evicted.add(self.remove(0).address());
        }
        self.blocks[self.count as usize] = Cached::new(block.as_ptr().expose_provenance(), length);
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
        if wanted > self.most as usize {
            return false;
        }
        if wanted <= self.room as usize {
            return true;
        }
        let more = (wanted - self.room as usize).next_multiple_of(Self::STEP);
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
            evicted.add(self.remove(0).address());
        }
        self.most = LongCache::MOST as u32;
        self.shrink_room(0);
        evicted
    }

    /// Makes the cache larger, because its thread takes a lock that another holds for a block of `size` bytes. Does
    /// nothing if such a block is longer than those in caches.
    pub fn widen(&mut self, size: usize) {
        if size > LongCache::LONGEST {
            return;
        }
        self.most = (self.most + LongCache::LONGEST as u32).min(LongCache::MOST_CONTENDED as u32);
        self.is_contended = true;
    }

    /// Takes all blocks if none was taken since the last call, and those for which there is no room any more if no
    /// other thread was met.
    pub fn take_unused(&mut self) -> Evicted {
        if !core::mem::take(&mut self.is_contended) {
            self.most = LongCache::MOST as u32;
        }
        if !core::mem::take(&mut self.is_used) {
            return self.take_all();
        }
        let mut evicted = Evicted::EMPTY;
        while self.bytes > self.most {
            evicted.add(self.remove(0).address());
        }
        self.shrink_room(self.most);
        evicted
    }

    /// Gives back what was reserved above `most` bytes, no fewer than those in the cache.
    fn shrink_room(&mut self, most: u32) {
        let spare = self.room.saturating_sub(most);
        self.room -= spare;
        RESERVED.fetch_sub(spare as usize, Ordering::Relaxed);
    }

    /// Returns the number of blocks, and their bytes.
    pub fn figures(&self) -> (usize, usize) {
        (self.count as usize, self.bytes as usize)
    }

    /// Removes the block at a place, and returns it.
    fn remove(&mut self, place: usize) -> Cached {
        let removed = self.blocks[place];
        self.blocks.copy_within(place + 1..self.count as usize, place);
        self.count -= 1;
        self.bytes -= removed.length() as u32;
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
        assert_eq!((gone.len(), cache.figures()), (40 - 28, (28, 28 * (36 << 10))));
        gone.extend(cache.add(block(41), LongCache::LONGEST).each());
        gone.extend(cache.add(block(42), LongCache::LONGEST).each());
        assert!(cache.figures().1 <= LongCache::MOST);
        gone.extend(cache.take_all().each());
        assert_eq!(cache.figures(), (0, 0));
        gone.sort();
        assert_eq!(gone, (1..=42).map(block).collect::<Vec<_>>());
    }

    #[test]
    fn a_cache_is_larger_while_its_thread_meets_others() {
        let _turn = one_at_a_time();
        let mut cache = LongCache::EMPTY;
        let fill = |cache: &mut LongCache| (1..=20).map(|number| cache.add(block(number), 256 << 10)).count();
        assert_eq!(fill(&mut cache), 20);
        assert_eq!(cache.figures().1, LongCache::MOST);
        cache.widen(LongCache::LONGEST + 1);
        assert_eq!((fill(&mut cache), cache.figures().1), (20, LongCache::MOST));
        for _ in 0..10 {
            cache.widen(256 << 10);
        }
        assert_eq!(fill(&mut cache), 20);
        assert_eq!(cache.figures().1, LongCache::MOST_CONTENDED);
        assert!(cache.take(of(200 << 10, 16)).is_some());
        assert!(cache.take_unused().is_empty());
        assert!(cache.take(of(200 << 10, 16)).is_some());
        let gone = cache.take_unused().each().count() * (256 << 10);
        assert_eq!(cache.figures().1, LongCache::MOST);
        assert_eq!(gone, LongCache::MOST_CONTENDED - LongCache::MOST - 2 * (256 << 10));
        // What is not used any more is others'.
        assert_eq!(RESERVED.load(Ordering::Relaxed), LongCache::MOST);
        cache.take_all();
        assert_eq!(RESERVED.load(Ordering::Relaxed), 0);
        (0..10).for_each(|_| cache.widen(36 << 10));
        assert_eq!((1..=40).map(|number| cache.add(block(number), 36 << 10)).count(), 40);
        assert_eq!(cache.figures().0, LongCache::PLACES);
        cache.take_all();
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
