//! Buddies grow by what is missing for the request, and no more.

use heapwright_placement::{AnyEngine, BlockState, Engine, Growth, PolicyKind, Rules};

const GRANULE: usize = 16;
const CAPACITY: usize = 1 << 12;

fn rules(growth: Growth) -> Rules {
    Rules { growth, ..Rules::default() }
}

fn heap(metadata: &mut Vec<u64>, growth: Growth, capacity: usize) -> AnyEngine<'_> {
    metadata.resize(AnyEngine::metadata_cells(PolicyKind::Buddy, capacity, &rules(growth)).unwrap(), 0);
    AnyEngine::create(PolicyKind::Buddy, metadata, capacity, &rules(growth)).unwrap()
}

#[test]
fn a_freed_block_at_the_end_is_half_of_one_twice_as_long() {
    for (growth, end) in [(Growth::Extend, 1024), (Growth::Pages(256), 1024)] {
        let mut metadata = Vec::new();
        // There is no room for more.
        let mut heap = heap(&mut metadata, growth, 1024);
        let block = heap.allocate(512, GRANULE).unwrap();
        heap.deallocate(block).unwrap();
        assert_eq!(heap.allocate(1024, GRANULE), Ok(0), "{growth:?}");
        assert_eq!(heap.heap_size(), end);
    }
}

#[test]
fn what_is_appended_begins_at_the_end() {
    let mut metadata = Vec::new();
    let mut heap = heap(&mut metadata, Growth::Append, CAPACITY);
    let block = heap.allocate(512, GRANULE).unwrap();
    heap.deallocate(block).unwrap();
    heap.allocate(1024, GRANULE).unwrap();
    assert_eq!(heap.heap_size(), 2048);
}

/// After random calls, a request that no free block holds makes the heap end where the first place does that is
/// aligned, behind all used blocks, and long enough.
#[test]
fn the_heap_ends_with_the_block_it_grew_for() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut grown = 0;
    for _ in 0..300 {
        let mut metadata = Vec::new();
        let mut heap = heap(&mut metadata, Growth::Extend, CAPACITY);
        let mut live = Vec::new();
        for _ in 0..60 {
            if random.bool() && !live.is_empty() {
                heap.deallocate(live.swap_remove(random.usize(..live.len()))).unwrap();
                continue;
            }
            let length = GRANULE << random.u32(0..7);
            let before: Vec<_> = heap.blocks().collect();
            let holds = before.iter().any(|block| block.state == BlockState::Free && block.size >= length);
            let used = before.iter().rev().find(|block| block.state == BlockState::Used);
            let place = used.map_or(0, |block| block.offset + block.size).next_multiple_of(length);
            let size = heap.heap_size();
            match heap.allocate(length, GRANULE) {
                Ok(block) => {
                    assert!(holds || (block, heap.heap_size()) == (place, place + length));
                    assert!(!holds || heap.heap_size() == size);
                    grown += u32::from(!holds);
                    live.push(block);
                }
                Err(_) => assert!(!holds && place + length > CAPACITY),
            }
        }
        heap.check().unwrap();
    }
    assert!(grown > 1000, "{grown}");
}
