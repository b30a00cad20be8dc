extern crate std;

use std::vec;
use std::vec::Vec;

use super::*;
use crate::engine::Engine;
use crate::fit::Fit;
use crate::index::Choose;
use crate::policies::RandomFit;
use crate::rules::{Growth, PolicyKind, Rules};

/// Random fit that also makes its choice from a sorted list of all fitting holes at every step, and compares.
enum Compared {}

/// Makes the choice by definition.
fn defined(map: &BlockMap<'_>, state: &mut State, need: &Need) -> Choice {
    let mut holes: Vec<Hole> = scan::holes_from(map, 0, state.top).collect();
    holes.push(Hole { start: state.top, len: state.wilderness() });
    holes.retain(|hole| need.fits(hole.start, hole.len));
    holes.sort_unstable_by_key(|hole| (hole.len, hole.start));
    match holes.len() {
        0 => Choice::Nowhere,
        count => match holes[Generator(&mut state.cursor).below(count)] {
            tail if tail.start == state.top => Choice::Wilderness,
            hole => Choice::Hole(hole),
        },
    }
}

impl Choose for Compared {
    const KIND: PolicyKind = PolicyKind::Random;
    type Index<'m> = ByRank<'m>;

    fn choose<'m>(index: &ByRank<'m>, map: &BlockMap<'m>, state: &mut State, need: &Need) -> Choice {
        let before = state.cursor;
        let chosen = index.choose(map, state, need);
        let after = core::mem::replace(&mut state.cursor, before);
        assert_eq!(chosen, defined(map, state, need), "need {} at {}", need.len, need.align);
        assert_eq!(after, state.cursor, "the generator moves as far");
        if after.is_multiple_of(32) {
            state.cursor = before;
            assert_eq!(chosen, scan::random(map, state, need), "the scan agrees");
        }
        chosen
    }

    fn scan(map: &BlockMap<'_>, state: &mut State, need: &Need) -> Choice {
        scan::random(map, state, need)
    }
}

/// The requests of a run.
struct Run {
    capacity: usize,
    rules: Rules,
    steps: usize,
    /// The longest block in granules.
    longest: usize,
    /// Upper bound of live blocks.
    live: usize,
    /// The binary logarithm of the largest alignment, in granules.
    align_bits: usize,
}

fn run(run: &Run, seed: u64) {
    let Run { capacity, rules, .. } = *run;
    let mut memory = vec![0u64; Fit::<Compared>::metadata_cells(capacity, &rules).unwrap()];
    let mut fit = Fit::<Compared>::create(&mut memory, capacity, &rules).unwrap();
    fit.seed(seed);
    let mut state = seed ^ 0xABCD;
    let mut numbers = Generator(&mut state);
    let mut blocks: Vec<usize> = Vec::new();
    for step in 0..run.steps {
        // Fills and empties in turn.
        let filling = (step / run.live).is_multiple_of(2);
        if blocks.is_empty() || (numbers.below(8) < if filling { 6 } else { 3 } && blocks.len() < run.live) {
            let doubling = numbers.below(run.longest.ilog2() as usize + 1);
            let granules = (1 << doubling) + numbers.below(1 << doubling);
            let align = 1 << numbers.below(run.align_bits + 1);
            let grain = rules.granule as usize;
            if let Ok(offset) = fit.allocate(granules.min(run.longest) * grain, align * grain) {
                blocks.push(offset);
                continue;
            }
        }
        if !blocks.is_empty() {
            let block = blocks.swap_remove(numbers.below(blocks.len()));
            fit.deallocate(block).unwrap();
        }
        if step % (run.steps / 4) == 0 {
            fit.check().unwrap();
        }
    }
    fit.check().unwrap();
}

#[test]
fn short_holes_in_a_fixed_region() {
    let rules = Rules::default();
    run(&Run { capacity: 1 << 20, rules, steps: 12_000, longest: 40, live: 3000, align_bits: 0 }, 1);
    run(&Run { capacity: 20_000, rules, steps: 20_000, longest: 8, live: 600, align_bits: 0 }, 2);
}

#[test]
fn long_holes_in_a_growing_heap() {
    for growth in [Growth::Append, Growth::Extend, Growth::Pages(4096)] {
        let rules = Rules { growth, ..Rules::default() };
        run(&Run { capacity: 1 << 26, rules, steps: 4000, longest: 3000, live: 800, align_bits: 0 }, 3);
    }
}

#[test]
fn a_tree_of_several_levels() {
    let rules = Rules { granule: 1, min_remainder: 70, growth: Growth::Append, ..Rules::default() };
    run(&Run { capacity: 1 << 24, rules, steps: 5000, longest: 600, live: 2500, align_bits: 0 }, 4);
}

#[test]
fn aligned_requests_pass_over_holes() {
    let rules = Rules { granule: 8, header: 16, phase: 24, growth: Growth::Pages(4096), ..Rules::default() };
    run(&Run { capacity: 1 << 22, rules, steps: 3000, longest: 300, live: 300, align_bits: 6 }, 5);
    run(&Run { capacity: 1 << 18, rules, steps: 3000, longest: 30, live: 900, align_bits: 3 }, 6);
}

#[test]
fn the_same_seed_gives_the_same_heap_and_another_another() {
    let rules = Rules { growth: Growth::Append, ..Rules::default() };
    let heap = |seed| {
        let mut memory = vec![0u64; Fit::<RandomFit>::metadata_cells(1 << 20, &rules).unwrap()];
        let mut fit = Fit::<RandomFit>::create(&mut memory, 1 << 20, &rules).unwrap();
        fit.seed(seed);
        let blocks: Vec<_> = (1..200).map(|k| fit.allocate(k * 16, 16).unwrap()).collect();
        for block in blocks.iter().step_by(2) {
            fit.deallocate(*block).unwrap();
        }
        (0..60).map(|_| fit.allocate(320, 16).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(heap(7), heap(7));
    assert_ne!(heap(7), heap(8));
}

#[test]
fn keys_are_ordered_as_holes_are_and_lead_back_to_them() {
    let holes = [(0, 65), (66, 65), (1 << 35, 65), (5, 511), (511, 512), (512, 512), (1 << 35, 512), (700, 1 << 35)];
    let keys = holes.map(|(start, len)| Key::of(Hole { start, len }).0);
    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:x?}");
    for len in [64, 65, 511, 512, 513, (1 << 36) - 2] {
        let last = Key::of(Hole { start: (1 << 36) - 1 - len, len }).0;
        assert!(Key::least(len).0 <= last && last < Key::least(len + 1).0, "{len}");
    }
}

#[test]
fn metadata_takes_what_the_documentation_says() {
    let share = |capacity: usize| {
        let cells = Fit::<RandomFit>::metadata_cells(capacity, &Rules::default()).unwrap();
        cells as f64 * 8.0 / capacity as f64
    };
    assert!((0.0420..0.0430).contains(&share(1 << 36)), "{}", share(1 << 36));
    assert!((0.0420..0.0430).contains(&share(1 << 24)), "{}", share(1 << 24));
    assert!((0.068..0.069).contains(&share(1 << 16)), "{}", share(1 << 16));
}
