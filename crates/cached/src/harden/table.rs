//! Tables of records: their addresses are claimed at once, and they are mapped as far as they are used.

use heapwright_os::{Refused, Reservation, round_to_pages};
use heapwright_slabs::arena::ArenaState;

/// A table is extended by an eighth, at least by this many bytes.
const LEAST_STEP: usize = 4 << 10;

/// A table of the process's lifetime; without addresses at first.
pub(super) struct Table(Option<Reservation>);

impl Table {
    pub(super) const NONE: Table = Table(None);

    /// Claims addresses for `bytes` and returns the first, at which nothing is mapped yet.
    pub(super) fn claim(&mut self, bytes: usize) -> Result<*mut u8, Refused> {
        let space = Reservation::claim_table(round_to_pages(bytes).ok_or(Refused)?)?;
        Ok(self.0.insert(space).base().as_ptr())
    }

    /// Makes at least the first `bytes` accessible, new ones as zeros; returns how many are now.
    pub(super) fn cover(&mut self, bytes: usize) -> Result<usize, Refused> {
        let space = self.0.as_mut().ok_or(Refused)?;
        let least = round_to_pages(bytes).ok_or(Refused)?;
        if least > space.extent() {
            space.extend(generous(least)?.min(space.length())).or_else(|Refused| space.extend(least))?;
        }
        Ok(space.extent())
    }

    /// As [`Table::cover`]; where the system refuses more addresses, the arena gives up those of a hole.
    pub(super) fn cover_from(&mut self, arena: &mut ArenaState, bytes: usize) -> Result<usize, Refused> {
        self.cover(bytes).or_else(|Refused| {
            let present = self.0.as_ref().ok_or(Refused)?.extent();
            let least = round_to_pages(bytes).ok_or(Refused)?;
            arena
                .extend_instead(generous(least)? - present, || self.cover(bytes))
                .or_else(|Refused| arena.extend_instead(least - present, || self.cover(bytes)))
        })
    }
}

/// Returns the length to which a table is extended that needs `least` bytes.
fn generous(least: usize) -> Result<usize, Refused> {
    round_to_pages(least + (least / 8).max(LEAST_STEP)).ok_or(Refused)
}
