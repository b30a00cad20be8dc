//! The heap of another process, found by its beacon.

use std::fmt;
use std::fs;
use std::ops::Range;

use heapwright_beacon::{Beacon, Dark, MAGIC, Sighting};
use heapwright_os::{ForeignError, read_foreign};

/// No library has more writable data than this; what has is passed over.
const LONGEST_DATA: usize = 64 << 20;

/// Where a process has its heap.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// The process.
    pub pid: u32,
    /// Its beacon's address.
    beacon: usize,
    /// What the beacon tells.
    pub told: Sighting,
}

/// Why a heap cannot be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// There is no such process any more.
    Gone,
    /// The system does not let us look into it.
    Denied,
    /// The drop-in library is not loaded, or has not begun.
    NoHeap,
    /// The library is of another version.
    OtherVersion,
    /// The memory at the place where the heap should be says something else.
    NotAHeap,
}

impl From<ForeignError> for Unseen {
    fn from(error: ForeignError) -> Unseen {
        match error {
            ForeignError::Denied => Unseen::Denied,
            ForeignError::Gone => Unseen::Gone,
            ForeignError::Unmapped | ForeignError::Other(_) => Unseen::NotAHeap,
        }
    }
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unseen::Gone => "there is no such process (any more)",
            Unseen::Denied => {
                "the system does not let this user look into it: processes of other users are for root only, and where \
                 /proc/sys/kernel/yama/ptrace_scope is not 0, so are all that were not started by `heapwright watch -- PROGRAM`"
            }
            Unseen::NoHeap => {
                "it does not run under libheapwright.so: start it with `heapwright watch -- PROGRAM` or `heapwright run -- PROGRAM`"
            }
            Unseen::OtherVersion => "its libheapwright.so is of another version than this command",
            Unseen::NotAHeap => "there is no heap where its libheapwright.so says",
        })
    }
}

impl std::error::Error for Unseen {}

impl Sight {
    /// Finds the heap of process `pid`.
    pub fn find(pid: u32) -> Result<Sight, Unseen> {
        let maps = fs::read(format!("/proc/{pid}/maps")).map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => Unseen::Denied,
            _ => Unseen::Gone,
        })?;
        let maps = String::from_utf8_lossy(&maps);
        let mut data: Vec<Data> = maps.lines().filter_map(Data::of_line).collect();
        data.sort_by_key(|data| !data.is_likely);
        let mut reason = Unseen::NoHeap;
        for Data { range, .. } in data {
            match find_within(pid, range) {
                Ok(Some(sight)) => return Ok(sight),
                Ok(None) => {}
                Err(Unseen::NotAHeap) => {}
                Err(unseen @ (Unseen::Gone | Unseen::Denied)) => return Err(unseen),
                Err(unseen) => reason = unseen,
            }
        }
        Err(reason)
    }

    /// Whether the beacon is still lit and says the same: the process has not become another program.
    pub fn holds(&self) -> bool {
        let mut bytes = [0; Beacon::LENGTH];
        read_foreign(self.pid, self.beacon, &mut bytes) == Ok(Beacon::LENGTH) && Beacon::read(&bytes) == Ok(self.told)
    }
}

/// Writable data of a file that is mapped.
struct Data {
    range: Range<usize>,
    /// Whether the file looks like the drop-in library.
    is_likely: bool,
}

impl Data {
    /// The mapping that a line of `/proc/PID/maps` is about, if it can hold a beacon.
    fn of_line(line: &str) -> Option<Data> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        let is_writable_copy = fields.next()?.starts_with("rw-p");
        let path = fields.nth(3)?;
        let is_data = is_writable_copy && path.starts_with('/') && end.saturating_sub(start) <= LONGEST_DATA;
        is_data.then(|| Data { range: start..end, is_likely: path.contains("heapwright") })
    }
}

fn find_within(pid: u32, range: Range<usize>) -> Result<Option<Sight>, Unseen> {
    let mut bytes = vec![0; range.len()];
    let length = read_foreign(pid, range.start, &mut bytes)?;
    let mut reason = None;
    for (number, place) in bytes[..length].chunks_exact(Beacon::ALIGN).enumerate() {
        if !place.starts_with(&MAGIC) {
            continue;
        }
        let at = number * Beacon::ALIGN;
        match Beacon::read(&bytes[at..length]) {
            Ok(told) => return Ok(Some(Sight { pid, beacon: range.start + at, told })),
            Err(Dark::OtherVersion(_)) => reason = Some(Unseen::OtherVersion),
            Err(Dark::NotLit | Dark::NotABeacon) => {}
        }
    }
    reason.map_or(Ok(None), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writable_data_of_files_is_looked_at_and_nothing_else() {
        let range = |line| Data::of_line(line).map(|data| (data.range, data.is_likely));
        let library = "7f1000-7f3000 rw-p 00005000 08:01 42   /tmp/heapwright-0/libheapwright-1f.so";
        assert_eq!(range(library), Some((0x7f1000..0x7f3000, true)));
        assert_eq!(
            range("400000-401000 rw-p 00000000 08:01 42 /usr/bin/my program"),
            Some((0x400000..0x401000, false))
        );
        for other in [
            "7f1000-7f3000 r-xp 00005000 08:01 42 /tmp/libheapwright.so",
            "7f1000-7f3000 rw-s 00005000 08:01 42 /dev/shm/libheapwright.so",
            "7f1000-7f3000 rw-p 00000000 00:00 0",
            "7f1000-7f3000 rw-p 00000000 00:00 0 [heap]",
            "0-ffffffffffff rw-p 00000000 08:01 42 /tmp/long",
            "x-y rw-p",
            "",
        ] {
            assert_eq!(range(other), None, "{other}");
        }
    }

    /// The test's own process does not run under the library; nor do processes that do not exist.
    #[test]
    fn a_process_without_the_library_has_no_heap() {
        assert_eq!(Sight::find(std::process::id()).err(), Some(Unseen::NoHeap));
        assert_eq!(Sight::find(0x3fff_fff0).err(), Some(Unseen::Gone));
    }
}
