//! Tests of the order of calls.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use heapwright_stream::{Limits, Origin, Packed, Recording};

use super::*;
use crate::source::Source;
use crate::stream::Stream;

/// A thread that records as the library does.
struct Thread<'r> {
    recording: &'r Mutex<Recording>,
    number: u32,
    own: Option<NonNull<Buffer>>,
}

impl Thread<'_> {
    fn append(&mut self, record: Packed) {
        // SAFETY: the recording lives, and with it the buffer.
        let Some(own) = self.own.map(|own| unsafe { own.as_ref() }) else {
            return self.recording.lock().unwrap().append(self.number, record, None);
        };
        // SAFETY: the buffer is open, and this thread is its owner.
        if unsafe { !own.append_at(record, None) } {
            self.own = self.recording.lock().unwrap().renew(own);
            self.append(record);
        }
    }
}

/// A block that threads take turns at; the number of calls for it so far.
struct Block {
    address: u64,
    calls: Mutex<u64>,
}

impl Block {
    /// Records a call, by its number.
    fn call(&self, thread: &mut Thread<'_>) {
        let mut calls = self.calls.lock().unwrap();
        *calls += 1;
        let call = heapwright_stream::Call::Malloc;
        thread.append(Record { call, log2_align: 4, size: *calls, address: self.address }.packed());
    }
}

/// The calls that were passed on, by their blocks; and how many of each thread in a row there were.
#[derive(Default)]
struct Passed {
    last: HashMap<u64, u64>,
    threads: HashMap<u32, u64>,
}

impl Passed {
    fn take(&mut self, thread: u32, record: Record) {
        let last = self.last.entry(record.address).or_default();
        assert_eq!(record.size, *last + 1, "of thread {thread}, for the block at {:x}", record.address);
        *last = record.size;
        *self.threads.entry(thread).or_default() += 1;
    }
}

impl Sink for Passed {
    fn take_run<'b>(&mut self, thread: u32, mut run: Run<'b>) -> Result<Run<'b>> {
        while let Some((record, _, rest)) = run.split_first() {
            self.take(thread, record);
            run = rest;
        }
        Ok(run)
    }

    fn take_with(&mut self, call: Call, _: &More<'_>) -> Result<()> {
        self.take(call.thread, call.record);
        Ok(())
    }

    fn add_mapping(&mut self, _: &Mapping<'_>) {}
    fn remove_code(&mut self, _: Range<u64>) {}
    fn add_python_name(&mut self, _: &PythonName<'_>) {}
}

/// Lets threads call for `blocks`, `choose` choosing one of them for a thread, while they are read. Returns what was
/// passed on.
fn record_and_read(threads: u32, blocks: &[Block], choose: impl Fn(u32, &mut fastrand::Rng) -> usize + Sync) -> Passed {
    const CALLS: u32 = 100_000;
    let directory = tempfile::tempdir().unwrap();
    let text = CString::new(directory.path().to_str().unwrap()).unwrap();
    let recording = Mutex::new(Recording::begin(&text, Origin::Exec, Limits::USUAL).unwrap());
    let file = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let (begin, running, choose) = (Barrier::new(threads as usize + 1), AtomicU32::new(threads), &choose);
    let mut passed = Passed::default();
    thread::scope(|scope| {
        for number in 0..threads {
            let (recording, begin, running) = (&recording, &begin, &running);
            scope.spawn(move || {
                // The last one has no buffer of its own.
                let own = (number + 1 < threads).then(|| recording.lock().unwrap().attach(number)).flatten();
                let (mut thread, mut random) =
                    (Thread { recording, number, own }, fastrand::Rng::with_seed(number.into()));
                begin.wait();
                (0..CALLS).for_each(|_| blocks[choose(number, &mut random)].call(&mut thread));
                running.fetch_sub(1, Ordering::Release);
            });
        }
        begin.wait();
        let mut source = Source::open(&file).unwrap();
        loop {
            let is_over = running.load(Ordering::Acquire) == 0;
            while source.read(&mut passed).unwrap() {}
            if is_over {
                break;
            }
        }
        assert_eq!(source.lost(), 0);
    });
    assert!((0..threads).all(|number| passed.threads[&number] == u64::from(CALLS)), "{:?}", passed.threads);
    passed
}

fn blocks(addresses: impl Iterator<Item = u64>) -> Vec<Block> {
    addresses.map(|address| Block { address, calls: Mutex::default() }).collect()
}

#[test]
fn calls_for_a_block_are_passed_on_in_their_order_whichever_thread_made_them() {
    // Eight blocks in each of 64 parts of the address space, every other one far away from the one before it.
    let blocks = blocks((0..512).map(|number| ((number / 8) << 16) + ((number % 8) << 4) + ((number % 2) << 40)));
    let (near, far) = (blocks.len() / 4, blocks.len());
    // Now and then one of any thread, otherwise one of the thread's own.
    let passed = record_and_read(4, &blocks, |thread, random| match random.u8(..20) {
        0 => random.usize(..far),
        _ => thread as usize * near + random.usize(..near),
    });
    assert_eq!(passed.last.len(), blocks.len());
    let calls = blocks.iter().map(|block| *block.calls.lock().unwrap());
    assert!(blocks.iter().zip(calls).all(|(block, calls)| passed.last[&block.address] == calls));
}

#[test]
fn threads_that_take_turns_at_few_blocks_go_on() {
    let blocks = blocks((1..4).map(|number| number << 4));
    record_and_read(4, &blocks, |_, random| random.usize(..3));
}

#[test]
fn a_question_is_answered_when_all_calls_before_it_were_passed_on() {
    let directory = tempfile::tempdir().unwrap();
    let text = CString::new(directory.path().to_str().unwrap()).unwrap();
    let recording = Mutex::new(Recording::begin(&text, Origin::Exec, Limits::USUAL).unwrap());
    let file = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let mut threads = [1, 2].map(|number| {
        let own = recording.lock().unwrap().attach(number);
        Thread { recording: &recording, number, own }
    });
    let (mut source, mut passed) = (Source::open(&file).unwrap(), Passed::default());
    let blocks = blocks([1 << 4, 1 << 30].into_iter());
    let is_answered = |question| recording.lock().unwrap().header().is_answered(question);
    for round in 1..=100 {
        for (block, thread) in blocks.iter().zip(&mut threads) {
            (0..10).for_each(|_| block.call(thread));
        }
        let question = recording.lock().unwrap().header().ask();
        assert!(!is_answered(question));
        // Calls that follow the question, which another thread makes, need not be passed on.
        blocks[1].call(&mut threads[1]);
        while source.read(&mut passed).unwrap() && !is_answered(question) {}
        assert!(is_answered(question) && passed.last[&blocks[0].address] == 10 * round);
        assert!(passed.last[&blocks[1].address] >= 11 * round - 1);
    }
}

/// Buffers of threads that record something whenever one is looked at.
struct Busy<'s, F> {
    stream: &'s Stream,
    step: RefCell<F>,
}

impl<F: FnMut()> Buffers for Busy<'_, F> {
    fn buffer(&self, number: u32) -> &Buffer {
        (self.step.borrow_mut())();
        self.stream.buffer(number)
    }

    fn release(&self, number: u32) {
        self.stream.release(number);
    }
}

#[test]
fn what_is_recorded_between_two_looks_is_passed_on_in_order() {
    const THREADS: u32 = 3;
    let blocks = blocks([1, 2, 1 << 20, 2 << 20, 3 << 20].into_iter().map(|number| number << 4));
    let directory = tempfile::tempdir().unwrap();
    let text = CString::new(directory.path().to_str().unwrap()).unwrap();
    let recording = Mutex::new(Recording::begin(&text, Origin::Exec, Limits::USUAL).unwrap());
    let path = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let mut threads: Vec<Thread<'_>> = (0..THREADS)
        .map(|number| Thread { recording: &recording, number, own: recording.lock().unwrap().attach(number) })
        .collect();
    let stream = Stream::open(&path).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let step = || {
        // Fewer calls than looks: reading comes to an end.
        if random.u8(..3) == 0 {
            let block = &blocks[random.usize(..blocks.len())];
            block.call(&mut threads[random.usize(..THREADS as usize)]);
        }
    };
    let (busy, mut merge, mut passed) =
        (Busy { stream: &stream, step: RefCell::new(step) }, Merge::default(), Passed::default());
    let mut begun = 0;
    for _ in 0..100_000 {
        for _ in 0..2 {
            while begun < stream.header().begun() {
                merge.add(stream.header().buffer_begun(begun)).unwrap();
                begun += 1;
            }
            merge.look(&busy, &mut passed).unwrap();
        }
        merge.read(&busy, u64::MAX, &mut passed).unwrap();
    }
    assert!(passed.threads.values().all(|&calls| calls > 10_000), "{:?}", passed.threads);
}

#[test]
fn a_buffer_that_is_begun_twice_is_damage() {
    let mut merge = Merge::default();
    merge.add(3).unwrap();
    assert_eq!(merge.add(3).unwrap_err().to_string(), DAMAGED);
}
