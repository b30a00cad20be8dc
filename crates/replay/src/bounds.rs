//! How bad it can get: what theory says of heaps that hold as much as a trace asks for.

use heapwright_placement::{PolicyKind, Rules};
use serde::Serialize;

use crate::demand::Demand;

/// A theorem about the worst of all programs that, like a given trace, never have more than `M` bytes in blocks, none of
/// them longer than `n`. `M` and `n` count in granules, headers and rounding included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// Which heaps it is about.
    pub heaps: Heaps,
    /// Which side of the worst case it is on.
    pub says: Says,
    /// The length of a region, in bytes; `u64::MAX` when it is more.
    pub bytes: u64,
    /// The formula, in granules.
    pub formula: &'static str,
    /// Who proved it, and where.
    pub source: &'static str,
}

/// Which heaps a theorem is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Heaps {
    /// Every heap that does not move blocks.
    Every,
    /// First fit.
    FirstFit,
    /// First, next, best, worst and random fit: those that refuse a request only when no hole is long enough.
    Fits,
    /// Binary buddies, `M` and `n` with every block a power of two granules.
    Buddies,
}

/// Which side of the worst case a theorem is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Says {
    /// Some program needs a region of at least this length.
    SomeProgramNeeds,
    /// No program needs more than this.
    NoProgramNeedsMore,
}

impl Heaps {
    /// What people call them.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Heaps::Every => "every heap",
            Heaps::FirstFit => "first fit",
            Heaps::Fits => "every fit but good fit",
            Heaps::Buddies => "buddies",
        }
    }

    /// Whether the theorem is about heaps under `policy`.
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
    /// What is known of the worst program that asks for no more than `demand`; nothing of one that asks for nothing.
    ///
    /// The theorems are about programs that allocate and free. A program that also resizes blocks, or asks for alignments
    /// above the granule, is outside of them, as is a heap that lets blocks keep remainders: see [`Bound::premises_hold`].
    ///
    /// ```
    /// use heapwright_placement::Rules;
    /// use heapwright_replay::{Bound, Demand};
    /// // Knuth's lunch counter: 16 seats, guests alone or in pairs.
    /// let demand = Demand { peak_rounded: 16, largest_rounded: 2, peak_doubled: 16, largest_doubled: 2, ..Demand::default() };
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
                         J. ACM 18 (1971), and Bounds for some functions concerning dynamic storage allocation, J. ACM 21 (1974)",
            },
            Bound {
                heaps: Heaps::FirstFit,
                says: Says::NoProgramNeedsMore,
                bytes: bytes(first_fit(peak, largest)),
                formula: "M H(n) / ln 2; H(n) = 1 + 1/2 + ... + 1/n",
                source: "D. E. Knuth, The Art of Computer Programming, vol. 1, section 2.5, exercise 43; after J. M. Robson, Worst case \
                         fragmentation of first fit and best fit storage allocation strategies, Computer J. 20 (1977)",
            },
            Bound {
                heaps: Heaps::Fits,
                says: Says::NoProgramNeedsMore,
                bytes: bytes(fits(peak.into(), largest.into())),
                formula: "(M - n + 1) n; n at most (M + 1) / 2",
                source: "elementary: when a request for n is refused, at most M - n blocks leave at most M - n + 1 holes, each \
                         shorter than n; best fit comes near it (Robson 1977; Knuth, exercise 42)",
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

    /// Whether the trace of `demand`, under these rules, is one of the programs that the theorems are about.
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

/// `1 + 1/2 + … + 1/n`, or a little more.
fn harmonic(n: u64) -> f64 {
    /// Beyond this, the sum differs from its first terms in powers of 1/n by less than 10^-13.
    const MANY: u64 = 1 << 20;
    const EULER: f64 = 0.577_215_664_901_532_9;
    if n < MANY {
        return (1..=n).map(|k| 1.0 / k as f64).sum();
    }
    (n as f64).ln() + EULER + 0.5 / n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_are_met() {
        // Knuth, section 2.5, exercises 36 to 38: N(16, 2) = 23.
        assert_eq!(every(16, 2), 23);
        assert_eq!(every(17, 3), 23);
        // Blocks of one length never leave holes that are too short.
        assert_eq!((every(100, 1), fits(100, 1), buddies(100, 1)), (100, 100, 100));
        // Exercise 41: n units in blocks of up to 2^r, an area of (r + 1) n.
        assert_eq!(buddies(64, 16), 5 * 64);
        assert_eq!(buddies(65, 16), 5 * 80);
    }

    #[test]
    fn sums_agree_where_they_meet() {
        let n = 1 << 20;
        let summed = harmonic(n - 1) + 1.0 / n as f64;
        assert!((summed - harmonic(n)).abs() < 1e-9);
        assert!((harmonic(4) - 25.0 / 12.0).abs() < 1e-12);
    }

    #[test]
    fn what_every_heap_may_need_is_within_what_is_enough() {
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
    fn nothing_is_said_of_nothing() {
        assert!(Bound::all(&Demand::default(), &Rules::default()).is_empty());
    }
}
