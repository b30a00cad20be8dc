//! The mappings of code of a recorded process.

use std::fs;
use std::sync::Arc;

use heapwright_stream::{Entry, Mapping, SLOTS, State};

use super::merge::Buffers;
use super::source::{Producer, Stream};

/// Lists the mappings of a process: from the system while the process runs, from its stream afterwards. The recorder
/// adds all mappings to the stream when the process exits; calls that were made long before may still be unread then.
pub struct Mappings {
    producer: Producer,
    stream: Arc<Stream>,
}

impl Mappings {
    pub(crate) fn of(producer: Producer, stream: Arc<Stream>) -> Mappings {
        Mappings { producer, stream }
    }

    /// Calls `visit` for each mapping of the process, and returns whether the list may change.
    pub fn each(&self, visit: &mut dyn FnMut(&Mapping<'_>)) -> Listed {
        let lines = fs::read(format!("/proc/{}/maps", self.producer.pid())).unwrap_or_default();
        // Checked after the read: the mappings are then this program's.
        let is_over = self.producer.is_over();
        // A process that exits has no mappings any more for a moment before it is dead.
        if is_over || lines.is_empty() {
            self.each_in_stream(visit);
        } else {
            lines.split(|&byte| byte == b'\n').filter_map(Mapping::from_line).for_each(|mapping| visit(&mapping));
        }
        if is_over { Listed::Finally } else { Listed::SoFar }
    }

    /// Visits the mappings in all buffers that have not been read to their ends. Those in others are known.
    fn each_in_stream(&self, visit: &mut dyn FnMut(&Mapping<'_>)) {
        for number in 0..self.stream.buffers().unwrap_or(0) {
            let buffer = self.stream.buffer(number);
            if buffer.state() == State::Free {
                continue;
            }
            let (mut at, count) = (0, buffer.count().min(SLOTS));
            while at < count {
                // What is damaged here is reported when it is read in its order.
                let Some(entry) = buffer.entry(at) else { break };
                if let Entry::Mapping { .. } = entry
                    && let Some(mapping) = buffer.mapping(at)
                {
                    visit(&mapping);
                }
                at = at.saturating_add(entry.slots());
            }
        }
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
    use std::path::Path;

    use heapwright_stream::{Limits, Origin, Recording};

    use super::super::source::Source;
    use super::*;

    /// Begins the stream of this process's next program in `folder`.
    fn begun(folder: &Path) -> Recording {
        let folder = CString::new(folder.to_str().unwrap()).unwrap();
        Recording::begin(&folder, Origin::Exec, Limits { buffers: 2, patience: 1 }).unwrap()
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
        let source = Source::open(&folder.path().join(format!("{}-0", std::process::id()))).unwrap();
        let mappings = source.mappings();
        let (whether, paths) = listed(&mappings);
        assert!(whether == Listed::SoFar && paths.iter().any(|path| path.ends_with(b"/libc.so.6")), "{paths:?}");
        for path in [b"/first.so", b"/other.so"] {
            let range = 0x10_0000..0x10_1000;
            let mapping = Mapping { range, is_executable: true, is_guard: false, offset: 0, path };
            recording.add_mapping(0, &mapping);
        }
        // The next program's stream means that the first program is over.
        let _next = begun(folder.path());
        let all = vec![b"/first.so".to_vec(), b"/other.so".to_vec()];
        assert_eq!(listed(&mappings), (Listed::Finally, all.clone()));
        assert_eq!(listed(&mappings), (Listed::Finally, all), "reading them takes nothing away");
    }
}
