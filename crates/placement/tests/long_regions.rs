//! Regions of more than 2^32 granules, whose metadata the system zeroes as it is touched.

use heapwright_placement::{Growth, PolicyKind, Rules};
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
