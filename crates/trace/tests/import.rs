//! Imports of other formats, with sources from the documentation or the output of the tools.

use heapwright_trace::import::{Format, Options, Summary, import};
use heapwright_trace::{About, Event, Kind, Reader, Writer};

fn events(format: Format, text: &str) -> (Vec<Event>, Summary) {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let summary = import(&Options::of(format), text.as_bytes(), &mut writer).unwrap();
    let file = writer.finish().unwrap();
    (Reader::new(&file[..]).unwrap().map(Result::unwrap).collect(), summary)
}

fn malloc(block: u64, size: u64) -> Event {
    Event::Allocate { block, kind: Kind::Malloc, size, align: 16 }
}

fn aligned(block: u64, size: u64, align: u64) -> Event {
    Event::Allocate { block, kind: Kind::Aligned, size, align }
}

fn calloc(block: u64, size: u64) -> Event {
    Event::Allocate { block, kind: Kind::Calloc, size, align: 16 }
}

#[test]
fn csv() {
    let (events, summary) = events(
        Format::Csv,
        "# ours\nop,id,size\nmalloc,5,100\r\ncalloc,6,40\naligned,7,64,4096\nrealloc,5,0x200\nfree,6\nfree,5\n",
    );
    let expected = [
        malloc(0, 100),
        calloc(1, 40),
        aligned(2, 64, 4096),
        Event::Resize { block: 0, becomes: 3, size: 512 },
        Event::Free { block: 1 },
        Event::Free { block: 3 },
    ];
    assert_eq!(events, expected);
    assert_eq!((summary.events, summary.passed_over, summary.not_understood.count), (6, 2, 0));
}

#[test]
fn lines_of_csv_without_a_thread_belong_to_thread_0() {
    let (events, _) = events(Format::Csv, "malloc,1,10\nmalloc,2,20,,9\nmalloc,3,30\n");
    let expected =
        [malloc(0, 10), Event::Thread { thread: 1 }, malloc(1, 20), Event::Thread { thread: 0 }, malloc(2, 30)];
    assert_eq!(events, expected);
}

#[test]
fn a_byte_order_mark_belongs_to_no_line() {
    let text = "\u{feff}malloc,1,10\r\nfree,1\r\n";
    assert_eq!(Format::detect(text.as_bytes(), "sheet"), Some(Format::Csv));
    let (events, summary) = events(Format::Csv, text);
    assert_eq!(events, [malloc(0, 10), Event::Free { block: 0 }]);
    assert_eq!(summary.not_understood.count, 0);
}

#[test]
fn rep_with_headers_of_two_three_and_four_integers() {
    for header in ["2\n4\n", "20000\n2\n4\n", "20000\n2\n4\n1\n"] {
        let text = format!("{header}a 0 512\na 1 128\nr 0 640\nf -1\nf 1\nf 0\n");
        let (events, summary) = events(Format::Rep, &text);
        let expected = [
            malloc(0, 512),
            malloc(1, 128),
            Event::Resize { block: 0, becomes: 2, size: 640 },
            Event::Free { block: 1 },
            Event::Free { block: 2 },
        ];
        assert_eq!(events, expected);
        assert_eq!(summary.not_understood.count, 0);
    }
    // A single number after the header is not an event.
    assert_eq!(events(Format::Rep, "1\n1\na 0 8\n77\n").1.not_understood.first, [(4, "77".to_owned())]);
}

#[test]
fn memory_replay() {
    let text = "186: malloc 0xb6038060 20\n186: free 0xb6038060\n187: calloc 0xb609f080 32 4\n\
                187: realloc 0xb609f180 0xb609f080 12\n\
                186: memalign 0xae9d1080 16 104 1000 1010\n187: realloc 0xb6000000 0x0 7\n186: free 0x0\n\
                186: thread_done 0x0\n186: dance 1\n";
    let (events, summary) = events(Format::MemoryReplay, text);
    let expected = [
        malloc(0, 20),
        Event::Free { block: 0 },
        Event::Thread { thread: 1 },
        calloc(1, 128),
        Event::Resize { block: 1, becomes: 2, size: 12 },
        Event::Thread { thread: 0 },
        aligned(3, 104, 16),
        Event::Thread { thread: 1 },
        malloc(4, 7),
    ];
    // The last three lines write nothing.
    assert_eq!(events, expected);
    assert_eq!((summary.passed_over, summary.not_understood.count), (2, 1));
}

#[test]
fn logalloc() {
    let text = "18545 18545 malloc(32)=#1\n18545 18546 calloc(4,10)=#2\n18545 18545 realloc(#1,64)=#1\n\
                18545 18545 memalign(64, 100)=#3\n\
                18545 18545 free(#2)\n18545 18545 free(#0)\n18545 18545 malloc(9)=#0\n\
                18545 18545 jemalloc_stats()\n18545 18545 realloc(#0,5)=#2\nhello\n";
    let (events, summary) = events(Format::Logalloc, text);
    let expected = [
        malloc(0, 32),
        Event::Thread { thread: 1 },
        calloc(1, 40),
        Event::Thread { thread: 0 },
        Event::Resize { block: 0, becomes: 2, size: 64 },
        aligned(3, 100, 64),
        Event::Free { block: 1 },
        Event::Failed { size: 9, align: 16 },
        malloc(4, 5),
    ];
    assert_eq!(events, expected);
    assert_eq!((summary.passed_over, summary.not_understood.count), (2, 1));
}

/// As the program writes it, before Mozilla's script replaces the addresses by numbers.
#[test]
fn logalloc_with_addresses() {
    let text = "18545 18545 malloc(32)=0x7f90495120e0\n18545 18545 calloc(1,148)=0x7f9049537480\n\
                18545 18545 realloc(0x7f90495120e0,64)=0x7f9049536680\n18545 18545 free(0x7f9049537480)\n\
                18545 18545 posix_memalign(256,240)=0x7f9049583300\n18545 18545 jemalloc_stats()\n\
                18545 18545 free(0x7f9049536680)\n18545 18545 malloc(10)=(nil)\n18545 18545 malloc(11)=0x0\n\
                18545 18545 realloc((nil),5)=0x7f90495120e0\n18545 18545 free((nil))\n\
                18545 18545 malloc(1)=block\n18545 18545 free(block)\n18545 18545 realloc(block,1)=0x1\n";
    let (events, summary) = events(Format::Logalloc, text);
    let expected = [
        malloc(0, 32),
        calloc(1, 148),
        Event::Resize { block: 0, becomes: 2, size: 64 },
        Event::Free { block: 1 },
        aligned(3, 240, 256),
        Event::Free { block: 2 },
        Event::Failed { size: 10, align: 16 },
        Event::Failed { size: 11, align: 16 },
        malloc(4, 5),
    ];
    assert_eq!(events, expected);
    assert_eq!((summary.passed_over, summary.not_understood.count), (2, 3));
}

#[test]
fn processes_of_a_log_are_imported_one_at_a_time() {
    let text = "7 7 malloc(1)=#1\n8 8 malloc(2)=#1\n7 7 free(#1)\n8 9 malloc(3)=#2\n8 8 free(#1)\n";
    let of = |process| {
        let options = Options { process, ..Options::of(Format::Logalloc) };
        let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
        let summary = import(&options, text.as_bytes(), &mut writer).unwrap();
        (summary.events, summary.of_other_processes, summary.processes, summary.unknown_blocks.count)
    };
    assert_eq!(of(None), (2, 3, vec![7, 8], 0));
    assert_eq!(of(Some(8)), (3, 2, vec![7, 8], 0));
}

#[test]
fn a_resize_to_size_zero_is_a_free() {
    let freed = [malloc(0, 20), Event::Free { block: 0 }];
    let (by_android, _) = events(Format::MemoryReplay, "1: malloc 0x10 20\n1: realloc 0x0 0x10 0\n");
    let (by_mozilla, _) = events(Format::Logalloc, "1 1 malloc(20)=#1\n1 1 realloc(#1,0)=#0\n");
    assert_eq!((by_android, by_mozilla), (freed.to_vec(), freed.to_vec()));
}

#[test]
fn mtrace() {
    let text = "= Start\n@ ./a.out:[0x4005e6] + 0x602460 0x64\n@ /lib/x y.so:(f+0x1a)[0x7f] < 0x602460\n\
                @ /lib/x y.so:(f+0x1a)[0x7f] > 0x602500 0xc8\n\
                @ ./a.out:[0x40] - 0x602500\n@ ./a.out:[0x40] - 0x77\n= End\n";
    let (events, summary) = events(Format::Mtrace, text);
    let expected = [malloc(0, 100), Event::Resize { block: 0, becomes: 1, size: 200 }, Event::Free { block: 1 }];
    assert_eq!(events, expected);
    assert_eq!((summary.passed_over, summary.unknown_blocks.count, summary.not_understood.count), (2, 1, 0));
}

#[test]
fn rmm() {
    let text = "Thread,Time,Action,Pointer,Size,Stream\n18,10:23:11.9,allocate,0x7f2a00000000,1048576,0\n\
                18,10:23:11.9,allocate failure,(nil),99,0\n\
                19,10:23:12.1,free,0x7f2a00000000,1048576,0\n";
    let (events, summary) = events(Format::Rmm, text);
    let failed = Event::Failed { size: 99, align: 256 };
    assert_eq!(events, [aligned(0, 1 << 20, 256), failed, Event::Thread { thread: 1 }, Event::Free { block: 0 }]);
    assert_eq!((summary.passed_over, summary.not_understood.count), (1, 0));
}

#[test]
fn heaptrack_takes_the_youngest_block_of_a_size_and_call() {
    let text = "v 10400 3\nX ./a.out\ns 5 a.out\ns 4 main\ni 40 1 2\nt 1 0\na 10 1\na 20 0\nc 5\n+ 0\n+ 0\n\
                c 7\n- 0\n+ 1\n- 0\n- 0\n- 7\n+ 9\n";
    let (events, summary) = events(Format::Heaptrack, text);
    let frees = [Event::Free { block: 1 }, Event::Free { block: 0 }];
    assert_eq!(events, [malloc(0, 16), malloc(1, 16), frees[0], malloc(2, 32), frees[1]]);
    assert_eq!(summary.unknown_blocks.first, [(16, "- 0".to_owned()), (17, "- 7".to_owned())]);
    assert_eq!(summary.not_understood.first, [(18, "+ 9".to_owned())]);

    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    import(&Options::of(Format::Heaptrack), text.as_bytes(), &mut writer).unwrap();
    let file = writer.finish().unwrap();
    let mut reader = Reader::new(&file[..]).unwrap().with_times().with_sites();
    reader.next_event().unwrap();
    assert_eq!(reader.time(), Some(5_000_000));
    let frames: Vec<_> = reader.site_frames(reader.site().unwrap()).map(str::to_owned).collect();
    assert_eq!(frames, ["a.out@0x40"]);
    while reader.next_event().unwrap().is_some() {}
    assert_eq!((reader.time(), reader.frame_name("a.out@0x40")), (Some(7_000_000), Some("main")));
    assert_eq!(reader.about().get("command"), Some("./a.out"));
}

#[test]
fn heaptrack_of_older_versions_has_strings_without_lengths() {
    let text = "v 10200 2\ns /usr/lib/a b.so\ni 40 1\nt 1 0\na 10 1\n+ 0\n";
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    import(&Options::of(Format::Heaptrack), text.as_bytes(), &mut writer).unwrap();
    let file = writer.finish().unwrap();
    let mut reader = Reader::new(&file[..]).unwrap().with_sites();
    reader.next_event().unwrap();
    let frames: Vec<_> = reader.site_frames(reader.site().unwrap()).map(str::to_owned).collect();
    assert_eq!(frames, ["a b.so@0x40"]);
}

#[test]
fn an_allocation_at_the_address_of_a_live_block_frees_it() {
    let (events, summary) = events(Format::Csv, "malloc,1,10\nmalloc,1,20\nfree,1\n");
    // Before it appears: the two are not live at the same time.
    assert_eq!(events, [malloc(0, 10), Event::Free { block: 0 }, malloc(1, 20), Event::Free { block: 1 }]);
    assert_eq!(summary.reused_places.first, [(2, "malloc,1,20".to_owned())]);
}

#[test]
fn garbage_is_counted_and_does_not_panic() {
    let mut random = fastrand::Rng::with_seed(1);
    let pieces = [
        "malloc",
        "a",
        "f",
        "r",
        "(",
        ")",
        "=#",
        ",",
        " ",
        "0x",
        ":",
        "@",
        "+",
        "<",
        ">",
        "-1",
        "7",
        "99999999999999999999",
        "\u{fffd}",
        "free",
    ];
    for format in Format::ALL.into_iter().filter(|&format| format != Format::PyTorch) {
        for _ in 0..2000 {
            let text: String = (0..random.usize(..12)).map(|_| pieces[random.usize(..pieces.len())]).collect();
            let (_, summary) = events(format, &text);
            assert!(summary.lines <= 1);
        }
        let mut bytes = vec![0u8; 4096];
        random.fill(&mut bytes);
        let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
        import(&Options::of(format), &bytes[..], &mut writer).unwrap();
        let long = vec![b'x'; 3 << 20];
        assert!(import(&Options::of(format), &long[..], &mut writer).is_err());
    }
}

#[test]
fn a_line_that_is_not_understood_writes_nothing() {
    for (format, lines) in [(Format::Csv, "malloc,1,,,7\nnothing,1,10,,8\n"), (Format::MemoryReplay, "7: nothing 1\n")]
    {
        let (events, summary) = events(format, lines);
        assert_eq!((events, summary.not_understood.count), (Vec::new(), lines.lines().count() as u64), "{lines}");
    }
}
