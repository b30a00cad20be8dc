//! What report 002's first experiment comes to on average, computed instead of drawn.
//!
//! As long as no block is freed out of turn, a segment of buddies has at most one free block of each length: a request is
//! cut from the shortest that holds it, and only when there is none of its own length. The free bytes, written in binary,
//! are thus the list of the free blocks, and a request fails exactly when its block is longer than all free bytes
//! together. So the free bytes alone decide how a run goes on, and how often a run comes by each number of them follows
//! from how often it comes by the larger ones. A block that is freed at once leaves everything as it was.

use std::collections::BTreeMap;

use super::fill::{DRAWS_PER_FREE, Fill, Frees, SEGMENT, SHORTEST, figures};

/// All blocks are multiples of this long.
const UNIT: usize = 128;

/// The requests that get blocks of one length.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// Their share of all requests.
    share: f64,
    /// The sum of their sizes, each by its share of all requests.
    bytes: f64,
}

/// The expected figures of a table's row, or `None` where blocks are freed out of turn. The internal fragmentation is that
/// of the expected sums.
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
        // Whatever else happens here is a block that came and went; this is when something changes at all.
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

/// The requests by the length of their blocks, in bytes.
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
    use crate::stats;

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
