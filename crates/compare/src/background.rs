//! The memory that a program has beside its heap, in the course of its events; and from it the peak of the program's
//! memory with another heap.

use super::row::Sample;
use heapwright_stats::median;

/// The memory of the recorded process without its heap: at each of its samples, what it had less what the heap of the
/// system's malloc has in the replay.
pub struct Background {
    /// Events and bytes, in ascending order of events, one for each event.
    points: Vec<(u64, f64)>,
}

impl Background {
    /// Returns the difference of the memory `recorded` of the whole process and the heap of the `system`'s malloc,
    /// never negative. Each value is the median of those within the distance of two samples of the heap, and of one
    /// neighbour at each side at least: samples that are a little early or late make spikes, which this removes.
    pub fn of(recorded: &[Sample], system: &[Sample]) -> Background {
        let heap = curve(system);
        let raw: Vec<(u64, f64)> = highest_of_each_event(recorded)
            .into_iter()
            .map(|(event, bytes)| (event, (bytes - at(&heap, event)).max(0.0)))
            .collect();
        let reach = system.last().map_or(0, |last| last.event / system.len() as u64);
        Background { points: smoothed(&raw, reach) }
    }

    /// Returns the peak of the program's memory with a heap that has these samples.
    pub fn peak_with(&self, heap: &[Sample]) -> f64 {
        let heap = curve(heap);
        let events = heap.iter().chain(&self.points).map(|point| point.0);
        events.map(|event| at(&self.points, event) + at(&heap, event)).fold(0.0, f64::max)
    }

    /// Returns by how much the peak of the program's memory is higher with a `heap` than with the `system`'s, in bytes.
    pub fn rise(&self, heap: &[Sample], system: &[Sample]) -> i64 {
        (self.peak_with(heap) - self.peak_with(system)).round() as i64
    }
}

/// Returns the points of a heap, which begins empty.
fn curve(samples: &[Sample]) -> Vec<(u64, f64)> {
    let empty = samples.first().filter(|first| first.event > 0).map(|_| (0, 0.0));
    empty.into_iter().chain(samples.iter().map(|sample| (sample.event, sample.rss as f64))).collect()
}

/// Returns the highest sample of each event. Between two events memory changes too.
fn highest_of_each_event(samples: &[Sample]) -> Vec<(u64, f64)> {
    let mut points: Vec<(u64, f64)> = Vec::new();
    for sample in samples {
        match points.last_mut().filter(|last| last.0 == sample.event) {
            Some(last) => last.1 = last.1.max(sample.rss as f64),
            None => points.push((sample.event, sample.rss as f64)),
        }
    }
    points
}

/// Returns each value as the median of those at most `reach` events away, and of its neighbours.
fn smoothed(points: &[(u64, f64)], reach: u64) -> Vec<(u64, f64)> {
    let (mut first, mut end) = (0, 0);
    let value = |at: usize| {
        let event = points[at].0;
        first += points[first..].partition_point(|point| point.0 + reach < event);
        end += points[end..].partition_point(|point| point.0 <= event + reach);
        let window = &points[first.min(at.saturating_sub(1))..end.max(at + 2).min(points.len())];
        let values: Vec<f64> = window.iter().map(|point| point.1).collect();
        (event, median(&values).unwrap_or_default())
    };
    (0..points.len()).map(value).collect()
}

/// Returns the value at an event: between two points linear, outside that of the nearest. 0 without any points.
fn at(points: &[(u64, f64)], event: u64) -> f64 {
    let after = points.partition_point(|point| point.0 <= event);
    match (after.checked_sub(1).map(|before| points[before]), points.get(after)) {
        (Some((from, low)), Some(&(to, high))) => low + (high - low) * (event - from) as f64 / (to - from) as f64,
        (Some((_, value)), None) | (None, Some(&(_, value))) => value,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn samples(points: impl IntoIterator<Item = (u64, u64)>) -> Vec<Sample> {
        points.into_iter().map(|(event, rss)| Sample { event, rss }).collect()
    }

    /// A heap that grows to 50 MiB and shrinks again, at 101 moments.
    fn heap(more: u64) -> Vec<Sample> {
        samples((0..=100).map(|at| (at * 100, (50 - u64::abs_diff(at, 50)) * MIB + more)))
    }

    /// A program that has 20 MiB beside this heap, and 30 more near its end; its samples are `late` by some events.
    fn program(late: impl Fn(u64) -> u64) -> Vec<Sample> {
        let beside = |event: u64| if event > 9_000 { 50 } else { 20 };
        let heap = curve(&heap(0));
        let sample = |step: u64| {
            let event = step * 10;
            (event + late(step), at(&heap, event) as u64 + beside(event) * MIB)
        };
        samples((0..1000).map(sample))
    }

    #[test]
    fn the_system_itself_makes_no_difference() {
        let (recorded, system) = (program(|_| 0), heap(0));
        let background = Background::of(&recorded, &system);
        assert_eq!(background.rise(&system, &system), 0);
        assert!((background.peak_with(&system) - (70 * MIB) as f64).abs() < MIB as f64);
    }

    #[test]
    fn a_heap_that_is_always_larger_raises_the_peak_by_as_much() {
        let (recorded, system) = (program(|_| 0), heap(0));
        assert_eq!(Background::of(&recorded, &system).rise(&heap(10 * MIB), &system), 10 * MIB as i64);
    }

    #[test]
    fn what_a_heap_has_away_from_the_peak_of_the_program_does_not_matter() {
        let system = heap(0);
        let recorded = program(|_| 0);
        let late = samples(
            system.iter().map(|sample| (sample.event, if sample.event > 8_900 { 30 * MIB } else { sample.rss })),
        );
        // At event 9,000 the program has 50 MiB beside its heap, which makes 80 with this one, in place of 70.
        let rise = Background::of(&recorded, &system).rise(&late, &system);
        assert!((rise - 10 * MIB as i64).abs() < MIB as i64 / 2, "{rise}");
    }

    #[test]
    fn samples_that_are_early_or_late_do_not_matter() {
        let system = samples((0..=100).map(|at| (at * 100, if (30..70).contains(&at) { 100 * MIB } else { 10 * MIB })));
        let heap = curve(&system);
        // One sample at the beginning of the plateau is late, one behind its end.
        let recorded = |shift: u64| {
            samples((0..=100).map(|step| {
                let jitter = if step == 30 || step == 70 { shift } else { 0 };
                (step * 100, at(&heap, (step * 100_u64).saturating_sub(jitter)) as u64 + 5 * MIB)
            }))
        };
        for shift in [0, 100] {
            let background = Background::of(&recorded(shift), &system);
            assert!((background.peak_with(&system) - (105 * MIB) as f64).abs() < 1.0, "{shift}");
        }
    }

    #[test]
    fn few_samples_of_the_process_do_not_hide_what_the_heap_does_between_them() {
        let system = heap(0);
        let recorded = samples([(0, 20 * MIB), (10_000, 20 * MIB)]);
        let background = Background::of(&recorded, &system);
        assert_eq!(background.peak_with(&system), (70 * MIB) as f64);
    }

    #[test]
    fn without_samples_only_the_peaks_of_the_heaps_count() {
        let background = Background::of(&[], &heap(0));
        assert_eq!(background.rise(&heap(3 * MIB), &heap(0)), 3 * MIB as i64);
        assert_eq!(Background::of(&[], &[]).peak_with(&[]), 0.0);
    }

    #[test]
    fn less_than_the_heap_is_nothing_beside_it() {
        let recorded = samples([(0, 0), (5_000, MIB), (10_000, 0)]);
        assert_eq!(Background::of(&recorded, &heap(0)).peak_with(&heap(0)), (50 * MIB) as f64);
    }

    #[test]
    fn of_several_samples_at_one_event_the_highest_counts() {
        let recorded = samples([(5, 1), (5, 9), (5, 3), (6, 2)]);
        assert_eq!(highest_of_each_event(&recorded), [(5, 9.0), (6, 2.0)]);
    }
}
