//! The expected values of report 002's first experiment, computed instead of sampled.
//!
//! While blocks are freed only immediately after their allocation, a segment of buddies has at most one free block of
//! each length: a request splits the shortest free block that fits, and only when there is none of its own length. The
//! binary digits of the number of free bytes are thus the list of free blocks. A request fails exactly when its block
//! is longer than all free bytes together. The number of free bytes is therefore the whole state of a run: its
//! distribution follows from that of the larger numbers. A block that is freed immediately does not change the state.

use std::collections::BTreeMap;

use super::fill::{DRAWS_PER_FREE, Fill, Frees, SEGMENT, SHORTEST, figures};

/// The length of every block is a multiple of this.
const UNIT: usize = 128;

/// The requests that need blocks of one length.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// Their share of all requests.
    share: f64,
    /// The sum of their sizes, each weighted by its share of all requests.
    bytes: f64,
}

/// Returns the expected figures of a table's row, or `None` where random live blocks are freed. The internal
/// fragmentation is that of the expected sums.
pub fn expected(fill: Fill) -> Option<[f64; 4]> {
    let stays = match fill.frees {
        Frees::Nothing => 1.0,
        Frees::TheBlockItself => 1.0 / DRAWS_PER_FREE as f64,
        Frees::AnyBlock => return None,
    };
    let classes = classes(fill);
    let mut visits = vec![0.0; SEGMENT / UNIT + 1];
    visits[SEGMENT / UNIT] = 1.0;
    let (mut user, mut real) = (0.0, 0.0);
    for free in (1..=SEGMENT / UNIT).rev() {
        let room = || classes.range(..=free * UNIT);
        let fitting: f64 = room().map(|(_, class)| class.share).sum();
        // A request whose block is freed immediately does not change the state: shares are relative to all others.
        let changes = (1.0 - fitting) + fitting * stays;
        for (&length, class) in room() {
            let moves = visits[free] * stays / changes;
            visits[free - length / UNIT] += moves * class.share;
            real += moves * class.share * length as f64;
            user += moves * class.bytes;
        }
    }
    Some(figures(user, real))
}

/// Returns the requests by the length of their blocks, in bytes.
fn classes(fill: Fill) -> BTreeMap<usize, Class> {
    let mut classes: BTreeMap<usize, Class> = BTreeMap::new();
    let share = 1.0 / (fill.longest - SHORTEST + 1) as f64;
    for bytes in SHORTEST..=fill.longest {
        let length = (bytes + fill.blocks.header).max(fill.blocks.granule).next_power_of_two();
        let class = classes.entry(length).or_default();
        class.share += share;
        class.bytes += share * bytes as f64;
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::super::fill::Blocks;
    use super::*;
    use heapwright_stats as stats;

    #[test]
    fn one_size_fills_the_segment() {
        let only = |blocks| Fill { blocks, longest: SHORTEST, frees: Frees::Nothing };
        let half = SEGMENT as f64 / 2.0;
        let all = SEGMENT as f64;
        assert_eq!(expected(only(Blocks::PUBLISHED)), Some([half, all, 50.0, 50.0]));
        assert_eq!(expected(only(Blocks::WITHOUT_HEADER)), Some([all, all, 0.0, 0.0]));
    }

    #[test]
    fn runs_of_the_engine_come_to_what_is_computed() {
        const RUNS: u64 = 400;
        for blocks in [Blocks::PUBLISHED, Blocks::WITHOUT_HEADER] {
            let fill = Fill { blocks, longest: 4096, frees: Frees::Nothing };
            let runs: Vec<[f64; 4]> = (0..RUNS).map(|seed| fill.run(seed).unwrap().figures()).collect();
            for (column, expected) in expected(fill).unwrap().into_iter().enumerate() {
                let figures: Vec<f64> = runs.iter().map(|run| run[column]).collect();
                let mean = stats::mean(&figures).unwrap();
                assert!((mean - expected).abs() < 4.0 * stats::standard_error(&figures).unwrap(), "{mean} {expected}");
            }
        }
    }

    #[test]
    fn a_run_that_frees_at_once_meets_more_requests_and_ends_earlier() {
        let real = |frees| expected(Fill { blocks: Blocks::PUBLISHED, longest: 4096, frees }).unwrap()[1];
        assert!(real(Frees::TheBlockItself) < real(Frees::Nothing));
        assert_eq!(expected(Fill { blocks: Blocks::PUBLISHED, longest: 4096, frees: Frees::AnyBlock }), None);
    }
}
