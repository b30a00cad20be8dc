//! Code that just-in-time compilers make, and the file in which they name it for perf.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use heapwright_names::PerfMap;
use heapwright_os::Numbers;

use crate::producer::Producer;

/// The beginning of the texts of such frames.
const MODULE: &str = "jit";

/// How much of a map is read, in bytes: its end, since compilers append what they make.
pub const LONGEST: u64 = 1 << 30;

/// The longest line that is read, in bytes.
const LONGEST_LINE: u64 = 64 << 10;

/// The most frames that are named.
const MOST: usize = 1 << 20;

/// Returns the path of a process's map, whose name has the number that the process knows itself by. Of another
/// namespace it is found through the process: the folder is another one as a rule, and here other processes have that
/// number.
fn map_of(process: &Producer) -> PathBuf {
    let pid = process.own_pid();
    let folder = match (process.numbers(), process.seen()) {
        (Numbers::Known, _) => "/tmp".to_owned(),
        (Numbers::Unknown, Some(seen)) => format!("/proc/{}/root/tmp", seen.pid),
        (Numbers::Unknown, None) => return PathBuf::new(),
    };
    format!("{folder}/perf-{pid}.map").into()
}

/// The frames of a process in code that is in no file.
pub struct MadeCode {
    map: PathBuf,
    /// A map that was last written before is that of an older process with the same number.
    since: SystemTime,
    /// Up to where the map was read.
    known: u64,
    /// The map when it was last read. A process may remove it at its end.
    last: Option<File>,
    frames: HashSet<u64>,
}

impl MadeCode {
    /// Returns none of the process yet.
    pub fn of(process: &Producer) -> MadeCode {
        /// How long after its first calls a process may be found.
        const LATE: Duration = Duration::from_secs(10);
        let since = SystemTime::now().checked_sub(LATE).unwrap_or(SystemTime::UNIX_EPOCH);
        MadeCode { map: map_of(process), since, known: 0, last: None, frames: HashSet::new() }
    }

    /// Opens the map. In a folder that all users write to, only a file of the own user or of root is believed.
    fn open(&self) -> Option<File> {
        let found = fs::symlink_metadata(&self.map).ok()?;
        let own = fs::metadata("/proc/self").ok()?.uid();
        let is_old = found.modified().ok()? < self.since;
        if !found.is_file() || is_old || (found.uid() != own && found.uid() != 0) {
            return None;
        }
        let file = File::open(&self.map).ok()?;
        let opened = file.metadata().ok()?;
        ((opened.dev(), opened.ino()) == (found.dev(), found.ino())).then_some(file)
    }

    /// Reads what the process has added to its map, and passes where that code is to `add`. Returns whether there is a
    /// map.
    pub fn read(&mut self, mut add: impl FnMut(u64, u64)) -> bool {
        let Some(file) = self.open() else { return false };
        self.known = read_lines(&file, self.known, |line| {
            if let Some(code) = PerfMap::range(line) {
                add(code.start, code.end);
            }
        });
        self.last = Some(file);
        true
    }

    /// Returns the map and its length in bytes if it is longer than what is read of it, and has names that are needed.
    pub fn cut(&self) -> Option<(&Path, u64)> {
        let length = self.last.as_ref()?.metadata().ok()?.len();
        (length > LONGEST && !self.frames.is_empty()).then_some((&*self.map, length))
    }

    /// Returns the text of a frame in sites.
    pub fn text(&mut self, address: u64) -> String {
        if self.frames.len() < MOST {
            self.frames.insert(address);
        }
        text(address)
    }

    /// Returns the texts of frames that the map names, with their names.
    pub fn names(&mut self) -> Vec<(String, String)> {
        if self.frames.is_empty() {
            return Vec::new();
        }
        let mut map = PerfMap::at(self.frames.iter().copied());
        self.last = self.open().or(self.last.take());
        if let Some(file) = &self.last {
            read_lines(file, 0, |line| map.add_line(line));
        }
        let name = |&address: &u64| Some((text(address), map.name(address)?.to_owned()));
        self.frames.iter().filter_map(name).collect()
    }
}

/// Passes the lines of a map from a place on to `each`, but not more than the end of the map. Returns the end of the
/// last line. What cannot be read is passed over, as are lines that are too long.
fn read_lines(mut file: &File, from: u64, mut each: impl FnMut(&[u8])) -> u64 {
    let length = file.metadata().map_or(0, |found| found.len());
    let start = from.max(length.saturating_sub(LONGEST));
    if file.seek(SeekFrom::Start(start)).is_err() {
        return from;
    }
    let mut reader = BufReader::with_capacity(64 << 10, file.take(LONGEST));
    let (mut line, mut at, mut end) = (Vec::new(), start, from);
    // The first line may have begun before.
    let mut is_rest = start > from;
    loop {
        line.clear();
        let count = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).unwrap_or(0) as u64;
        let is_end = line.ends_with(b"\n");
        if count == 0 || !is_end && count < LONGEST_LINE {
            return end;
        }
        at += count;
        if is_end {
            end = at;
            if !is_rest {
                each(&line);
            }
        }
        is_rest = !is_end;
    }
}

fn text(address: u64) -> String {
    format!("{MODULE}+{address:#x}")
}
