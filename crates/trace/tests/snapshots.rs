//! Profiles without a time line: tables of memray and heap profiles of jemalloc.

use std::collections::BTreeMap;
use std::sync::Arc;

use heapwright_trace::import::{CodeFiles, Format, ImportError, Located, Options, SNAPSHOT, Summary, import};
use heapwright_trace::{About, Event, Reader, Writer};

fn sample(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/samples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Blocks and bytes by the innermost frame, by its name where it has one.
type Held = BTreeMap<String, (u64, u64)>;

fn import_with(source: &[u8], options: &Options) -> Result<(Held, Summary), ImportError> {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let summary = import(options, source, &mut writer)?;
    let trace = writer.finish().unwrap();
    let mut names = Reader::new(&trace[..]).unwrap().with_sites();
    while names.next_event().unwrap().is_some() {}
    assert!(names.about().get(SNAPSHOT).is_some());
    let (mut reader, mut held) = (Reader::new(&trace[..]).unwrap().with_sites(), Held::new());
    while let Some(event) = reader.next_event().unwrap() {
        let Event::Allocate { size, .. } = event else {
            assert!(matches!(event, Event::Thread { .. }), "{event:?}");
            continue;
        };
        let frame = reader.site().and_then(|site| reader.site_frames(site).next().map(str::to_owned));
        let frame = frame.unwrap_or_default();
        let row = held.entry(names.frame_name(&frame).unwrap_or(&frame).to_owned()).or_default();
        *row = (row.0 + 1, row.1 + size);
    }
    Ok((held, summary))
}

fn imported(source: &[u8]) -> (Held, Summary) {
    import_with(source, &Options::default()).unwrap()
}

#[test]
fn a_table_of_memray_is_what_its_rows_say() {
    let (held, summary) = imported(&sample("memray.csv"));
    assert_eq!(summary.format, Some(Format::Memray));
    assert_eq!(summary.not_understood.count, 0, "{:?}", summary.not_understood);
    assert_eq!(held["leaked held.py:7"], (3, 300_089));
    assert_eq!(held["peaked held.py:11"], (23, 401_114));
    assert_eq!(summary.events, held.values().map(|row| row.0).sum::<u64>());
}

#[test]
fn rows_that_are_wrong_are_counted() {
    let heading = "allocator,num_allocations,size,tid,thread_name,stack_trace\n";
    let text =
        format!("{heading}MALLOC,2,5,1,\"a, \"\"b\"\"\",f;a b.py;7|g;c.py;9\nMALLOC,x,5,1,m,f\nMALLOC,0,5,1,m,\n");
    let (held, summary) = imported(text.as_bytes());
    assert_eq!(held["f a-b.py:7"], (2, 5));
    assert_eq!((summary.events, summary.not_understood.count), (2, 2));
}

#[test]
fn a_capture_of_memray_is_refused_with_the_command_that_converts_it() {
    let packed = [&[0x04, 0x22, 0x4d, 0x18, 0x40, 0x40, 0xc0, 0, 0, 0, 0, 0xf8, 6][..], b"memray\0\x0d\0\0\0"].concat();
    for capture in [&b"memray\0\x0d\0\0\0"[..], &packed] {
        let error = import_with(capture, &Options::default()).unwrap_err();
        assert!(error.to_string().contains("memray transform csv"), "{error}");
    }
    let other = [&packed[..13], b"another"].concat();
    assert!(matches!(import_with(&other, &Options::default()), Err(ImportError::UnknownFormat)));
}

/// Says that code is at its offset plus 0x1000, and names that of one file.
#[derive(Debug)]
struct Files;

impl CodeFiles for Files {
    fn locate(&self, places: &[(&str, u64)]) -> Vec<Option<Located>> {
        let located = |&(path, offset): &(&str, u64)| {
            let name = path.ends_with("/profiled").then(|| format!("at_{offset:x}"));
            path.ends_with(".6").then_some(()).or(name.as_ref().map(|_| ()))?;
            Some(Located { address: offset + 0x1000, name })
        };
        places.iter().map(located).collect()
    }
}

#[test]
fn a_profile_of_jemalloc_has_the_totals_that_jeprof_shows() {
    let (held, summary) =
        import_with(&sample("jemalloc.heap"), &Options { files: Some(Arc::new(Files)), ..Options::default() }).unwrap();
    assert_eq!(summary.format, Some(Format::Jemalloc));
    assert_eq!(summary.not_understood.count, 0, "{:?}", summary.not_understood);
    // `jeprof --show_bytes --text`: main 4,194,304, in_thread 3,145,728, libraries 81,920 and 4,259, small 23,157.
    let mut sorted: Vec<u64> = held.values().map(|row| row.1).collect();
    sorted.sort_unstable();
    assert_eq!(sorted, [4_259, 23_157, 81_920, 3_145_728, 4_194_304], "{held:?}");
    // Frames of jemalloc's own library are left out; the call is before the return address.
    assert_eq!(held["at_11c0"], (1, 3_145_728));
    assert!(held.keys().any(|name| name.starts_with("libstdc++.so.6.0.30+0x")), "{held:?}");
}

#[test]
fn a_profile_without_sampling_is_exact_and_keeps_its_threads_apart() {
    let text = "heap_v2/1\n  t*: 5: 47 [0: 0]\n@ 0x11 0x21\n  t*: 5: 47 [9: 99]\n  t3: 2: 20 [0: 0]\n  t8: 3: 27 [0: 0]\n\
                @ 0x31\n  t*: 1: 8 [0: 0]\n@ 0x41\n  t*: 0: 0 [7: 70]\nwhat\n";
    let (held, summary) = imported(text.as_bytes());
    assert_eq!(held, BTreeMap::from([("0x10".to_owned(), (5, 47)), ("0x30".to_owned(), (1, 8))]));
    assert_eq!((summary.events, summary.not_understood.count), (6, 1));
}

/// As `jeprof` scales: by the mean size of all blocks of the stack. 100 blocks of one thread have 100 bytes each, which
/// alone would stand for 5,243 blocks each.
#[test]
fn threads_are_scaled_as_all_blocks_of_their_stack_are() {
    let text = "heap_v2/524288\n  t*: 101: 1010000 [0: 0]\n@ 0x11\n  t*: 101: 1010000 [0: 0]\n  \
                t0: 1: 1000000 [0: 0]\n  t1: 100: 10000 [0: 0]\n";
    let (held, _) = imported(text.as_bytes());
    let factor = 1.0 / (1.0 - (-1_010_000.0_f64 / 101.0 / 524_288.0).exp());
    let (blocks, bytes) = held["0x10"];
    assert!(
        blocks.abs_diff((101.0 * factor) as u64) <= 2 && bytes.abs_diff((1_010_000.0 * factor) as u64) <= 2,
        "{held:?}"
    );
}

#[test]
fn more_blocks_than_a_trace_should_have_are_refused() {
    for text in [
        format!("heap_v2/1\n@ 0x1\n  t*: {0}: {0} [0: 0]\n", u64::MAX),
        format!("heap_v2/{}\n@ 0x1\n  t*: 9: 9 [0: 0]\n", u64::MAX),
        format!("allocator,num_allocations,size,tid,thread_name,stack_trace\nMALLOC,{0},{0},1,m,\n", 1_u64 << 60),
    ] {
        let error = import_with(text.as_bytes(), &Options::default()).unwrap_err();
        assert!(matches!(error, ImportError::TooMuch { what: "blocks" }), "{error}");
    }
}
