//! What a glance at a copy shows is what the engine says, and whatever the copy holds, it shows a partition.

use heapwright_placement::{
    AnyEngine, Block, BlockState, Engine, Generator, Glance, Growth, PolicyKind, Rules, RulesError, Statistics,
};

const CAPACITY: usize = 1 << 20;

/// Allocates and frees at random; returns copies of the metadata on the way, each with the blocks at that time.
fn copies(policy: PolicyKind, rules: &Rules) -> Vec<(Vec<u64>, Vec<Block>)> {
    let mut metadata = vec![0; AnyEngine::metadata_cells(policy, CAPACITY, rules).unwrap()];
    let start = metadata.as_ptr();
    let mut heap = AnyEngine::create(policy, &mut metadata, CAPACITY, rules).unwrap();
    let (mut seed, mut live, mut seen) = (7, Vec::new(), Vec::new());
    let mut draw = |below| Generator(&mut seed).below(below);
    for step in 0..600 {
        if draw(5) < 3 || live.is_empty() {
            let most = 1 << draw(14);
            live.extend(heap.allocate(1 + draw(most), 16));
        } else {
            let block = live.swap_remove(draw(live.len()));
            heap.deallocate(block).unwrap();
        }
        if step % 50 == 0 {
            let blocks = heap.blocks().collect();
            // SAFETY: the engine works on these cells only when it is told to, and no thread writes to them now.
            let copy = unsafe {
                std::slice::from_raw_parts(start, AnyEngine::metadata_cells(policy, CAPACITY, rules).unwrap())
            };
            seen.push((copy.to_vec(), blocks));
        }
    }
    seen
}

fn all_rules() -> Vec<Rules> {
    let fixed = Rules::default();
    vec![
        fixed,
        Rules { statistics: Statistics::Off, ..fixed },
        Rules { growth: Growth::Pages(4096), header: 16, ..fixed },
        Rules { granule: 64, growth: Growth::Append, min_remainder: 128, ..fixed },
    ]
}

#[test]
fn a_glance_shows_what_the_engine_says() {
    for policy in PolicyKind::ALL {
        for rules in all_rules() {
            for (metadata, blocks) in copies(policy, &rules) {
                let glance = Glance::of(&metadata[..Glance::HEAD]).unwrap();
                let end = blocks.last().map_or(0, |last| last.offset + last.size);
                assert_eq!((glance.policy(), glance.heap_size()), (policy, end));
                assert_eq!(glance.granule(), rules.granule as usize);
                assert_eq!(glance.counters().is_some(), rules.statistics == Statistics::Kept);
                assert!(glance.blocks(&metadata[glance.map()]).eq(blocks), "{policy:?} {rules:?}");
            }
        }
    }
}

#[test]
fn a_copy_of_anything_is_refused_or_shows_a_partition() {
    let (mut metadata, _) = copies(PolicyKind::Best, &all_rules()[2]).pop().unwrap();
    let mut seed = 3;
    for _ in 0..3000 {
        let at = Generator(&mut seed).below(metadata.len().min(300));
        let before = metadata[at];
        metadata[at] ^= 1 << Generator(&mut seed).below(64);
        if let Ok(glance) = Glance::of(&metadata) {
            let map = metadata.get(glance.map()).unwrap_or_default();
            let mut end = 0;
            for block in glance.blocks(map).take(1 << 17) {
                assert!(block.offset == end && block.size > 0);
                end = block.offset + block.size;
            }
            assert_eq!(end, glance.heap_size());
        }
        // State that cannot be a heap's any more would hide all that comes later.
        metadata[at] = if at < 7 { before } else { metadata[at] };
    }
}

#[test]
fn a_copy_that_is_too_short_is_refused_or_ends_in_one_block() {
    let (metadata, blocks) = copies(PolicyKind::First, &Rules::default()).pop().unwrap();
    assert_eq!(Glance::of(&metadata[..Glance::HEAD - 1]).err(), Some(RulesError::MetadataTooShort));
    assert_eq!(Glance::of(&[]).err(), Some(RulesError::MetadataTooShort));
    assert_eq!(Glance::of(&[0; Glance::HEAD]).err(), Some(RulesError::NotAHeap));
    let glance = Glance::of(&metadata).unwrap();
    let all: Vec<Block> = glance.blocks(&[]).collect();
    assert_eq!(all[0], Block { offset: 0, size: glance.top(), state: BlockState::Used });
    let map = &metadata[glance.map()];
    let known = map.len() / 4 * 64 * 16;
    let shown = glance.blocks(&map[..map.len() / 2]).take_while(|block| block.offset + block.size <= known);
    assert!(shown.zip(&blocks).all(|(shown, block)| shown == *block));
}
