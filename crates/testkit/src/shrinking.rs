//! Reduces failing sequences of operations.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::{Divergence, Duel, Operation, Scenario};

/// Performs `operations` on the engine and the oracle of `scenario`, and inspects both at the end.
///
/// # Errors
/// The first difference, or panic.
pub fn replay(scenario: &Scenario, operations: &[Operation]) -> Result<(), Divergence> {
    let Ok(mut duel) = Duel::begin(scenario) else { return Ok(()) };
    for &operation in operations.iter().chain([&Operation::Inspect]) {
        // After a panic the duel is dropped without further use.
        catch_unwind(AssertUnwindSafe(|| duel.perform(operation)))
            .unwrap_or_else(|_| Err(Divergence::panicked(operation)))?;
    }
    Ok(())
}

/// The time limit of shrinking.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Leaves out operations, in ever shorter runs, while `fails` stays true, for five seconds at most.
#[must_use]
pub fn shrink(operations: &[Operation], fails: impl Fn(&[Operation]) -> bool) -> Vec<Operation> {
    let mut kept = operations.to_vec();
    let begun = Instant::now();
    let mut stride = kept.len().max(1);
    while stride > 0 {
        let mut at = 0;
        while at < kept.len() && begun.elapsed() < TIME_LIMIT {
            let without = [&kept[..at], &kept[(at + stride).min(kept.len())..]].concat();
            if fails(&without) {
                kept = without;
            } else {
                at += stride;
            }
        }
        stride /= 2;
    }
    kept
}
