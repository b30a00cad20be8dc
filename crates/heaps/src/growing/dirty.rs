//! The OS pages inside holes that may still be resident.
//!
//! A page is marked when a free makes it lie wholly within a hole. The mark stays when the page is used again, so that
//! churn in one place is not counted repeatedly, unless the heap's user has it removed. The sweep that takes the marks
//! asks the engine what lies there now. It finds them by a summary of the table, in time that does not grow with the
//! heap's length.

use core::ops::Range;
use core::slice;

use heapwright_os::{Refused, Reservation, page_size, round_to_pages};
use heapwright_placement::Freed;

use super::summary::Summary;

/// A set of page numbers.
pub(super) struct DirtyPages {
    bits: Reservation,
    /// The words of the table that may have marks.
    summary: Summary,
    marked: usize,
    /// Whether frees of marked pages count as well: more of these pages lie in holes then.
    pub(super) is_watched: bool,
    /// Of the length of a page: frees do not divide by it.
    log2_page: u32,
}

impl DirtyPages {
    /// Returns the bytes of the table for a region of `capacity` bytes, whole pages.
    pub(super) fn length(capacity: usize) -> Result<usize, Refused> {
        let words = (capacity / page_size()).div_ceil(64);
        round_to_pages(words * 8).ok_or(Refused)
    }

    /// Creates an empty set with a table of that length.
    pub(super) fn new(bits: Reservation) -> DirtyPages {
        DirtyPages {
            bits,
            summary: Summary::EMPTY,
            marked: 0,
            is_watched: false,
            log2_page: page_size().trailing_zeros(),
        }
    }

    /// Makes room for the pages of the first `end` bytes of the region; no others are marked.
    pub(super) fn cover(&mut self, end: usize) -> Result<(), Refused> {
        let words = end.div_ceil(page_size()).div_ceil(64);
        self.bits.extend(round_to_pages(words * 8).ok_or(Refused)?.min(self.bits.length()))
    }

    /// Returns the bytes of the marked pages.
    pub(super) fn bytes(&self) -> usize {
        self.marked * page_size()
    }

    /// Marks the pages of the freed block that now lie wholly within a hole. Returns whether any of them counts: it was
    /// not marked before, or all are [watched](DirtyPages::is_watched).
    #[inline(always)]
    pub(super) fn mark(&mut self, freed: &Freed) -> bool {
        let page = 1 << self.log2_page;
        let first = (freed.offset & !(page - 1)).max(round_up(freed.hole_offset, page));
        let end = round_up(freed.offset + freed.size, page).min((freed.hole_offset + freed.hole_size) & !(page - 1));
        if first >= end {
            return false;
        }
        let (first, end) = (self.page_at(first), self.page_at(end));
        if self.is_only_marked_page(first, end) { self.is_watched } else { self.mark_pages(first..end) }
    }

    /// Returns the number of the page at an offset.
    #[inline(always)]
    pub(super) fn page_at(&self, offset: usize) -> usize {
        offset >> self.log2_page
    }

    /// Returns whether `from..to` is one marked page: most frees next to a hole lie in a page that was marked before.
    #[inline(always)]
    fn is_only_marked_page(&self, from: usize, to: usize) -> bool {
        // SAFETY: the page belongs to a block, so that the covered part contains a word for it, which is readable.
        to - from == 1 && unsafe { self.bits.base().cast::<u64>().add(from / 64).read() } >> (from % 64) & 1 == 1
    }

    #[inline(never)]
    fn mark_pages(&mut self, pages: Range<usize>) -> bool {
        let before = self.marked;
        for word in pages.start / 64..pages.end.div_ceil(64) {
            let mask = mask_of(word, &pages);
            let bits = &mut self.words()[word];
            let added = mask & !*bits;
            // Where a block is allocated and freed in turns, all are marked.
            if added != 0 {
                *bits |= added;
                self.marked += added.count_ones() as usize;
                self.summary.insert(word);
            }
        }
        self.marked != before || self.is_watched
    }

    /// Removes the marks of these pages; returns whether all of them had one. Pages outside of the heap have none.
    pub(super) fn unmark(&mut self, pages: Range<usize>) -> bool {
        // Without marks the table is not touched: a small program has no page of it.
        if self.marked == 0 {
            return false;
        }
        let (mut left, count) = (self.marked, pages.len());
        for word in pages.start / 64..pages.end.div_ceil(64) {
            let Some(bits) = self.words().get_mut(word) else { break };
            let found = *bits & mask_of(word, &pages);
            if found != 0 {
                *bits &= !found;
                left -= found.count_ones() as usize;
            }
        }
        core::mem::replace(&mut self.marked, left) - left == count
    }

    /// Removes and returns the highest run of marked pages in `within`, or the last `most` pages (not 0) of it.
    pub(super) fn take_run(&mut self, within: Range<usize>, most: usize) -> Option<Range<usize>> {
        let end = self.last_marked(within.start..within.end.min(self.covered() * 64))? + 1;
        let from = within.start.max(end.saturating_sub(most));
        let start = self.last_unmarked(from..end).map_or(from, |page| page + 1);
        for word in start / 64..end.div_ceil(64) {
            let mask = mask_of(word, &(start..end));
            self.words()[word] &= !mask;
        }
        self.marked -= end - start;
        Some(start..end)
    }

    /// Removes the marks of the pages from `from` on.
    pub(super) fn forget_from(&mut self, from: usize) {
        while self.take_run(from..usize::MAX, usize::MAX).is_some() {}
    }

    /// Returns the highest marked page of these, which are covered.
    fn last_marked(&mut self, pages: Range<usize>) -> Option<usize> {
        if self.marked == 0 || pages.is_empty() {
            return None;
        }
        let words = pages.start / 64..pages.end.div_ceil(64);
        let mut end = words.end;
        while let Some(group) = self.summary.last(words.start..end) {
            let looked_at = group.start.max(words.start)..group.end.min(words.end);
            if let Some(page) = last_in(self.words(), looked_at, |word, bits| bits & mask_of(word, &pages)) {
                return Some(page);
            }
            let whole = group.start..group.end.min(self.covered());
            if self.words()[whole].iter().all(|&bits| bits == 0) {
                self.summary.remove(group.start);
            }
            end = group.start;
        }
        None
    }

    /// Returns the highest page of these, which are covered and not none, that is not marked.
    fn last_unmarked(&mut self, pages: Range<usize>) -> Option<usize> {
        let words = pages.start / 64..pages.end.div_ceil(64);
        last_in(self.words(), words, |word, bits| !bits & mask_of(word, &pages))
    }

    /// Returns the number of words for pages that are covered.
    fn covered(&self) -> usize {
        self.bits.extent() / 8
    }

    fn words(&mut self) -> &mut [u64] {
        // SAFETY: the covered part is page-aligned, readable and writable, zero where untouched, and accessed only
        // through `self`, which is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.bits.base().cast().as_ptr(), self.covered()) }
    }
}

/// Returns the page of the highest bit of the `view` of these words.
fn last_in(words: &[u64], within: Range<usize>, view: impl Fn(usize, u64) -> u64) -> Option<usize> {
    within.rev().find_map(|word| view(word, words[word]).checked_ilog2().map(|bit| word * 64 + bit as usize))
}

/// Returns the bits of `word` that stand for pages of `pages`.
fn mask_of(word: usize, pages: &Range<usize>) -> u64 {
    let low = u64::MAX << pages.start.saturating_sub(word * 64);
    let left = pages.end - word * 64;
    if left >= 64 { low } else { low & !(u64::MAX << left) }
}

#[inline(always)]
fn round_up(value: usize, page: usize) -> usize {
    (value + page - 1) & !(page - 1)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;

    use super::*;

    /// Marks and takes runs in any order, in a table long enough that a bit of the summary stands for many words, and
    /// compares with a plain set.
    #[test]
    fn the_highest_run_is_taken_as_from_a_plain_set() {
        let bytes = 1 << 40;
        let mut dirty = DirtyPages::new(Reservation::claim_table(DirtyPages::length(bytes).unwrap()).unwrap());
        dirty.cover(bytes).unwrap();
        let mut seed = 1;
        let mut numbers = heapwright_placement::Generator(&mut seed);
        let (pages, mut plain) = (bytes / page_size(), BTreeSet::new());
        for step in 0..30_000 {
            // Near the beginning at first: the summary becomes coarser later.
            let reach = if step < 10_000 { 1 << 12 } else { pages };
            let most = 1 + numbers.below(300);
            match numbers.below(4) {
                0 | 1 => {
                    let start = numbers.below(reach - most);
                    let added = (start..start + most).filter(|&page| plain.insert(page)).count();
                    assert_eq!(dirty.mark_pages(start..start + most), added != 0);
                }
                2 => {
                    let from = if numbers.below(2) == 0 { 0 } else { numbers.below(reach) };
                    let to = if numbers.below(2) == 0 { usize::MAX } else { from + numbers.below(reach) };
                    let last = plain.range(from..to).next_back().copied();
                    let run = last.map(|last| {
                        let first = (from..=last).rev().take(most).take_while(|page| plain.contains(page)).last();
                        first.unwrap_or(last)..last + 1
                    });
                    assert_eq!(dirty.take_run(from..to, most), run, "{from}..{to}, at most {most}");
                    run.into_iter().flatten().for_each(|page| assert!(plain.remove(&page)));
                }
                _ if step % 500 == 0 => {
                    let from = numbers.below(reach);
                    dirty.forget_from(from);
                    plain.split_off(&from);
                }
                _ => {
                    let start = numbers.below(reach - most);
                    let removed = (start..start + most).filter(|page| plain.remove(page)).count();
                    assert_eq!(dirty.unmark(start..start + most), removed == most);
                }
            }
            assert_eq!(dirty.bytes(), plain.len() * page_size());
        }
    }

    #[test]
    fn pages_outside_of_the_heap_have_no_marks() {
        let bytes = 1 << 30;
        let mut dirty = DirtyPages::new(Reservation::claim_table(DirtyPages::length(bytes).unwrap()).unwrap());
        dirty.cover(bytes).unwrap();
        assert!(dirty.mark_pages(0..bytes / page_size()));
        let beyond = dirty.covered() * 64;
        assert!(!dirty.unmark(beyond..beyond + 1) && !dirty.unmark(usize::MAX >> 12..usize::MAX >> 11));
        assert_eq!(dirty.bytes(), bytes);
    }
}
