//! Processes that the program started and left running at its end: daemons, for example.
//!
//! They are found by the directory of streams, which the environment of every recorded process names: they may have
//! made no call yet, and are children of another process by then.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use memchr::memmem;

use heapwright_allocators::preload::RECORD;
use heapwright_host::process::name_of;

/// A process that runs although the program has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its number in the namespace of this process.
    pub pid: u32,
    /// Its name, as the system keeps it.
    pub name: OsString,
}

impl Left {
    /// Finds the processes that run now and create their streams in `folder`; none where there is no /proc.
    pub fn all(folder: &Path) -> Vec<Left> {
        let found = search(folder);
        // One that forked and ended while it was looked for may have been missed, and its child, too.
        if found.is_empty() { search(folder) } else { found }
    }

    /// Returns whether it still runs.
    pub fn lives(&self, folder: &Path) -> bool {
        is_recorded(self.pid, folder)
    }
}

fn search(folder: &Path) -> Vec<Left> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let recorded = numbers.filter(|&pid| is_recorded(pid, folder));
    recorded.filter_map(|pid| Some(Left { pid, name: name_of(pid)? })).collect()
}

/// Returns whether a process was started with `folder` in its environment. One that has ended has no environment.
fn is_recorded(pid: u32, folder: &Path) -> bool {
    // Variables end with a zero byte, and so that each begins behind one, there is one in front.
    let variable = [b"\0", RECORD.as_bytes(), b"=", folder.as_os_str().as_bytes(), b"\0"].concat();
    let mut environment = vec![0];
    let read = File::open(format!("/proc/{pid}/environ")).and_then(|mut file| file.read_to_end(&mut environment));
    read.is_ok() && memmem::find(&environment, &variable).is_some()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn processes_are_found_until_they_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut start = Command::new("cat");
        let mut process =
            start.env(RECORD, folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Until it executes its program, it has this process's environment.
        while !is_recorded(process.id(), folder.path()) {
            std::thread::yield_now();
        }
        let left = Left::all(folder.path());
        assert_eq!(left, [Left { pid: process.id(), name: "cat".into() }]);
        assert!(left[0].lives(folder.path()) && !left[0].lives(Path::new("/another")));
        drop(process.stdin.take());
        process.wait().unwrap();
        assert!(!left[0].lives(folder.path()) && Left::all(folder.path()).is_empty());
    }

    #[test]
    fn variables_that_begin_or_end_otherwise_are_others() {
        let folder = Path::new("/tmp/streams");
        let mut start = Command::new("cat");
        start.env_clear().env(format!("X{RECORD}"), folder).env(RECORD, folder.join("more"));
        let mut process = start.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Until it executes its program, it has this process's environment.
        while !is_recorded(process.id(), &folder.join("more")) {
            std::thread::yield_now();
        }
        assert!(!is_recorded(process.id(), folder));
        drop(process.stdin.take());
        process.wait().unwrap();
    }
}
