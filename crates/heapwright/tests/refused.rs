//! The growing heap goes on after requests that it refuses, under every policy and growth rule: what it makes shorter
//! then becomes a hole where it never had one. Metadata that it does not use is not mapped, and no access to it
//! survives.
#![cfg(feature = "os")]

use std::alloc::Layout;
use std::ptr::NonNull;

use heapwright::{Chosen, GrowingHeap, Growth, PolicyKind, Settings};

const GROWTHS: [Growth; 4] = [Growth::Append, Growth::Extend, Growth::Pages(64 << 10), Growth::Pages(48)];

/// More than a heap of 64 MiB or 1 TiB has room for.
const REFUSED: [usize; 4] = [1 << 41, isize::MAX as usize - 8192, isize::MAX as usize / 2, (1 << 40) + 1];

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 1).unwrap()
}

fn in_every_heap(body: impl Fn(&mut GrowingHeap<Chosen>)) {
    for policy in PolicyKind::ALL {
        for growth in GROWTHS {
            for capacity in [(64 << 20) + 16, 1 << 40] {
                let settings = Settings { capacity, growth, ..Settings::default() };
                body(&mut GrowingHeap::within(policy, &settings).unwrap());
            }
        }
    }
}

/// A heap and its live blocks.
struct Used<'h> {
    heap: &'h mut GrowingHeap<Chosen>,
    live: Vec<(NonNull<u8>, Layout)>,
}

impl Used<'_> {
    /// Allocates a block for `layout`, if there is room.
    fn allocate(&mut self, layout: Layout) {
        if let Ok(block) = self.heap.allocate(layout) {
            assert!(block.addr().get().is_multiple_of(layout.align()));
            self.live.push((block, layout));
        }
    }

    fn free(&mut self, nth: usize) {
        let (block, layout) = self.live.remove(nth);
        // SAFETY: the block is live, and not used any more.
        unsafe { self.heap.deallocate(block, layout) }.unwrap();
    }

    /// Gives a block another length, elsewhere if need be.
    fn resize(&mut self, nth: usize, bytes: usize) {
        let (block, old) = self.live[nth];
        let new = Layout::from_size_align(bytes, old.align()).unwrap();
        // SAFETY: the block is live and was allocated for `old`; its contents are not used, nor is it after a move.
        let resized = unsafe {
            if bytes >= old.size() { self.heap.grow(block, old, new) } else { self.heap.shrink(block, old, new) }
        };
        if let Ok(block) = resized {
            self.live[nth] = (block, new);
        }
    }

    fn refuse(&mut self, layout: Layout) {
        assert!(self.heap.allocate(layout).is_err() && self.heap.allocate_soon(layout).is_err());
        if let Some(&(block, old)) = self.live.last() {
            // SAFETY: the block is live and was allocated for `old`; it stays where it is when growing fails.
            assert!(unsafe { self.heap.grow(block, old, layout) }.is_err());
        }
    }
}

#[test]
fn a_heap_that_became_shorter_goes_on_elsewhere() {
    in_every_heap(|heap| {
        let mut used = Used { heap, live: Vec::new() };
        used.allocate(layout(3848));
        used.allocate(layout(89));
        used.resize(0, 20_000_000);
        used.free(0);
        [64, 2743, 8_388_607].iter().for_each(|&bytes| used.allocate(layout(bytes)));
        used.refuse(layout(REFUSED[1]));
        used.resize(1, 2931);
        used.heap.check().unwrap();
        (0..4).for_each(|_| used.free(0));
        used.heap.check().unwrap();
    });
}

/// A small generator: the same numbers everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound
    }

    fn bytes(&mut self) -> usize {
        match self.below(16) {
            0..9 => 1 + self.below(5000),
            9..15 => 1 + self.below(1 << 18),
            _ => 1 + self.below(20_000_000),
        }
    }

    fn align(&mut self) -> usize {
        if self.below(4) == 0 { 1 << self.below(14) } else { 1 }
    }
}

#[test]
fn a_heap_goes_on_after_requests_that_it_refused() {
    in_every_heap(|heap| {
        for seed in 0..2 {
            let (mut numbers, mut used) = (Numbers(seed), Used { heap, live: Vec::new() });
            for _ in 0..600 {
                let (bytes, align) = (numbers.bytes(), numbers.align());
                match numbers.below(16) {
                    0..7 => used.allocate(Layout::from_size_align(bytes, align).unwrap()),
                    7..11 if !used.live.is_empty() => used.free(numbers.below(used.live.len())),
                    11..14 if !used.live.is_empty() => used.resize(numbers.below(used.live.len()), bytes),
                    14 => used.refuse(Layout::from_size_align(REFUSED[numbers.below(4)], align).unwrap()),
                    15 if numbers.below(4) == 0 => {
                        used.heap.retract(1);
                        used.heap.trim();
                    }
                    _ => {}
                }
            }
            used.heap.check().unwrap();
            while !used.live.is_empty() {
                used.free(0);
            }
            used.heap.check().unwrap();
        }
    });
}
