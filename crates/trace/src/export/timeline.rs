//! Exports a trace as counters over time, in the JSON format of Chrome's and Perfetto's trace viewers
//! (<https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>, "Trace Event Format").

use std::collections::HashMap;
use std::io::Write;

use super::ExportError;
use super::extent::until_damage;
use crate::error::ReadError;
use crate::event::Event;
use crate::reader::Reader;
use crate::samples::Sample;

/// The number of stretches that the time of a trace is divided into. A counter has at most two points in each: its
/// maximum, and its last value.
const STRETCHES: u64 = 4096;

/// The number of threads that have a counter of their own. The rest share one.
const THREADS: u64 = 64;

/// The number of samples that are kept. A trace with more of them keeps every second, fourth, ... one.
const SAMPLES: usize = 1 << 16;

/// The program of a trace and its clock.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    program: String,
    has_times: bool,
    /// The last time of the trace in the unit of its clock.
    end: u64,
    samples: Vec<Sample>,
}

/// What the times of an exported trace are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The time of each event.
    Recorded,
    /// The times of samples; those of the events between two samples are interpolated.
    Sampled,
    /// The trace has no times: one event counts as one microsecond.
    Events,
}

impl Timeline {
    /// Reads how long a trace is: `events` was read [with times](Reader::with_times) to its end, and `samples` reads
    /// the same trace.
    ///
    /// # Errors
    /// [`ReadError::Io`].
    pub fn of(events: &Reader<'_>, samples: Reader<'_>) -> Result<Timeline, ReadError> {
        let program = events.about().get("program").unwrap_or("program").to_owned();
        let (mut kept, mut read, mut step) = (Vec::new(), 0u64, 1u64);
        let mut last = None;
        samples.each_sample(|sample| {
            if read.is_multiple_of(step) {
                kept.push(sample);
            }
            (read, last) = (read + 1, Some(sample));
            if kept.len() == SAMPLES {
                kept = kept.iter().copied().step_by(2).collect();
                step *= 2;
            }
        })?;
        kept.extend(last.filter(|last| kept.last() != Some(last)));
        let mut timeline = Timeline { program, has_times: events.time().is_some(), end: 0, samples: kept };
        timeline.end = timeline.time(events);
        if let Some(last) = timeline.samples.last() {
            timeline.end = timeline.end.max(last.nanoseconds);
        }
        Ok(timeline)
    }

    /// Returns what the times are.
    #[must_use]
    pub fn clock(&self) -> Clock {
        match (self.has_times, self.samples.len()) {
            (true, _) => Clock::Recorded,
            (false, 2..) => Clock::Sampled,
            (false, _) => Clock::Events,
        }
    }

    /// Returns the time of the last event that was read, in nanoseconds.
    fn time(&self, reader: &Reader<'_>) -> u64 {
        match self.clock() {
            Clock::Recorded => reader.time().unwrap_or(0),
            Clock::Sampled => interpolated(&self.samples, reader.events_read()),
            Clock::Events => reader.calls_read().saturating_mul(1000),
        }
    }
}

/// Returns the time of an event between the samples around it.
fn interpolated(samples: &[Sample], event: u64) -> u64 {
    let after = samples.partition_point(|sample| sample.event < event);
    let at = |index: usize| samples.get(index).copied();
    match (after.checked_sub(1).and_then(at), at(after)) {
        (Some(before), Some(after)) => {
            let (done, events) = (event - before.event, after.event - before.event);
            let time = u128::from(after.nanoseconds - before.nanoseconds) * u128::from(done) / u128::from(events);
            before.nanoseconds + time as u64
        }
        (Some(one), None) | (None, Some(one)) => one.nanoseconds,
        (None, None) => 0,
    }
}

/// Writes a trace as counters over time: live bytes and blocks, live bytes of the blocks that each thread allocated,
/// and resident memory where it was recorded. `timeline` is that of the same trace. Sizes are the requested ones.
/// Maxima are exact. Returns the number of points. Memory: proportional to the blocks live at one time.
///
/// # Errors
/// [`ExportError`]. A damaged trace is exported up to the damage.
pub fn export_timeline(timeline: &Timeline, reader: Reader<'_>, out: impl Write) -> Result<u64, ExportError> {
    let mut points = Points { out, written: 0, width: (timeline.end / STRETCHES).max(1) };
    let unit = match timeline.clock() {
        Clock::Recorded => "recorded",
        Clock::Sampled => "between samples",
        Clock::Events => "events",
    };
    writeln!(points.out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"times\":\"{unit}\"}},\"traceEvents\":[")?;
    let program = escaped(&timeline.program);
    write!(points.out, "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{{\"name\":\"{program}\"}}}}")?;
    write_events(timeline, reader.with_times(), &mut points)?;
    let mut resident = Counter::new("resident anonymous memory".to_owned(), "bytes");
    for sample in &timeline.samples {
        let time = timeline.clock() == Clock::Events;
        // There is one at most, and its place among the events counts changes of threads.
        let time = if time { sample.event.saturating_mul(1000).min(timeline.end) } else { sample.nanoseconds };
        resident.set(time, sample.resident, &mut points)?;
    }
    resident.end(&mut points)?;
    points.out.write_all(b"\n]}\n")?;
    points.out.flush()?;
    Ok(points.written)
}

fn write_events(
    timeline: &Timeline,
    mut reader: Reader<'_>,
    points: &mut Points<impl Write>,
) -> Result<(), ExportError> {
    let mut bytes = Counter::new("live bytes".to_owned(), "bytes");
    let mut blocks = Counter::new("live blocks".to_owned(), "blocks");
    let (mut threads, mut live, mut thread) = (HashMap::new(), HashMap::new(), 0);
    while let Some(event) = until_damage(reader.next_event())? {
        let (old, new) = match event {
            Event::Allocate { block, size, .. } => (None, Some((block, size))),
            Event::Resize { block, becomes, size } => (Some(block), Some((becomes, size))),
            Event::Free { block } => (Some(block), None),
            Event::Thread { thread: number } => {
                thread = number.min(THREADS);
                continue;
            }
            Event::Failed { .. } => continue,
        };
        let freed = old.map(|block| live.remove(&block));
        if freed == Some(None) {
            continue;
        }
        let now = timeline.time(&reader);
        // The sizes in a malicious trace may overflow.
        let mut sum = bytes.value;
        if let Some((size, owner)) = freed.flatten() {
            sum = u64::saturating_sub(sum, size);
            let owner: &mut Counter = threads.entry(owner).or_insert_with(|| Counter::of_thread(owner));
            owner.set(now, owner.value.saturating_sub(size), points)?;
        }
        if let Some((block, size)) = new {
            sum = sum.saturating_add(size);
            live.insert(block, (size, thread));
            let owner = threads.entry(thread).or_insert_with(|| Counter::of_thread(thread));
            owner.set(now, owner.value.saturating_add(size), points)?;
        }
        bytes.set(now, sum, points)?;
        blocks.set(now, live.len() as u64, points)?;
    }
    let mut threads: Vec<(u64, Counter)> = threads.into_iter().collect();
    threads.sort_by_key(|(number, _)| *number);
    for counter in [bytes, blocks].into_iter().chain(threads.into_iter().map(|(_, counter)| counter)) {
        counter.end(points)?;
    }
    Ok(())
}

/// A value over time.
struct Counter {
    name: String,
    unit: &'static str,
    value: u64,
    time: u64,
    /// The maximum of the present stretch and its time; `None` before the first value.
    most: Option<(u64, u64)>,
}

impl Counter {
    fn new(name: String, unit: &'static str) -> Counter {
        Counter { name, unit, value: 0, time: 0, most: None }
    }

    fn of_thread(number: u64) -> Counter {
        let name = if number < THREADS { format!("live bytes of thread {number}") } else { "other threads".to_owned() };
        Counter::new(name, "bytes")
    }

    fn set(&mut self, time: u64, value: u64, points: &mut Points<impl Write>) -> Result<(), ExportError> {
        if self.most.is_some() && time / points.width != self.time / points.width {
            self.write(points)?;
            self.most = None;
        }
        (self.time, self.value) = (time, value);
        if self.most.is_none_or(|(most, _)| value > most) {
            self.most = Some((value, time));
        }
        Ok(())
    }

    /// Writes the points of the present stretch.
    fn write(&self, points: &mut Points<impl Write>) -> Result<(), ExportError> {
        if let Some((most, time)) = self.most {
            if (most, time) != (self.value, self.time) {
                points.add(self, time, most)?;
            }
            points.add(self, self.time, self.value)?;
        }
        Ok(())
    }

    fn end(self, points: &mut Points<impl Write>) -> Result<(), ExportError> {
        self.write(points)
    }
}

/// The points of all counters.
struct Points<W> {
    out: W,
    written: u64,
    /// The duration of a stretch.
    width: u64,
}

impl<W: Write> Points<W> {
    fn add(&mut self, counter: &Counter, time: u64, value: u64) -> Result<(), ExportError> {
        let Counter { name, unit, .. } = counter;
        let (micros, nanos) = (time / 1000, time % 1000);
        write!(
            self.out,
            ",\n{{\"name\":\"{name}\",\"ph\":\"C\",\"pid\":1,\"ts\":{micros}.{nanos:03},\"args\":{{\"{unit}\":{value}}}}}"
        )?;
        self.written += 1;
        Ok(())
    }
}

/// Returns a text as the contents of a string of JSON.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            character if character.is_control() => escaped.extend(format!("\\u{:04x}", u32::from(character)).chars()),
            character => escaped.push(character),
        }
    }
    escaped
}
