//! A heap is put together again whatever stores of an operation are missing, and goes on as if nothing had happened.

use std::ptr::NonNull;

use fastrand::Rng;
use heapwright_placement::{
    AnyEngine, Block, BlockState, Change, Engine, Growth, Noted, PolicyKind, RecoverError, Rules, RulesError,
    Statistics,
};

const GRANULE: usize = 16;

fn rules() -> Rules {
    Rules { granule: GRANULE as u32, ..Rules::default() }
}

fn recover(
    policy: PolicyKind,
    metadata: &mut [u64],
    capacity: usize,
    change: Option<Change>,
) -> Result<AnyEngine<'_>, RecoverError> {
    let cells = metadata.len();
    // SAFETY: the metadata is exclusively borrowed for as long as the heap lives.
    unsafe { AnyEngine::recover(policy, NonNull::from(metadata).cast(), cells, capacity, &rules(), change) }
}

fn attach(metadata: &mut [u64]) -> AnyEngine<'_> {
    let cells = metadata.len();
    // SAFETY: as above; the bytes were written by an engine.
    unsafe { AnyEngine::attach(NonNull::from(metadata).cast(), cells) }.unwrap()
}

fn partition(metadata: &[u64]) -> Vec<Block> {
    let mut copy = metadata.to_vec();
    attach(&mut copy).blocks().collect()
}

/// What an operation did to a heap, seen from outside.
struct Step {
    before: Vec<u64>,
    after: Vec<u64>,
    change: Option<Change>,
    /// Undone rather than completed when cut short.
    is_allocation: bool,
}

/// A heap of some length under random operations.
struct Heap {
    capacity: usize,
    metadata: Vec<u64>,
    blocks: Vec<usize>,
    random: Rng,
}

impl Heap {
    fn new(policy: PolicyKind, capacity: usize, seed: u64) -> Heap {
        let mut metadata = vec![0; AnyEngine::metadata_cells(policy, capacity, &rules()).unwrap()];
        AnyEngine::create(policy, &mut metadata, capacity, &rules()).unwrap();
        Heap { capacity, metadata, blocks: Vec::new(), random: Rng::with_seed(seed) }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.usize(..limit)
    }

    fn size(&mut self) -> usize {
        match self.below(8) {
            0 => self.capacity / 8 + self.below(self.capacity / 8),
            1..4 => 1 + self.below(2000.min(self.capacity / 4)),
            _ => 1 + self.below(200),
        }
    }

    fn step(&mut self) -> Step {
        let before = self.metadata.clone();
        let (size, kind, victim) = (self.size(), self.below(10), self.below(self.blocks.len().max(1)));
        let align = if self.below(5) == 0 { GRANULE << self.below(5) } else { GRANULE };
        let mut change = None;
        let mut heap = attach(&mut self.metadata);
        let mut is_allocation = false;
        match kind {
            0..5 => {
                is_allocation = true;
                if let Ok(offset) = heap.allocate_noted(size, align, |noted| change = Some(noted)) {
                    self.blocks.push(offset);
                }
            }
            _ if self.blocks.is_empty() => {}
            5..7 => {
                let old = heap.usable_size(self.blocks[victim]).unwrap();
                let _ = heap.resize_noted(self.blocks[victim], old, size, |noted| change = Some(noted));
            }
            _ => {
                let offset = self.blocks.swap_remove(victim);
                heap.deallocate_noted(offset, |noted| change = Some(noted)).unwrap();
            }
        }
        Step { before, after: self.metadata.clone(), change, is_allocation }
    }
}

/// Without a summary, with one, not a power of two, with a tree of two levels; in bytes.
const SIZES: [usize; 4] = [512, 16 << 10, 20_000, 256 << 10];

#[test]
fn any_mixture_of_the_stores_of_an_operation_is_put_right() {
    for policy in PolicyKind::ALL {
        for capacity in SIZES {
            let mut heap = Heap::new(policy, capacity, 1);
            for number in 0..300 {
                let step = heap.step();
                let Some(change) = step.change else {
                    assert_eq!(partition(&step.before), partition(&step.after), "{policy:?} changed without a note");
                    continue;
                };
                for mixture in 0..8 {
                    let mut torn = step.before.clone();
                    for (cell, &after) in torn.iter_mut().zip(&step.after) {
                        let takes = match mixture {
                            0 => false,
                            1 => true,
                            _ => heap.random.bool(),
                        };
                        if takes {
                            *cell = after;
                        }
                    }
                    let (asked, expected) =
                        if step.is_allocation { (change.undone(), &step.before) } else { (change, &step.after) };
                    let context =
                        || format!("{policy:?}, {capacity} bytes, operation {number}, mixture {mixture}: {change:?}");
                    let recovered = recover(policy, &mut torn, capacity, Some(asked))
                        .unwrap_or_else(|error| panic!("{}: {error}", context()));
                    recovered.check().unwrap_or_else(|violation| panic!("{}: {violation}", context()));
                    assert!(recovered.blocks().eq(partition(expected)), "{}", context());
                    // Recovering once more, with the change still noted, as after a death in recovery, changes nothing.
                    let again = recover(policy, &mut torn, capacity, Some(asked))
                        .unwrap_or_else(|error| panic!("{}: again: {error}", context()));
                    again.check().unwrap_or_else(|violation| panic!("{}: again: {violation}", context()));
                    assert!(again.blocks().eq(partition(expected)), "{}: again", context());
                }
            }
        }
    }
}

#[test]
fn a_recovered_heap_places_blocks_where_the_other_would_have() {
    for policy in PolicyKind::ALL {
        for capacity in SIZES {
            let mut heap = Heap::new(policy, capacity, 2);
            for _ in 0..400 {
                heap.step();
            }
            let mut copy = heap.metadata.clone();
            let mut original = attach(&mut heap.metadata);
            let mut recovered = recover(policy, &mut copy, capacity, None).unwrap();
            recovered.check().unwrap();
            assert_eq!(recovered.counters(), original.counters(), "{policy:?}");
            let mut random = Rng::with_seed(3);
            for _ in 0..400 {
                let size = 1 + random.usize(..600);
                assert_eq!(
                    recovered.allocate(size, GRANULE),
                    original.allocate(size, GRANULE),
                    "{policy:?} {capacity}"
                );
                if random.bool() && !heap.blocks.is_empty() {
                    let offset = heap.blocks.swap_remove(random.usize(..heap.blocks.len()));
                    assert_eq!(recovered.deallocate(offset), original.deallocate(offset), "{policy:?} {capacity}");
                }
            }
            recovered.check().unwrap();
        }
    }
}

/// Grows through capacities as a heap does whose region gets longer, and is torn at every growth.
#[test]
fn a_region_gets_longer_by_recovery() {
    for policy in PolicyKind::ALL {
        let mut heap = Heap::new(policy, 1 << 10, 4);
        for _ in 0..9 {
            for _ in 0..60 {
                heap.step();
            }
            let capacity = 2 * heap.capacity;
            let cells = AnyEngine::metadata_cells(policy, capacity, &rules()).unwrap();
            let before = partition(&heap.metadata);
            heap.metadata.resize(cells, 0xdead_beef_dead_beef);
            recover(policy, &mut heap.metadata, capacity, None).unwrap().check().unwrap();
            assert_eq!(before, partition(&heap.metadata), "{policy:?}: blocks stay where they are");
            heap.capacity = capacity;
            // The heap now becomes longer in two steps, of which the second is torn.
            for part in [3, 4] {
                let kept = heap.metadata.clone();
                let mut change = None;
                attach(&mut heap.metadata).extend(capacity * part / 4, |noted| change = Some(noted)).unwrap();
                attach(&mut heap.metadata).check().unwrap();
                for _ in 0..4 {
                    let mut torn = kept.clone();
                    for (cell, &after) in torn.iter_mut().zip(&heap.metadata) {
                        if heap.random.bool() {
                            *cell = after;
                        }
                    }
                    for _ in 0..2 {
                        let recovered = recover(policy, &mut torn, capacity, change).unwrap();
                        recovered.check().unwrap_or_else(|violation| panic!("{policy:?}: {violation}"));
                        assert!(recovered.blocks().eq(partition(&heap.metadata)), "{policy:?} extended");
                    }
                }
            }
            assert_eq!(attach(&mut heap.metadata).heap_size(), capacity);
        }
        for offset in heap.blocks.drain(..) {
            attach(&mut heap.metadata).deallocate(offset).unwrap();
        }
        attach(&mut heap.metadata).check().unwrap();
    }
}

/// The cells of the state: the heap's end, its top, and the first and last of its rules, the index's height included.
const END: usize = 1;
const TOP: usize = 2;
const RULES: std::ops::RangeInclusive<usize> = 4..=6;

/// The cells after some operations, with used and free blocks and a free tail.
fn cells_of_a_used_heap(policy: PolicyKind) -> Vec<u64> {
    let mut heap = Heap::new(policy, 16 << 10, 5);
    (0..60).for_each(|_| drop(heap.step()));
    heap.metadata
}

/// Of the cell that has the version and the header's length, and of the one that has the policy, these bits are not
/// rules: they say whose metadata it is.
fn says_whose_it_is(cell: usize, bit: usize) -> bool {
    (cell == 5 && bit >= 48) || (cell == 6 && (8..16).contains(&bit))
}

#[test]
fn rules_are_written_whatever_the_metadata_says_about_them() {
    for policy in PolicyKind::ALL {
        let whole = cells_of_a_used_heap(policy);
        for (cell, bit) in RULES.chain([0]).flat_map(|cell| (0..64).map(move |bit| (cell, bit))) {
            let mut cells = whole.clone();
            cells[cell] ^= 1 << bit;
            let recovered = recover(policy, &mut cells, 16 << 10, None);
            if says_whose_it_is(cell, bit) {
                assert_eq!(recovered.err(), Some(RecoverError::Rules(RulesError::NotAHeap)));
                continue;
            }
            let recovered = recovered.unwrap_or_else(|error| panic!("{policy:?}, bit {bit} of cell {cell}: {error}"));
            recovered.check().unwrap();
            assert!(recovered.has_rules(&rules()), "{policy:?}, bit {bit} of cell {cell}");
            assert!(recovered.blocks().eq(partition(&whole)), "{policy:?}, bit {bit} of cell {cell}");
        }
    }
}

#[test]
fn an_attached_heap_says_whether_its_rules_are_those() {
    for policy in PolicyKind::ALL {
        let mut cells = cells_of_a_used_heap(policy);
        assert!(attach(&mut cells).has_rules(&rules()));
        for other in [
            Rules { granule: 32, ..rules() },
            Rules { header: 16, ..rules() },
            Rules { min_remainder: 48, ..rules() },
            Rules { growth: Growth::Extend, ..rules() },
            Rules { phase: 64, ..rules() },
            Rules { statistics: Statistics::Off, ..rules() },
        ] {
            assert!(!attach(&mut cells).has_rules(&other), "{policy:?} {other:?}");
        }
    }
}

/// A heap whose end or top was damaged is refused before its map is changed, or it has all its blocks.
#[test]
fn a_damaged_end_loses_no_block() {
    for policy in PolicyKind::ALL {
        let whole = cells_of_a_used_heap(policy);
        let used = |blocks: Vec<Block>| blocks.into_iter().filter(|block| block.state == BlockState::Used);
        let mut refused = 0;
        for cell in [END, TOP] {
            for value in (0..64).map(|bit| whole[cell] ^ 1 << bit).chain(0..whole[END]) {
                let mut cells = whole.clone();
                cells[cell] = value;
                match recover(policy, &mut cells, 16 << 10, None) {
                    Ok(recovered) => {
                        recovered.check().unwrap();
                        let blocks = recovered.blocks().collect();
                        assert!(used(blocks).eq(used(partition(&whole))), "{policy:?}: cell {cell} is {value}");
                    }
                    Err(RecoverError::Rules(_)) => refused += 1,
                    Err(RecoverError::Broken(_)) => {
                        cells[cell] = whole[cell];
                        let recovered = recover(policy, &mut cells, 16 << 10, None).unwrap();
                        assert!(recovered.blocks().eq(partition(&whole)), "{policy:?}: nothing was lost");
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > 100, "{policy:?}: {refused}");
    }
}

#[test]
fn impossible_changes_are_refused() {
    let possible = Change { start: 0, end: 64, used_start: 0, used_end: 32 };
    for change in [
        Change { start: 8, ..possible },
        Change { start: 64, ..possible },
        Change { used_end: 128, ..possible },
        Change { end: 1 << 40, ..possible },
        Change { end: usize::MAX & !15, ..possible },
        Change { used_start: 48, ..possible },
    ] {
        for policy in PolicyKind::ALL {
            let mut heap = Heap::new(policy, 16 << 10, 1);
            let refused = recover(policy, &mut heap.metadata, 16 << 10, Some(change));
            assert!(matches!(refused, Err(RecoverError::Broken(_))), "{policy:?} {change:?}");
        }
    }
    let mut heap = Heap::new(PolicyKind::First, 16 << 10, 1);
    assert!(matches!(recover(PolicyKind::Best, &mut heap.metadata, 16 << 10, None), Err(RecoverError::Rules(_))));
    assert!(matches!(recover(PolicyKind::First, &mut heap.metadata, 8 << 10, None), Err(RecoverError::Rules(_))));
    assert!(matches!(recover(PolicyKind::First, &mut heap.metadata, 32 << 10, None), Err(RecoverError::Rules(_))));
}
