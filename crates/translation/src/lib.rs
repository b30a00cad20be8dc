//! From the stream of a recorded process to its trace.
//!
//! From the bottom up: `merge` (threads' buffers in order), `stream` (mapped into memory), `maps` (the system's list of
//! mappings), `seen` (processes of other namespaces), `producer` (whether the program runs), `mappings` (where a
//! process has code), `source` (reads the stream of a process), `blocks` (live blocks by address), `clock` (times),
//! `samples` (the process's memory and processor time), `sites` (call sites from stacks), `located` (places in files,
//! for imports), `figures` (counts of what was recorded), `usual` (calls that become events in batches), `translation`
//! (calls to trace events).
//!
//! Every call of a recorded program passes through here while the program runs, so that this crate is optimised fully,
//! unlike the rest of the command.

mod blocks;
mod clock;
mod figures;
mod located;
mod mappings;
mod maps;
mod merge;
mod producer;
mod samples;
mod seen;
mod sites;
mod source;
mod stream;
mod translation;
mod usual;

pub use self::clock::Rate;
pub use self::figures::Figures;
pub use self::located::InstalledFiles;
pub use self::mappings::{Listed, Mappings};
pub use self::maps::threads_of;
pub use self::producer::Producer;
pub use self::samples::Samples;
pub use self::seen::Seen;
pub use self::sites::{LONGEST_MAP, Library, Look, Redaction, Sampled, Sites};
pub use self::source::{Source, Table};
pub use self::translation::{Clock, Translation};
