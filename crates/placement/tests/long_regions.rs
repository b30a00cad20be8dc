//! Regions of more than 2^32 granules, whose metadata the system zeroes as it is touched.

use heapwright_placement::{AnyEngine, Engine, Growth, PolicyKind, Rules};
use heapwright_testkit::{Duel, Operation, Scenario, Script};

/// How many sequences per policy, and operations in each.
const SEQUENCES: u64 = 8;
const OPERATIONS: usize = 2_000;

fn engine_agrees_with_oracle(policy: PolicyKind, growth: Growth) {
    let rules = Rules { growth, phase: 1 << 20, ..Rules::default() };
    let scenario = Scenario { policy, rules, capacity: ((1 << 32) + 12_345) * 16, seed: 1 };
    (0..SEQUENCES).for_each(|seed| play(&scenario, seed));
}

fn play(scenario: &Scenario, seed: u64) {
    let mut duel = Duel::begin(scenario).expect("the rules make sense");
    let mut script = Script::new(scenario, seed);
    for done in 0..OPERATIONS {
        match script.draw() {
            // Both would touch all of the metadata.
            Operation::Inspect | Operation::Relocate => duel.compare_blocks(),
            operation => duel.perform(operation),
        }
        .unwrap_or_else(|divergence| panic!("{scenario:?}, seed {seed}, operation {done}: {divergence}"));
    }
    duel.compare_blocks().unwrap();
}

/// The phase of a region at a high address has more than 32 bits, also in granules.
#[test]
fn blocks_are_aligned_beyond_32_bits() {
    for policy in PolicyKind::ALL.into_iter().filter(|&policy| policy != PolicyKind::Buddy) {
        for phase in [1 << 44, (1 << 46) + (1 << 20)] {
            let rules = Rules { granule: 4096, phase, ..Rules::default() };
            let mut metadata = vec![0; AnyEngine::metadata_cells(policy, 1 << 22, &rules).unwrap()];
            let mut heap = AnyEngine::create(policy, &mut metadata, 1 << 22, &rules).unwrap();
            assert!(heap.allocate(1, 1 << 45).is_err(), "{policy:?}: no place below is aligned so far");
            let block = heap.allocate(1, 1 << 21).unwrap();
            assert!((phase + block).is_multiple_of(1 << 21), "{policy:?}");
            heap.check().unwrap();
        }
    }
}

#[test]
fn first_fit_agrees_beyond_32_bits() {
    engine_agrees_with_oracle(PolicyKind::First, Growth::Fixed);
}

#[test]
fn next_fit_agrees_beyond_32_bits() {
    engine_agrees_with_oracle(PolicyKind::Next, Growth::Extend);
}

#[test]
fn best_fit_agrees_beyond_32_bits() {
    engine_agrees_with_oracle(PolicyKind::Best, Growth::Fixed);
}

#[test]
fn worst_fit_agrees_beyond_32_bits() {
    engine_agrees_with_oracle(PolicyKind::Worst, Growth::Append);
}

#[test]
fn good_fit_agrees_beyond_32_bits() {
    engine_agrees_with_oracle(PolicyKind::Good, Growth::Fixed);
}

#[test]
fn buddy_agrees_beyond_32_bits() {
    engine_agrees_with_oracle(PolicyKind::Buddy, Growth::Fixed);
}
