//! Frames that end early, and files of limited length.

use heapwright_trace::{About, Kind, Reader, WriteError, Writer};

/// What a reader finds in a file: events without those that name threads, times, sites, and whether it is finished.
fn read(file: &[u8]) -> (u64, Vec<Option<u64>>, Vec<Option<u32>>, bool) {
    let mut reader = Reader::new(file).unwrap().with_times().with_sites();
    let (mut events, mut times, mut sites) = (0, Vec::new(), Vec::new());
    while let Some(event) = reader.next_event().unwrap() {
        if !matches!(event, heapwright_trace::Event::Thread { .. }) {
            events += 1;
            times.push(reader.time());
            sites.push(reader.site().map(|site| site.index()));
        }
    }
    (events, times, sites, reader.is_finished())
}

/// Writes requests with times and sites, which do not compress, until `enough` or the limit; returns their number.
fn fill(writer: &mut Writer<&mut Vec<u8>>, enough: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(1);
    for number in 0..enough {
        writer.at(number * 1000 + random.u64(..1000));
        let frames = [format!("lib.so+{:#x}", random.u64(..1 << 40)), format!("main+{:#x}", random.u64(..99))];
        let site = match writer.define_site(&[&frames[0], &frames[1]]) {
            Ok(site) => site,
            Err(WriteError::LimitReached { .. }) => return number,
            Err(error) => panic!("{error}"),
        };
        writer.from_site(site).unwrap();
        match writer.allocate(Kind::Malloc, random.u64(..1 << 40), 16) {
            Ok(block) => assert_eq!(block, number),
            Err(WriteError::LimitReached { .. }) => return number,
            Err(error) => panic!("{error}"),
        }
    }
    enough
}

#[test]
fn what_was_flushed_is_read_from_an_unfinished_file() {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &About::of_program("test")).unwrap();
    writer.in_thread(7).unwrap();
    assert_eq!(fill(&mut writer, 1000), 1000);
    writer.flush_frame().unwrap();
    let whole = writer.written();
    writer.flush_frame().unwrap();
    assert_eq!(writer.written(), whole, "an empty frame is not written");
    writer.free(3).unwrap();
    drop(writer);
    assert_eq!(file.len() as u64, whole);
    let (events, times, sites, finished) = read(&file);
    assert_eq!((events, finished), (1000, false));
    assert!(times.is_sorted() && times[999] >= Some(999_000));
    assert_eq!(sites, (0..1000).map(Some).collect::<Vec<_>>());
}

#[test]
fn a_trace_of_short_frames_is_read_as_one_of_long_ones() {
    let traces = [1, usize::MAX].map(|every| {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &About::default()).unwrap();
        for number in 0..300 {
            writer.in_thread(number / 100).unwrap();
            writer.at(number * 10);
            writer.allocate(Kind::Malloc, number, 16).unwrap();
            if number as usize % every == every - 1 || every == 1 {
                writer.flush_frame().unwrap();
            }
        }
        writer.finish().unwrap();
        read(&file)
    });
    assert_eq!(traces[0], traces[1]);
    assert_eq!((traces[0].0, traces[0].3), (300, true));
}

#[test]
fn a_file_never_exceeds_its_limit_and_uses_most_of_it() {
    for limit in [64 << 10, 100_000, 1 << 20, 5 << 20] {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &About::of_program("test")).unwrap().with_limit(limit);
        let written = fill(&mut writer, u64::MAX);
        assert!(written > 100);
        writer.add_text("incomplete", "it ends at the limit").unwrap();
        let named = (0..1_000_000).find(|number| writer.name_frame(&format!("lib.so+{number:#x}"), "name").is_err());
        assert!(named.is_some_and(|named| named > 100), "{named:?}");
        writer.finish().unwrap();
        assert!(file.len() as u64 <= limit && file.len() as u64 > limit / 2, "{} of {limit}", file.len());
        let (events, _, sites, finished) = read(&file);
        assert_eq!((events, finished), (written, true), "the limit is {limit}");
        assert!(sites.iter().all(Option::is_some));
    }
}

#[test]
fn a_file_without_room_for_events_is_finished_nevertheless() {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &About::default()).unwrap().with_limit(100);
    assert!(matches!(writer.allocate(Kind::Malloc, 1, 16), Err(WriteError::LimitReached { limit: 100 })));
    writer.finish().unwrap();
    assert_eq!(read(&file), (0, Vec::new(), Vec::new(), true));
}
