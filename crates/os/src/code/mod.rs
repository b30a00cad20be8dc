//! The code of the process: the processor's registers and instructions, the program and its libraries.

pub mod arch;
pub(crate) mod interposed;
pub mod loading;
pub(crate) mod objects;
