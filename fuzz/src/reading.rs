//! Properties of everything that a reader returns.

use std::ops::ControlFlow;

use heapwright_trace::{About, Event, Kind, Reader, Sample, Writer};

/// Reads a file, which may be damaged, up to its end or an error, and checks every event.
pub fn read(file: &[u8]) -> Vec<Event> {
    let Ok(reader) = Reader::new(file) else { return Vec::new() };
    let mut reader = reader.with_times().with_sites();
    let (mut events, mut blocks, mut time) = (Vec::new(), 0, 0);
    while let Ok(Some(event)) = reader.next_event() {
        check(&event, &mut blocks);
        assert!(reader.time().unwrap_or(time) >= time || reader.events_read() == 1, "time runs backwards");
        time = reader.time().unwrap_or(time);
        if let Some(site) = reader.site() {
            assert!((site.index() as usize) < reader.sites());
            assert!(
                reader.site_frames(site).all(|frame| reader.frame_name(frame).is_none_or(|name| !name.contains('\0')))
            );
        }
        events.push(event);
    }
    assert!(matches!(reader.next_event(), Ok(None)), "nothing is read after the end");
    assert_eq!(reader.events_read(), events.len() as u64);
    assert!(reader.bytes_read() <= file.len() as u64);
    read_samples(file);
    events
}

/// Reads the samples of a file: events and times never decrease.
fn read_samples(file: &[u8]) {
    let Ok(reader) = Reader::new(file) else { return };
    let mut last = Sample::default();
    let check = |sample: Sample| {
        assert!(sample.event >= last.event && sample.nanoseconds >= last.nanoseconds);
        last = sample;
    };
    assert!(reader.each_sample(check).is_ok(), "memory has no errors of input");
}

fn check(event: &Event, blocks: &mut u64) {
    match *event {
        Event::Allocate { block, kind, align, .. } => {
            assert!(block == *blocks && align.is_power_of_two() && (align == 16 || kind == Kind::Aligned));
            *blocks += 1;
        }
        Event::Resize { block, becomes, .. } => {
            assert!(block < *blocks && becomes == *blocks);
            *blocks += 1;
        }
        Event::Free { block } => assert!(block < *blocks),
        Event::Failed { align, .. } => assert!(align.is_power_of_two()),
        Event::Thread { .. } => {}
    }
}

/// Reads a file with `try_for_each_event`, in runs of seven events: it must have the same events.
pub fn read_in_one_loop(file: &[u8], events: &[Event]) {
    let Ok(reader) = Reader::new(file) else { return };
    let mut reader = reader.with_times().with_sites();
    let mut visited = Vec::new();
    loop {
        // Leave and enter the loop every seven events.
        let again = reader.try_for_each_event(|&event| {
            visited.push(event);
            if visited.len() % 7 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if !matches!(again, Ok(ControlFlow::Break(()))) {
            break;
        }
    }
    assert_eq!(visited, events);
}

/// Writes events and reads them again: they must be the same, except for repeated thread changes.
pub fn write_again(events: &[Event]) {
    let mut writer = Writer::new(Vec::new(), &About::default()).expect("writing to memory succeeds");
    let (mut expected, mut thread) = (Vec::new(), 0);
    for &event in events {
        writer.add(&event).expect("an event that was read can be written");
        if let Event::Thread { thread: number } = event {
            if number == thread {
                continue;
            }
            thread = number;
        }
        expected.push(event);
    }
    let file = writer.finish().expect("writing to memory succeeds");
    assert_eq!(read(&file), expected);
}
