//! Tests of the process's side of its stream.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::vec::Vec;
use std::{format, fs, thread};

use super::*;
use crate::buffer::Appended;
use crate::record::{Call, Entry, Record};

fn directory(name: &str) -> (PathBuf, CString) {
    let path = std::env::temp_dir().join(format!("heapwright-stream-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    let text = CString::new(path.to_str().unwrap()).unwrap();
    (path, text)
}

fn malloc_at(address: u64, size: u64) -> Record {
    Record { call: Call::Malloc, log2_align: 4, size, address }
}

fn record(number: u64) -> Record {
    malloc_at(number << 4, number)
}

/// A thread that records as the library does.
struct Thread {
    recording: Arc<Mutex<Recording>>,
    number: u32,
    own: Option<NonNull<Buffer>>,
}

impl Thread {
    fn of(recording: &Arc<Mutex<Recording>>, number: u32) -> Thread {
        Thread { recording: recording.clone(), number, own: recording.lock().unwrap().attach(number) }
    }

    fn append(&mut self, record: Record) {
        self.append_packed(record.packed());
    }

    fn append_packed(&mut self, record: Packed) {
        // SAFETY: the recording lives, and with it the buffer.
        let Some(own) = self.own.map(|own| unsafe { own.as_ref() }) else {
            return self.recording.lock().unwrap().append(self.number, record, None);
        };
        // SAFETY: the buffer is open, and this thread is its owner.
        match unsafe { own.append(record) } {
            Appended::Yes => {}
            // SAFETY: the buffer is open, and this thread is its owner.
            Appended::TurnOver => unsafe { own.append_in_turn(record) },
            Appended::Stop => {
                // SAFETY: the buffer is open, and this thread is its owner.
                if unsafe { !own.pass_stop() } {
                    self.own = self.recording.lock().unwrap().renew(own);
                }
                self.append_packed(record);
            }
        }
    }
}

fn begun(directory: &CStr, limits: Limits) -> Arc<Mutex<Recording>> {
    Arc::new(Mutex::new(Recording::begin(directory, Origin::Exec, limits).unwrap()))
}

/// All calls in a buffer with their turns and threads.
fn calls_in(buffer: &Buffer) -> Vec<(u64, u32, Record)> {
    let (mut turn, mut thread, mut calls) = (0, 0, Vec::new());
    for number in 0..buffer.count() {
        match buffer.entry(number).unwrap() {
            Entry::Turn(number) => turn = number,
            Entry::Thread(number) => thread = number,
            Entry::Call(record) => calls.push((turn, thread, record)),
            _ => {}
        }
    }
    calls
}

fn calls(recording: &Recording) -> Vec<(u64, u32, Record)> {
    let buffers = (0..recording.buffers).map(|number| recording.buffer(number));
    let mut all: Vec<_> = buffers.filter(|buffer| buffer.state() != State::Free).flat_map(calls_in).collect();
    all.sort_by_key(|call| call.0);
    all
}

fn only_file(directory: &Path) -> PathBuf {
    let files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn calls_come_in_order_through_many_buffers() {
    let _alone = turns::alone();
    const COUNT: u64 = 100_000;
    let (path, text) = directory("buffers");
    let recording = begun(&text, Limits::USUAL);
    let mut thread = Thread::of(&recording, 5);
    (0..COUNT).for_each(|number| thread.append(record(number)));
    let recording = recording.lock().unwrap();
    assert_eq!((recording.header().lost(), recording.header().failure()), (0, None));
    assert!(recording.header().arguments().next().is_some_and(|name| !name.is_empty()));
    let found = calls(&recording);
    assert_eq!(found.len() as u64, COUNT);
    assert!(found.iter().zip(0..).all(|(&(_, thread, found), number)| thread == 5 && found == record(number)));
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn threads_at_once_each_have_their_turns() {
    let _alone = turns::alone();
    const COUNT: u64 = 50_000;
    let (path, text) = directory("threads");
    let recording = begun(&text, Limits::USUAL);
    thread::scope(|scope| {
        for number in 0..4 {
            let recording = &recording;
            scope.spawn(move || {
                let mut thread = Thread::of(recording, number);
                (0..COUNT).for_each(|number| thread.append(record(number)));
            });
        }
    });
    let found = calls(&recording.lock().unwrap());
    assert_eq!(found.len() as u64, 4 * COUNT);
    for turn in found.chunk_by(|one, next| one.0 == next.0) {
        assert!(turn.iter().all(|call| call.1 == turn[0].1), "turn {} is of two threads", turn[0].0);
    }
    for number in 0..4 {
        let own = found.iter().filter(|call| call.1 == number).map(|call| call.2);
        assert!(own.eq((0..COUNT).map(record)));
    }
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn threads_one_after_another_need_no_more_room_than_a_few() {
    let _alone = turns::alone();
    let (path, text) = directory("short");
    let recording = begun(&text, Limits::USUAL);
    for number in 0..500 {
        let recording = recording.clone();
        thread::spawn(move || Thread::of(&recording, number).append(record(7))).join().unwrap();
    }
    let recording = recording.lock().unwrap();
    assert!(recording.buffers <= 16, "{}", recording.buffers);
    let found = calls(&recording);
    assert!(found.iter().map(|call| call.1).eq(0..500));
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn where_there_are_too_many_threads_they_share_a_buffer() {
    let _alone = turns::alone();
    let (path, text) = directory("many");
    let recording = begun(&text, Limits::USUAL);
    let mut threads: Vec<Thread> =
        (0..crate::owners::MOST as u32 + 50).map(|number| Thread::of(&recording, number)).collect();
    assert_eq!(threads.iter().filter(|thread| thread.own.is_none()).count(), 50);
    for _ in 0..200 {
        threads.iter_mut().rev().take(100).for_each(|thread| thread.append(record(u64::from(thread.number))));
    }
    let found = calls(&recording.lock().unwrap());
    assert_eq!(found.len(), 100 * 200);
    assert!(found.iter().all(|&(_, thread, found)| found == record(u64::from(thread))));
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_thread_that_was_idle_for_long_goes_on_in_its_buffer() {
    let _alone = turns::alone();
    let (path, text) = directory("idle");
    let recording = begun(&text, Limits::USUAL);
    let (mut idle, mut busy) = (Thread::of(&recording, 1), Thread::of(&recording, 2));
    idle.append(record(1));
    (0..1_000_000).for_each(|number| busy.append(record(number)));
    idle.append(record(2));
    let found = calls(&recording.lock().unwrap());
    assert_eq!((found[0].1, found[0].2), (1, record(1)));
    let last = found.last().unwrap();
    assert_eq!((last.1, last.2), (1, record(2)));
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn calls_of_a_thread_that_was_idle_come_after_those_that_others_made_meanwhile() {
    let _alone = turns::alone();
    let (path, text) = directory("meanwhile");
    let recording = begun(&text, Limits::USUAL);
    let (mut idle, mut busy) = (Thread::of(&recording, 1), Thread::of(&recording, 2));
    let place_of = |size| {
        let found = calls(&recording.lock().unwrap());
        found.iter().position(|call| call.2.size == size).unwrap()
    };
    for (round, size) in (1..).zip([16, 5000]) {
        // At addresses far away from those of the other one, which need no turn of their own.
        idle.append(malloc_at(round << 40, round));
        (0..100_000).for_each(|_| busy.append(malloc_at(1 << 30, size)));
        idle.append(malloc_at(round << 40, 100 + round));
        let calls_of_busy = place_of(100 + round) - place_of(round);
        assert!(calls_of_busy > 100_000 - 600 * 64, "only {calls_of_busy} calls precede it");
    }
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn buffers_of_threads_that_have_ended_are_used_again_until_they_are_full() {
    let _alone = turns::alone();
    let (path, text) = directory("ended");
    let recording = begun(&text, Limits::USUAL);
    for number in 0..3000 {
        let recording = recording.clone();
        let work = move || {
            let mut thread = Thread::of(&recording, number);
            (0..40).for_each(|number| thread.append(record(number)));
        };
        thread::spawn(work).join().unwrap();
    }
    let recording = recording.lock().unwrap();
    // A thread that was joined may be there for a moment longer.
    let owned = recording.owners.count();
    assert!(owned < 20, "{owned} of {} buffers", recording.buffers);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn every_image_of_a_process_has_a_stream() {
    let _alone = turns::alone();
    let (path, text) = directory("images");
    let _first = Recording::begin(&text, Origin::Exec, Limits::USUAL).unwrap();
    let _second = Recording::begin(&text, Origin::Fork, Limits::USUAL).unwrap();
    let mut names: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let names = names.iter().map(|path| path.to_str().unwrap().rsplit_once('-').unwrap());
    let (processes, programs): (Vec<_>, Vec<_>) = names.unzip();
    assert_eq!(programs, ["0", "1"]);
    assert!(processes[0] == processes[1] && processes[0].contains(&format!("/{}.", std::process::id())));
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_collector_that_does_not_follow_ends_the_recording_and_leaves_nothing() {
    let _alone = turns::alone();
    let (path, text) = directory("behind");
    let recording = begun(&text, Limits { buffers: 3, patience: 20, has_paths: false });
    let mut thread = Thread::of(&recording, 0);
    (0..100_000).for_each(|number| thread.append(record(number)));
    let recording = recording.lock().unwrap();
    let header = recording.header();
    assert_eq!(header.failure(), Some(TIMED_OUT));
    let found = calls(&recording);
    assert!(recording.has_ended() && found.iter().all(|call| call.0 < header.end()));
    assert!(found.len() > 10_000 && header.lost() > 0);
    assert_eq!(found.len() as u64 + header.lost(), 100_000);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn after_the_end_calls_are_lost_also_where_a_shared_buffer_has_room() {
    let _alone = turns::alone();
    let (path, text) = directory("ended");
    let recording = begun(&text, Limits { buffers: 3, patience: 20, has_paths: false });
    recording.lock().unwrap().append(1, record(0).packed(), None);
    let mut thread = Thread::of(&recording, 0);
    (0..20_000).for_each(|number| thread.append(record(number)));
    let recording = recording.lock().unwrap();
    assert!(recording.has_ended());
    assert_eq!(calls(&recording).len() as u64 + recording.header().lost(), 20_001);
    assert_eq!(recording.header().stackless(), 1);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_collector_that_follows_is_waited_for() {
    let _alone = turns::alone();
    const COUNT: u64 = 2_000_000;
    let (path, text) = directory("followed");
    let recording = begun(&text, Limits { buffers: 20, patience: 10_000, has_paths: false });
    let mut thread = Thread::of(&recording, 0);
    let address = recording.lock().unwrap().file.base().expose_provenance().get();
    let buffers_at = recording.lock().unwrap().buffers_at;
    let collector = thread::spawn(move || {
        // SAFETY: the recording lives until this thread has ended; what changes is atomic.
        let header = unsafe { &*core::ptr::with_exposed_provenance::<Header>(address) };
        let (mut read, mut seen) = (Vec::new(), 0);
        while read.len() < COUNT as usize {
            while seen < header.begun() {
                let at = address + buffers_at + header.buffer_begun(seen) as usize * BUFFER;
                // SAFETY: the recording lives until this thread has ended; what changes is atomic, or written
                // before the count that is loaded first.
                let buffer = unsafe { &*core::ptr::with_exposed_provenance::<Buffer>(at) };
                if buffer.state() != State::Full && read.len() + (buffer.count() as usize) < COUNT as usize {
                    break;
                }
                read.extend(calls_in(buffer));
                buffer.free();
                header.add_freed();
                seen += 1;
            }
            sleep_for_a_millisecond();
        }
        read
    });
    (0..COUNT).for_each(|number| thread.append(record(number)));
    let read = collector.join().unwrap();
    assert!(read.iter().zip(0..).all(|(call, number)| call.2 == record(number)));
    assert_eq!(recording.lock().unwrap().header().failure(), None);
    let length = fs::metadata(only_file(&path)).unwrap().len();
    assert!(length <= 20 * BUFFER as u64 + (1 << 20), "buffers are used again: {length}");
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_collector_that_wants_no_more_is_left_alone() {
    let _alone = turns::alone();
    let (path, text) = directory("closed");
    let recording = begun(&text, Limits::USUAL);
    let mut thread = Thread::of(&recording, 0);
    thread.append(record(0));
    recording.lock().unwrap().header().close();
    (0..100_000).for_each(|number| thread.append(record(number)));
    let recording = recording.lock().unwrap();
    assert_eq!(recording.header().failure(), None);
    assert!(recording.header().lost() > 0);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn where_no_stream_can_be_made_none_begins() {
    let _alone = turns::alone();
    let begun = Recording::begin(c"/nowhere/at/all", Origin::Exec, Limits::USUAL);
    assert_eq!(begun.err(), Some(FileError::NotFound));
}

#[test]
fn a_call_after_the_end_of_a_turn_comes_after_those_that_others_made_before() {
    let _alone = turns::alone();
    let (path, text) = directory("turn");
    let recording = begun(&text, Limits::USUAL);
    let (mut one, mut other) = (Thread::of(&recording, 1), Thread::of(&recording, 2));
    one.append(malloc_at(1 << 40, 1));
    other.append(malloc_at(1 << 30, 2));
    one.append(malloc_at(1 << 40, 3));
    // SAFETY: the buffer is mapped as long as the recording lives.
    unsafe { one.own.unwrap().as_ref() }.end_turn();
    one.append(malloc_at(1 << 40, 4));
    let sizes: Vec<u64> = calls(&recording.lock().unwrap()).iter().map(|call| call.2.size).collect();
    assert_eq!(sizes, [1, 3, 2, 4]);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_turn_is_short_while_several_threads_write_and_begins_with_a_large_request() {
    let _alone = turns::alone();
    let (path, text) = directory("short-turns");
    let recording = begun(&text, Limits::USUAL);
    let (mut one, _other) = (Thread::of(&recording, 1), Thread::of(&recording, 2));
    for size in (0..300).map(|number| if number % 100 == 99 { 4096 } else { 4095 }) {
        one.append(malloc_at(1 << 40, size));
    }
    let found = calls(&recording.lock().unwrap());
    let turns: Vec<_> = found.chunk_by(|one, next| one.0 == next.0).collect();
    assert!(turns.iter().all(|turn| turn.len() <= 64), "{:?}", turns.iter().map(|turn| turn.len()).collect::<Vec<_>>());
    let large = turns.iter().filter(|turn| turn[0].2.size == 4096).count();
    assert!(large == 3 && turns.iter().all(|turn| turn[1..].iter().all(|call| call.2.size < 4096)), "{large}");
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn calls_with_times_are_in_the_order_of_their_turns_while_several_threads_write() {
    let _alone = turns::alone();
    let (path, text) = directory("timed");
    let recording = begun(&text, Limits::USUAL);
    let threads = [1, 2].map(|number| Thread::of(&recording, number));
    for size in 0..100 {
        // SAFETY: the buffer is mapped as long as the recording lives.
        let own = unsafe { threads[size as usize % 2].own.unwrap().as_ref() };
        // SAFETY: the buffer is open, and this thread is the owner of both.
        assert!(unsafe { own.append_at(malloc_at((1 + size % 2) << 40, size).packed(), Some(size)) });
    }
    assert!(calls(&recording.lock().unwrap()).iter().map(|call| call.2.size).eq(0..100));
    fs::remove_dir_all(path).unwrap();
}
