//! Traces as counters over time: the maxima are those of a plain walk, and the file stays small.

use heapwright_trace::export::{Clock, Extent, Timeline, export_timeline};
use heapwright_trace::{About, Kind, Reader, Sample, Writer};

/// The points of a counter: times in microseconds, values.
fn points(text: &str, counter: &str) -> Vec<(f64, u64)> {
    let start = format!("{{\"name\":\"{counter}\",\"ph\":\"C\"");
    let lines = text.lines().filter(|line| line.starts_with(&start));
    let after = |line: &str, key: &str| {
        let rest = &line[line.find(key).unwrap() + key.len()..];
        rest[..rest.find([',', '}']).unwrap()].to_owned()
    };
    lines
        .map(|line| {
            let unit = if line.contains("\"blocks\":") { "\"blocks\":" } else { "\"bytes\":" };
            (after(line, "\"ts\":").parse().unwrap(), after(line, unit).parse().unwrap())
        })
        .collect()
}

fn exported(trace: &[u8]) -> (Clock, Extent, String) {
    let open = || Reader::new(trace).unwrap().up_to_damage();
    let mut reader = open().with_times();
    let extent = Extent::of(&mut reader).unwrap();
    let timeline = Timeline::of(&reader, open()).unwrap();
    let mut text = Vec::new();
    let written = export_timeline(&timeline, open(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("\"ph\":\"C\"")).count() as u64, written);
    (timeline.clock(), extent, text)
}

/// Returns a trace of many blocks in two threads, some of them live at the end.
fn trace(with_times: bool, with_samples: bool) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &About::of_program("a \"quoted\" \\ name\n")).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut live = Vec::new();
    for step in 0..50_000u64 {
        if with_samples && step % 1000 == 0 {
            let (event, nanoseconds) = (writer.events(), step * 1000);
            writer.sample(&Sample { event, nanoseconds, resident: 4096 * step, ..Sample::default() }).unwrap();
        }
        if with_times {
            writer.at(step * 1234);
        }
        writer.in_thread(step / 100 % 2).unwrap();
        if live.is_empty() || random.u32(0..100) < 52 {
            live.push(writer.allocate(Kind::Malloc, random.u64(1..5000), 16).unwrap());
        } else {
            let block = live.swap_remove(random.usize(0..live.len()));
            writer.free(block).unwrap();
        }
    }
    writer.finish().unwrap()
}

#[test]
fn maxima_are_exact_and_threads_add_up() {
    for (with_times, with_samples, clock) in
        [(true, true, Clock::Recorded), (false, true, Clock::Sampled), (false, false, Clock::Events)]
    {
        let trace = trace(with_times, with_samples);
        let (found, extent, text) = exported(&trace);
        assert_eq!(found, clock);
        let bytes = points(&text, "live bytes");
        assert_eq!(bytes.iter().map(|point| point.1).max(), Some(extent.peak), "{clock:?}");
        assert!(bytes.len() < 2 * 4096 + 4, "{}", bytes.len());
        let last = |counter: &str| points(&text, counter).pop().unwrap().1;
        let end = last("live bytes");
        assert_eq!(last("live bytes of thread 0") + last("live bytes of thread 1"), end);
        assert!(bytes.is_sorted_by(|one, other| one.0 <= other.0));
        assert_eq!(points(&text, "resident anonymous memory").is_empty(), !with_samples);
        assert!(text.contains(r#""name":"a \"quoted\" \\ name\u000a""#), "{}", &text[..300]);
    }
}

#[test]
fn without_times_a_call_is_a_microsecond_whatever_thread_makes_it() {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    for call in 0..1000 {
        writer.in_thread(call % 2).unwrap();
        writer.allocate(Kind::Malloc, 10, 16).unwrap();
    }
    let (clock, _, text) = exported(&writer.finish().unwrap());
    assert_eq!((clock, points(&text, "live blocks").pop()), (Clock::Events, Some((1000.0, 1000))));
}

#[test]
fn unbounded_threads_and_sizes_stay_bounded() {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    for thread in 0..1000 {
        writer.in_thread(thread).unwrap();
        writer.allocate(Kind::Malloc, u64::MAX / 2, 16).unwrap();
    }
    let (_, _, text) = exported(&writer.finish().unwrap());
    assert_eq!(points(&text, "live bytes of thread 63").len(), 1);
    assert!(points(&text, "live bytes of thread 64").is_empty());
    assert!(!points(&text, "other threads").is_empty());
}

#[test]
fn damaged_traces_are_exported_up_to_the_damage() {
    let whole = trace(true, true);
    for length in (20..whole.len()).step_by(whole.len() / 50) {
        if Reader::new(&whole[..length]).is_ok() {
            exported(&whole[..length]);
        }
    }
}

#[test]
fn empty_traces_are_files_too() {
    let (clock, _, text) = exported(&Writer::new(Vec::new(), &About::default()).unwrap().finish().unwrap());
    assert_eq!(clock, Clock::Events);
    assert!(text.ends_with("]}\n"));
}
