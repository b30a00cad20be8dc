//! Clocks, of the system and of the processor.

pub(crate) mod clock;
pub(crate) mod ticks;
