//! A placement to be guessed.

use heapwright_placement::PolicyKind;
use heapwright_show::number::{bytes, counted};

use super::before::{Before, Hole};

/// A placement to be guessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The call.
    pub call: String,
    /// The heap before it.
    pub before: Before,
    /// What can be chosen: the holes that the block fits, in address order, at least two; and behind them no hole, if
    /// the policy may pass over all of them.
    pub choices: Vec<Option<Hole>>,
    /// The number of the choice.
    pub chosen: usize,
}

impl Question {
    /// Chooses the next or the previous hole; the last and the first are neighbours.
    pub fn choose_by(&mut self, steps: isize) {
        let count = self.choices.len();
        self.chosen = self.chosen.wrapping_add_signed(steps).wrapping_add(count) % count;
    }

    /// Returns the chosen hole, if one is chosen.
    pub fn hole(&self) -> Option<Hole> {
        self.choices[self.chosen]
    }

    /// Asks where the block goes.
    pub fn text(&self, policy: PolicyKind) -> String {
        let holes = counted(self.choices.iter().flatten().count() as u64, "hole");
        format!("{}: which of {holes} does {} fit take?", self.call, policy.name())
    }

    /// Describes the chosen hole.
    pub fn choice(&self) -> String {
        let Some(hole) = self.hole() else { return format!("{}. none of them", self.chosen + 1) };
        let kind = if self.before.is_tail(hole) { "the free tail" } else { "the hole" };
        format!("{}. {kind} at {:#x} ({})", self.chosen + 1, hole.start, bytes(hole.len as u64))
    }
}
