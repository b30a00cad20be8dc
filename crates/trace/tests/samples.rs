//! Samples, most of them written by the tools themselves (see `samples/README.md`): their formats are detected, and
//! every line is valid.

use heapwright_trace::import::{Format, ImportError, Options, Summary, import};
use heapwright_trace::{About, Event, Kind, Reader, Writer};

/// An event, its time in nanoseconds, and its call site from the innermost frame, with names instead of addresses.
type Full = (Event, Option<u64>, Vec<String>);

fn file(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/samples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn imported(name: &str, options: &Options) -> Result<(Vec<u8>, Summary), ImportError> {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let summary = import(options, &file(name)[..], &mut writer)?;
    Ok((writer.finish().unwrap(), summary))
}

/// Imports a sample with format detection.
fn read(name: &str) -> (Vec<Full>, Summary) {
    let (trace, summary) = imported(name, &Options { name: name.to_owned(), ..Options::default() }).unwrap();
    assert_eq!(summary.not_understood.count, 0, "{:?}", summary.not_understood);
    (read_all(&trace), summary)
}

fn read_all(trace: &[u8]) -> Vec<Full> {
    // Names are stored at the end of a trace.
    let mut names = Reader::new(trace).unwrap().with_sites();
    while names.next_event().unwrap().is_some() {}
    let mut reader = Reader::new(trace).unwrap().with_times().with_sites();
    let mut all = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let site = reader.site().into_iter().flat_map(|site| reader.site_frames(site));
        let frames = site.map(|frame| names.frame_name(frame).unwrap_or(frame).to_owned()).collect();
        all.push((event, reader.time(), frames));
    }
    all
}

fn events(all: &[Full]) -> Vec<Event> {
    all.iter().map(|all| all.0).collect()
}

/// Returns the sizes of allocations, in order.
fn sizes(all: &[Full]) -> Vec<u64> {
    let size = |event| if let Event::Allocate { size, .. } = event { Some(size) } else { None };
    events(all).into_iter().filter_map(size).collect()
}

fn malloc(block: u64, size: u64) -> Event {
    Event::Allocate { block, kind: Kind::Malloc, size, align: 16 }
}

/// Returns the requested sizes of the program in the heaptrack samples. The first is of the C++ library, one of a
/// thread.
fn requested() -> Vec<u64> {
    [72_704, 100, 150, 1000, 5000, 20, 320].into_iter().chain((0..20).map(|number| 16 + 8 * number)).collect()
}

/// Returns the frees of that program. Heaptrack logs a resize as a free and an allocation.
fn freed() -> Vec<Event> {
    let thread = (0..20).step_by(2).chain((1..20).step_by(2)).map(|number| 7 + number);
    [1, 4].into_iter().chain(thread).chain([2, 3, 0]).map(|block| Event::Free { block }).collect()
}

fn frees(all: &[Full]) -> Vec<Event> {
    events(all).into_iter().filter(|event| matches!(event, Event::Free { .. })).collect()
}

#[test]
fn heaptrack_interpreted() {
    let (all, summary) = read("heaptrack.zst");
    assert_eq!((summary.format, summary.unknown_blocks.count), (Some(Format::Heaptrack), 0));
    assert_eq!((sizes(&all), frees(&all)), (requested(), freed()));
    // An inlined function is not a stack frame of its own.
    assert_eq!(all[1].2[0], "leaf heaptrack.c:8 in main heaptrack.c:22");
    assert_eq!(all[2].2[0], "main heaptrack.c:23");
}

#[test]
fn heaptrack_packed_with_gzip_is_the_same() {
    assert_eq!(read("heaptrack.gz"), read("heaptrack.zst"));
}

#[test]
fn heaptrack_raw_names_blocks_by_address() {
    let (all, summary) = read("heaptrack.raw.zst");
    assert_eq!(summary.format, Some(Format::Heaptrack));
    assert_eq!((sizes(&all), frees(&all)), (requested(), freed()));
    assert!(all[1].2[0].starts_with("0x"), "{:?}", all[1].2);
}

#[test]
fn mtrace() {
    let (all, summary) = read("mtrace.log");
    assert_eq!(summary.format, Some(Format::Mtrace));
    let mut expected: Vec<Event> = (0..10).map(|number| malloc(number, 10 + 100 * number)).collect();
    expected.extend([malloc(10, 63), malloc(11, 512), Event::Resize { block: 0, becomes: 12, size: 3000 }]);
    expected.extend([
        Event::Failed { size: 1 << 62, align: 16 },
        malloc(13, 33),
        Event::Failed { size: 1 << 62, align: 16 },
    ]);
    expected.extend([12, 2, 4, 6, 8, 10, 13].map(|block| Event::Free { block }));
    assert_eq!(events(&all), expected);
    assert_eq!((summary.unknown_blocks.count, summary.passed_over), (0, 2));
}

#[test]
fn pytorch() {
    let options = Options { device: 1, ..Options::default() };
    let (trace, summary) = imported("pytorch.pickle", &options).unwrap();
    let aligned = |block, size| Event::Allocate { block, kind: Kind::Aligned, size, align: 512 };
    let all = read_all(&trace);
    let expected = [
        // Blocks allocated before the snapshot: one is freed later, one is still live at the end.
        aligned(0, 1000),
        aligned(1, 2000),
        Event::Free { block: 0 },
        aligned(2, 700_000),
        aligned(3, 512),
        Event::Failed { size: 4 << 30, align: 512 },
        Event::Free { block: 2 },
    ];
    assert_eq!(events(&all), expected);
    assert_eq!(all[3].2, ["forward layers.py:12", "step train.py:40"]);
    assert_eq!(all[4].2, ["main train.py:7"]);
    assert_eq!((all[2].1, all[6].1), (Some(1000), Some(7000)));
    assert_eq!((summary.format, summary.before, summary.lines), (Some(Format::PyTorch), 2, 10));
    assert_eq!((summary.passed_over, summary.unknown_blocks.count), (5, 0));
    // An older protocol gives the same trace.
    assert_eq!(imported("pytorch-2.pickle", &options).unwrap(), (trace, summary));
}

#[test]
fn pytorch_without_the_requested_device() {
    let error = imported("pytorch.pickle", &Options { device: 2, ..Options::default() }).unwrap_err();
    assert!(matches!(error, ImportError::NoSuchDevice { devices: 2 }), "{error}");
    assert_eq!(imported("pytorch.pickle", &Options::default()).unwrap().1.events, 0);
}

#[test]
fn memory_replay_zipped_and_not() {
    let (all, summary) = read("memory-replay.zip");
    assert_eq!(summary.format, Some(Format::MemoryReplay));
    assert_eq!(sizes(&all), [20, 128, 104, 7]);
    assert!(events(&all).contains(&Event::Failed { size: 4_000_000_000, align: 16 }));
    assert_eq!((all[0].1, all[1].1), (Some(0), Some(1000)));
    assert_eq!(read("memory-replay.txt"), (all, summary));
}

#[test]
fn other_formats_are_detected() {
    for (name, format, count) in [
        ("logalloc.log", Format::Logalloc, 7),
        ("rmm.csv", Format::Rmm, 3),
        ("short.rep", Format::Rep, 5),
        ("plain.csv", Format::Csv, 7),
    ] {
        let (_, summary) = read(name);
        assert_eq!((summary.format, summary.events), (Some(format), count), "{name}");
    }
}

#[test]
fn unknown_formats_and_compressions_are_rejected() {
    let import = |bytes: &[u8]| {
        let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
        import(&Options::default(), bytes, &mut writer).unwrap_err()
    };
    assert!(matches!(import(b"Dear all,\nthis is a letter.\n"), ImportError::UnknownFormat));
    assert!(matches!(import(b"malloc,1,2\n12: malloc 0x1 2\n"), ImportError::UnknownFormat));
    assert!(matches!(import(b""), ImportError::UnknownFormat));
    assert!(matches!(import(b"\xfd7zXZ\0..."), ImportError::Packed { with: "xz" }));
    assert!(matches!(import(b"PK\x03\x04nonsense"), ImportError::Zip { .. }));
    assert!(matches!(import(b"\x1f\x8bnonsense"), ImportError::Read(_)));
    assert!(matches!(import(b"\x28\xb5\x2f\xfdnonsense"), ImportError::Read(_)));
}
