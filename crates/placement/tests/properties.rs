//! The engine against the oracle on sequences that shrink: what fails here is reported at its shortest.

use heapwright_placement::{PolicyKind, Rules};
use heapwright_testkit::{Oracle, Scenario, replay, strategy};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn engine_agrees_with_oracle(
        (scenario, operations) in strategy::scenario().prop_flat_map(|scenario| {
            (Just(scenario), strategy::operations(&scenario, 300))
        })
    ) {
        if let Err(divergence) = replay(&scenario, &operations) {
            return Err(TestCaseError::fail(divergence.to_string()));
        }
    }

    #[test]
    fn engine_and_oracle_refuse_the_same_rules(scenario in strategy::any_scenario()) {
        let oracle = Oracle::create(scenario.policy, scenario.capacity, &scenario.rules);
        prop_assert_eq!(scenario.metadata_cells().err(), oracle.err());
    }
}

/// Random scenarios seldom have the capacities at which policies differ.
#[test]
fn engine_and_oracle_refuse_the_same_capacities() {
    let rules = Rules::default();
    for policy in PolicyKind::ALL {
        for doubling in 0..usize::BITS {
            let scenario = Scenario { policy, rules, capacity: 1 << doubling, seed: 0 };
            let oracle = Oracle::create(policy, scenario.capacity, &rules);
            assert_eq!(scenario.metadata_cells().err(), oracle.err(), "{policy:?} {doubling}");
        }
    }
}
