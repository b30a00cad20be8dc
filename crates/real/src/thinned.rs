//! The samples of a recorded process, thinned to a bounded number.

use heapwright_trace::Sample;

/// Maximal number of samples that are kept.
pub const MOST: usize = 4096;

/// Keeps at most [`MOST`] samples: of each stretch of equally many, the one with the most resident memory.
#[derive(Debug)]
pub struct Thinned {
    samples: Vec<Sample>,
    /// Length of a stretch.
    stretch: u64,
    /// Number of samples in the last stretch.
    filled: u64,
}

impl Thinned {
    /// Without samples.
    pub fn new() -> Thinned {
        Thinned { samples: Vec::new(), stretch: 1, filled: 1 }
    }

    /// Adds the next sample.
    pub fn push(&mut self, sample: Sample) {
        if self.filled < self.stretch
            && let Some(last) = self.samples.last_mut()
        {
            *last = larger(*last, sample);
            self.filled += 1;
            return;
        }
        if self.samples.len() == MOST {
            self.double_stretches();
        }
        self.samples.push(sample);
        self.filled = 1;
    }

    /// Joins each two stretches. All of them are full, and their number is even.
    fn double_stretches(&mut self) {
        self.samples = self.samples.chunks_exact(2).map(|pair| larger(pair[0], pair[1])).collect();
        self.stretch *= 2;
    }

    /// Returns the samples that were kept, in their order.
    pub fn into_samples(self) -> Vec<Sample> {
        self.samples
    }
}

/// Returns the sample with more resident memory, the first if both have the same.
fn larger(first: Sample, second: Sample) -> Sample {
    if second.resident > first.resident { second } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinned(count: u64, resident: impl Fn(u64) -> u64) -> Vec<Sample> {
        let mut thinned = Thinned::new();
        for event in 0..count {
            thinned.push(Sample { event, resident: resident(event), ..Sample::default() });
        }
        thinned.into_samples()
    }

    #[test]
    fn few_samples_are_all_kept() {
        let samples = thinned(MOST as u64, |_| 7);
        assert!(samples.iter().map(|sample| sample.event).eq(0..MOST as u64));
    }

    #[test]
    fn many_samples_are_thinned_evenly() {
        for count in [MOST as u64 + 1, 10_000, 1_000_000] {
            let samples = thinned(count, |_| 7);
            assert!(samples.len() > MOST / 2 - 1 && samples.len() <= MOST, "{count}: {}", samples.len());
            let distance = samples[1].event - samples[0].event;
            assert!(samples.windows(2).all(|pair| pair[1].event - pair[0].event == distance), "{count}");
        }
    }

    #[test]
    fn the_largest_of_each_stretch_is_kept() {
        let samples = thinned(100_000, |event| if event % 1000 == 777 { event } else { 1 });
        for peak in (777..100_000).step_by(1000) {
            assert!(samples.iter().any(|sample| sample.resident == peak && sample.event == peak), "{peak}");
        }
    }
}
