//! Who performs a script, batch by batch: one thread, or as many as were recorded.

use anyhow::Result;

use super::crew::Crew;
use super::op::Op;
use super::payload::Payload;
use super::player::{Entry, Player};
use super::violation::Violation;
use super::watch::Watch;
use crate::bench::lazy::Lazy;

/// Somebody who performs batches of operations, one after the other.
pub trait Team {
    type Payload: Payload;
    type Watch: Watch;

    /// Does what has to be done before a batch, and is not timed.
    fn prepare(&mut self, ops: &[Op]) -> Result<()>;

    /// Performs the batch that was prepared, the first of whose operations is event `first`.
    fn perform(&mut self, ops: &[Op], first: u64) -> Result<(), Violation>;

    /// Does what has to be done after a batch, `done` events into the script, and is not timed.
    fn settle(&mut self, done: u64);

    /// Those who made the calls.
    fn players(&self) -> impl Iterator<Item = &Player<Self::Payload, Self::Watch>>;
}

/// One thread, in the order of the trace.
pub struct Solo<P, W> {
    player: Player<P, W>,
    table: Lazy<Entry>,
}

impl<P: Payload, W: Watch> Solo<P, W> {
    /// With places for so many blocks.
    pub fn new(slots: usize, player: Player<P, W>) -> Result<Solo<P, W>> {
        Ok(Solo { player, table: Lazy::committed(slots)? })
    }
}

impl<P: Payload, W: Watch> Team for Solo<P, W> {
    type Payload = P;
    type Watch = W;

    fn prepare(&mut self, _: &[Op]) -> Result<()> {
        Ok(())
    }

    fn perform(&mut self, ops: &[Op], first: u64) -> Result<(), Violation> {
        self.player.perform_all(ops, first, &mut self.table)
    }

    fn settle(&mut self, _: u64) {}

    fn players(&self) -> impl Iterator<Item = &Player<P, W>> {
        std::iter::once(&self.player)
    }
}

impl<P: Payload, W: Watch> Team for Crew<P, W> {
    type Payload = P;
    type Watch = W;

    fn prepare(&mut self, ops: &[Op]) -> Result<()> {
        self.share_out(ops)
    }

    fn perform(&mut self, _: &[Op], first: u64) -> Result<(), Violation> {
        self.perform_window(first)
    }

    fn settle(&mut self, done: u64) {
        self.end_threads(done);
    }

    fn players(&self) -> impl Iterator<Item = &Player<P, W>> {
        self.members()
    }
}
