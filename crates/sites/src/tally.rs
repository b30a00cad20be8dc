//! Sums over the blocks of a call site, and the measures that are shown of them.

use std::cmp::Ordering;

use clap::ValueEnum;

/// A number of blocks and what they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The number of blocks.
    pub blocks: u64,
    /// The requested bytes.
    pub bytes: u64,
    /// The bytes by which glibc's malloc rounds the requests up, with its headers.
    pub rounding: u64,
    /// The squares of the requested bytes, for the errors of estimates.
    squares: u128,
}

impl Amount {
    /// Adds a block of this size.
    pub fn add(&mut self, size: u64) {
        self.blocks += 1;
        // Only absurd sizes of damaged traces wrap.
        self.bytes = self.bytes.wrapping_add(size);
        self.rounding = self.rounding.wrapping_add(rounding(size));
        self.squares = self.squares.wrapping_add(square(size));
    }

    /// Removes a block that was added.
    pub fn remove(&mut self, size: u64) {
        self.blocks -= 1;
        self.bytes = self.bytes.wrapping_sub(size);
        self.rounding = self.rounding.wrapping_sub(rounding(size));
        self.squares = self.squares.wrapping_sub(square(size));
    }

    fn merge(&mut self, other: &Amount) {
        self.blocks += other.blocks;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.rounding = self.rounding.saturating_add(other.rounding);
        self.squares = self.squares.wrapping_add(other.squares);
    }

    /// Returns the estimate of the whole of which this is a sample with probability `1 / every` per block.
    fn scaled(&self, every: u64) -> Amount {
        let Amount { blocks, bytes, rounding, squares } = *self;
        let scale = |sampled: u64| sampled.saturating_mul(every);
        Amount { blocks: scale(blocks), bytes: scale(bytes), rounding: scale(rounding), squares }
    }

    /// Returns the standard deviation of the estimated bytes: `sqrt(sum of squares * n * (n - 1))` with `n = every`,
    /// the Horvitz-Thompson estimator's.
    fn deviation(&self, every: u64) -> f64 {
        deviation(self.squares, every)
    }
}

/// Returns the standard deviation of an estimate from the squares of what was sampled, one in `every`.
pub fn deviation(squares: u128, every: u64) -> f64 {
    (squares as f64 * every as f64 * every.saturating_sub(1) as f64).sqrt()
}

/// Returns the square of a size.
pub fn square(size: u64) -> u128 {
    u128::from(size) * u128::from(size)
}

/// Returns the bytes by which glibc's malloc rounds a request up, with its header.
fn rounding(size: u64) -> u64 {
    glibc_chunk(size).map_or(0, |chunk| chunk - size)
}

/// Returns the length of the chunk that glibc's malloc has for a request; `None` above all addresses. A chunk is a
/// multiple of 16 bytes, at least 32, of which 8 are the header. From `M_MMAP_THRESHOLD` on, it is a mapping of whole
/// pages with a header of 16 bytes.
///
/// The threshold is taken to stay at its initial value, so that a block has the same length when it is freed. glibc
/// raises it to the length of a mapping that the program frees, and later blocks below it lie in the heap.
fn glibc_chunk(size: u64) -> Option<u64> {
    const MMAP_THRESHOLD: u64 = 128 << 10;
    const WORD: u64 = 8;
    const PAGE: u64 = 4096;
    let chunk = size.checked_add(WORD)?.checked_next_multiple_of(16)?.max(32);
    if chunk < MMAP_THRESHOLD { Some(chunk) } else { chunk.checked_add(WORD)?.checked_next_multiple_of(PAGE) }
}

/// The sums of the blocks of one call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Live blocks; at the end of a trace, those never freed.
    pub live: Amount,
    /// Blocks that were live at the chosen moment.
    pub held: Amount,
    /// All blocks.
    pub churn: Amount,
    /// Blocks that their thread freed before it requested another.
    pub temporary: Amount,
    /// Bytes of holes that the blocks keep apart under first fit, if they were sought.
    pub pinned: u64,
    /// The number of the mark up to which `held` is right, while a trace is read.
    pub(crate) settled: u64,
}

impl Tally {
    /// Adds the sums of another tally.
    pub fn merge(&mut self, other: &Tally) {
        self.live.merge(&other.live);
        self.held.merge(&other.held);
        self.churn.merge(&other.churn);
        self.temporary.merge(&other.temporary);
        self.pinned += other.pinned;
    }

    /// Returns the estimate of the whole of which this is a sample with probability `1 / every` per block.
    #[must_use]
    pub fn scaled(&self, every: u64) -> Tally {
        Tally {
            live: self.live.scaled(every),
            held: self.held.scaled(every),
            churn: self.churn.scaled(every),
            temporary: self.temporary.scaled(every),
            pinned: self.pinned,
            settled: self.settled,
        }
    }
}

/// What is measured of a call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Measure {
    /// Bytes held at the moment, by default the peak.
    #[default]
    Held,
    /// Bytes never freed.
    Leaked,
    /// Number of blocks that their thread freed before it requested another.
    Temporary,
    /// Number of requests.
    Calls,
    /// Requested bytes of all requests.
    Churn,
    /// Bytes that rounding and headers add to what is held, under glibc's malloc.
    Rounding,
    /// Bytes of holes that blocks keep apart when the heap of first fit is longest; simulated, which takes longer.
    Pinned,
}

impl Measure {
    /// All measures but [`Measure::Pinned`], which a simulation finds.
    pub const ALL: [Measure; 6] =
        [Measure::Held, Measure::Leaked, Measure::Temporary, Measure::Calls, Measure::Churn, Measure::Rounding];

    /// Returns the name on command lines and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Measure::Held => "held",
            Measure::Leaked => "leaked",
            Measure::Temporary => "temporary",
            Measure::Calls => "calls",
            Measure::Churn => "churn",
            Measure::Rounding => "rounding",
            Measure::Pinned => "pinned",
        }
    }

    /// Returns the measure of this name; held bytes if there is none.
    pub fn from_name(name: &str) -> Measure {
        Measure::ALL.into_iter().find(|measure| measure.name() == name).unwrap_or_default()
    }

    /// Returns whether the measure is a number of bytes.
    pub const fn is_bytes(self) -> bool {
        !matches!(self, Measure::Temporary | Measure::Calls)
    }

    /// Returns whether the value of a part of a recording is at most that of the whole. It need not be where blocks
    /// count that may still be freed, or those of the peak, which may be another one.
    pub const fn only_grows(self) -> bool {
        matches!(self, Measure::Held | Measure::Temporary | Measure::Calls | Measure::Churn)
    }

    /// Returns the value of a tally.
    pub const fn of(self, tally: &Tally) -> u64 {
        match self {
            Measure::Held => tally.held.bytes,
            Measure::Leaked => tally.live.bytes,
            Measure::Temporary => tally.temporary.blocks,
            Measure::Calls => tally.churn.blocks,
            Measure::Churn => tally.churn.bytes,
            Measure::Rounding => tally.held.rounding,
            Measure::Pinned => tally.pinned,
        }
    }

    /// Compares two tallies, the one with more first. Those with equally much are compared by what they hold, what they
    /// never freed, and their calls.
    pub fn most_first(self, one: &Tally, other: &Tally) -> Ordering {
        let values = |tally| [self, Measure::Held, Measure::Leaked, Measure::Calls].map(|measure| measure.of(tally));
        values(other).cmp(&values(one))
    }

    /// Returns the standard deviation of the value's estimate, of an unscaled tally; `None` of a complete trace, and of
    /// rounding and pinned holes, of which it is not known.
    pub fn deviation(self, sampled: &Tally, every: u64) -> Option<f64> {
        let of_count = |amount: &Amount| (amount.blocks as f64 * every as f64 * every.saturating_sub(1) as f64).sqrt();
        let deviation = match self {
            Measure::Held => sampled.held.deviation(every),
            Measure::Leaked => sampled.live.deviation(every),
            Measure::Churn => sampled.churn.deviation(every),
            Measure::Temporary => of_count(&sampled.temporary),
            Measure::Calls => of_count(&sampled.churn),
            Measure::Rounding | Measure::Pinned => return None,
        };
        (every > 1).then_some(deviation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_glibcs() {
        for (size, chunk) in [(0, 32), (1, 32), (24, 32), (25, 48), (40, 48), (41, 64), (131_048, 131_056)] {
            assert_eq!(size + rounding(size), chunk, "{size}");
        }
        // The shortest chunk that is mapped, and those about the ends of pages.
        for (size, pages) in [(131_049, 33), (135_144, 33), (135_145, 34), (135_169, 34), (1 << 20, 257)] {
            assert_eq!(size + rounding(size), pages * 4096, "{size}");
        }
        assert_eq!(rounding(u64::MAX), 0);
    }

    #[test]
    fn an_estimate_of_equal_blocks_has_the_error_of_their_number() {
        let mut tally = Tally::default();
        (0..100).for_each(|_| tally.held.add(50));
        assert_eq!(tally.scaled(16).held.bytes, 100 * 50 * 16);
        let deviation = Measure::Held.deviation(&tally, 16).unwrap();
        assert!((deviation - 50.0 * (100.0_f64 * 16.0 * 15.0).sqrt()).abs() < 1e-6, "{deviation}");
        assert_eq!(Measure::Held.deviation(&tally, 1), None);
    }
}
