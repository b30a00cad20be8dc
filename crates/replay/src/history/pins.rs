//! What keeps holes from being one.

use heapwright_placement::{Block, BlockState};

use crate::blocks::Placed;

/// Neighbouring used blocks with a hole on either side: if they were gone, both holes and they would be one range of
/// free bytes.
///
/// A hole here is a maximal range of free bytes. (Buddies may leave several free blocks in a row; and what would be one
/// range is one block for them only if it is a buddy's.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Where the first of the blocks starts, header included, in bytes from the region's start.
    pub offset: usize,
    /// The bytes that the blocks take.
    pub bytes: usize,
    /// How many blocks there are.
    pub blocks: usize,
    /// The bytes of the hole in front.
    pub before: usize,
    /// The bytes of the hole behind.
    pub behind: usize,
    /// The number of the block among them that has been there longest, and the bytes that were asked for it; `None` when
    /// the pin is a heap's of which no trace is known.
    pub oldest: Option<(u64, usize)>,
}

impl Pin {
    /// How long the hole would be if these blocks were gone, in bytes.
    #[must_use]
    pub fn joined(&self) -> usize {
        self.before + self.bytes + self.behind
    }

    /// What this pin keeps apart by itself: the shorter of its holes, which the longer one would gain.
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

/// All pins of a heap: `blocks` are all of its blocks in address order, `live` what is known of the used ones, in address
/// order too.
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
        // A payload lies in its block, behind the header.
        let number = live
            .next_if(|(_, placed)| placed.offset < block.offset + block.size)
            .map(|&(number, placed)| (number, placed.size));
        run.get_or_insert_with(|| Pin::starts_at(block, free)).extend(block, number);
        free = 0;
    }
    pins.extend(close(run, free));
    pins
}

/// How many bytes of holes some pins keep apart together: if they all were gone, the holes beside them would be fewer and
/// longer, and this is what lies in them today but not in the longest hole that each is made of.
///
/// Of one pin it is [`Pin::kept_apart`]; of all pins of a heap it is its free bytes less its longest hole, that is
/// its external fragmentation in bytes. `pins` are in address order; what lies between two that are not
/// neighbours stays where it is.
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

    /// A heap of small blocks with holes between them, and the offsets of the blocks that live.
    fn torn_heap(metadata: &mut [u64], seed: u64) -> AnyEngine<'_> {
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

    /// Frees the blocks of a pin and returns how long the hole is that they leave.
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
    fn a_pin_that_goes_leaves_one_hole_of_the_promised_length() {
        for seed in 0..50 {
            let mut cells = metadata();
            let found = pins(torn_heap(&mut cells, seed).blocks(), &[]);
            for pin in &found {
                let mut cells = metadata();
                let mut heap = torn_heap(&mut cells, seed);
                let before = heap.holes().count;
                assert_eq!(free(&mut heap, pin), pin.joined());
                assert_eq!(heap.holes().count, before - 1);
            }
            // One more hole than pins: whatever is not between two holes pins nothing.
            let holes = torn_heap(&mut metadata(), seed).holes().count;
            assert_eq!(found.len(), holes.saturating_sub(1));
        }
    }

    #[test]
    fn what_a_group_keeps_apart_is_what_its_end_joins() {
        let mut random = fastrand::Rng::with_seed(7);
        for seed in 0..100 {
            let mut cells = metadata();
            let mut heap = torn_heap(&mut cells, seed);
            let before: Vec<Block> = heap.blocks().filter(|block| block.state == BlockState::Free).collect();
            let group: Vec<Pin> = pins(heap.blocks(), &[]).into_iter().filter(|_| random.bool()).collect();
            group.iter().for_each(|pin| _ = free(&mut heap, pin));
            // Of the holes that are within one now, all but the longest were kept apart.
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
    fn all_pins_together_are_external_fragmentation() {
        for seed in 0..100 {
            let mut cells = metadata();
            let heap = torn_heap(&mut cells, seed);
            let holes = heap.holes();
            assert_eq!(kept_apart(&pins(heap.blocks(), &[])), (holes.total - holes.max) as u64);
        }
        assert!(pins(std::iter::empty(), &[]).is_empty());
    }
}
