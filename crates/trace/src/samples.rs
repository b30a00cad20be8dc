//! What the recorded process was from time to time: its memory, its faults and its processor time.
//!
//! A frame of this kind holds samples, five numbers each. The first sample of a frame is complete; each other one
//! contains the differences from the sample before it. Resident memory, which may shrink, is in zigzag form.

use crate::error::Fault;
use crate::number;

/// The state of the recorded process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Number of events before it.
    pub event: u64,
    /// Nanoseconds since the beginning of the trace.
    pub nanoseconds: u64,
    /// Resident anonymous memory in bytes: heap, stacks, data; neither files nor shared memory.
    pub resident: u64,
    /// Page faults since the process began.
    pub faults: u64,
    /// Processor time in nanoseconds since the process began, of all its threads.
    pub processor_nanoseconds: u64,
}

impl Sample {
    /// Whether a sample after `before` may be this one: it is not earlier, and its time is below 2⁶² ns, 146
    /// years.
    pub(crate) fn may_follow(&self, before: &Sample) -> bool {
        let is_later = self.event >= before.event && self.nanoseconds >= before.nanoseconds;
        is_later && self.nanoseconds < 1 << 62
    }

    /// Returns this sample with nothing less than in `before`; memory alone may shrink.
    fn not_before(self, before: &Sample) -> Sample {
        Sample {
            event: self.event.max(before.event),
            nanoseconds: self.nanoseconds.max(before.nanoseconds),
            resident: self.resident,
            faults: self.faults.max(before.faults),
            processor_nanoseconds: self.processor_nanoseconds.max(before.processor_nanoseconds),
        }
    }
}

/// The encoder of samples.
#[derive(Default)]
pub(crate) struct Samples {
    bytes: Vec<u8>,
    /// The last sample of the open frame.
    last: Sample,
    /// The last sample of the trace.
    latest: Sample,
}

impl Samples {
    /// Adds a sample. Figures that never decrease count as those of the sample before if they are smaller.
    pub(crate) fn push(&mut self, sample: &Sample) {
        let sample = sample.not_before(&self.latest);
        number::put(&mut self.bytes, sample.event - self.last.event);
        number::put(&mut self.bytes, sample.nanoseconds - self.last.nanoseconds);
        number::put(&mut self.bytes, zigzag(sample.resident.wrapping_sub(self.last.resident) as i64));
        number::put(&mut self.bytes, sample.faults - self.last.faults);
        number::put(&mut self.bytes, sample.processor_nanoseconds - self.last.processor_nanoseconds);
        (self.last, self.latest) = (sample, sample);
    }

    /// Returns the length of the open frame in bytes.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the contents of a frame and begins the next one.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        self.last = Sample::default();
        std::mem::take(&mut self.bytes)
    }
}

/// Passes each sample of a frame's contents to `take`.
pub(crate) fn each(mut contents: &[u8], mut take: impl FnMut(Sample) -> Result<(), Fault>) -> Result<(), Fault> {
    let mut last = Sample::default();
    while !contents.is_empty() {
        let mut next = || number::take(&mut contents).ok_or(Fault::Side);
        let sum = |last: u64, more: u64| last.checked_add(more).ok_or(Fault::Side);
        last = Sample {
            event: sum(last.event, next()?)?,
            nanoseconds: sum(last.nanoseconds, next()?)?,
            resident: last.resident.wrapping_add(unzigzag(next()?) as u64),
            faults: sum(last.faults, next()?)?,
            processor_nanoseconds: sum(last.processor_nanoseconds, next()?)?,
        };
        take(last)?;
    }
    Ok(())
}

/// Maps integers of small magnitude to small numbers: 0, -1, 1, -2, ... to 0, 1, 2, 3, ...
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn sample(event: u64, resident: u64) -> Sample {
        Sample { event, nanoseconds: event * 1000, resident, faults: event / 2, processor_nanoseconds: event * 900 }
    }

    fn read(contents: &[u8]) -> Result<Vec<Sample>, Fault> {
        let mut found = Vec::new();
        let take = |sample| {
            found.push(sample);
            Ok(())
        };
        each(contents, take).map(|()| found)
    }

    #[test]
    fn samples_come_out_as_they_went_in() {
        let samples = [sample(0, 0), sample(7, u64::MAX), sample(7, 1 << 40), sample(1 << 50, 4096)];
        let mut encoder = Samples::default();
        samples.iter().for_each(|sample| encoder.push(sample));
        let contents = encoder.take_bytes();
        assert_eq!(read(&contents).unwrap(), samples);
        assert!((1..contents.len()).filter(|&end| read(&contents[..end]).is_ok()).count() < samples.len());
    }

    #[test]
    fn a_frame_is_readable_without_those_before() {
        let mut encoder = Samples::default();
        encoder.push(&sample(100, 10));
        encoder.take_bytes();
        encoder.push(&sample(200, 5));
        assert_eq!(read(&encoder.take_bytes()).unwrap(), [sample(200, 5)]);
    }

    #[test]
    fn what_never_decreases_does_not_decrease_between_frames_either() {
        let mut encoder = Samples::default();
        encoder.push(&sample(100, 10));
        encoder.take_bytes();
        encoder.push(&sample(90, 7));
        assert_eq!(read(&encoder.take_bytes()).unwrap(), [Sample { resident: 7, ..sample(100, 10) }]);
    }

    #[test]
    fn a_sample_follows_what_is_not_later() {
        let (early, late) = (sample(10, 5), sample(11, 3));
        assert!(late.may_follow(&early) && early.may_follow(&early) && !early.may_follow(&late));
        assert!(!Sample { nanoseconds: 1 << 62, ..late }.may_follow(&early));
    }

    #[test]
    fn sums_beyond_the_largest_number_are_damage() {
        let mut contents = Vec::new();
        [u64::MAX, 0, 0, 0, 0, 1, 0, 0, 0, 0].iter().for_each(|&value| number::put(&mut contents, value));
        assert_eq!(read(&contents), Err(Fault::Side));
    }
}
