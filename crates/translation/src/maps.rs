//! The system's list of the mappings of a recorded process.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Returns the numbers of the threads of a process.
pub fn threads_of(pid: u32) -> impl Iterator<Item = u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok())
}

/// The system's list of the mappings of one program. Once open, it stays the list of this program: after an `exec` it
/// is empty, before the next program's recorder has started.
pub(crate) enum Maps {
    /// Opened while the process ran the program.
    Open(File),
    /// The process ran another program, or none, by the time at which the list was opened.
    Gone,
    /// The system does not permit to open it.
    Refused,
}

impl Maps {
    /// Opens the list of the program that has mapped its stream. `own` is the address at which this process has mapped
    /// the same file.
    pub(crate) fn of(pid: u32, own: usize) -> Maps {
        match Maps::by(pid, own) {
            // When the first thread has ended before the others, they still have the mappings.
            Maps::Gone => threads_of(pid)
                .map(|thread| Maps::by(thread, own))
                .find(|maps| matches!(maps, Maps::Open(_)))
                .unwrap_or(Maps::Gone),
            maps => maps,
        }
    }

    /// As [`Maps::of`], by one thread of the process.
    fn by(thread: u32, own: usize) -> Maps {
        let Ok(file) = File::open(format!("/proc/{thread}/maps")) else { return Maps::Refused };
        let own_lines = fs::read("/proc/self/maps").unwrap_or_default();
        let start = format!("{own:x}-");
        let mut own_lines = own_lines.split(|&byte| byte == b'\n');
        let stream = own_lines.find(|line| line.starts_with(start.as_bytes())).and_then(file_of);
        let lines = read(&file);
        // The recorder maps the stream before it begins, and never unmaps it.
        let has_stream = stream.is_some() && lines.split(|&byte| byte == b'\n').any(|line| file_of(line) == stream);
        if has_stream { Maps::Open(file) } else { Maps::Gone }
    }

    /// Returns the lines; empty when the process does not run the program any more.
    pub(crate) fn read(&self) -> Vec<u8> {
        match self {
            Maps::Open(file) => read(file),
            Maps::Gone | Maps::Refused => Vec::new(),
        }
    }

    /// Returns whether the process still runs the program; `None` when that is not known.
    pub(crate) fn is_there(&self) -> Option<bool> {
        match self {
            Maps::Open(file) => Some(file.read_at(&mut [0], 0).is_ok_and(|read| read != 0)),
            Maps::Gone => Some(false),
            Maps::Refused => None,
        }
    }
}

/// Reads a file from its beginning, as far as it can be read.
fn read(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 16];
    let mut length = 0;
    loop {
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(read) if read != 0 => length += read,
            _ => break,
        }
    }
    bytes.truncate(length);
    bytes
}

/// Returns the device and the inode in a line of `/proc/PID/maps`.
fn file_of(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut fields = line.split(|&byte| byte == b' ').skip(3);
    Some((fields.next()?, fields.next()?))
}
