//! Code that just-in-time compilers make, and the file in which they name it for perf.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use heapwright_names::PerfMap;
use heapwright_os::Numbers;

use crate::producer::Producer;

/// The beginning of the texts of such frames.
const MODULE: &str = "jit";

/// The longest map that is read, in bytes.
const LONGEST: u64 = 256 << 20;

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
    /// What was read of the map.
    text: Vec<u8>,
    frames: HashSet<u64>,
}

impl MadeCode {
    /// Returns none of the process yet.
    pub fn of(process: &Producer) -> MadeCode {
        /// How long after its first calls a process may be found.
        const LATE: Duration = Duration::from_secs(10);
        let since = SystemTime::now().checked_sub(LATE).unwrap_or(SystemTime::UNIX_EPOCH);
        MadeCode { map: map_of(process), since, text: Vec::new(), frames: HashSet::new() }
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
        let Some(mut file) = self.open() else { return false };
        let known = self.text.len();
        // What can be read counts.
        let _ = file.seek(SeekFrom::Start(known as u64));
        let _ = file.take(LONGEST.saturating_sub(known as u64)).read_to_end(&mut self.text);
        let whole = self.text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        self.text.truncate(whole.max(known));
        PerfMap::ranges(&self.text[known..]).for_each(|(start, end)| add(start, end));
        true
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
        self.read(|_, _| {});
        let map = PerfMap::of(&self.text);
        let name = |&address: &u64| Some((text(address), map.name(address)?.to_owned()));
        self.frames.iter().filter_map(name).collect()
    }
}

fn text(address: u64) -> String {
    format!("{MODULE}+{address:#x}")
}
