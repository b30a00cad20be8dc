//! The root of four rows, and the entry of a pending hole that absorbed others.

extern crate std;

use std::ptr::NonNull;
use std::vec;
use std::vec::Vec;

use super::row::{self, WIDTH};
use super::{MaxTree, ROW, entry_of, len_of};
use crate::heap::Section;
use crate::index::Choose;
use crate::{Engine, FirstFit, Fit, NextFit, Rules, WorstFit};

const GRANULE: usize = 16;

/// Runs `act` on an empty heap of first fit over `granules`.
fn with_heap(granules: usize, act: impl FnOnce(&mut Fit<'_, FirstFit>)) {
    let rules = Rules::default();
    let mut metadata = vec![0; Fit::<FirstFit>::metadata_cells(granules * GRANULE, &rules).unwrap()];
    act(&mut Fit::create(&mut metadata, granules * GRANULE, &rules).unwrap());
}

fn place_unchecked(heap: &mut impl Engine, granules: usize) -> usize {
    heap.allocate(granules * GRANULE, 1).unwrap() / GRANULE
}

fn place(heap: &mut impl Engine, granules: usize) -> usize {
    let start = place_unchecked(heap, granules);
    heap.check().unwrap();
    start
}

fn free(heap: &mut impl Engine, granule: usize) {
    heap.deallocate(granule * GRANULE).unwrap();
    heap.check().unwrap();
}

#[test]
fn what_a_pending_hole_absorbed_goes_with_it() {
    with_heap(1 << 14, |heap| {
        let blocks: Vec<usize> = (0..20).map(|_| place(heap, 4)).collect();
        free(heap, blocks[0]);
        // Nothing but the end fits: the first hole is in the index now.
        assert_eq!(place(heap, 50), 80);
        free(heap, blocks[1]);
        free(heap, blocks[2]);
        assert_eq!(place(heap, 12), 0, "the pending hole, to its end");
        assert_eq!(place(heap, 4), 130, "nothing of it is left");
    });
}

#[test]
fn an_entry_beyond_the_pending_hole_is_noticed() {
    let (rules, granules) = (Rules::default(), 1 << 14);
    let mut metadata = vec![0; Fit::<FirstFit>::metadata_cells(granules * GRANULE, &rules).unwrap()];
    let mut heap = Fit::<FirstFit>::create(&mut metadata, granules * GRANULE, &rules).unwrap();
    let blocks: Vec<usize> = (0..20).map(|_| place(&mut heap, 4)).collect();
    free(&mut heap, blocks[0]);
    assert_eq!(place(&mut heap, 50), 80);
    free(&mut heap, blocks[1]);
    let first_entry = metadata.len() - MaxTree::cells_for(granules) + ROW;
    for (len, is_sound) in [(4, true), (8, true), (9, false)] {
        metadata[first_entry] = entry_of(len) as u64;
        // SAFETY: the block is borrowed for as long as the heap is used, and is only checked.
        let heap = unsafe { Fit::<FirstFit>::attach(NonNull::from(&mut metadata[..]).cast(), metadata.len()) }.unwrap();
        assert_eq!(heap.check().is_ok(), is_sound, "an entry for {len} granules, and 8 are pending");
    }
}

#[test]
fn a_hole_of_the_same_word_is_absorbed_on_the_right() {
    with_heap(1 << 14, |heap| {
        let blocks: Vec<usize> = (0..20).map(|_| place(heap, 4)).collect();
        free(heap, blocks[3]);
        assert_eq!(place(heap, 50), 80);
        free(heap, blocks[2]);
        assert_eq!(place(heap, 8), 8);
        assert_eq!(place(heap, 3), 130);
    });
}

#[test]
fn a_hole_of_the_next_word_is_absorbed_on_the_right() {
    with_heap(1 << 14, |heap| {
        let blocks: Vec<usize> = (0..20).map(|_| place(heap, 16)).collect();
        free(heap, blocks[4]);
        assert_eq!(place(heap, 50), 320);
        free(heap, blocks[3]);
        assert_eq!(place(heap, 20), 48, "a part of both");
        assert_eq!(place(heap, 13), 370, "12 are left");
        assert_eq!(place(heap, 12), 68);
    });
}

/// A hole in each of the root's rows, at every height that the region has.
#[test]
fn all_rows_of_the_root_are_searched() {
    for words in [17, 48, 64, 65, 300, 1024, 1025, 5000] {
        with_heap(words * 64 - 1, |heap| {
            let blocks: Vec<usize> = (0..words - 1).map(|_| place_unchecked(heap, 64)).collect();
            for part in 1..=8 {
                let block = blocks[(words - 3) * part / 8];
                heap.deallocate(block * GRANULE).unwrap();
                // Longer than the hole, so that it enters the index; then what fits only there.
                assert_eq!(heap.allocate(65 * GRANULE, 1).ok(), None);
                assert_eq!(place(heap, 64), block, "{words} words, part {part}");
            }
        });
    }
}

fn finds_holes_in_all_rows<P: Choose>() {
    let (rules, words) = (Rules::default(), 64);
    let capacity = (words * 64 - 1) * GRANULE;
    let mut metadata = vec![0; Fit::<P>::metadata_cells(capacity, &rules).unwrap()];
    let mut heap = Fit::<P>::create(&mut metadata, capacity, &rules).unwrap();
    for _ in 1..words {
        place_unchecked(&mut heap, 64);
    }
    for word in [60, 40, 20, 3] {
        free(&mut heap, word * 64);
        assert_eq!(place(&mut heap, 64), word * 64);
    }
}

#[test]
fn the_largest_and_the_next_hole_are_found_in_all_rows_of_the_root() {
    finds_holes_in_all_rows::<WorstFit>();
    finds_holes_in_all_rows::<NextFit>();
}

#[test]
fn entries_are_normal_numbers_in_the_order_of_the_lengths() {
    let lengths = [1, 2, 63, 64, 1 << 20, 1 << 30, super::LONGEST - 1, super::LONGEST];
    let numbers = lengths.map(|len| f32::from_bits(entry_of(len) as u32));
    assert!(numbers.iter().all(|number| number.is_normal()));
    assert!(numbers.is_sorted_by(|a, b| a < b));
    assert_eq!(lengths.map(|len| len_of(entry_of(len))), lengths);
    assert_eq!((entry_of(0), len_of(0)), (0, 0));
    assert_eq!(entry_of(usize::MAX), entry_of(super::LONGEST));
}

#[test]
fn a_row_is_compared_as_its_entries_are() {
    let mut numbers = 1u32;
    for _ in 0..1000 {
        let entries: [i32; WIDTH] = core::array::from_fn(|_| {
            numbers = numbers.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            entry_of((numbers >> (numbers % 32)) as usize & 0xffff_ffff)
        });
        for lane in 0..WIDTH {
            let mut changed = entries;
            changed[lane] = entries[(lane + 1) % WIDTH];
            let largest = *changed.iter().max().unwrap();
            assert_eq!(row::max_with(&entries, lane, changed[lane]), largest);
            assert_eq!(row::max(&changed), largest);
            let wanted = changed[lane].max(1);
            let enough = (0..WIDTH).fold(0, |mask, k| mask | u16::from(entries[k] >= wanted) << k);
            assert_eq!(row::at_least(&entries, wanted), enough);
        }
    }
}
