//! Segments for tests of `heapwright shm`, in whatever condition.
#![allow(dead_code, reason = "each test file is a program of its own, and not all of them need all of this")]

use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use heapwright_shared::{Error, Offset, Place, Settings, SharedHeap};
use serde_json::Value;

use super::common::heapwright;

/// Where the lock's word lies in a segment, and what follows it: all that a crash or a stranger can leave is made by
/// hand.
pub const LOCK: u64 = 128;
/// The namespace of process numbers.
pub const NAMESPACE: u64 = 136;
/// The highest byte of the word that says which state of affairs the heap is in.
pub const EPOCH: u64 = 192 + 7;
/// What that byte is when a process found the heap broken.
pub const BROKEN: u8 = 0x80;
/// The first root of a segment with room for 64 processes: its offset.
pub const FIRST_ROOT: u64 = 320 + 64 * 16;
/// Bytes that the heap's metadata, in a segment of 64 KiB, certainly has.
pub const METADATA: RangeInclusive<u64> = 4096..=4600;

/// A name that no other test uses, and whatever has it is removed when dropped.
pub struct Spot {
    pub name: String,
    pub place: Place,
}

impl Spot {
    pub fn new(what: &str) -> Spot {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("heapwright-lab-{what}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let place = Place::new(&name).unwrap();
        Spot { name, place }
    }

    /// With a heap of 64 KiB, in which `blocks` were allocated and which all processes have closed.
    pub fn at_rest(what: &str, blocks: usize) -> Spot {
        let spot = Spot::new(what);
        let heap = SharedHeap::create(&spot.place, &Settings { size: 64 << 10, ..Settings::default() }).unwrap();
        allocate(&heap, blocks);
        heap.close().unwrap();
        spot
    }

    /// Adds ten blocks of a process that was killed, the first of them under the root `kept`. Returns the number of the
    /// dead.
    pub fn abandoned(what: &str) -> (Spot, u32) {
        let spot = Spot::at_rest(what, 0);
        let child = spot.attach(|heap| heap.set_root("kept", allocate(heap, 10)[0]).map(drop));
        let pid = child.pid;
        drop(child);
        (spot, pid)
    }

    /// A process that has opened the segment and done `work`, and now waits to be killed.
    pub fn attach(&self, work: impl FnOnce(&SharedHeap) -> Result<(), Error>) -> Child {
        let (mut reader, writer) = std::io::pipe().unwrap();
        // SAFETY: the child opens the segment, says that it is done, and sleeps until it is killed.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            let heap = SharedHeap::open(&self.place).and_then(|heap| work(&heap).map(|()| heap));
            let _ = std::io::Write::write_all(&mut &writer, &[u8::from(heap.is_ok())]);
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        drop(writer);
        let mut done = [0];
        std::io::Read::read_exact(&mut reader, &mut done).unwrap();
        assert_eq!(done, [1]);
        Child { pid: pid as u32 }
    }

    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// All that the segment holds, at a moment when no process reads it: a `list` takes the locks of all segments for a
    /// moment.
    pub fn bytes(&self) -> Vec<u8> {
        for _ in 0..1000 {
            let mut bytes = fs::read(self.path()).unwrap();
            let Some(word) = bytes.get_mut(LOCK as usize..LOCK as usize + 4) else { return bytes };
            // Whether a process waited is no property of the segment.
            word[3] &= 0x7f;
            let holder = u32::from_ne_bytes(word.try_into().unwrap());
            if holder == 0 || !Path::new(&format!("/proc/{holder}")).exists() {
                return bytes;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("a process holds the lock of {}", self.name)
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        let file = fs::File::options().write(true).open(self.path()).unwrap();
        file.write_all_at(bytes, at).unwrap();
    }

    pub fn flip(&self, at: u64) {
        let byte = self.bytes()[at as usize];
        self.write(at, &[byte ^ 0x10]);
    }

    /// What `heapwright shm COMMAND` says of it.
    pub fn run(&self, command: &str, options: &[&str]) -> Outcome {
        Outcome::of(heapwright().args(["shm", command, &self.name]).args(options).output().unwrap())
    }

    /// The row that `heapwright shm COMMAND --json` prints.
    pub fn json(&self, command: &str) -> Value {
        self.run(command, &["--json"]).json()[0].clone()
    }

    /// The segment's row of `heapwright shm list --json`.
    pub fn listed(&self) -> Option<Value> {
        let place = self.place.to_string();
        let row = || {
            let list = Outcome::of(heapwright().args(["shm", "list", "--json"]).output().unwrap());
            list.json().as_array().unwrap().iter().find(|row| row["place"] == place.as_str()).cloned()
        };
        // Other tests list, too, and on a busy machine one waits for the other longer than a list does.
        (0..20).map(|_| row()).find(|row| row.as_ref().is_none_or(|row| row["state"] != "locked")).unwrap()
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.place.path());
    }
}

/// Allocates blocks of several sizes.
pub fn allocate(heap: &SharedHeap, blocks: usize) -> Vec<Offset> {
    (0..blocks).map(|number| heap.allocate(100 + 30 * (number % 7)).unwrap()).collect()
}

/// A process, killed when dropped.
pub struct Child {
    pub pid: u32,
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: a child of ours that was not waited for.
        unsafe {
            libc::kill(self.pid as libc::pid_t, libc::SIGKILL);
            libc::waitpid(self.pid as libc::pid_t, std::ptr::null_mut(), 0);
        }
    }
}

/// What a command printed, and its exit code.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Outcome {
    pub fn of(output: Output) -> Outcome {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Outcome { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// That it ended with `code` and that what it printed contains all `words`.
    #[track_caller]
    pub fn says(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        let text = format!("{}{}", self.out, self.err);
        words.iter().for_each(|word| assert!(text.contains(word), "no {word:?} in {text}"));
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        let json: Value = serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        assert_eq!(json["schema"], 1);
        json["results"].clone()
    }
}
