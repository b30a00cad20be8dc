//! The stream of records from a recorded process to the collector that writes its trace: every call of the malloc
//! family, in order.
//!
//! A stream is a file in the collector's directory, one per program image: a [`Header`], then [`Buffer`]s of 64 KiB.
//! Each thread stores [records](Record) of 16 bytes in a buffer of its own, without a lock. The collector can read all
//! records up to [`Buffer::count`] whatever happens to the process, also after `kill -9`. A full buffer is reused when
//! the collector has read it, so that the file grows only when the process is ahead of the collector.
//!
//! The calls of a thread come in turns, numbered by one counter (`turns`). A call that happens after another thread's
//! call for the same block is in a turn with a higher number, and so are the calls for long blocks. Others of several
//! threads may be in another order within some 64 slots. A free is recorded before the real call, an
//! allocation after it, and a `realloc` is two records around it. So no address appears as allocated before it appears
//! as freed.
//!
//! The collector takes the calls of the lowest turn that it has seen, when it has looked at all buffers since it saw
//! them. What precedes a call was recorded before it: nothing is waited for, also not for a thread that has ended.
//!
//! Buffers of threads have [stops](Buffer::pass_stop), at random distances of some 512 slots, which cost nothing
//! between them: the call after each is timed. At the end of a buffer a thread also records what the process
//! [uses](Usage), at most once per millisecond; that belongs to the next call in the next buffer.
//!
//! When a thread has ended, a new thread takes over its buffer. Threads without a buffer share one behind a lock: when
//! there are too many threads, or when a signal interrupted a thread that was writing to its own.
//!
//! When stacks are recorded, a stream has a table of [`Paths`] as well.
//!
//! From the bottom up: `turns`, [`Record`], [`Run`], [`Paths`], [`Buffer`], `command`, [`Header`], `StreamPath`,
//! [`Recording`] (the process's side); beside it `refusal`, of processes without a stream.
#![no_std]

#[cfg(test)]
extern crate std;

mod buffer;
mod command;
mod header;
mod owners;
mod paths;
mod record;
mod recording;
mod refusal;
mod run;
mod sampler;
mod stream_path;
mod turns;

pub use buffer::{Appended, BUFFER, Buffer, PythonName, SLOTS, STACK, Stack, State};
pub use header::{BUFFERS, Header, Last, MAGIC, Timed, VERSION};
pub use paths::{Base, PATH, PYTHON, Paths, Rule};
pub use record::{Call, Entry, Packed, Record, SLOT};
pub use recording::{Limits, Origin, Recording};
pub use refusal::{Refusal, note_refusal};
pub use run::{Run, Usual};
pub use sampler::{ALWAYS_SAMPLED_FROM, Sampler};
pub use stream_path::PATH_LENGTH;
pub use turns::note_forked;

pub use heapwright_os::{Mapping, Place, Usage};

/// The environment variable with the directory for streams; without it no calls are recorded.
pub const VARIABLE: &core::ffi::CStr = c"HEAPWRIGHT_RECORD";

/// The environment variable that, if it is set, enables recording the time of every call.
pub const TIMES: &core::ffi::CStr = c"HEAPWRIGHT_RECORD_TIMES";

/// The environment variable that, if it is set to a number N, enables recording the stack of one request in N.
pub const SITES: &core::ffi::CStr = c"HEAPWRIGHT_RECORD_SITES";
