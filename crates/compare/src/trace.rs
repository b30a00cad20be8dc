//! The trace that is replayed, and its identity.

use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result};
use crc32fast::Hasher;
use heapwright_trace::Reader;
use serde::{Deserialize, Serialize};

use heapwright_host::interruption::Interruption;
use heapwright_host::names::Shown;

/// A trace's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The program that was recorded.
    pub program: Option<String>,
    /// Its arguments, separated by spaces.
    pub arguments: Option<String>,
    /// The program and its arguments as a shell reads them. Older recordings have none.
    #[serde(default)]
    pub command: Option<String>,
    /// The file's name; what has no name of its own is called what it is.
    pub file: String,
    /// The file's length, in bytes.
    pub bytes: u64,
    /// The file's CRC-32, in hexadecimal.
    pub crc32: String,
    /// Events, without changes of threads.
    pub events: u64,
    /// The length of the trace in positions: events and changes of threads. Older results have none, and count changes
    /// of threads as events.
    #[serde(default)]
    pub positions: u64,
    /// Blocks that appear, by allocation or by resizing.
    pub blocks: u64,
    /// Threads that made calls.
    pub threads: u64,
    /// The most bytes, as asked, that lived at one time.
    pub peak_asked: u64,
    /// Whether the recording came to its own end.
    pub is_whole: bool,
    /// Whether it says when its events happened; `None` if that was not looked at.
    #[serde(default)]
    pub has_times: Option<bool>,
    /// Why only a part of it can be read.
    #[serde(default)]
    pub damage: Option<String>,
    /// Why the recording ended before the program did, if it did so.
    #[serde(default)]
    pub incomplete: Option<String>,
    /// How the program failed that the command ran and recorded, as in "exit status: 4"; `None` if it did not, and of
    /// traces that were recorded before.
    #[serde(default)]
    pub failure: Option<String>,
}

impl Trace {
    /// Returns the position of the trace's end; samples have positions, too.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.positions.max(self.events)
    }

    /// Returns whether it has only a part of what the program did. Of bytes behind its end, which are damage too, it
    /// has none.
    #[must_use]
    pub fn is_in_part(&self) -> bool {
        !self.is_whole || self.incomplete.is_some()
    }

    /// Returns the program and the file that it was read from.
    pub fn title(&self) -> String {
        match &self.program {
            Some(program) => format!("{program} ({})", self.file),
            None => self.file.clone(),
        }
    }

    /// Reads all of a trace. `peak_asked` stays 0: it takes a replay to compute.
    pub fn read(path: &Path, interruption: &Interruption) -> Result<Trace> {
        let mut hashed = Hashed { from: interruption.open(path)?, hasher: Hasher::new(), bytes: 0 };
        let mut read =
            || Ok::<_, anyhow::Error>(Trace::from_reader(Reader::new(BufReader::new(&mut hashed))?.up_to_damage())?);
        let mut trace = read().with_context(|| path.shown().into_owned())?;
        std::io::copy(&mut hashed, &mut std::io::sink()).with_context(|| path.shown().into_owned())?;
        trace.file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        trace.bytes = hashed.bytes;
        trace.crc32 = format!("{:08x}", hashed.hasher.finalize());
        Ok(trace)
    }

    fn from_reader(mut reader: Reader<'_>) -> Result<Trace, heapwright_trace::ReadError> {
        let mut trace = Trace::default();
        let counts = reader.count_events()?;
        (trace.events, trace.blocks, trace.threads) = (counts.calls, counts.blocks, counts.threads.max(1));
        trace.positions = reader.events_read();
        trace.is_whole = reader.is_finished();
        trace.damage = reader.damage().map(ToString::to_string);
        trace.incomplete = reader.about().incomplete().map(str::to_owned);
        trace.program = reader.about().get("program").map(str::to_owned);
        trace.arguments = reader.about().get("arguments").map(str::to_owned);
        trace.command = reader.about().get("command").map(str::to_owned);
        Ok(trace)
    }
}

/// Computes the check sum of what is read.
struct Hashed<R> {
    from: R,
    hasher: Hasher,
    bytes: u64,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(bytes)?;
        self.hasher.update(&bytes[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}
