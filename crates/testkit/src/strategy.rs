//! Scenarios and operations as proptest strategies, which shrink on failure.

use heapwright_placement::{Growth, PolicyKind, Rules, Statistics};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::scenario::GRANULES;
use crate::{ClaimedSize, Operation, Scenario, Target};

/// Generates heaps of any policy and rules, over one to a few thousand granules.
pub fn scenario() -> impl Strategy<Value = Scenario> {
    let policy = select(PolicyKind::ALL.to_vec());
    let granule = select(GRANULES.to_vec());
    let granules = prop_oneof![1usize..64, 64usize..1100, 1025usize..9000];
    (policy, granule, granules, any::<u64>()).prop_flat_map(|(policy, granule, granules, seed)| {
        rules(granule).prop_map(move |rules| Scenario { policy, rules, capacity: granules * granule as usize, seed })
    })
}

fn rules(granule: u32) -> impl Strategy<Value = Rules> {
    let header = prop_oneof![2 => Just(0), 1 => (0..=(4096 / granule).min(8)).prop_map(move |n| n * granule)];
    let min_remainder = prop_oneof![Just(1), 0..=40 * granule];
    let growth = prop_oneof![
        3 => Just(Growth::Fixed),
        1 => Just(Growth::Append),
        1 => Just(Growth::Extend),
        1 => (1u32..300).prop_map(move |n| Growth::Pages(n * granule)),
    ];
    let phase = prop_oneof![Just(0), (0usize..1 << 16).prop_map(move |n| n * granule as usize)];
    (header, min_remainder, growth, phase).prop_map(move |(header, min_remainder, growth, phase)| Rules {
        granule,
        header,
        min_remainder,
        growth,
        phase,
        statistics: Statistics::Kept,
    })
}

/// Generates up to `most` operations for `scenario`.
pub fn operations(scenario: &Scenario, most: usize) -> impl Strategy<Value = Vec<Operation>> + use<> {
    vec(operation(scenario.rules.granule as usize, scenario.capacity), 0..=most)
}

fn operation(granule: usize, capacity: usize) -> impl Strategy<Value = Operation> {
    prop_oneof![
        10 => (size(granule, capacity), alignment(capacity))
            .prop_map(|(bytes, align)| Operation::Allocate { bytes, align }),
        4 => live().prop_map(Operation::Deallocate),
        4 => live().prop_map(|target| Operation::DeallocateSized(target, ClaimedSize::Actual)),
        3 => (live(), size(granule, capacity))
            .prop_map(|(target, new)| Operation::Resize { target, old: ClaimedSize::Actual, new }),
        1 => (target(granule), any::<usize>())
            .prop_map(|(target, bytes)| Operation::DeallocateSized(target, ClaimedSize::Other(bytes))),
        1 => target(granule).prop_map(Operation::Deallocate),
        1 => (target(granule), any::<usize>(), size(granule, capacity))
            .prop_map(|(target, old, new)| Operation::Resize { target, old: ClaimedSize::Other(old), new }),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(bytes, align)| Operation::Allocate { bytes, align }),
        1 => Just(Operation::Relocate),
        1 => Just(Operation::Inspect),
    ]
}

fn size(granule: usize, capacity: usize) -> impl Strategy<Value = usize> {
    prop_oneof![
        6 => 0..=8 * granule,
        4 => 0..=100 * granule,
        2 => 0..=capacity,
        1 => Just(capacity),
    ]
}

fn alignment(capacity: usize) -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(1), 1 => (0..=capacity.ilog2()).prop_map(|doubling| 1 << doubling)]
}

fn live() -> impl Strategy<Value = Target> {
    (0usize..200).prop_map(Target::Live)
}

fn target(granule: usize) -> impl Strategy<Value = Target> {
    prop_oneof![
        live(),
        (0usize..64).prop_map(Target::Dead),
        (0usize..200, 0..=4 * granule).prop_map(|(index, distance)| Target::Inside(index, distance)),
        any::<usize>().prop_map(Target::At),
    ]
}

/// Generates mostly invalid rules, for regions of any length.
pub fn any_scenario() -> impl Strategy<Value = Scenario> {
    let numbers = prop_oneof![any::<u32>(), 0u32..70, (0u32..32).prop_map(|doubling| 1 << doubling)];
    let growth = prop_oneof![
        Just(Growth::Fixed),
        Just(Growth::Append),
        Just(Growth::Extend),
        any::<u32>().prop_map(Growth::Pages),
        (0u32..32).prop_map(|doubling| Growth::Pages(1 << doubling)),
    ];
    let capacity = prop_oneof![any::<usize>(), 0usize..5000, (0u32..64).prop_map(|doubling| 1 << doubling)];
    let phase = prop_oneof![Just(0), any::<usize>()];
    let policy = select(PolicyKind::ALL.to_vec());
    (policy, numbers.clone(), numbers.clone(), numbers, growth, phase, capacity).prop_map(
        |(policy, granule, header, min_remainder, growth, phase, capacity)| Scenario {
            policy,
            rules: Rules { granule, header, min_remainder, growth, phase, statistics: Statistics::Kept },
            capacity,
            seed: 0,
        },
    )
}
