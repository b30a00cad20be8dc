//! Worst cases in theory: published bounds for programs with the demand of a trace.

use heapwright_placement::{PolicyKind, Rules};
use serde::Serialize;

use crate::demand::Demand;

/// A theorem about all programs that have at most `M` live bytes at one time, in blocks of at most `n` bytes. `M` and
/// `n` are those of a trace, in granules, including headers and rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// The heaps that the theorem covers.
    pub heaps: Heaps,
    /// Whether the bound is a lower or an upper bound of the worst case.
    pub says: Says,
    /// The bound: the length of a region in bytes, or `u64::MAX` if it is more.
    pub bytes: u64,
    /// The formula, in granules.
    pub formula: &'static str,
    /// The publication.
    pub source: &'static str,
}

/// The heaps that a theorem covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Heaps {
    /// Every heap that does not move blocks.
    Every,
    /// First fit.
    FirstFit,
    /// First, next, best, worst and random fit: a request fails only if no hole is long enough.
    Fits,
    /// Binary buddies. `M` and `n` count every block as a power of two granules.
    Buddies,
}

/// Whether a bound is a lower or an upper bound of the worst case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Says {
    /// A lower bound: some program needs a region of at least this length.
    SomeProgramNeeds,
    /// An upper bound: no program needs a longer region.
    NoProgramNeedsMore,
}

impl Heaps {
    /// Returns the name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Heaps::Every => "every heap",
            Heaps::FirstFit => "first fit",
            Heaps::Fits => "every fit but good fit",
            Heaps::Buddies => "buddies",
        }
    }

    /// Returns whether the theorem covers heaps under `policy`.
    #[must_use]
    pub fn includes(self, policy: PolicyKind) -> bool {
        match self {
            Heaps::Every => true,
            Heaps::FirstFit => policy == PolicyKind::First,
            Heaps::Fits => !matches!(policy, PolicyKind::Buddy | PolicyKind::Good),
            Heaps::Buddies => policy == PolicyKind::Buddy,
        }
    }
}

impl Bound {
    /// Returns the bounds for programs within `demand`; none for an empty demand.
    ///
    /// The theorems cover programs that allocate and free. They do not cover resizes, alignments above the granule, or
    /// heaps in which blocks keep remainders: see [`Bound::premises_hold`].
    ///
    /// ```
    /// use heapwright_placement::Rules;
    /// use heapwright_replay::{Bound, Demand};
    /// // Knuth's lunch counter: 16 seats, guests alone or in pairs.
    /// let rounded = Demand { peak_rounded: 16, largest_rounded: 2, ..Demand::default() };
    /// let demand = Demand { peak_doubled: 16, largest_doubled: 2, ..rounded };
    /// let rules = Rules { granule: 1, ..Rules::default() };
    /// assert_eq!(Bound::all(&demand, &rules)[0].bytes, 23);
    /// ```
    #[must_use]
    pub fn all(demand: &Demand, rules: &Rules) -> Vec<Bound> {
        let granule = u64::from(rules.granule);
        let (peak, largest) = (demand.peak_rounded / granule, demand.largest_rounded / granule);
        let (doubled, largest_doubled) = (demand.peak_doubled / granule, demand.largest_doubled / granule);
        if largest == 0 || largest > peak {
            return Vec::new();
        }
        let bytes = |granules: u128| u64::try_from(granules.saturating_mul(granule.into())).unwrap_or(u64::MAX);
        vec![
            Bound {
                heaps: Heaps::Every,
                says: Says::SomeProgramNeeds,
                bytes: bytes(every(peak.into(), largest)),
                formula: "M (1 + log2(n) / 2) - n + 1; n rounded down to a power of two, M to a multiple of it",
                source: "J. M. Robson, An estimate of the store size necessary for dynamic storage allocation, \
                         J. ACM 18 (1971), and Bounds for some functions concerning dynamic storage allocation, \
                         J. ACM 21 (1974)",
            },
            Bound {
                heaps: Heaps::FirstFit,
                says: Says::NoProgramNeedsMore,
                bytes: bytes(first_fit(peak, largest)),
                formula: "M H(n) / ln 2; H(n) = 1 + 1/2 + ... + 1/n",
                source: "D. E. Knuth, The Art of Computer Programming, vol. 1, section 2.5, exercise 43; \
                         after J. M. Robson, Worst case fragmentation of first fit and best fit storage \
                         allocation strategies, Computer J. 20 (1977)",
            },
            Bound {
                heaps: Heaps::Fits,
                says: Says::NoProgramNeedsMore,
                bytes: bytes(fits(peak.into(), largest.into())),
                formula: "(M - n + 1) n; n at most (M + 1) / 2",
                source: "elementary: when a request for n fails, at most M - n blocks leave at most M - n + 1 holes, \
                         each shorter than n; best fit comes near it (Robson 1977; Knuth, exercise 42)",
            },
            Bound {
                heaps: Heaps::Buddies,
                says: Says::NoProgramNeedsMore,
                bytes: bytes(buddies(doubled.into(), largest_doubled)),
                formula: "(1 + log2(n)) M; M rounded up to a multiple of n",
                source: "D. E. Knuth, The Art of Computer Programming, vol. 1, section 2.5, exercise 41",
            },
        ]
    }

    /// Returns whether the theorems cover the trace of `demand` under these rules.
    #[must_use]
    pub fn premises_hold(demand: &Demand, rules: &Rules) -> bool {
        demand.resizes == 0 && demand.aligned == 0 && rules.min_remainder <= rules.granule
    }
}

fn every(peak: u128, largest: u64) -> u128 {
    let order = largest.ilog2();
    let peak = peak >> order << order;
    peak + peak * u128::from(order) / 2 - (1 << order) + 1
}

fn first_fit(peak: u64, largest: u64) -> u128 {
    (peak as f64 * harmonic(largest) / std::f64::consts::LN_2).ceil() as u128
}

fn fits(peak: u128, largest: u128) -> u128 {
    let largest = largest.min(peak.div_ceil(2));
    (peak - largest + 1) * largest
}

fn buddies(peak: u128, largest: u64) -> u128 {
    peak.next_multiple_of(largest.max(1).into()) * u128::from(1 + largest.max(1).ilog2())
}

/// Returns the harmonic number `1 + 1/2 + … + 1/n`, or slightly more.
fn harmonic(n: u64) -> f64 {
    /// From here on, the error of the asymptotic expansion is below 10^-13.
    const ASYMPTOTIC: u64 = 1 << 20;
    const EULER: f64 = 0.577_215_664_901_532_9;
    if n < ASYMPTOTIC {
        return (1..=n).map(|k| 1.0 / k as f64).sum();
    }
    (n as f64).ln() + EULER + 0.5 / n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_match() {
        // Knuth, section 2.5, exercises 36 to 38: N(16, 2) = 23.
        assert_eq!(every(16, 2), 23);
        assert_eq!(every(17, 3), 23);
        // Blocks of a single length never leave holes that are too short.
        assert_eq!((every(100, 1), fits(100, 1), buddies(100, 1)), (100, 100, 100));
        // Exercise 41: n units in blocks of up to 2^r, an area of (r + 1) n.
        assert_eq!(buddies(64, 16), 5 * 64);
        assert_eq!(buddies(65, 16), 5 * 80);
    }

    #[test]
    fn both_harmonic_formulas_agree_at_the_switch() {
        let n = 1 << 20;
        let summed = harmonic(n - 1) + 1.0 / n as f64;
        assert!((summed - harmonic(n)).abs() < 1e-9);
        assert!((harmonic(4) - 25.0 / 12.0).abs() < 1e-12);
    }

    #[test]
    fn lower_bounds_are_below_upper_bounds() {
        for peak in [1, 2, 16, 100, 1 << 20] {
            for largest in [1, 2, 3, 16, 100, 1 << 16].into_iter().filter(|&largest| largest <= peak) {
                let needed = every(peak.into(), largest);
                assert!(needed <= first_fit(peak, largest), "{peak} {largest}");
                assert!(needed <= fits(peak.into(), largest.into()), "{peak} {largest}");
                assert!(needed <= buddies(peak.into(), largest.next_power_of_two()), "{peak} {largest}");
            }
        }
    }

    #[test]
    fn an_empty_demand_has_no_bounds() {
        assert!(Bound::all(&Demand::default(), &Rules::default()).is_empty());
    }
}
