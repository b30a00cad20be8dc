//! Times, call sites, names and late texts: they come back with the events that they belong to, and do not disturb those who
//! do not ask for them.

use std::ops::ControlFlow;

use heapwright_trace::{About, Event, Kind, ReadError, Reader, SiteId, WriteError, Writer};
use proptest::prelude::*;

/// An event, and what is told beside it.
#[derive(Clone, Debug)]
struct Step {
    what: What,
    /// Nanoseconds since the step before.
    passed: Option<u64>,
    /// Which site, among those defined by then.
    site: Option<u16>,
    /// Frames of a site to define first.
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
        // The streams may begin anywhere.
        for step in steps.iter_mut().take(plain) {
            (step.passed, step.site, step.define) = (None, None, None);
        }
        steps
    })
}

/// What is to be read: events without those that name threads, and what is told beside each.
type Told = Vec<(Event, Option<u64>, Option<Vec<String>>)>;

#[derive(Default)]
struct Story {
    blocks: u64,
    now: Option<u64>,
    sites: Vec<(SiteId, Vec<String>)>,
    told: Told,
}

impl Story {
    fn write(steps: &[Step]) -> (Vec<u8>, Told) {
        let mut story = Story::default();
        let mut writer = Writer::new(Vec::new(), &About::of_program("test")).unwrap();
        writer.add_text("end", "early").unwrap();
        for step in steps {
            story.perform(step, &mut writer);
        }
        writer.name_frame("lib.so+0x3", "three at three.c:3").unwrap();
        writer.add_text("end", "late").unwrap();
        // Before the first time in a trace nobody knows whether there will be any.
        let mut told = story.told;
        if story.now.is_some() {
            told.iter_mut().for_each(|(_, time, _)| *time = time.or(Some(0)));
        }
        (writer.finish().unwrap(), told)
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
        write(event, writer);
        self.blocks += u64::from(matches!(event, Event::Allocate { .. } | Event::Resize { .. }));
        self.told.push((event, self.now, site.map(|(_, frames)| frames)));
    }
}

fn write(event: Event, writer: &mut Writer<Vec<u8>>) {
    match event {
        Event::Allocate { kind, size, align, .. } => writer.allocate(kind, size, align).map(drop),
        Event::Resize { block, size, .. } => writer.resize(block, size).map(drop),
        Event::Free { block } => writer.free(block),
        Event::Failed { size, align } => writer.fail(size, align),
        Event::Thread { thread } => writer.in_thread(thread),
    }
    .unwrap();
}

/// Reads everything until the end or an error.
fn read(file: &[u8]) -> (Told, Option<ReadError>) {
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader.with_times().with_sites(),
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut told = Vec::new();
    loop {
        match reader.next_event() {
            Ok(Some(Event::Thread { .. })) => {}
            Ok(Some(event)) => {
                let site = reader.site().map(|site| reader.site_frames(site).map(str::to_owned).collect());
                told.push((event, reader.time(), site));
            }
            Ok(None) => return (told, None),
            Err(error) => return (told, Some(error)),
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
    fn what_was_told_beside_events_comes_back(steps in steps()) {
        let (file, told) = Story::write(&steps);
        let (found, error) = read(&file);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(&found, &told);
        // Those who do not ask see the same events.
        prop_assert_eq!(events(&file), told.iter().map(|one| one.0).collect::<Vec<_>>());
    }
}

fn a_story() -> (Vec<u8>, Told) {
    let step = |number: u64| Step {
        what: if number % 3 == 2 { What::Free } else { What::Allocate },
        passed: Some(number * 100),
        site: Some(number as u16),
        define: number.is_multiple_of(4).then(|| vec![number as u8, 3, 4]),
    };
    Story::write(&(0..30).map(step).collect::<Vec<_>>())
}

#[test]
fn a_file_that_is_cut_at_any_byte_is_read_up_to_there() {
    let (file, told) = a_story();
    let mut whole = 0;
    for length in 0..file.len() {
        let (found, error) = read(&file[..length]);
        assert!(told.starts_with(&found), "cut at {length}");
        assert!(error.is_some() || found.is_empty() || found == told);
        whole += usize::from(found == told);
        if let Some(ReadError::Damaged { offset, events_before, .. }) = error {
            assert!(offset < length as u64 + 1 && events_before >= found.len() as u64);
        }
    }
    // Names, texts and the index stand behind the events.
    assert!(whole > 100);
}

#[test]
fn a_file_that_is_changed_at_any_byte_is_read_up_to_there() {
    let (file, told) = a_story();
    for at in 0..file.len() {
        for flip in [1, 0x80, 0xff] {
            let mut changed = file.clone();
            changed[at] ^= flip;
            let (found, error) = read(&changed);
            assert!(told.starts_with(&found), "changed at {at}");
            assert!(error.is_some() || found == told, "changed at {at}: nobody noticed");
            if let Some(ReadError::Damaged { offset, .. }) = error {
                assert!(offset <= at as u64, "byte {at} is in the frame at {offset}");
            }
        }
    }
}

#[test]
fn the_streams_go_through_many_frames() {
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
    // A run of events that ends with one leaves what is told beside it.
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
fn names_and_late_texts_are_there_when_all_is_read() {
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
fn a_writer_refuses_what_a_reader_would() {
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
