//! Threads of this process: their numbers and slots, locks, and what forks do with these.

pub(crate) mod background;
pub(crate) mod forks;
pub(crate) mod lock;
pub(crate) mod streams;
pub(crate) mod thread_number;
pub(crate) mod thread_slot;
pub(crate) mod threads;
