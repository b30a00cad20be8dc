//! When the library is loaded, and when the process exits.

use crate::residency;
use crate::state;

/// Called when the library is loaded.
pub(crate) extern "C" fn start() {
    state::begin_here();
}

/// Called when the process exits: notes what was touched of the long blocks that are left, and what the process uses.
pub(crate) extern "C" fn end() {
    residency::end_all();
    state::complete();
}
