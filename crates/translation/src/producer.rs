//! The program that writes a stream: whether it runs, and what the system says of its process.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use heapwright_os::{Announcements, Deaths, Identity, Life, Numbers, life, pid_namespace};

use super::maps::Maps;
use super::seen::Seen;
use super::stream::Stream;

/// A program of a process, identified by its stream's name and header.
#[derive(Clone)]
pub struct Producer {
    path: PathBuf,
    pub(crate) stream: Arc<Stream>,
    process: Identity,
    /// Whether that number means the process in the namespace of this one.
    numbers: Numbers,
    /// The process in the namespace of this one, if it is there.
    seen: Option<Seen>,
    /// Whether it is not there though it lives.
    hidden: bool,
    /// The mappings of the program.
    pub(crate) maps: Arc<Maps>,
}

impl Producer {
    /// Returns the program that writes the stream at `path`.
    pub(crate) fn of(path: &Path, stream: Arc<Stream>) -> Producer {
        let header = stream.header();
        let process = Identity::from_word(header.process);
        let numbers = match pid_namespace() {
            // Neither knows its namespace, without `/proc`: it is one as a rule.
            None if header.namespace == 0 => Numbers::Known,
            _ => Numbers::of(Some(header.namespace)),
        };
        let (path, maps) = (path.to_owned(), Arc::new(Maps::Refused));
        let mut producer = Producer { path, stream, process, numbers, seen: None, hidden: false, maps };
        producer.look();
        producer.hidden = producer.seen.is_none() && !producer.is_over();
        producer
    }

    /// Finds the process in the namespace of this one.
    fn look(&mut self) {
        let (own, header) = (self.stream.address(), self.stream.header());
        let (seen, maps) = match self.numbers {
            Numbers::Known => {
                let seen = Seen { pid: self.process.pid, parent: header.parent };
                (Some(seen), Maps::of(seen.pid, own))
            }
            // To look for it takes a while, and a process that has ended is nowhere.
            Numbers::Unknown if self.life() == Life::Dead => (None, Maps::Refused),
            Numbers::Unknown => match Seen::look_for(self.process.pid, header.namespace, own) {
                Some((seen, maps)) => (Some(seen), maps),
                None => (None, Maps::Refused),
            },
        };
        (self.seen, self.maps) = (seen, Arc::new(maps));
    }

    /// Returns the process's number: in the namespace of this process, or else in its own.
    pub fn pid(&self) -> u32 {
        self.seen.map_or(self.process.pid, |seen| seen.pid)
    }

    /// Returns the process's number in its own namespace.
    pub fn own_pid(&self) -> u32 {
        self.process.pid
    }

    /// Returns the process in the namespace of this one; `None` if it is not there, or was not found before it ended.
    pub fn seen(&self) -> Option<Seen> {
        self.seen
    }

    /// Whether the process lived and was not found in the namespace of this one.
    pub fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// Whether the process's number means it in the namespace of this one.
    pub fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// Returns the index of the program within the process, from 0.
    pub fn image(&self) -> u32 {
        self.name().and_then(|(_, image)| image.parse().ok()).unwrap_or(0)
    }

    /// Returns whether the process is dead or runs another program.
    pub fn is_over(&self) -> bool {
        self.is_replaced() || self.life() == Life::Dead
    }

    /// Returns whether the process still runs the program; also detects an `exec` whose program has no stream.
    pub(crate) fn is_running(&self) -> bool {
        self.maps.is_there().unwrap_or_else(|| !self.is_over())
    }

    /// Returns whether the process runs another program that has not begun a stream. One that is ending has no mappings
    /// at all.
    pub(crate) fn runs_another(&self) -> bool {
        let Some(seen) = self.seen.filter(|_| self.maps.is_there() == Some(false)) else { return false };
        let has_mappings = fs::read(format!("/proc/{}/maps", seen.pid)).is_ok_and(|lines| !lines.is_empty());
        has_mappings && !self.is_over()
    }

    /// Returns whether the process lives. Numbers say so within one namespace, and announcements across them; these end
    /// with the program. Of a process without either, the mappings do, if it was found while it lived.
    fn life(&self) -> Life {
        if self.numbers == Numbers::Known {
            return life(self.process);
        }
        match self.stream.header().announced() {
            Some(announced) => match Announcements::of(self.stream.file.as_raw_fd()) {
                Some(announcements) => Deaths::Announced(announcements, None).life_of(announced),
                None => Life::Alive,
            },
            None if self.maps.is_there() == Some(false) => Life::Dead,
            None => Life::Alive,
        }
    }

    /// Returns whether the process has begun to run another program.
    pub fn is_replaced(&self) -> bool {
        self.path_of(self.image() + 1).exists()
    }

    /// Returns the path of the stream of a program of this process.
    pub(crate) fn path_of(&self, image: u32) -> PathBuf {
        let process = self.name().map_or("", |(process, _)| process);
        self.path.with_file_name(format!("{process}-{image}"))
    }

    /// Returns the process and its program in the stream's name.
    fn name(&self) -> Option<(&str, &str)> {
        self.path.file_name()?.to_str()?.rsplit_once('-')
    }
}
