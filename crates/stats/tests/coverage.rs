//! How often the intervals hold the true figure, by simulation: for every number of measurements and for distributions
//! as times of machines have them.

use fastrand::Rng;
use heapwright_stats::{Estimate, FEWEST};

/// A distribution: its name, its median, and a draw.
type Distribution = (&'static str, f64, fn(&mut Rng) -> f64);

const DISTRIBUTIONS: [Distribution; 4] = [
    ("normal", 1.0, |rng| 1.0 + 0.05 * normal(rng)),
    ("lognormal", 1.0, |rng| (0.5 * normal(rng)).exp()),
    ("exponential", 1.0 + std::f64::consts::LN_2, |rng| 1.0 - (1.0 - rng.f64()).ln()),
    ("two modes and outliers", 1.0 + 0.1 * 0.5 / 0.6, two_modes),
];

/// Close to normal, and exactly symmetric.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

/// Six tenths around 1.05, most of the rest around 1.55, and 3 % far out. The draw is the quantile of a uniform number,
/// so that the median is the quantile of 1/2.
fn two_modes(rng: &mut Rng) -> f64 {
    match rng.f64() {
        at if at < 0.6 => 1.0 + 0.1 * at / 0.6,
        at if at < 0.97 => 1.5 + 0.1 * (at - 0.6) / 0.37,
        at => 5.0 + 100.0 * (at - 0.97),
    }
}

fn drawn(count: usize, rng: &mut Rng, mut draw: impl FnMut(&mut Rng) -> f64) -> Vec<f64> {
    (0..count).map(|_| draw(rng)).collect()
}

/// Fails if fewer than 95 % of `trials` intervals hold `truth`, by more than the four standard errors that chance
/// allows in one of ten thousand checks.
fn check(what: &str, truth: f64, trials: usize, mut estimate: impl FnMut() -> Estimate) {
    let holds = |estimate: Estimate| {
        let [low, high] = estimate.interval.unwrap_or_else(|| panic!("{what}: no interval"));
        low <= truth && truth <= high
    };
    let held = (0..trials).filter(|_| holds(estimate())).count() as f64;
    let expected = 0.95 * trials as f64;
    assert!(held >= expected - 4.0 * (expected * 0.05).sqrt(), "{what}: {held} of {trials}");
}

fn check_all(trials: usize) {
    let mut rng = Rng::with_seed(11);
    for count in FEWEST..=30 {
        for (at, (name, median, draw)) in DISTRIBUTIONS.into_iter().enumerate() {
            let what = |kind: &str| format!("{kind} of {count}, {name}");
            check(&what("median"), median, trials, || Estimate::of(&drawn(count, &mut rng, draw)).unwrap());
            check(&what("paired ratio"), median, trials, || {
                let rounds = drawn(count, &mut rng, |rng| 1.0 + 10.0 * rng.f64());
                let values: Vec<f64> = rounds.iter().map(|round| round * draw(&mut rng)).collect();
                Estimate::of_paired_ratios(&values, &rounds).unwrap()
            });
            let (_, base_median, base) = DISTRIBUTIONS[(at + count) % DISTRIBUTIONS.len()];
            check(&what("ratio of medians"), median / base_median, trials, || {
                let fewer = FEWEST.max(count / 2);
                let (values, bases) = (drawn(count, &mut rng, draw), drawn(fewer, &mut rng, base));
                Estimate::of_ratio(&values, &bases).unwrap()
            });
        }
    }
}

#[test]
fn at_least_95_of_100_intervals_hold_the_truth() {
    check_all(400);
}

/// The one case in which the two intervals of a ratio are shorter than 97.5 % each: six measurements. The distributions
/// are the worst for it: one is close to its median above and the other below.
#[test]
fn the_ratio_of_two_times_six_measurements_holds_with_distributions_made_against_it() {
    let mut rng = Rng::with_seed(5);
    let close_below = |rng: &mut Rng| if rng.bool() { 1.0 - 1e-9 * rng.f64() } else { 100.0 + rng.f64() };
    let close_above = |rng: &mut Rng| if rng.bool() { 1.0 + 1e-9 * rng.f64() } else { 0.01 * rng.f64() };
    check("six and six", 1.0, 20_000, || {
        Estimate::of_ratio(&drawn(6, &mut rng, close_below), &drawn(6, &mut rng, close_above)).unwrap()
    });
}

#[test]
#[ignore = "takes minutes: a hundred times the trials find a lack of half a percent; run by `.ci/nightly coverage`"]
fn at_least_95_of_100_intervals_hold_the_truth_exhaustively() {
    check_all(40_000);
}
