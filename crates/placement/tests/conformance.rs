//! The engine against the oracle: every offset, error, counter and block, over millions of random operations.
//!
//! `HEAPWRIGHT_TEST_SCALE=20 cargo test -p heapwright-placement --test conformance` does twenty times as many; 0.1 a
//! tenth. `HEAPWRIGHT_TEST_SEED=7` draws others.

use heapwright_placement::PolicyKind;
use heapwright_testkit::{Scenario, play};

/// Operations per policy at scale 1.
const VOLUME: usize = 1_500_000;

/// How many times the usual volume: `HEAPWRIGHT_TEST_SCALE`, or 1.
fn scale() -> f64 {
    variable("HEAPWRIGHT_TEST_SCALE").unwrap_or(1.0)
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

fn engine_agrees_with_oracle(policy: PolicyKind) {
    let others: u64 = variable("HEAPWRIGHT_TEST_SEED").unwrap_or(0);
    let mut random = fastrand::Rng::with_seed((policy as u64).wrapping_add(others.wrapping_mul(1000)));
    let mut left = (VOLUME as f64 * scale()) as usize;
    while left > 0 {
        let scenario = Scenario::draw(policy, &mut random);
        let length = random.usize(100..20_000).min(left);
        play(&scenario, random.u64(..), length);
        left -= length;
    }
}

#[test]
fn first_fit_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::First);
}

#[test]
fn next_fit_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::Next);
}

#[test]
fn best_fit_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::Best);
}

#[test]
fn worst_fit_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::Worst);
}

#[test]
fn random_fit_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::Random);
}

#[test]
fn good_fit_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::Good);
}

#[test]
fn buddy_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::Buddy);
}
