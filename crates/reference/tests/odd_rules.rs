//! The odd rules: examples worked by hand, and random operations against a map of granules that shares no code.

use heapwright_placement::{BlockState, Engine, Growth, PolicyKind, Rules};
use heapwright_reference::Reference;
use heapwright_rules::{Merging, Odd, Rover, Split, Worst};

const GRANULE: usize = 16;

fn heap(policy: PolicyKind, granules: usize, odd: Odd) -> Reference {
    let rules = Rules { growth: Growth::Fixed, ..Rules::default() };
    Reference::create(policy, granules * GRANULE, &rules).unwrap().under(odd)
}

/// Requests blocks of these lengths in granules; returns their offsets.
fn place<const N: usize>(heap: &mut Reference, lengths: [usize; N]) -> [usize; N] {
    lengths.map(|granules| heap.allocate(granules * GRANULE, 1).unwrap())
}

fn try_place(heap: &mut Reference, granules: usize) -> Option<usize> {
    heap.allocate(granules * GRANULE, 1).ok().map(|offset| offset / GRANULE)
}

/// Returns the holes as (start, length) in granules.
fn holes(heap: &Reference) -> Vec<(usize, usize)> {
    let free = heap.walk().filter(|block| block.state == BlockState::Free);
    free.map(|hole| (hole.offset / GRANULE, hole.size / GRANULE)).collect()
}

#[test]
fn forward_merging_leaves_the_hole_in_front() {
    let mut heap = heap(PolicyKind::First, 64, Odd { merging: Merging::Forward, ..Odd::USUAL });
    let [a, b, c, _rest] = place(&mut heap, [4, 4, 4, 52]);
    heap.deallocate(a).unwrap();
    heap.deallocate(c).unwrap();
    heap.deallocate(b).unwrap();
    assert_eq!(holes(&heap), [(0, 4), (4, 8)]);
    assert_eq!(try_place(&mut heap, 12), None);
    assert_eq!(try_place(&mut heap, 8), Some(4));
}

#[test]
fn deferred_merging_waits_for_a_request_that_does_not_fit() {
    let mut heap = heap(PolicyKind::First, 64, Odd { merging: Merging::Deferred, ..Odd::USUAL });
    for offset in place(&mut heap, [4, 4, 4, 52]).into_iter().take(3) {
        heap.deallocate(offset).unwrap();
    }
    assert_eq!(holes(&heap), [(0, 4), (4, 4), (8, 4)]);
    assert_eq!(try_place(&mut heap, 2), Some(0));
    assert_eq!(holes(&heap), [(2, 2), (4, 4), (8, 4)]);
    assert_eq!(try_place(&mut heap, 10), Some(2));
    assert_eq!(heap.counters().unwrap().coalesces, 2);
}

#[test]
fn a_block_is_cut_from_the_high_end() {
    let mut heap = heap(PolicyKind::First, 64, Odd { split: Split::High, ..Odd::USUAL });
    assert_eq!(place(&mut heap, [4, 8]).map(|offset| offset / GRANULE), [60, 52]);
    // Aligned to 16 granules: the highest such place, with a hole on both sides.
    assert_eq!(heap.allocate(2 * GRANULE, 16 * GRANULE), Ok(48 * GRANULE));
    assert_eq!(holes(&heap), [(0, 48), (50, 2)]);
}

#[test]
fn a_rover_that_never_wraps_misses_the_holes_behind_it() {
    let mut heap = heap(PolicyKind::Next, 64, Odd { rover: Rover::NeverWraps, ..Odd::USUAL });
    let [a, _b, c] = place(&mut heap, [8, 40, 8]);
    heap.deallocate(a).unwrap();
    // The rover is the remainder of the last split, which is the last block: the search begins at the first.
    assert_eq!(try_place(&mut heap, 8), Some(0));
    heap.deallocate(c).unwrap();
    assert_eq!(try_place(&mut heap, 12), Some(48));
    heap.deallocate(a).unwrap();
    assert_eq!(try_place(&mut heap, 1), Some(0), "the rover is the last block again");
    assert_eq!(try_place(&mut heap, 7), None, "the search begins behind the rover's block, the hole that would fit");
}

#[test]
fn a_rover_that_never_wraps_is_no_hole_that_was_there_before() {
    // Holes that are not merged: the one behind the placed block is no remainder, and is searched.
    for merging in [Merging::Forward, Merging::Deferred] {
        let mut heap = heap(PolicyKind::Next, 16, Odd { rover: Rover::NeverWraps, merging, ..Odd::USUAL });
        let [a, b, _c, _d] = place(&mut heap, [4, 4, 4, 4]);
        heap.deallocate(a).unwrap();
        heap.deallocate(b).unwrap();
        assert_eq!(holes(&heap), [(0, 4), (4, 4)]);
        assert_eq!(place(&mut heap, [4, 4]), [0, 4 * GRANULE], "{merging:?}");
    }
    // Blocks that are cut from the high end: what lies behind one is not its remainder.
    let odd = Odd { rover: Rover::NeverWraps, merging: Merging::Forward, split: Split::High, ..Odd::USUAL };
    let mut heap = heap(PolicyKind::Next, 16, odd);
    let [a] = place(&mut heap, [4]);
    heap.deallocate(a).unwrap();
    assert_eq!((holes(&heap), try_place(&mut heap, 4)), (vec![(0, 12), (12, 4)], Some(8)));
    assert_eq!(try_place(&mut heap, 8), None, "the search begins behind the block at 8");
    assert_eq!(try_place(&mut heap, 4), Some(12));
}

#[test]
fn a_rover_that_moves_to_freed_holes_takes_them_again() {
    let mut heap = heap(PolicyKind::Next, 64, Odd { rover: Rover::Freed, ..Odd::USUAL });
    let [a, _b] = place(&mut heap, [8, 8]);
    heap.deallocate(a).unwrap();
    assert_eq!(try_place(&mut heap, 4), Some(0));
    assert_eq!(try_place(&mut heap, 8), Some(16));
}

#[test]
fn worst_fit_that_never_takes_an_exact_hole() {
    let odd = Odd { worst: Worst::NeverExact, ..Odd::USUAL };
    let mut heap = heap(PolicyKind::Worst, 64, odd);
    assert_eq!(try_place(&mut heap, 64), None);
    assert_eq!(try_place(&mut heap, 63), Some(0));
}

#[test]
fn worst_fit_looks_at_the_free_tail_also_where_it_never_takes_an_exact_hole() {
    for worst in [Worst::Largest, Worst::NeverExact] {
        let mut heap = heap(PolicyKind::Worst, 10, Odd { worst, ..Odd::USUAL });
        let [_a, b, _c] = place(&mut heap, [1, 3, 4]);
        heap.deallocate(b).unwrap();
        // The largest hole, from granule 1 to 3, has no place at a multiple of four; the tail begins at granule 8.
        assert_eq!(heap.allocate(GRANULE, 4 * GRANULE), Ok(8 * GRANULE), "{worst:?}");
    }
}

/// First fit on an array with a number per granule: a positive one for each block, a negative one for each hole.
struct Granules {
    cells: Vec<i64>,
    odd: Odd,
    last: i64,
}

impl Granules {
    /// Returns the runs of equal numbers as (start, length, number).
    fn runs(&self) -> Vec<(usize, usize, i64)> {
        let mut at = 0;
        let runs = self.cells.chunk_by(|left, right| left == right);
        let with_start = |run: &[i64]| {
            at += run.len();
            (at - run.len(), run.len(), run[0])
        };
        runs.map(with_start).collect()
    }

    fn first(&self, len: usize) -> Option<(usize, usize)> {
        let fits = |run: &(usize, usize, i64)| run.2 < 0 && run.1 >= len;
        self.runs().into_iter().find(fits).map(|(start, have, _)| (start, have))
    }

    fn allocate(&mut self, len: usize) -> Option<usize> {
        if self.first(len).is_none() && self.odd.merging == Merging::Deferred {
            for at in 1..self.cells.len() {
                if self.cells[at] < 0 && self.cells[at - 1] < 0 {
                    self.cells[at] = self.cells[at - 1];
                }
            }
        }
        let (start, have) = self.first(len)?;
        let start = if self.odd.split == Split::High { start + have - len } else { start };
        self.last += 1;
        self.cells[start..start + len].fill(self.last);
        Some(start)
    }

    fn free(&mut self, start: usize) {
        let number = self.cells[start];
        let end = start + self.cells[start..].iter().take_while(|cell| **cell == number).count();
        self.last += 1;
        let hole = -self.last;
        self.cells[start..end].fill(hole);
        let relabel = |cells: &mut Vec<i64>, old: i64| {
            cells.iter_mut().filter(|cell| **cell == old).for_each(|cell| *cell = hole);
        };
        if let Some(behind) = self.cells.get(end).copied().filter(|cell| *cell < 0)
            && self.odd.merging != Merging::Deferred
        {
            relabel(&mut self.cells, behind);
        }
        if start > 0 && self.cells[start - 1] < 0 && self.odd.merging == Merging::Both {
            let front = self.cells[start - 1];
            relabel(&mut self.cells, front);
        }
    }
}

#[test]
fn first_fit_is_that_of_a_map_of_granules_under_every_merging_and_split() {
    for merging in [Merging::Both, Merging::Forward, Merging::Deferred] {
        for split in [Split::Low, Split::High] {
            for seed in 0..40 {
                let odd = Odd { merging, split, ..Odd::USUAL };
                let mut random = fastrand::Rng::with_seed(seed);
                let mut engine = heap(PolicyKind::First, 96, odd);
                let mut map = Granules { cells: vec![-1; 96], odd, last: 1 };
                let mut live = Vec::new();
                for step in 0..300 {
                    if !live.is_empty() && random.usize(..20) < 9 {
                        let start = live.swap_remove(random.usize(..live.len()));
                        engine.deallocate(start * GRANULE).unwrap();
                        map.free(start);
                    } else {
                        let len = random.usize(1..14);
                        let placed = try_place(&mut engine, len);
                        assert_eq!(placed, map.allocate(len), "{odd:?}, seed {seed}, step {step}");
                        live.extend(placed);
                    }
                    let expected = map.runs().into_iter().filter(|run| run.2 < 0);
                    let expected: Vec<(usize, usize)> = expected.map(|(start, len, _)| (start, len)).collect();
                    assert_eq!(holes(&engine), expected, "{odd:?}, seed {seed}, step {step}");
                    engine.check().unwrap();
                }
            }
        }
    }
}

#[test]
fn resizes_keep_the_list_whole_under_every_rule() {
    for policy in PolicyKind::ALL.into_iter().filter(|policy| *policy != PolicyKind::Buddy) {
        for growth in [Growth::Fixed, Growth::Append, Growth::Extend, Growth::Pages(256)] {
            for merging in [Merging::Both, Merging::Forward, Merging::Deferred] {
                for (split, rover) in
                    [(Split::Low, Rover::Freed), (Split::High, Rover::NeverWraps), (Split::High, Rover::Wraps)]
                {
                    let odd = Odd { merging, split, rover, worst: Worst::NeverExact };
                    let rules = Rules { growth, header: 16, min_remainder: 48, ..Rules::default() };
                    let mut heap = Reference::create(policy, 8 << 10, &rules).unwrap().under(odd);
                    let mut random = fastrand::Rng::with_seed(7);
                    let mut live: Vec<usize> = Vec::new();
                    for _ in 0..600 {
                        match random.usize(..5) {
                            0 | 1 if !live.is_empty() => {
                                let offset = live.swap_remove(random.usize(..live.len()));
                                heap.deallocate(offset).unwrap();
                            }
                            2 if !live.is_empty() => {
                                let offset = live[random.usize(..live.len())];
                                let _ = heap.resize(offset, 1, random.usize(1..400));
                            }
                            _ => {
                                let align = 1 << random.usize(..9);
                                let placed = heap.allocate(random.usize(1..300), align).ok();
                                assert!(placed.is_none_or(|offset| offset % align == 0), "{odd:?} {policy:?}");
                                live.extend(placed);
                            }
                        }
                        heap.check().unwrap();
                        let used = heap.walk().filter(|block| block.state == BlockState::Used).count();
                        assert_eq!(used, live.len(), "{odd:?} {policy:?} {growth:?}");
                    }
                }
            }
        }
    }
}
