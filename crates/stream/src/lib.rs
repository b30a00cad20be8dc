//! The stream from a recorded process to whoever writes its trace: every call of the malloc family, in order.
//!
//! A stream is a file in a directory of the collector's, one per program image: a [`Header`] page, then windows of 4 MiB of
//! [`Record`]s of 16 bytes. The process maps a window of the file and stores into it, so that everything up to
//! [`Header::committed`] is there for the collector whatever happens to the process, `kill -9` included. The collector says in
//! [`Header::consumed`] how far it has read; the process uses windows that have been read again, and makes the file longer only when it is ahead.
//!
//! The order of the records is one in which the calls can have happened: a free is recorded before the real call, an
//! allocation after it, and a `realloc` by two records around it. So an address never appears before it has gone, whatever the
//! threads do.
//!
//! There is one stream per process, behind one lock; a program of many threads that allocate all the time is slowed down by it.
//!
//! From the bottom up: [`Record`], [`Header`], [`Recording`] (the process's side).
#![no_std]

#[cfg(test)]
extern crate std;

mod header;
mod record;
mod recording;

pub use header::{CLOSED, Header, MAGIC, VERSION, WINDOW};
pub use record::{Call, RECORD, Record};
pub use recording::{Limits, Origin, Recording};

/// The environment variable that names the directory for streams; without it nothing is recorded.
pub const VARIABLE: &core::ffi::CStr = c"HEAPWRIGHT_RECORD";
