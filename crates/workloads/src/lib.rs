//! What runs in a measured process: workloads, allocators under test, and probes that time them.
//!
//! The built-in workloads (`workloads`) and the allocators that they run on (`subjects`), served by `worker`; the load
//! on a shared heap (`shared`); the programs of the published experiments (`published`). Other crates choose what is
//! measured, start the processes and interpret the times. This crate contains only what is measured, and is therefore
//! optimised fully, unlike the rest of the command.

mod numbers;
pub mod probe;
pub mod published;
pub mod shared;
pub mod subject;
pub mod subjects;
pub mod worker;
pub mod workloads;
