//! The names of the rows of tables that are no libraries, which no library can have.

use crate::policy;

/// The C library's own malloc.
pub const SYSTEM: &str = "system";

/// The system's malloc a second time: its difference from the first is the noise of the run.
pub const SYSTEM_AGAIN: &str = "system (A/A)";

/// No allocator: measures the cost of measuring.
pub const NO_OP: &str = "no-op";

/// Returns whether tables have a row of this name in any case.
pub(crate) fn is_of_another_row(name: &str) -> bool {
    [SYSTEM, SYSTEM_AGAIN, NO_OP, policy::CACHED].contains(&name) || policy::names().any(|policy| policy == name)
}
