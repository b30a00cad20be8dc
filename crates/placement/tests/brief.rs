//! The engine against the oracle, briefly: short enough for Miri, which looks for undefined behaviour on the way.

use heapwright_placement::PolicyKind;
use heapwright_testkit::{Scenario, play};

/// Regions that are scanned, that are indexed, and whose index has a second level.
const LENGTHS: [usize; 6] = [16, 70, 1000, 1100, 2000, 5000];

fn engine_agrees_with_oracle(policy: PolicyKind) {
    let mut random = fastrand::Rng::with_seed(policy as u64);
    for granules in LENGTHS {
        let scenario = Scenario::draw_over(granules, policy, &mut random);
        play(&scenario, random.u64(..), 150);
    }
}

#[test]
fn fits_agree_with_the_oracle() {
    let fits = PolicyKind::ALL.into_iter().filter(|&policy| policy != PolicyKind::Buddy);
    fits.for_each(engine_agrees_with_oracle);
}

#[test]
fn buddy_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::Buddy);
}
