//! The files that the command carries inside: the libraries that it preloads, the benchmark process, and a trace.
//!
//! The build script builds the first three with the profile made for them. This crate depends on nothing, so that the
//! build begins with it.

/// The drop-in library, `libheapwright.so`.
pub static DROP_IN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libheapwright.so"));

/// The recorder, `libheapwright_record.so`.
pub static RECORDER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libheapwright_record.so"));

/// The process in which mallocs are measured.
pub static BENCH: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/heapwright-bench"));

/// The trace of a C++ compiler, recorded by `corpus/record`.
pub static BUNDLED: &[u8] = include_bytes!("../../../corpus/default.hwt");
