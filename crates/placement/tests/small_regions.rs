//! Regions of a few granules, down to one, under every policy: the engine agrees with the oracle.

use heapwright_placement::{PolicyKind, Rules};
use heapwright_testkit::{Scenario, play};

#[test]
fn the_engine_agrees_with_the_oracle_in_regions_of_a_few_granules() {
    for policy in PolicyKind::ALL {
        for granules in 1..=20 {
            let mut random = fastrand::Rng::with_seed(granules as u64);
            for seed in 0..6 {
                play(&Scenario::draw_over(granules, policy, &mut random), seed, 120);
            }
        }
    }
}

/// 1 KiB of eight blocks of 128 bytes: what an exercise asks for.
#[test]
fn eight_blocks_are_a_heap() {
    let rules = Rules { granule: 128, ..Rules::default() };
    for policy in PolicyKind::ALL {
        for seed in 0..50 {
            play(&Scenario { policy, rules, capacity: 1024, seed }, seed, 200);
        }
    }
}
