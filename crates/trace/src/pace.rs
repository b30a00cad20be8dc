//! The level of compression of a trace that is written while its program runs.

use std::time::{Duration, Instant};

/// The zstd level without a limit of time. Level 6 took a quarter more time in all, and files were 3 % shorter.
pub(crate) const THOROUGH: i32 = 3;

/// The levels from which one is chosen, the best first, and what they take in nanoseconds per byte: of events with
/// random sizes and distances, on which they take longest.
const LEVELS: [(i32, u64); 2] = [(THOROUGH, 12), (1, 4)];

/// The level when there is no time for another one: some 0.5 ns per byte. It finds repetitions, and leaves the rest as
/// it is.
const LEAST: i32 = -5;

/// Compression takes one in this many nanoseconds.
const SHARE: u32 = 16;

/// The most that can be saved up: frames that come after a pause are few, and compressed well.
const MOST: Duration = Duration::from_millis(25);

/// The time that is granted to compression: a share of the time that passes.
#[derive(Debug)]
pub(crate) struct Pace {
    granted: Duration,
    last: Instant,
}

impl Pace {
    /// Begins at `now`, with time for the first frame.
    pub(crate) fn from(now: Instant) -> Pace {
        Pace { granted: MOST, last: now }
    }

    /// Returns the level at which to compress this number of bytes.
    pub(crate) fn level(&mut self, length: usize, now: Instant) -> i32 {
        let passed = now.saturating_duration_since(self.last);
        self.granted = (self.granted + passed / SHARE).min(MOST);
        self.last = now;
        let takes = |nanoseconds: u64| Duration::from_nanos(nanoseconds * length as u64);
        for (level, takes) in LEVELS.map(|(level, nanoseconds)| (level, takes(nanoseconds))) {
            if let Some(rest) = self.granted.checked_sub(takes) {
                self.granted = rest;
                return level;
            }
        }
        LEAST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: usize = 1 << 20;

    /// The levels of 100 frames, one of which comes after each pause of this length.
    fn levels(pause: Duration) -> Vec<i32> {
        let start = Instant::now();
        let mut pace = Pace::from(start);
        (0..100).map(|frame| pace.level(FRAME, start + pause * frame)).collect()
    }

    #[test]
    fn the_faster_frames_come_the_less_they_are_compressed() {
        assert!(levels(Duration::from_millis(300)).iter().all(|&level| level == THOROUGH));
        let fast = levels(Duration::from_millis(10));
        assert_eq!(fast[..2], [THOROUGH; 2]);
        let count = |level| fast.iter().filter(|&&found| found == level).count();
        assert!(count(THOROUGH) == 2 && (10..20).contains(&count(1)) && count(LEAST) > 80, "{fast:?}");
    }

    #[test]
    fn short_contents_are_compressed_well_again_after_a_pause() {
        let start = Instant::now();
        let mut pace = Pace::from(start);
        assert!((0..100).any(|_| pace.level(FRAME, start) == LEAST));
        assert_eq!(pace.level(1000, start + Duration::from_millis(1)), THOROUGH);
    }
}
