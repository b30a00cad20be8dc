//! The ways of performing a script, batch by batch: by one thread, or by as many worker threads as were recorded.

use anyhow::Result;

use super::observer::Observer;
use super::op::Op;
use super::payload::Payload;
use super::player::{Entry, Player};
use super::violation::Violation;
use super::workers::Workers;
use heapwright_host::lazy::Lazy;

/// Performs batches of operations, one after the other.
pub trait Performer {
    type Payload: Payload;
    type Observer: Observer;

    /// Prepares a batch. Not timed.
    fn prepare(&mut self, ops: &[Op]) -> Result<()>;

    /// Performs the batch that was prepared. Its first operation is event `first`.
    fn perform(&mut self, ops: &[Op], first: u64) -> Result<(), Violation>;

    /// Cleans up after a batch, `done` events into the script. Not timed.
    fn settle(&mut self, done: u64);

    /// Returns the number of threads that the replay has now.
    fn threads(&self) -> usize;

    /// The players that made the calls, one per thread.
    fn players(&self) -> impl Iterator<Item = &Player<Self::Payload, Self::Observer>>;
}

/// One thread, in the order of the trace.
pub struct Solo<P, W> {
    player: Player<P, W>,
    table: Lazy<Entry>,
}

impl<P: Payload, W: Observer> Solo<P, W> {
    /// Allocates a table of `slots` blocks.
    pub fn new(slots: usize, player: Player<P, W>) -> Result<Solo<P, W>> {
        Ok(Solo { player, table: Lazy::committed(slots)? })
    }
}

impl<P: Payload, W: Observer> Performer for Solo<P, W> {
    type Payload = P;
    type Observer = W;

    fn prepare(&mut self, _: &[Op]) -> Result<()> {
        Ok(())
    }

    fn perform(&mut self, ops: &[Op], first: u64) -> Result<(), Violation> {
        self.player.perform_all(ops, first, &mut self.table)
    }

    fn settle(&mut self, _: u64) {}

    fn threads(&self) -> usize {
        1
    }

    fn players(&self) -> impl Iterator<Item = &Player<P, W>> {
        std::iter::once(&self.player)
    }
}

impl<P: Payload, W: Observer> Performer for Workers<P, W> {
    type Payload = P;
    type Observer = W;

    fn prepare(&mut self, ops: &[Op]) -> Result<()> {
        self.share_out(ops)
    }

    fn perform(&mut self, _: &[Op], first: u64) -> Result<(), Violation> {
        self.perform_window(first)
    }

    fn settle(&mut self, done: u64) {
        self.end_threads(done);
    }

    fn threads(&self) -> usize {
        Workers::threads(self)
    }

    fn players(&self) -> impl Iterator<Item = &Player<P, W>> {
        Workers::players(self)
    }
}
