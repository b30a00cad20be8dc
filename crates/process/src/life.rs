//! When the library is loaded, and when the process exits.

use heapwright_os::{has_variable_with, program_name, trust_the_clock_of_the_c_library, uncancelled};

use crate::beacon;
use crate::state::{begin, register_fork_handlers, with_existing};
use crate::statistics;

/// Called when the library is loaded. Reads the settings if there are any, even if the program never allocates;
/// otherwise a program that allocates nothing creates no heap.
pub fn start() {
    register_fork_handlers();
    trust_the_clock_of_the_c_library();
    if has_variable_with(b"HEAPWRIGHT_") {
        begin();
    }
    if reports() {
        // Kept for the end, when the program may be in another directory.
        let _kept = program_name();
    }
}

/// Whether statistics are reported at the end.
fn reports() -> bool {
    with_existing(|state| state.settings.asks_for_counts()).unwrap_or(false)
}

/// Called when the process exits.
pub fn finish() {
    if reports() {
        statistics::report();
    }
    // Other threads may still change the heap: the lock is held.
    with_existing(|state| {
        // If the environment names a directory for it.
        if let Some(directory) = state.settings.watch {
            uncancelled(|| beacon::leave_last_state(directory, &mut state.heap));
        }
    });
}
