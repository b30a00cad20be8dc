//! Finds the heap of another process by its beacon.

use std::fs;
use std::ops::Range;

use heapwright_beacon::{Beacon, Dark, MAGIC, Sighting};
use heapwright_host::target::read_present;

use super::foreign::read_bytes;
use super::unseen::Unseen;

/// Upper bound of a library's writable data; larger mappings are skipped.
const LONGEST_DATA: u64 = 64 << 20;

/// Location of a process's heap.
#[derive(Clone, Copy, Debug)]
pub struct HeapLocation {
    /// The process.
    pub pid: u32,
    /// Its beacon's address.
    beacon: u64,
    /// Contents of the beacon.
    pub contents: Sighting,
}

impl HeapLocation {
    /// Finds the heap of process `pid`.
    pub fn find(pid: u32) -> Result<HeapLocation, Unseen> {
        let maps = fs::read(format!("/proc/{pid}/maps")).map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => Unseen::Denied,
            _ => Unseen::Gone,
        })?;
        let maps = String::from_utf8_lossy(&maps);
        let mut data: Vec<Data> = maps.lines().filter_map(Data::of_line).collect();
        data.sort_by_key(|data| !data.is_likely);
        let mut reason = Unseen::NoHeap;
        for data in data {
            match find_within(pid, data) {
                Ok(Some(location)) => return Ok(location),
                Ok(None) => {}
                Err(Unseen::NotAHeap) => {}
                Err(unseen @ (Unseen::Gone | Unseen::Denied)) => return Err(unseen),
                Err(unseen) => reason = unseen,
            }
        }
        Err(reason)
    }

    /// Returns whether the beacon is unchanged: the process has not replaced its program.
    pub fn holds(&self) -> bool {
        read_bytes(self.pid, self.beacon, Beacon::LENGTH).is_ok_and(|bytes| Beacon::read(&bytes) == Ok(self.contents))
    }
}

/// Writable data of a mapped file.
struct Data {
    range: Range<u64>,
    /// Whether the file name is the drop-in library's.
    is_likely: bool,
}

impl Data {
    /// Parses a line of `/proc/PID/maps`; returns the mapping if it can contain a beacon.
    fn of_line(line: &str) -> Option<Data> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let is_writable_copy = fields.next()?.starts_with("rw-p");
        let path = fields.nth(3)?;
        let is_data = is_writable_copy && path.starts_with('/') && end.saturating_sub(start) <= LONGEST_DATA;
        is_data.then(|| Data { range: start..end, is_likely: path.contains("heapwright") })
    }
}

fn find_within(pid: u32, Data { range, is_likely }: Data) -> Result<Option<HeapLocation>, Unseen> {
    let (bytes, complete) = read_present(pid, range.start, (range.end - range.start) as usize)?;
    let mut reason = (is_likely && !complete).then_some(Unseen::Swapped);
    for (number, place) in bytes.chunks_exact(Beacon::ALIGN).enumerate() {
        if !place.starts_with(&MAGIC) {
            continue;
        }
        let at = number * Beacon::ALIGN;
        match Beacon::read(&bytes[at..]) {
            Ok(contents) => return Ok(Some(HeapLocation { pid, beacon: range.start + at as u64, contents })),
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

    /// Neither the test's own process, which does not run under the library, nor a missing process has a heap.
    #[test]
    fn a_process_without_the_library_has_no_heap() {
        assert_eq!(HeapLocation::find(std::process::id()).err(), Some(Unseen::NoHeap));
        assert_eq!(HeapLocation::find(0x3fff_fff0).err(), Some(Unseen::Gone));
    }
}
