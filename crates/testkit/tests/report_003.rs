//! Report 003: the oracle reproduces the published table, for next fit with the defect of its program.

use heapwright_placement::{BlockState, Engine, HoleStats, PolicyKind, Rules};
use heapwright_rules::{Odd, Rover};
use heapwright_testkit::Oracle;

const HEADER: usize = 16;

/// One step of the workload: allocates a block into a numbered variable, or frees it.
enum Step {
    Allocate(usize, usize),
    Free(usize),
}
use Step::{Allocate, Free};

const WORKLOAD: [Step; 26] = [
    Allocate(1, 252),
    Allocate(2, 256),
    Allocate(3, 128),
    Allocate(4, 64),
    Allocate(5, 60),
    Allocate(6, 48),
    Free(2),
    Free(4),
    Free(6),
    Allocate(2, 28),
    Allocate(4, 32),
    Allocate(6, 36),
    Allocate(7, 14),
    Free(6),
    Allocate(6, 16),
    Allocate(8, 128),
    Allocate(9, 16),
    Allocate(10, 32),
    Allocate(11, 28),
    Free(11),
    Free(8),
    Allocate(8, 70),
    Allocate(11, 14),
    Allocate(12, 20),
    Allocate(13, 32),
    Allocate(14, 8),
];

/// A row of the table: holes, their smallest and largest payload, mean and standard deviation to four places, and
/// failed requests.
type TableRow = (usize, usize, usize, String, String, usize);

fn row(holes: usize, min: usize, max: usize, mean: &str, deviation: &str, failures: usize) -> TableRow {
    (holes, min, max, mean.into(), deviation.into(), failures)
}

fn pool(policy: PolicyKind) -> Oracle {
    let rules = Rules { granule: 1, header: HEADER as u32, min_remainder: 17, ..Rules::default() };
    Oracle::create(policy, 1024, &rules).expect("the rules are valid")
}

fn evaluate(mut pool: Oracle) -> TableRow {
    let mut variables = [None; 15];
    let mut failures = 0;
    for step in WORKLOAD {
        match step {
            Allocate(variable, bytes) => {
                variables[variable] = pool.allocate(bytes, 1).ok();
                failures += usize::from(variables[variable].is_none());
            }
            Free(variable) => {
                if let Some(offset) = variables[variable].take() {
                    pool.deallocate(offset).expect("the block is live");
                }
            }
        }
    }
    let mut holes = HoleStats::default();
    for block in pool.walk().filter(|block| block.state == BlockState::Free) {
        holes.add(block.size - HEADER);
    }
    let mean = holes.mean().unwrap_or_default();
    let deviation = holes.variance().unwrap_or_default().sqrt();
    row(holes.count, holes.min, holes.max, &format!("{mean:.4}"), &format!("{deviation:.4}"), failures)
}

#[test]
fn first_fit_is_as_published() {
    assert_eq!(evaluate(pool(PolicyKind::First)), row(3, 2, 10, "5.3333", "3.3993", 0));
}

#[test]
fn next_fit_that_never_wraps_is_as_published() {
    let pool = pool(PolicyKind::Next).under(Odd { rover: Rover::NeverWraps, ..Odd::USUAL });
    assert_eq!(evaluate(pool), row(2, 22, 72, "47.0000", "25.0000", 2));
}

#[test]
fn next_fit_without_the_defect_leaves_one_hole_and_has_no_failures() {
    assert_eq!(evaluate(pool(PolicyKind::Next)), row(1, 28, 28, "28.0000", "0.0000", 0));
}

#[test]
fn best_fit_is_as_published() {
    assert_eq!(evaluate(pool(PolicyKind::Best)), row(1, 56, 56, "56.0000", "0.0000", 0));
}

#[test]
fn worst_fit_is_as_published() {
    assert_eq!(evaluate(pool(PolicyKind::Worst)), row(3, 2, 18, "10.0000", "6.5320", 0));
}
