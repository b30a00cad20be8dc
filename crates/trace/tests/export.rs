//! Export followed by import gives the same trace, as far as the format can express it.

use heapwright_trace::export::{self, Exported, Extent, FORMATS};
use heapwright_trace::import::{Format, Options, import};
use heapwright_trace::{About, Event, Kind, Reader, Writer};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate(Kind, u64, u32),
    Resize(usize, u64),
    Free(usize),
    Failed(u64, u32),
    Thread(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![0u64..300, any::<u64>()];
    let kind = prop_oneof![Just(Kind::Malloc), Just(Kind::Calloc), Just(Kind::Aligned)];
    let step = prop_oneof![
        4 => (kind, size.clone(), 0u32..64).prop_map(|(kind, size, log)| Step::Allocate(kind, size, log)),
        1 => (any::<usize>(), size.clone()).prop_map(|(which, size)| Step::Resize(which, size)),
        3 => any::<usize>().prop_map(Step::Free),
        1 => (size, 0u32..64).prop_map(|(size, log)| Step::Failed(size, log)),
        1 => (0u64..3).prop_map(Step::Thread),
    ];
    prop::collection::vec(step, 0..200)
}

/// Returns a trace that frees live blocks only and in which threads appear in the order of their numbers.
fn trace(steps: &[Step]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let (mut live, mut threads) = (Vec::new(), 0);
    writer.fail(1, 16).unwrap();
    for &step in steps {
        match step {
            Step::Allocate(kind, size, log) => {
                let align = if kind == Kind::Aligned { 1 << log } else { 16 };
                live.push(writer.allocate(kind, size, align).unwrap());
            }
            Step::Resize(..) | Step::Free(_) if live.is_empty() => {}
            Step::Resize(which, size) => {
                let which = which % live.len();
                live[which] = writer.resize(live[which], size).unwrap();
            }
            Step::Free(which) => writer.free(live.swap_remove(which % live.len())).unwrap(),
            Step::Failed(size, log) => writer.fail(size, 1 << log).unwrap(),
            Step::Thread(thread) => {
                writer.in_thread(thread.min(threads + 1)).unwrap();
                threads = threads.max(thread.min(threads + 1));
                // Other formats do not have threads without events.
                writer.fail(1, 16).unwrap();
            }
        }
    }
    writer.finish().unwrap()
}

fn events(file: &[u8]) -> Vec<Event> {
    Reader::new(file).unwrap().map(Result::unwrap).collect()
}

fn exported(format: Format, trace: &[u8]) -> (String, Exported, Extent) {
    let extent = Extent::of(&mut Reader::new(trace).unwrap()).unwrap();
    let mut text = Vec::new();
    let exported = export::export(format, &extent, Reader::new(trace).unwrap(), &mut text).unwrap();
    (String::from_utf8(text).unwrap(), exported, extent)
}

fn imported(format: Format, text: &str) -> Vec<Event> {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let summary = import(&Options::of(format), text.as_bytes(), &mut writer).unwrap();
    assert_eq!((summary.not_understood.count, summary.unknown_blocks.count, summary.reused_places.count), (0, 0, 0));
    events(&writer.finish().unwrap())
}

/// Returns the event as far as a format can express it.
fn expressible(format: Format, event: Event) -> Option<Event> {
    let plain = matches!(format, Format::Rep | Format::Mtrace);
    match event {
        Event::Allocate { block, size, .. } if plain => {
            Some(Event::Allocate { block, kind: Kind::Malloc, size, align: 16 })
        }
        Event::Failed { size, .. } if format == Format::Mtrace => Some(Event::Failed { size, align: 16 }),
        Event::Failed { .. } if format != Format::Csv => None,
        Event::Thread { .. } if plain => None,
        event => Some(event),
    }
}

/// Returns the events with their threads, without threads that have no events.
fn without_idle_threads(events: Vec<Event>) -> Vec<(u64, Event)> {
    let mut thread = 0;
    let mut kept = Vec::new();
    for event in events {
        match event {
            Event::Thread { thread: number } => thread = number,
            event => kept.push((thread, event)),
        }
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn export_and_import_round_trip(steps in steps()) {
        let trace = trace(&steps);
        let before = events(&trace);
        for format in FORMATS {
            let (text, exported, extent) = exported(format, &trace);
            let expected = before.iter().filter_map(|&event| expressible(format, event)).collect();
            let mut expected = without_idle_threads(expected);
            let mut found = without_idle_threads(imported(format, &text));
            if format == Format::MemoryReplay {
                // The format has no failures, so that thread numbers differ if a thread has no other events.
                expected.iter_mut().chain(&mut found).for_each(|(thread, _)| *thread = 0);
            }
            prop_assert_eq!(found, expected, "{}:\n{}", format.name(), text);
            prop_assert_eq!((exported.operations, exported.unknown, exported.beside), (extent.operations, 0, 0));
        }
    }
}

#[test]
fn export_counts_what_the_format_cannot_express() {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let a = writer.allocate(Kind::Calloc, 10, 16).unwrap();
    writer.in_thread(1).unwrap();
    writer.allocate(Kind::Aligned, 20, 64).unwrap();
    writer.fail(30, 16).unwrap();
    writer.free(a).unwrap();
    writer.free(a).unwrap();
    writer.at(5);
    writer.in_thread(0).unwrap();
    let trace = writer.finish().unwrap();

    let (text, rep, extent) = exported(Format::Rep, &trace);
    assert_eq!(text, "30\n2\n3\n1\na 0 10\na 1 20\nf 0\n");
    assert_eq!(extent, Extent { blocks: 2, operations: 3, peak: 30 });
    let lost = (rep.threads, rep.alignments, rep.zeroed, rep.failures, rep.unknown);
    assert_eq!((rep.operations, lost), (3, (2, 1, 1, 1, 1)));
    assert!(rep.beside > 0);

    let (text, csv, _) = exported(Format::Csv, &trace);
    assert_eq!(text, "op,id,size,align,thread\ncalloc,0,10,,0\naligned,1,20,64,1\nfailed,,30,16,1\nfree,0,,,1\n");
    assert_eq!((csv.threads, csv.alignments, csv.zeroed, csv.failures), (0, 0, 0, 0));

    let (text, replay, _) = exported(Format::MemoryReplay, &trace);
    assert_eq!(text, "1: calloc 0x10 1 10\n2: memalign 0x20 64 20\n2: free 0x10\n");
    assert_eq!((replay.threads, replay.failures), (0, 1));
}

#[test]
fn export_of_a_damaged_trace_stops_at_the_damage() {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..400_000 {
        writer.allocate(Kind::Malloc, random.u64(..1 << 40), 16).unwrap();
    }
    let trace = writer.finish().unwrap();
    let cut = &trace[..trace.len() * 2 / 3];

    let extent = Extent::of(&mut Reader::new(cut).unwrap()).unwrap();
    let mut text = Vec::new();
    let error = export::export(Format::Rep, &extent, Reader::new(cut).unwrap(), &mut text).unwrap_err();
    assert!(matches!(error, export::ExportError::Read(_)), "{error}");
    assert!(extent.operations > 100_000);
    assert_eq!(imported(Format::Rep, std::str::from_utf8(&text).unwrap()).len() as u64, extent.operations);
}

#[test]
fn format_of_an_export_is_detected() {
    let trace = trace(&[Step::Allocate(Kind::Malloc, 10, 0), Step::Free(0)]);
    for format in FORMATS {
        assert_eq!(Format::detect(exported(format, &trace).0.as_bytes(), "t"), Some(format));
    }
}

#[test]
fn formats_without_export_are_rejected() {
    let trace = trace(&[]);
    let reader = Reader::new(&trace[..]).unwrap();
    let error = export::export(Format::PyTorch, &Extent::default(), reader, Vec::new()).unwrap_err();
    assert!(matches!(error, export::ExportError::NoWriter(Format::PyTorch)));
}
