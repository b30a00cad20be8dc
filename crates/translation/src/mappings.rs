//! The mappings of code of a recorded process.

use std::ops::ControlFlow;

use heapwright_stream::{Entry, Mapping};

use super::producer::Producer;

/// Lists the mappings of a process: from the system while the process runs, from its stream afterwards. The recorder
/// adds all mappings to the stream when the process exits; calls that were made long before may still be unread then.
pub struct Mappings {
    producer: Producer,
}

impl Mappings {
    pub(crate) fn of(producer: Producer) -> Mappings {
        Mappings { producer }
    }

    /// Calls `visit` for each mapping of the process, and returns whether the list may change.
    pub fn each(&self, visit: &mut dyn FnMut(&Mapping<'_>)) -> Listed {
        let lines = self.producer.maps.read();
        let is_over = self.producer.is_over();
        // After an `exec`, and for a moment before a process is dead, the program has no mappings, but no next stream
        // exists yet.
        if is_over || lines.is_empty() {
            self.each_in_stream(visit);
        } else {
            lines.split(|&byte| byte == b'\n').filter_map(Mapping::from_line).for_each(|mapping| visit(&mapping));
        }
        if is_over { Listed::Finally } else { Listed::SoFar }
    }

    /// Visits the mappings in all buffers that have not been read to their ends. Those in others are known.
    fn each_in_stream(&self, visit: &mut dyn FnMut(&Mapping<'_>)) {
        let _all = self.producer.stream.each_entry(|buffer, at, entry| {
            if let Entry::Mapping { .. } = entry
                && let Some(mapping) = buffer.mapping(at)
            {
                visit(&mapping);
            }
            ControlFlow::Continue(())
        });
    }
}

/// Whether a list of mappings may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// It may: the process runs.
    SoFar,
    /// It does not: the process is over.
    Finally,
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::io::{ErrorKind, PipeReader, Read, Write, pipe};
    use std::os::unix::process::CommandExt;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command};
    use std::thread;
    use std::time::Duration;

    use heapwright_stream::{Limits, Origin, Recording};

    use super::super::source::Source;
    use super::*;

    /// Begins the stream of this process's next program in `folder`.
    fn begun(folder: &Path) -> Recording {
        let folder = CString::new(folder.to_str().unwrap()).unwrap();
        Recording::begin(&folder, Origin::Exec, Limits { buffers: 2, patience: 1, has_paths: false }).unwrap()
    }

    fn listed(mappings: &Mappings) -> (Listed, Vec<Vec<u8>>) {
        let mut paths = Vec::new();
        let listed = mappings.each(&mut |mapping| paths.push(mapping.path.to_vec()));
        (listed, paths)
    }

    #[test]
    fn mappings_that_a_process_listed_at_its_end_are_found_in_its_stream() {
        let folder = tempfile::tempdir().unwrap();
        let mut recording = begun(folder.path());
        let source = Source::open(&only_stream(folder.path())).unwrap();
        let mappings = source.mappings();
        let (whether, paths) = listed(&mappings);
        assert!(whether == Listed::SoFar && paths.iter().any(|path| path.ends_with(b"/libc.so.6")), "{paths:?}");
        for path in [b"/first.so", b"/other.so"] {
            let range = 0x10_0000..0x10_1000;
            let mapping = Mapping { range, is_executable: true, is_guard: false, offset: 0, file: 0, path };
            recording.add_mapping(0, &mapping);
        }
        // The next program's stream means that the first program is over.
        let _next = begun(folder.path());
        let all = vec![b"/first.so".to_vec(), b"/other.so".to_vec()];
        assert_eq!(listed(&mappings), (Listed::Finally, all.clone()));
        assert_eq!(listed(&mappings), (Listed::Finally, all), "reading them takes nothing away");
    }

    /// Starts a process that begins a stream in `folder`, with one mapping in it, and waits for a byte from `hold`.
    /// Then it runs another program, which has no recorder, as it has none yet between an `exec` and the start of the
    /// recorder.
    fn spawned(folder: &Path, mut hold: PipeReader) -> Child {
        let folder = CString::new(folder.to_str().unwrap()).unwrap();
        let mut command = Command::new("sleep");
        command.arg("100");
        let begin = move || {
            let mut recording =
                Recording::begin(&folder, Origin::Exec, Limits { buffers: 2, patience: 1, has_paths: false })
                    .map_err(|_| ErrorKind::Other)?;
            let range = 0x10_0000..0x10_1000;
            recording.add_mapping(
                0,
                &Mapping { range, is_executable: true, is_guard: false, offset: 0, file: 0, path: b"/own.so" },
            );
            std::mem::forget(recording);
            hold.read(&mut [0]).map(drop)
        };
        // SAFETY: the closure makes system calls only, and does not allocate.
        unsafe { command.pre_exec(begin) };
        command.spawn().unwrap()
    }

    /// Waits for the one stream in `folder`.
    fn only_stream(folder: &Path) -> PathBuf {
        loop {
            let mut found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
            // Where there are no files without names, a stream has a temporary name until it is complete.
            if let Some(found) = found.find(|entry| !entry.file_name().as_encoded_bytes().starts_with(b".")) {
                return found.path();
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn mappings_of_the_next_program_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let (hold, mut release) = pipe().unwrap();
        let own = vec![b"/own.so".to_vec()];
        let (mut child, _early) = thread::scope(|scope| {
            let child = scope.spawn(|| spawned(folder.path(), hold));
            let early = Source::open(&only_stream(folder.path())).unwrap();
            let mappings = early.mappings();
            let (whether, paths) = listed(&mappings);
            assert!(whether == Listed::SoFar && paths.iter().any(|path| path.ends_with(b"/libc.so.6")), "{paths:?}");
            release.write_all(b".").unwrap();
            let child = child.join().unwrap();
            assert_eq!(listed(&mappings), (Listed::SoFar, own.clone()), "listed before and afterwards");
            assert_eq!(listed(&early.mappings()), (Listed::SoFar, own.clone()), "opened before");
            (child, early)
        });
        let late = Source::open(&only_stream(folder.path())).unwrap();
        assert_eq!(listed(&late.mappings()), (Listed::SoFar, own.clone()), "opened afterwards");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(listed(&late.mappings()), (Listed::Finally, own));
    }
}
