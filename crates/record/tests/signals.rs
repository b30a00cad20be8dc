//! Calls that signals interrupt.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use heapwright_stream::{BUFFER, Buffer, Call, Entry, Header, SLOTS, State};
use heapwright_testkit::library::{Library, tool};
use memmap2::Mmap;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/interrupted.c");

/// What a stream contains that no collector has read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Contents {
    refused: u64,
    open: u32,
}

impl Contents {
    fn of(stream: &Path) -> Contents {
        let file = File::open(stream).unwrap();
        // SAFETY: the process that wrote the file has ended, and nothing else changes it.
        let map = unsafe { Mmap::map(&file) }.unwrap();
        assert!(map.len() > size_of::<Header>());
        // SAFETY: the mapping begins at a page, and is long enough for a header, for which any bytes are valid.
        let header = unsafe { &*map.as_ptr().cast::<Header>() };
        assert!(header.is_known());
        let mut contents = Contents::default();
        for number in 0..header.begun() {
            let at = header.buffers_at as usize + header.buffer_begun(number) as usize * BUFFER;
            assert!(at + BUFFER <= map.len());
            // SAFETY: the mapping contains this buffer, aligned to a page, and any bytes are a valid buffer.
            contents.add(unsafe { &*map.as_ptr().add(at).cast::<Buffer>() });
        }
        contents
    }

    fn add(&mut self, buffer: &Buffer) {
        self.open += u32::from(buffer.state() == State::Open);
        let mut at = 0;
        while at < buffer.count() {
            let entry = buffer.entry(at).unwrap();
            self.refused += u64::from(matches!(entry, Entry::Call(record) if record.call == Call::Failed));
            at += entry.slots();
        }
    }
}

/// Runs `interrupted CALLS` under the recorder; returns what its stream contains, and the number of its calls.
fn interrupted(calls: u32, setting: Option<(&str, &str)>) -> (Contents, u64) {
    let library = Library::build("heapwright-record", "libheapwright_record.so", env!("CARGO_TARGET_TMPDIR"));
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("interrupted");
    tool("cc", &["-O1", "-fno-builtin", "-o", program.to_str().unwrap(), SOURCE]);
    let streams = folder.path().join("streams");
    fs::create_dir(&streams).unwrap();
    let output = Command::new(&program)
        .arg(calls.to_string())
        .env("LD_PRELOAD", library.path())
        .env("HEAPWRIGHT_RECORD", &streams)
        .envs(setting)
        .output()
        .unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    let stream = fs::read_dir(&streams).unwrap().next().unwrap().unwrap().path();
    (Contents::of(&stream), String::from_utf8(output.stderr).unwrap().trim().parse().unwrap())
}

#[test]
fn a_handler_may_fill_the_buffer_between_any_two_instructions_of_a_call() {
    // The calls of a buffer: each takes a slot, or two with its time, and the last slot or two stay free. With fewer
    // calls the interrupted one is earlier in its buffer each time, until it begins one.
    for (calls, setting) in [(SLOTS - 1, None), (SLOTS / 2 - 1, Some(("HEAPWRIGHT_RECORD_TIMES", "1")))] {
        let (found, made) = interrupted(calls, setting);
        // The buffer of the thread, and that of handlers that interrupt a thread while it writes.
        assert_eq!(found, Contents { refused: made, open: 2 }, "{setting:?}");
    }
}
