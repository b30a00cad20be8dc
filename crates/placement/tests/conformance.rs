//! The engine against the oracle: every offset, error, counter and block, over millions of random operations.
//!
//! `HEAPWRIGHT_TEST_SCALE=20 cargo test -p heapwright-placement --test conformance` does twenty times as many.

use std::panic::{AssertUnwindSafe, catch_unwind};

use heapwright_placement::PolicyKind;
use heapwright_testkit::{Duel, Operation, Scenario, Script, replay, shrink};

/// Operations per policy at scale 1.
const VOLUME: usize = 1_700_000;

/// Random fit looks at every hole several times.
const RANDOM_VOLUME: usize = 50_000;

fn scale() -> usize {
    std::env::var("HEAPWRIGHT_TEST_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

/// Plays one script.
fn play(scenario: &Scenario, seed: u64, length: usize) {
    let mut duel = Duel::begin(scenario).expect("a scenario can be made");
    let mut script = Script::new(scenario, seed);
    let mut step = |operation| match catch_unwind(AssertUnwindSafe(|| duel.perform(operation))) {
        Ok(outcome) => outcome.is_ok(),
        Err(_) => false,
    };
    let failed = (0..length).find(|_| !step(script.draw()));
    if failed.is_some() || !step(Operation::Inspect) {
        report(scenario, seed, failed.map_or(length, |done| done + 1));
    }
}

/// Fails with the shortest sequence of operations that still shows the failure.
fn report(scenario: &Scenario, seed: u64, done: usize) -> ! {
    let mut script = Script::new(scenario, seed);
    let operations: Vec<Operation> = (0..done).map(|_| script.draw()).collect();
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let shortest = shrink(&operations, |operations| replay(scenario, operations).is_err());
    std::panic::set_hook(loud);
    let shows = replay(scenario, &shortest).map_or_else(|failure| failure.to_string(), |()| "nothing".into());
    panic!("{shows}\n{scenario:?}\nseed {seed}, operation {done}, at its shortest: {shortest:#?}");
}

fn engine_agrees_with_oracle(policy: PolicyKind, volume: usize) {
    let mut random = fastrand::Rng::with_seed(policy as u64);
    let mut left = volume * scale();
    while left > 0 {
        let scenario = Scenario::draw(policy, &mut random);
        let length = random.usize(100..20_000).min(left);
        play(&scenario, random.u64(..), length);
        left -= length;
    }
}

#[test]
fn first_fit_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::First, VOLUME);
}

#[test]
fn next_fit_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::Next, VOLUME);
}

#[test]
fn best_fit_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::Best, VOLUME);
}

#[test]
fn worst_fit_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::Worst, VOLUME);
}

#[test]
fn random_fit_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::Random, RANDOM_VOLUME);
}

#[test]
fn good_fit_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::Good, VOLUME);
}

#[test]
fn buddy_agrees_with_the_oracle() {
    engine_agrees_with_oracle(PolicyKind::Buddy, VOLUME);
}
