//! A call to the system: its error, whether it is worth making, and what it waits for.

pub(crate) mod effect;
pub(crate) mod errno;
pub(crate) mod page_size;
#[cfg(feature = "refusals")]
pub mod refusals;
pub(crate) mod refused;
pub(crate) mod waiting;
