//! Samples of the recorded process: its memory, faults and processor time.

use std::io::Write;

use heapwright_stream::Usage;
use heapwright_trace::{Sample, WriteError, Writer};

/// The processor time below which an idle process counts as unchanged.
const IDLE: u64 = 200_000;

/// The samples of a process, as far as they were written.
pub struct Samples {
    /// The time at which the recording began.
    began: u64,
    last: Option<Sample>,
    /// A sample that says the same as the last one, but for its time. It is written before the next one that differs,
    /// so that the end of a pause is known; idle processes have few samples.
    held: Option<Sample>,
    peak: Option<u64>,
}

impl Samples {
    pub(crate) fn since(began: u64) -> Samples {
        Samples { began, last: None, held: None, peak: None }
    }

    /// Adds a sample after the events of `writer`.
    pub(crate) fn add<W: Write>(&mut self, usage: &Usage, writer: &mut Writer<W>) -> Result<(), WriteError> {
        let sample = Sample {
            event: writer.events(),
            nanoseconds: usage.nanoseconds.saturating_sub(self.began),
            resident: usage.resident,
            faults: usage.faults,
            processor_nanoseconds: usage.processor_nanoseconds,
        };
        self.peak = self.peak.max(Some(sample.resident));
        if self.last.is_some_and(|last| is_idle(&last, &sample)) {
            self.held = Some(sample);
            return Ok(());
        }
        self.end(writer)?;
        self.last = Some(sample);
        writer.sample(&sample)
    }

    /// Writes the sample that is held back, if there is one.
    pub(crate) fn end<W: Write>(&mut self, writer: &mut Writer<W>) -> Result<(), WriteError> {
        let Some(held) = self.held.take() else { return Ok(()) };
        self.last = Some(held);
        writer.sample(&held)
    }

    /// Returns the last sample.
    pub fn last(&self) -> Option<Sample> {
        self.held.or(self.last)
    }

    /// Returns the time of the last sample, by [`heapwright_os::now_nanoseconds`]; 0 when there is none.
    pub fn last_time(&self) -> u64 {
        self.last().map_or(0, |last| self.began + last.nanoseconds)
    }

    /// Returns the maximum of the resident anonymous memory in bytes.
    pub fn peak(&self) -> Option<u64> {
        self.peak
    }
}

fn is_idle(last: &Sample, next: &Sample) -> bool {
    (last.event, last.resident, last.faults) == (next.event, next.resident, next.faults)
        && next.processor_nanoseconds.saturating_sub(last.processor_nanoseconds) < IDLE
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use heapwright_trace::{About, Kind, Reader};

    use super::*;

    const fn usage(milliseconds: u64, resident: u64, processor_milliseconds: u64) -> Usage {
        let processor_nanoseconds = processor_milliseconds * 1_000_000;
        Usage { nanoseconds: 500 + milliseconds * 1_000_000, resident, faults: resident, processor_nanoseconds }
    }

    #[test]
    fn a_pause_has_a_beginning_and_an_end() {
        let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
        let mut samples = Samples::since(500);
        samples.add(&usage(0, 10, 0), &mut writer).unwrap();
        writer.allocate(Kind::Malloc, 10, 16).unwrap();
        for time in (10..=2000).step_by(10) {
            samples.add(&usage(time, 30, 1), &mut writer).unwrap();
        }
        assert_eq!((samples.last().unwrap().nanoseconds, samples.peak()), (2_000_000_000, Some(30)));
        assert_eq!(samples.last_time(), 2_000_000_500);
        writer.allocate(Kind::Malloc, 10, 16).unwrap();
        samples.add(&usage(2010, 20, 2), &mut writer).unwrap();
        samples.add(&usage(2020, 20, 2), &mut writer).unwrap();
        samples.end(&mut writer).unwrap();
        let mut found = Vec::new();
        let read = Reader::new(Cursor::new(writer.finish().unwrap())).unwrap();
        read.each_sample(|sample| found.push((sample.event, sample.nanoseconds / 1_000_000, sample.resident))).unwrap();
        assert_eq!(found, [(0, 0, 10), (1, 10, 30), (1, 2000, 30), (2, 2010, 20), (2, 2020, 20)]);
    }
}
