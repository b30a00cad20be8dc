//! Side streams: times, call sites, names and late texts round-trip with their events, and readers that do not ask for
//! them read the same events.

use std::ops::ControlFlow;

use heapwright_trace::{About, Event, Kind, ReadError, Reader, SiteId, WriteError, Writer};
use proptest::prelude::*;

/// An event with its side data.
#[derive(Clone, Debug)]
struct Step {
    what: What,
    /// Nanoseconds since the previous step.
    passed: Option<u64>,
    /// The site, an index into those defined so far.
    site: Option<u16>,
    /// The frames of a site to define first.
    define: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Allocate,
    Resize,
    Free,
    Fail,
    Thread(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let what = prop_oneof![
        4 => Just(What::Allocate),
        1 => Just(What::Resize),
        2 => Just(What::Free),
        1 => Just(What::Fail),
        1 => (0u64..3).prop_map(What::Thread),
    ];
    let passed = prop::option::weighted(0.7, prop_oneof![0u64..200, any::<u32>().prop_map(u64::from)]);
    let site = prop::option::weighted(0.6, any::<u16>());
    let define = prop::option::weighted(0.2, prop::collection::vec(0u8..30, 0..6));
    let step =
        (what, passed, site, define).prop_map(|(what, passed, site, define)| Step { what, passed, site, define });
    (0usize..20, prop::collection::vec(step, 0..300)).prop_map(|(plain, mut steps)| {
        // A side stream may begin at any event.
        for step in steps.iter_mut().take(plain) {
            (step.passed, step.site, step.define) = (None, None, None);
        }
        steps
    })
}

/// The expected events, without thread changes, each with its time and call site.
type Recorded = Vec<(Event, Option<u64>, Option<Vec<String>>)>;

#[derive(Default)]
struct Story {
    blocks: u64,
    now: Option<u64>,
    sites: Vec<(SiteId, Vec<String>)>,
    recorded: Recorded,
}

impl Story {
    fn write(steps: &[Step]) -> (Vec<u8>, Recorded) {
        let mut story = Story::default();
        let mut writer = Writer::new(Vec::new(), &About::of_program("test")).unwrap();
        writer.add_text("end", "early").unwrap();
        for step in steps {
            story.perform(step, &mut writer);
        }
        writer.name_frame("lib.so+0x3", "three at three.c:3").unwrap();
        writer.add_text("end", "late").unwrap();
        // If a trace has times, events before the first one have time 0.
        let mut recorded = story.recorded;
        if story.now.is_some() {
            recorded.iter_mut().for_each(|(_, time, _)| *time = time.or(Some(0)));
        }
        (writer.finish().unwrap(), recorded)
    }

    fn perform(&mut self, step: &Step, writer: &mut Writer<Vec<u8>>) {
        if let Some(passed) = step.passed {
            self.now = Some(self.now.unwrap_or(0) + passed);
            writer.at(self.now.unwrap());
        }
        if let Some(frames) = &step.define {
            let frames: Vec<String> = frames.iter().map(|frame| format!("lib.so+{frame:#x}")).collect();
            let texts: Vec<&str> = frames.iter().map(String::as_str).collect();
            let site = writer.define_site(&texts).unwrap();
            self.sites.push((site, frames));
        }
        if let What::Thread(thread) = step.what {
            return writer.in_thread(thread).unwrap();
        }
        let is_free = matches!(step.what, What::Free);
        let known = step.site.filter(|_| !is_free && !self.sites.is_empty());
        let site = known.map(|number| self.sites[usize::from(number) % self.sites.len()].clone());
        if let Some((site, _)) = &site {
            writer.from_site(*site).unwrap();
        }
        let event = match step.what {
            What::Resize | What::Free if self.blocks == 0 => Event::Failed { size: 1, align: 16 },
            What::Resize => Event::Resize { block: self.blocks - 1, becomes: self.blocks, size: 2 },
            What::Free => Event::Free { block: self.blocks - 1 },
            What::Fail => Event::Failed { size: 1, align: 64 },
            _ => Event::Allocate { block: self.blocks, kind: Kind::Malloc, size: 3, align: 16 },
        };
        writer.add(&event).unwrap();
        self.blocks += u64::from(matches!(event, Event::Allocate { .. } | Event::Resize { .. }));
        self.recorded.push((event, self.now, site.map(|(_, frames)| frames)));
    }
}

/// Reads everything until the end or an error.
fn read(file: &[u8]) -> (Recorded, Option<ReadError>) {
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader.with_times().with_sites(),
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut recorded = Vec::new();
    loop {
        match reader.next_event() {
            Ok(Some(Event::Thread { .. })) => {}
            Ok(Some(event)) => {
                let site = reader.site().map(|site| reader.site_frames(site).map(str::to_owned).collect());
                recorded.push((event, reader.time(), site));
            }
            Ok(None) => return (recorded, None),
            Err(error) => return (recorded, Some(error)),
        }
    }
}

fn events(file: &[u8]) -> Vec<Event> {
    let events = Reader::new(file).unwrap().map(Result::unwrap);
    events.filter(|event| !matches!(event, Event::Thread { .. })).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn side_streams_round_trip(steps in steps()) {
        let (file, recorded) = Story::write(&steps);
        let (found, error) = read(&file);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(&found, &recorded);
        // Without side streams the events are the same.
        prop_assert_eq!(events(&file), recorded.iter().map(|one| one.0).collect::<Vec<_>>());
    }
}

fn a_story() -> (Vec<u8>, Recorded) {
    let step = |number: u64| Step {
        what: if number % 3 == 2 { What::Free } else { What::Allocate },
        passed: Some(number * 100),
        site: Some(number as u16),
        define: number.is_multiple_of(4).then(|| vec![number as u8, 3, 4]),
    };
    Story::write(&(0..30).map(step).collect::<Vec<_>>())
}

#[test]
fn a_truncated_file_is_read_up_to_its_end() {
    let (file, recorded) = a_story();
    let mut whole = 0;
    for length in 0..file.len() {
        let (found, error) = read(&file[..length]);
        assert!(recorded.starts_with(&found), "cut at {length}");
        assert!(error.is_some() || found.is_empty() || found == recorded);
        whole += usize::from(found == recorded);
        if let Some(ReadError::Damaged { offset, events_before, .. }) = error {
            assert!(offset < length as u64 + 1 && events_before >= found.len() as u64);
        }
    }
    // Names, texts and the index follow the events.
    assert!(whole > 100);
}

#[test]
fn a_file_with_a_changed_byte_is_read_up_to_the_damage() {
    let (file, recorded) = a_story();
    for at in 0..file.len() {
        for flip in [1, 0x80, 0xff] {
            let mut changed = file.clone();
            changed[at] ^= flip;
            let (found, error) = read(&changed);
            assert!(recorded.starts_with(&found), "changed at {at}");
            assert!(error.is_some() || found == recorded, "the change at {at} was not detected");
            if let Some(ReadError::Damaged { offset, .. }) = error {
                assert!(offset <= at as u64, "byte {at} is in the frame at {offset}");
            }
        }
    }
}

#[test]
fn side_streams_continue_across_frames() {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    let (mut now, mut expected) = (0, Vec::new());
    for number in 0..200_000u64 {
        now += random.u64(..1 << 40);
        writer.at(now);
        if number % 1000 == 0 {
            let text = format!("{number}");
            let site = writer.define_site(&[&text, "main"]).unwrap();
            writer.from_site(site).unwrap();
        }
        writer.allocate(Kind::Malloc, 8, 16).unwrap();
        expected.push(now);
    }
    let file = writer.finish().unwrap();
    let mut reader = Reader::new(&file[..]).unwrap().with_times().with_sites();
    for (number, &time) in expected.iter().enumerate() {
        reader.next_event().unwrap().unwrap();
        assert_eq!(reader.time(), Some(time));
        let site = reader.site().map(|site| reader.site_frames(site).collect::<Vec<_>>().join(" "));
        assert_eq!(site, (number % 1000 == 0).then(|| format!("{number} main")));
    }
    assert!(reader.next_event().unwrap().is_none() && reader.is_finished());
    assert_eq!(reader.sites(), 200);
    // After a run of events, the reader has the time of its last event.
    let mut reader = Reader::new(&file[..]).unwrap().with_times();
    for run in expected.chunks(777) {
        let mut left = run.len();
        let end = reader.try_for_each_event(|_| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(end.unwrap().is_break());
        assert_eq!(reader.time(), run.last().copied());
    }
}

#[test]
fn names_and_late_texts_are_known_at_the_end() {
    let (file, _) = a_story();
    let mut reader = Reader::new(&file[..]).unwrap().with_sites();
    assert_eq!((reader.about().get("end"), reader.frame_name("lib.so+0x3")), (None, None));
    while reader.next_event().unwrap().is_some() {}
    assert_eq!((reader.about().get("program"), reader.about().get("end")), (Some("test"), Some("late")));
    assert_eq!(reader.frame_name("lib.so+0x3"), Some("three at three.c:3"));
    assert_eq!(reader.frame_name("lib.so+0x4"), None);
    assert_eq!(reader.time(), None);
}

#[test]
fn time_does_not_run_backwards() {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    for time in [5, 3, 9] {
        writer.at(time);
        writer.allocate(Kind::Malloc, 1, 16).unwrap();
    }
    let file = writer.finish().unwrap();
    let mut reader = Reader::new(&file[..]).unwrap().with_times();
    for time in [5, 5, 9] {
        reader.next_event().unwrap();
        assert_eq!(reader.time(), Some(time));
    }
}

#[test]
fn a_writer_enforces_the_limits_of_a_reader() {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let mut other = Writer::new(Vec::new(), &About::default()).unwrap();
    let foreign = other.define_site(&["a"]).unwrap();
    assert!(matches!(writer.from_site(foreign), Err(WriteError::NoSuchSite { site: 0 })));
    let long = "x".repeat(1 << 20);
    assert!(matches!(writer.define_site(&[&long]), Err(WriteError::TooMuch { .. })));
    let frames: Vec<String> = (0..1000).map(|number| format!("{number}{}", "y".repeat(500))).collect();
    let mut refused = None;
    for round in 0..200 {
        let frames: Vec<String> = frames.iter().map(|frame| format!("{round}{frame}")).collect();
        refused = writer.define_site(&frames.iter().map(String::as_str).collect::<Vec<_>>()).err();
        if refused.is_some() {
            break;
        }
    }
    assert!(matches!(refused, Some(WriteError::TooMuch { .. })), "{refused:?}");
    assert!(matches!(writer.add_text("long", &"z".repeat(5 << 20)), Err(WriteError::TooMuch { .. })));
    let many = (0..100_000).find(|number| other.add_text(&number.to_string(), "").is_err());
    assert!(many.is_some_and(|many| many > 50_000), "{many:?}");
    let file = other.finish().unwrap();
    let mut reader = Reader::new(&file[..]).unwrap();
    while reader.next_event().unwrap().is_some() {}
    assert_eq!(reader.about().iter().count(), many.unwrap());
    writer.allocate(Kind::Malloc, 1, 16).unwrap();
    let file = writer.finish().unwrap();
    let mut reader = Reader::new(&file[..]).unwrap().with_sites();
    while reader.next_event().unwrap().is_some() {}
    assert!(reader.is_finished() && reader.sites() > 100);
}

#[test]
fn touched_pages_are_read_apart_from_the_events() {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let [first, second] = [1 << 20, 1 << 21].map(|size| writer.allocate(Kind::Malloc, size, 16).unwrap());
    writer.touched(first, 3).unwrap();
    writer.free(first).unwrap();
    writer.touched(second, 0).unwrap();
    assert!(writer.touched(second + 1, 0).is_err());
    let bytes = writer.finish().unwrap();
    let touched = Reader::new(&bytes[..]).unwrap().touched_pages().unwrap();
    assert_eq!(touched, [(first, 3), (second, 0)].into_iter().collect());
    // Other readers skip them.
    assert_eq!(Reader::new(&bytes[..]).unwrap().map(Result::unwrap).count(), 3);
    // What precedes damage counts.
    let cut = &bytes[..bytes.len() - 20];
    assert!(Reader::new(cut).unwrap().touched_pages().is_ok());
}
