//! Random operations on a heap of any policy and rules: the engine and the oracle agree, and neither panics.
#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use heapwright_placement::{Growth, PolicyKind, Rules, Statistics};
use heapwright_testkit::{ClaimedSize, Duel, Operation, Scenario, Target};
use libfuzzer_sys::fuzz_target;

fn scenario(u: &mut Unstructured<'_>) -> Result<Scenario> {
    let granule = 1u32 << u.int_in_range(0..=12)?;
    let growth = match u.int_in_range(0..=4)? {
        0 => Growth::Append,
        1 => Growth::Extend,
        2 => Growth::Pages(granule * u.int_in_range(1..=300)?),
        _ => Growth::Fixed,
    };
    let granules = if u.ratio(1, 3)? { u.int_in_range(16..=200)? } else { u.int_in_range(16..=20_000)? };
    Ok(Scenario {
        policy: *u.choose(&PolicyKind::ALL)?,
        rules: Rules {
            granule,
            header: granule * u.int_in_range(0..=(4096 / granule).min(8))?,
            min_remainder: u.int_in_range(0..=(70 * granule).min(1 << 20))?,
            growth,
            phase: granule as usize * u.int_in_range(0..=1usize << 20)?,
            statistics: Statistics::Kept,
        },
        capacity: granule as usize * granules,
        seed: u.arbitrary()?,
    })
}

fn number(u: &mut Unstructured<'_>, scenario: &Scenario) -> Result<usize> {
    let granule = scenario.rules.granule as usize;
    match u.int_in_range(0..=7)? {
        0 => u.arbitrary(),
        1 => u.int_in_range(0..=scenario.capacity),
        2 => Ok(scenario.capacity),
        3 => Ok(1usize << u.int_in_range(0..=63)?),
        4 => u.int_in_range(0..=100 * granule),
        _ => u.int_in_range(0..=6 * granule),
    }
}

fn target(u: &mut Unstructured<'_>, scenario: &Scenario) -> Result<Target> {
    let index = usize::from(u8::arbitrary(u)?);
    Ok(match u.int_in_range(0..=7)? {
        0 => Target::Dead(index),
        1 => Target::Inside(index, number(u, scenario)?),
        2 => Target::At(number(u, scenario)?),
        _ => Target::Live(index),
    })
}

fn claimed_size(u: &mut Unstructured<'_>, scenario: &Scenario) -> Result<ClaimedSize> {
    Ok(if u.ratio(3, 4)? { ClaimedSize::Actual } else { ClaimedSize::Other(number(u, scenario)?) })
}

fn operation(u: &mut Unstructured<'_>, scenario: &Scenario) -> Result<Operation> {
    Ok(match u.int_in_range(0..=15)? {
        0 => Operation::Relocate,
        1 => Operation::Inspect,
        2 | 3 => Operation::Resize {
            target: target(u, scenario)?,
            old: claimed_size(u, scenario)?,
            new: number(u, scenario)?,
        },
        4..=6 => Operation::Deallocate(target(u, scenario)?),
        7 | 8 => Operation::DeallocateSized(target(u, scenario)?, claimed_size(u, scenario)?),
        9 => Operation::Allocate { bytes: number(u, scenario)?, align: number(u, scenario)? },
        _ => Operation::Allocate { bytes: number(u, scenario)?, align: 1 },
    })
}

fn play(u: &mut Unstructured<'_>) -> Result<()> {
    let scenario = scenario(u)?;
    let mut duel = Duel::begin(&scenario).expect("the rules are valid");
    while !u.is_empty() {
        let operation = operation(u, &scenario)?;
        if let Err(divergence) = duel.perform(operation) {
            panic!("{divergence} at {operation:?} in {scenario:?}");
        }
    }
    if let Err(divergence) = duel.perform(Operation::Inspect) {
        panic!("{divergence} in {scenario:?}");
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    // An input that ends in the middle of an operation ends the sequence.
    let _ = play(&mut Unstructured::new(bytes));
});
