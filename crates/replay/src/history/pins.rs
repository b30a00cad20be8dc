//! Pins: used blocks that keep holes apart.

use heapwright_placement::{Block, BlockState};

use crate::blocks::Placed;

/// A run of used blocks with a hole on either side. Freeing the run would merge both holes and the run into one.
///
/// A hole here is a maximal range of free bytes. (The buddy policy may have several free blocks in a row, and merges
/// only buddies.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The start of the run including its header, in bytes from the start of the region.
    pub offset: usize,
    /// The bytes in the run.
    pub bytes: usize,
    /// The number of blocks in the run.
    pub blocks: usize,
    /// The bytes of the hole before the run.
    pub before: usize,
    /// The bytes of the hole after the run.
    pub behind: usize,
    /// The number of the oldest block of the run, and its requested bytes; `None` if no trace is known.
    pub oldest: Option<(u64, usize)>,
}

impl Pin {
    /// Returns the length of the hole that freeing the run would leave, in bytes.
    #[must_use]
    pub fn joined(&self) -> usize {
        self.before + self.bytes + self.behind
    }

    /// Returns the bytes that this pin alone keeps apart: the shorter of its holes, which the longer one would gain.
    #[must_use]
    pub fn kept_apart(&self) -> usize {
        self.before.min(self.behind)
    }

    fn starts_at(block: Block, before: usize) -> Pin {
        Pin { offset: block.offset, bytes: 0, blocks: 0, before, behind: 0, oldest: None }
    }

    fn extend(&mut self, block: Block, number: Option<(u64, usize)>) {
        self.bytes += block.size;
        self.blocks += 1;
        self.oldest = match (self.oldest, number) {
            (Some(oldest), Some(number)) => Some(oldest.min(number)),
            (oldest, number) => oldest.or(number),
        };
    }
}

/// Returns all pins of a heap: `blocks` are all of its blocks, `live` the known used ones, both in address order.
pub(super) fn pins(blocks: impl Iterator<Item = Block>, live: &[(u64, Placed)]) -> Vec<Pin> {
    let mut live = live.iter().peekable();
    let mut pins = Vec::new();
    let mut run: Option<Pin> = None;
    let mut free = 0;
    let close =
        |run: Option<Pin>, free| run.filter(|run| run.before > 0 && free > 0).map(|run| Pin { behind: free, ..run });
    for block in blocks {
        if block.state == BlockState::Free {
            free += block.size;
            continue;
        }
        if free > 0 {
            pins.extend(close(run.take(), free));
        }
        // `live` has payload offsets, which are inside the block, after the header.
        let number = live
            .next_if(|(_, placed)| placed.offset < block.offset + block.size)
            .map(|&(number, placed)| (number, placed.size));
        run.get_or_insert_with(|| Pin::starts_at(block, free)).extend(block, number);
        free = 0;
    }
    pins.extend(close(run, free));
    pins
}

/// Returns the bytes of holes that some pins keep apart together. Without these pins, the adjacent holes would merge
/// into longer ones. For each of those, the bytes are the sum of the holes that it consists of, without the longest.
///
/// For one pin it is [`Pin::kept_apart`]; for all pins of a heap it is the free bytes minus the longest hole, which is
/// the external fragmentation in bytes. `pins` must be in address order.
///
/// ```
/// use heapwright_replay::history::{Pin, kept_apart};
/// let pin = |offset, before, behind| Pin { offset, bytes: 16, blocks: 1, before, behind, oldest: None };
/// // hole of 64, pin, hole of 32, pin, hole of 48
/// let pins = [pin(64, 64, 32), pin(112, 32, 48)];
/// assert_eq!(kept_apart(&pins[..1]), 32);
/// assert_eq!(kept_apart(&pins), 32 + 48);
/// ```
#[must_use]
pub fn kept_apart(pins: &[Pin]) -> u64 {
    let mut total = 0;
    let mut at = 0;
    while at < pins.len() {
        let (mut holes, mut longest) = (pins[at].before, pins[at].before);
        loop {
            let pin = &pins[at];
            holes += pin.behind;
            longest = longest.max(pin.behind);
            at += 1;
            let end = pin.offset + pin.bytes + pin.behind;
            if pins.get(at).is_none_or(|next| next.offset != end) {
                break;
            }
        }
        total += (holes - longest) as u64;
    }
    total
}

#[cfg(test)]
mod tests {
    use heapwright_placement::{AnyEngine, Engine, PolicyKind, Rules};

    use super::*;

    /// Returns a heap of small blocks with holes between them.
    fn fragmented_heap(metadata: &mut [u64], seed: u64) -> AnyEngine<'_> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut heap = AnyEngine::create(PolicyKind::First, metadata, 4096, &Rules::default()).unwrap();
        let mut live = Vec::new();
        for _ in 0..200 {
            if random.u8(..10) < 6 || live.is_empty() {
                live.extend(heap.allocate(random.usize(1..200), 16));
            } else {
                heap.deallocate(live.swap_remove(random.usize(..live.len()))).unwrap();
            }
        }
        heap
    }

    /// Frees the blocks of a pin; returns the length of the hole that they leave.
    fn free(heap: &mut AnyEngine<'_>, pin: &Pin) -> usize {
        let blocks: Vec<Block> = heap.blocks().collect();
        let within = |block: &&Block| (pin.offset..pin.offset + pin.bytes).contains(&block.offset);
        let left = blocks.iter().filter(within).map(|block| heap.deallocate(block.offset).unwrap().hole_size);
        left.last().unwrap()
    }

    fn metadata() -> Vec<u64> {
        vec![0; AnyEngine::metadata_cells(PolicyKind::First, 4096, &Rules::default()).unwrap()]
    }

    #[test]
    fn freeing_a_pin_leaves_one_hole_of_its_joined_length() {
        for seed in 0..50 {
            let mut cells = metadata();
            let found = pins(fragmented_heap(&mut cells, seed).blocks(), &[]);
            for pin in &found {
                let mut cells = metadata();
                let mut heap = fragmented_heap(&mut cells, seed);
                let before = heap.holes().count;
                assert_eq!(free(&mut heap, pin), pin.joined());
                assert_eq!(heap.holes().count, before - 1);
            }
            // There is one more hole than pins, because a run at an end of the heap is not a pin.
            let holes = fragmented_heap(&mut metadata(), seed).holes().count;
            assert_eq!(found.len(), holes.saturating_sub(1));
        }
    }

    #[test]
    fn freeing_a_group_of_pins_joins_what_it_kept_apart() {
        let mut random = fastrand::Rng::with_seed(7);
        for seed in 0..100 {
            let mut cells = metadata();
            let mut heap = fragmented_heap(&mut cells, seed);
            let before: Vec<Block> = heap.blocks().filter(|block| block.state == BlockState::Free).collect();
            let group: Vec<Pin> = pins(heap.blocks(), &[]).into_iter().filter(|_| random.bool()).collect();
            group.iter().for_each(|pin| _ = free(&mut heap, pin));
            // Of the former holes inside each hole, all but the longest were kept apart.
            let kept: usize = heap
                .blocks()
                .filter(|block| block.state == BlockState::Free)
                .map(|hole| {
                    let inside = |old: &&Block| (hole.offset..hole.offset + hole.size).contains(&old.offset);
                    let sizes: Vec<usize> = before.iter().filter(inside).map(|old| old.size).collect();
                    sizes.iter().sum::<usize>() - sizes.iter().max().unwrap()
                })
                .sum();
            assert_eq!(kept_apart(&group), kept as u64, "{seed}");
        }
    }

    #[test]
    fn all_pins_together_keep_apart_the_external_fragmentation() {
        for seed in 0..100 {
            let mut cells = metadata();
            let heap = fragmented_heap(&mut cells, seed);
            let holes = heap.holes();
            assert_eq!(kept_apart(&pins(heap.blocks(), &[])), (holes.total - holes.max) as u64);
        }
        assert!(pins(std::iter::empty(), &[]).is_empty());
    }
}
