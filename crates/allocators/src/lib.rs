//! The allocators that a program can be run under: the drop-in library, its policies, and other mallocs on this
//! machine.

pub mod allocator;
pub mod baselines;
pub mod elf;
pub mod launcher;
pub mod peers;
pub mod policy;
pub mod preload;
pub mod rules;
