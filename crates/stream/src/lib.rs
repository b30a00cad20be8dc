//! The stream from a recorded process to whoever writes its trace: every call of the malloc family, in order.
//!
//! A stream is a file in a directory of the collector's, one per program image: a [`Header`], then [`Buffer`]s of 64 KiB. Each thread
//! has a buffer of its own and stores [records](Record) of 16 bytes into it, without a lock; everything up to
//! [`Buffer::count`] is there for the collector whatever happens to the process, `kill -9` included. A buffer that is full
//! and has been read is used again, so that the file grows only when the process is ahead.
//!
//! The order of all calls is that of their tickets, numbers that one counter gives out. A free takes its ticket before the real call, an
//! allocation after it, and a `realloc` is two records around it: so an address never appears before it has gone,
//! whatever the threads do. Whoever reads takes the record with the next ticket from wherever it is, and waits for it
//! when a thread has a ticket and has not written yet. When the process is dead, tickets that nobody wrote are passed over.
//!
//! A thread that has ended leaves its buffer to the next that begins. Threads that have none, because there are too many
//! or because a signal came while they were writing to theirs, share one behind a lock.
//!
//! From the bottom up: [`Record`], [`Buffer`], [`Header`], [`Recording`] (the process's side).
#![no_std]

#[cfg(test)]
extern crate std;

mod buffer;
mod header;
mod record;
mod recording;
mod sampler;

pub use buffer::{Appended, BUFFER, Buffer, SLOTS, STACK, Stack, State};
pub use header::{BUFFERS, Header, MAGIC, VERSION};
pub use record::{Call, Entry, Packed, Record, SLOT};
pub use recording::{Limits, Origin, Recording};
pub use sampler::Sampler;

pub use heapwright_os::{Mapping, Place};

/// The environment variable that names the directory for streams; without it nothing is recorded.
pub const VARIABLE: &core::ffi::CStr = c"HEAPWRIGHT_RECORD";

/// The environment variable that, if it is set, asks for the time of every call.
pub const TIMES: &core::ffi::CStr = c"HEAPWRIGHT_RECORD_TIMES";

/// The environment variable that, if it is set to a number N, asks for the stacks of one request in N.
pub const SITES: &core::ffi::CStr = c"HEAPWRIGHT_RECORD_SITES";
