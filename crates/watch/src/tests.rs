//! The screen of a running program, drawn from heaps that the tests make.

use std::ffi::CString;
use std::sync::LazyLock;

use heapwright_beacon::{Beacon, Sighting};
use heapwright_cached as cached;
use heapwright_os::Output;
use heapwright_placement::{AnyEngine, Engine, Glance, Growth, PolicyKind, Rules};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::live::Live;
use super::sample::{Clarity, Sample};
use super::screen;
use super::slabs::Mapped;
use super::unseen::Unseen;
use super::view::Kind;

/// Returns a heap of 256 blocks of 64 bytes, of which every fourth of the first 128 is free.
fn sample(clarity: Clarity) -> Sample {
    let rules = Rules { growth: Growth::Extend, ..Rules::default() };
    let mut metadata = vec![0; AnyEngine::metadata_cells(PolicyKind::First, 1 << 20, &rules).unwrap()];
    let mut heap = AnyEngine::create(PolicyKind::First, &mut metadata, 1 << 20, &rules).unwrap();
    let blocks: Vec<usize> = (0..256).map(|_| heap.allocate(64, 16).unwrap()).collect();
    blocks[..128].iter().step_by(4).for_each(|&block| assert!(heap.deallocate(block).is_ok()));
    let glance = Glance::of(&metadata).unwrap();
    let map = metadata[glance.map()].to_vec();
    Sample::of_engine(0x7000_0000, glance, map, clarity)
}

/// Returns a sample of a cached heap with 1000 blocks of 48 bytes, of which half are free, and one of 100,000.
fn sample_with_slabs() -> Sample {
    static MADE: LazyLock<Sample> = LazyLock::new(make_sample_with_slabs);
    MADE.clone()
}

/// Makes it from this process's cached heap, which nothing else here uses, as a process leaves it at its end.
fn make_sample_with_slabs() -> Sample {
    let blocks: Vec<_> = (0..1000).map(|_| cached::allocate(48).unwrap()).collect();
    let long = cached::allocate(100_000).unwrap();
    // SAFETY: each block is live, was allocated above, and is not accessed after this free.
    blocks[..500].iter().for_each(|&block| unsafe { cached::free(block).unwrap() });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let output = Output::file(&CString::new(path.to_str().unwrap()).unwrap()).unwrap();
    let beacon = Beacon::new();
    beacon.light(&Sighting {
        policy: PolicyKind::First as u64,
        metadata: 1,
        slabs: 1,
        heaps: 1,
        ..Sighting::default()
    });
    output.write(&beacon.bytes());
    cached::write_state(output);
    output.close();
    // SAFETY: these blocks are live, the other half were freed above; none is accessed after this free.
    blocks[500..].iter().chain([&long]).for_each(|&block| unsafe { cached::free(block).unwrap() });
    Sample { region: 0x7000_0000, ..Sample::left_in(&path).unwrap() }
}

/// Returns the screen as text, while a process with this sample is watched.
fn drawn(sample: Option<Sample>, unseen: Option<Unseen>, width: u16, height: u16) -> Vec<String> {
    let mut live = Live::of_process(4711);
    let shown = live.family.shown_mut();
    shown.name = "demo".to_owned();
    if let Some(sample) = sample {
        shown.put(sample);
    }
    shown.unseen = unseen;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen::draw(frame, &live)).unwrap();
    let rows = terminal.backend().buffer().content.chunks(usize::from(width));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()).collect()
}

#[test]
fn a_heap_at_80_by_24() {
    let lines = drawn(Some(sample(Clarity::Sharp)), None, 80, 24);
    let expected = [
        " demo  4711 under first · running                                          0:00",
        " 48 B a cell from 0x70000000 ─────────────────── █ used ▓▒░ mixed · hole ╌ tail",
        "0x0000 ·▒███░░███▒·████·▒███░░███▒·████·▒███░░███▒·████·▒███░░███▒·████",
        "0x0c00 ·▒███░░███▒·████·▒███░░███▒·████·▒███░░███▒·████·▒███░░███▒·████",
        "0x1800 ·▒███░░███▒·████·▒███░░███▒·████·▒███░░█████████████████████████",
        "0x2400 ████████████████████████████████████████████████████████████████",
        "0x3000 ████████████████████████████████████████████████████████████████",
        "0x3c00 ██████████████████████",
        "",
        " counters ────────────────────────────  holes: 32 ─────────  over time ─────────",
        "mallocs               256           -       64 B ██████ 32  heap 16.0 KiB",
        "frees                  32           -                       █",
        "reuses                  0           -                       █",
        "grows                 256           -                       live 14.0 KiB",
        "splits                  0           -                       ▆",
        "coalesces               0           -                       █",
        "resizes                 0           -                       fragmented 96.9 %",
        "live             14.0 KiB of 16.0 KiB                       ▇",
        "heap             16.0 KiB of 16.0 KiB                       █",
        " output ────────────────────────────────────────────────────────────────────────",
        "(not shown: this process was started outside heapwright watch)",
        "",
        "",
        " q  quit  z Z  zoom  0  all  ↑ ↓  move  Tab  process  space  pause",
    ];
    for (number, (line, wanted)) in lines.iter().zip(expected).enumerate() {
        assert_eq!(line, wanted, "row {number} of\n{}", lines.join("\n"));
    }
    assert_eq!(lines.len(), expected.len());
}

#[test]
fn the_cached_heap_at_80_by_24() {
    let sample = sample_with_slabs();
    let used: usize = sample.pieces().filter(|piece| piece.kind == Kind::Used).map(|piece| piece.size).sum();
    // Blocks in thread caches are allocated too: of this class, and of the class whose slab holds the first blocks.
    assert!((500 * 48..540 * 48 + 16 * 64).contains(&used), "{used}");
    assert_eq!(sample.live(), Some(500 * 48 + 102_400));
    let lines = drawn(Some(sample.clone()), None, 80, 24);
    let expected = [
        (0, " demo  4711 under cached · running                                         0:00"),
        (1, " 4.00 KiB a cell from 0x70000000 ─ ■ long █ slab ∘ idle ▓▒░ mixed · hole ╌ tail"),
        (8, " heap ────────────────────────────────  size classes ──────────────────────────"),
        (9, "live              123 KiB              bytes  slabs      used     free     idle"),
        (15, "longer                  1     100 KiB"),
    ];
    for (row, wanted) in expected {
        assert_eq!(lines[row], wanted, "row {row} of\n{}", lines.join("\n"));
    }
    assert!(lines[2].starts_with("0x00000 ") && lines[2].contains("█████▒∘"), "{}", lines[2]);
    assert!(lines[2].contains(&"■".repeat(25)) && lines[2].ends_with('╌'), "{}", lines[2]);
    assert!(lines[10].contains("   48      1       500 40.5 KiB "), "{}", lines[10]);
    for size in [(1, 1), (39, 12), (80, 10), (200, 60)] {
        drawn(Some(sample.clone()), None, size.0, size.1);
    }
}

#[test]
fn blocks_with_mappings_of_their_own_have_a_line_while_there_are_any() {
    let mut sample = sample_with_slabs();
    let without = drawn(Some(sample.clone()), None, 80, 24);
    assert!(without.iter().all(|line| !line.starts_with("mapped")), "{without:?}");
    let live = sample.live().unwrap();
    sample.slabs.as_mut().unwrap().mapped = Mapped { blocks: 3, bytes: 150 << 20 };
    assert_eq!(sample.live(), Some(live + (150 << 20)));
    let with = drawn(Some(sample), None, 80, 24);
    assert!(with[15].starts_with("mapped                  3     150 MiB"), "{}", with.join("\n"));
    // The map has given a row for it, and nothing else is missing.
    assert!(with[7].starts_with(" heap ──") && with[18].starts_with("holes "), "{}", with.join("\n"));
}

#[test]
fn a_larger_terminal_shows_more_of_the_heap() {
    let lines = drawn(Some(sample(Clarity::Sharp)), None, 120, 40);
    let rows = lines.iter().filter(|line| line.starts_with("0x")).count();
    assert_eq!((rows, lines[2].chars().count()), (10, 7 + 112), "{}", lines.join("\n"));
    assert!(lines[1].starts_with(" 16 B a cell from 0x70000000 ─"));
    assert!(lines.iter().any(|line| line.starts_with(" counters ─")));
}

#[test]
fn what_is_not_seen_is_said() {
    let none = drawn(None, None, 80, 24);
    assert!(none[2].starts_with("Looking for the heap"), "{none:?}");
    let foreign = drawn(None, Some(Unseen::NoHeap), 80, 24);
    assert!(foreign[2].contains("does not run under libheapwright.so"));
    let torn = drawn(Some(sample(Clarity::Blurred)), None, 80, 24);
    assert!(torn[0].contains("running, seen amid an operation"));
    let ended = drawn(Some(sample(Clarity::Sharp)), Some(Unseen::Gone), 80, 24);
    assert!(ended[0].contains("this process has ended") && ended[2].starts_with("0x0000 ·▒█"));
}

#[test]
fn no_terminal_is_too_small() {
    for (width, height) in [(1, 1), (2, 30), (10, 3), (200, 2), (39, 12)] {
        drawn(Some(sample(Clarity::Sharp)), None, width, height);
        drawn(None, None, width, height);
    }
}
