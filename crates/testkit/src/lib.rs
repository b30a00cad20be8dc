//! What the tests of Heapwright are made of; a dev-dependency only.
//!
//! - [`Oracle`]: every policy as the textbook has it, a list of blocks that is walked from end to end. It is slow, and
//!   short enough to be believed. It can also play the [`Defect`]s of the programs that published figures came from.
//! - [`Scenario`] and [`Operation`]: a heap to be made and what is then done to it, drawn by a proptest strategy
//!   ([`strategy`]) or, ten times faster, from a seed ([`Script`]).
//! - [`Duel`]: an engine and the oracle side by side; every [`Operation`] is done to both, and every answer,
//!   counter and block compared.
//! - [`shrink`]: from a sequence of operations that fails to the shortest that still does.
//! - [`GnuRandom`]: the GNU C library's `rand()`, which the published programs drew their requests from.

mod duel;
mod gnu_random;
mod operation;
mod oracle;
mod scenario;
mod script;
mod shrinking;
pub mod strategy;

pub use duel::{Divergence, Duel};
pub use gnu_random::GnuRandom;
pub use operation::{Operation, Target, Told};
pub use oracle::{Defect, Oracle};
pub use scenario::Scenario;
pub use script::{Script, play};
pub use shrinking::{replay, shrink};
