//! Traces round-trip; damage is reported, and everything before it is read.

use std::ops::ControlFlow;

use heapwright_trace::{About, Counts, Event, Kind, ReadError, Reader, Writer};
use proptest::prelude::*;

/// A step of a program. A block is chosen by the number of blocks created since.
#[derive(Clone, Debug)]
enum Step {
    Allocate(Kind, u64, u32),
    Resize(u64, u64),
    Free(u64),
    Failed(u64, u32),
    Thread(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![0u64..300, 0u64..1 << 20, any::<u64>()];
    let kind = prop_oneof![Just(Kind::Malloc), Just(Kind::Calloc), Just(Kind::Aligned)];
    let ago = prop_oneof![0u64..4, 0u64..1000, any::<u64>()];
    let step = prop_oneof![
        4 => (kind, size.clone(), 0u32..64).prop_map(|(kind, size, log)| Step::Allocate(kind, size, log)),
        1 => (ago.clone(), size.clone()).prop_map(|(ago, size)| Step::Resize(ago, size)),
        3 => ago.prop_map(Step::Free),
        1 => (size, 0u32..64).prop_map(|(size, log)| Step::Failed(size, log)),
        1 => (0u64..5).prop_map(Step::Thread),
    ];
    prop::collection::vec(step, 0..400)
}

/// Writes the steps; returns the file, and the expected events, each with its thread.
fn write(steps: &[Step]) -> (Vec<u8>, Vec<(u64, Event)>) {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &About::of_program("test")).unwrap();
    let (mut events, mut thread, mut blocks) = (Vec::new(), 0, 0u64);
    for step in steps {
        let named = |ago: u64| (blocks > 0).then(|| blocks - 1 - ago % blocks.max(1));
        match *step {
            Step::Allocate(kind, size, log) => {
                let align = if kind == Kind::Aligned { 1 << log } else { 16 };
                let block = writer.allocate(kind, size, align).unwrap();
                events.push((thread, Event::Allocate { block, kind, size, align }));
                blocks += 1;
            }
            Step::Resize(ago, size) => {
                let Some(block) = named(ago) else { continue };
                let becomes = writer.resize(block, size).unwrap();
                events.push((thread, Event::Resize { block, becomes, size }));
                blocks += 1;
            }
            Step::Free(ago) => {
                let Some(block) = named(ago) else { continue };
                writer.free(block).unwrap();
                events.push((thread, Event::Free { block }));
            }
            Step::Failed(size, log) => {
                writer.fail(size, 1 << log).unwrap();
                events.push((thread, Event::Failed { size, align: 1 << log }));
            }
            Step::Thread(number) => {
                writer.in_thread(number).unwrap();
                thread = number;
            }
        }
    }
    writer.finish().unwrap();
    (file, events)
}

/// Reads until the end or an error.
fn read(file: &[u8]) -> (Vec<(u64, Event)>, Option<ReadError>) {
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let (mut events, mut thread) = (Vec::new(), 0);
    loop {
        match reader.next_event() {
            Ok(Some(Event::Thread { thread: number })) => thread = number,
            Ok(Some(event)) => events.push((thread, event)),
            Ok(None) => return (events, None),
            Err(error) => {
                assert!(matches!(reader.next_event(), Ok(None)), "nothing is read after an error");
                return (events, Some(error));
            }
        }
    }
}

/// The events up to the end or an error, the text of the error, and the event count of the reader.
type Found = (Vec<Event>, Option<String>, u64);

fn read_one_by_one(file: &[u8]) -> Found {
    let Ok(mut reader) = Reader::new(file) else { return (Vec::new(), None, 0) };
    let mut events = Vec::new();
    let end = loop {
        match reader.next_event() {
            Ok(Some(event)) => events.push(event),
            end => break end.err(),
        }
    };
    (events, end.map(|error| error.to_string()), reader.events_read())
}

/// Reads in runs of `run` events each.
fn read_in_runs(file: &[u8], run: usize) -> Found {
    let Ok(mut reader) = Reader::new(file) else { return (Vec::new(), None, 0) };
    let mut events = Vec::new();
    let end = loop {
        let enough = events.len() + run;
        let end = reader.try_for_each_event(|event| {
            events.push(*event);
            if events.len() == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match end {
            Ok(ControlFlow::Break(())) => assert_eq!(reader.events_read(), events.len() as u64),
            end => break end.err(),
        }
    };
    (events, end.map(|error| error.to_string()), reader.events_read())
}

/// Returns a trace of several frames, and its number of events without thread changes.
fn long_trace(events: u64) -> (Vec<u8>, u64) {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &About::default()).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    writer.in_thread(3).unwrap();
    for number in 0..events {
        writer.allocate(Kind::Malloc, random.u64(..1 << 40), 16).unwrap();
        writer.free(random.u64(..=number)).unwrap();
    }
    writer.finish().unwrap();
    (file, 2 * events)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn events_round_trip(steps in steps()) {
        let (file, events) = write(&steps);
        let (found, error) = read(&file);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(found, events);
    }

    #[test]
    fn a_cut_or_changed_file_is_read_up_to_the_damage(
        steps in steps(),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let (file, events) = write(&steps);
        let at = at.index(file.len());
        let (found, _) = read(&file[..at]);
        prop_assert!(events.starts_with(&found));
        let mut changed = file.clone();
        changed[at] ^= 1 << bit;
        let (found, error) = read(&changed);
        prop_assert!(events.starts_with(&found));
        // Sequential reading does not need what follows the last frame of events.
        prop_assert!(error.is_some() || found == events);
    }

    #[test]
    fn reading_in_runs_gives_the_same_events(
        steps in steps(),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
        run in 1usize..50,
    ) {
        let (mut file, _) = write(&steps);
        prop_assert_eq!(read_in_runs(&file, run), read_one_by_one(&file));
        let at = at.index(file.len());
        prop_assert_eq!(read_in_runs(&file[..at], run), read_one_by_one(&file[..at]));
        file[at] ^= 1 << bit;
        prop_assert_eq!(read_in_runs(&file, run), read_one_by_one(&file));
    }

    #[test]
    fn garbage_is_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read(&bytes).1.is_some());
        let mut disguised = b"hwtrace\0\x01\0\0\0".to_vec();
        disguised.extend(bytes);
        prop_assert!(read(&disguised).1.is_some());
    }
}

#[test]
fn runs_of_events_continue_across_frames() {
    let (file, events) = long_trace(600_000);
    let found = read_in_runs(&file, 99_999);
    assert!(found.2 > events, "every frame names its thread: {}", found.2);
    assert_eq!(found, read_one_by_one(&file));
}

#[test]
fn an_error_names_the_frame_and_events_before_it_are_read() {
    let (file, _) = long_trace(400_000);
    let (events, error) = read(&file);
    assert!(error.is_none() && events.len() == 800_000);
    assert!(events.iter().all(|&(thread, _)| thread == 3));
    let mut damaged = file.clone();
    damaged[file.len() * 2 / 3] ^= 1;
    let (found, error) = read(&damaged);
    let Some(ReadError::Damaged { frame, offset, events_before, .. }) = error else { panic!("{error:?}") };
    assert!(frame >= 2 && offset > 0 && (offset as usize) < file.len());
    // Each frame has a thread event, which is not in `found`.
    assert!(events_before > 100_000 && found.len() as u64 <= events_before && found.len() as u64 + 8 > events_before);
    assert_eq!(found, events[..found.len()]);
}

#[test]
fn a_trace_that_was_cut_off_between_frames_is_not_finished() {
    let (file, _) = long_trace(400_000);
    let ends = (12..=file.len()).filter(|&end| {
        let (_, error) = if file[end..].starts_with(b"hwFR") { read(&file[..end]) } else { return false };
        error.is_none()
    });
    let mut boundaries = 0;
    for end in ends {
        let mut reader = Reader::new(&file[..end]).unwrap();
        while reader.next_event().unwrap().is_some() {}
        assert!(!reader.is_finished());
        boundaries += 1;
    }
    assert!(boundaries >= 3);
    let mut reader = Reader::new(&file[..]).unwrap();
    while reader.next_event().unwrap().is_some() {}
    assert!(reader.is_finished());
}

/// Returns a frame of an unknown kind, made from a known one.
fn unknown(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[4..8].copy_from_slice(&99u32.to_le_bytes());
    let checksum = crc32fast::hash(&frame[..36]);
    frame[36..40].copy_from_slice(&checksum.to_le_bytes());
    // Invalid contents: the reader must not decompress them.
    frame[40..].fill(0xaa);
    frame
}

#[test]
fn frames_of_unknown_kinds_are_skipped() {
    let (file, _) = long_trace(200_000);
    let starts: Vec<usize> = (12..file.len()).filter(|&at| file[at..].starts_with(b"hwFR")).collect();
    assert!(starts.len() > 3);
    let mut newer = file[..starts[1]].to_vec();
    for frame in starts[1..].iter().zip(starts[2..].iter().chain([&file.len()])) {
        newer.extend(unknown(&file[starts[0]..starts[1]]));
        newer.extend(&file[*frame.0..*frame.1]);
    }
    let (events, error) = read(&newer);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(events, read(&file).0);
}

#[test]
fn other_files_and_newer_traces_have_different_errors() {
    assert!(matches!(Reader::new(&b"#!/bin/sh\necho no trace\n"[..]), Err(ReadError::NotATrace)));
    assert!(matches!(Reader::new(&b""[..]), Err(ReadError::NotATrace)));
    assert!(matches!(Reader::new(&b"hwtrace"[..]), Err(ReadError::NotATrace)));
    // What a recorder leaves that was killed in its first write.
    for cut in [&b"hwtrace\0"[..], b"hwtrace\0\x01\0"] {
        assert!(matches!(Reader::new(cut), Err(ReadError::Unfinished { events: 0 })));
    }
    assert!(matches!(Reader::new(&b"hwtrace\0\x02\0\0\0"[..]), Err(ReadError::Version { found: 2 })));
}

#[test]
fn a_writer_rejects_invalid_events() {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    assert!(writer.free(0).is_err());
    assert!(writer.resize(0, 1).is_err());
    assert!(writer.allocate(Kind::Aligned, 1, 3).is_err());
    assert_eq!(writer.allocate(Kind::Aligned, 1, 4096).unwrap(), 0);
    assert!(writer.free(1).is_err());
    assert!(writer.fail(1, 6).is_err());
    writer.free(0).unwrap();
}

#[test]
fn threads_are_counted_that_make_calls() {
    let count = |threads: &[(u64, usize)]| {
        let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
        for &(thread, calls) in threads {
            writer.in_thread(thread).unwrap();
            (0..calls).for_each(|_| _ = writer.allocate(Kind::Malloc, 1, 16).unwrap());
        }
        Reader::new(&writer.finish().unwrap()[..]).unwrap().count_events().unwrap()
    };
    let counts = |calls, threads| Counts { calls, blocks: calls, threads };
    assert_eq!(count(&[]), counts(0, 0));
    assert_eq!(count(&[(0, 3)]), counts(3, 1));
    assert_eq!(count(&[(1, 2), (0, 0), (2, 1), (1, 0)]), counts(3, 2));
    assert_eq!(count(&[(1, 2), (0, 1), (2, 1), (1, 1)]), counts(5, 3));
}
