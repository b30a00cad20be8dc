//! Which OS pages inside holes may still hold memory.
//!
//! A page is marked when a free makes it lie wholly within a hole. The mark stays when the page is used again, so
//! that churn in one place does not add up; whoever takes the marks asks the engine what lies there now.

use core::ops::Range;
use core::slice;

use heapwright_os::{Refused, Reservation, page_size, round_to_pages};
use heapwright_placement::Freed;

/// A set of page numbers.
pub(super) struct DirtyPages {
    bits: Reservation,
    /// No page from here on is marked.
    end: usize,
    marked: usize,
}

impl DirtyPages {
    /// An empty set for a region of `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Result<DirtyPages, Refused> {
        let words = (capacity / page_size()).div_ceil(64);
        let bits = Reservation::sparse(round_to_pages(words * 8).ok_or(Refused)?)?;
        Ok(DirtyPages { bits, end: 0, marked: 0 })
    }

    /// How many bytes the marked pages have.
    pub(super) fn bytes(&self) -> usize {
        self.marked * page_size()
    }

    /// Marks the pages of the freed block that now lie wholly within a hole, and says whether any was not marked before.
    #[inline(always)]
    pub(super) fn mark(&mut self, freed: &Freed) -> bool {
        let page = page_size();
        let first = (freed.offset & !(page - 1)).max(round_up(freed.hole_offset, page));
        let end = round_up(freed.offset + freed.size, page).min((freed.hole_offset + freed.hole_size) & !(page - 1));
        first < end && self.mark_pages(first / page..end / page)
    }

    #[inline(never)]
    fn mark_pages(&mut self, pages: Range<usize>) -> bool {
        let before = self.marked;
        for word in pages.start / 64..pages.end.div_ceil(64) {
            let mask = mask_of(word, &pages);
            let bits = &mut self.words()[word];
            let added = (mask & !*bits).count_ones();
            *bits |= mask;
            self.marked += added as usize;
        }
        self.end = self.end.max(pages.end);
        self.marked != before
    }

    /// Whether all of these pages are marked.
    pub(super) fn has_all(&self, pages: Range<usize>) -> bool {
        let mut words = (pages.start / 64..pages.end.div_ceil(64)).map(|word| (mask_of(word, &pages), word));
        // SAFETY: as in `words`; the pages are the region's, so there is a word for each.
        words.all(|(mask, word)| unsafe { self.bits.base().cast::<u64>().add(word).read() } & mask == mask)
    }

    /// Takes the lowest run of marked pages at or above `from` out of the set.
    pub(super) fn take_run(&mut self, from: usize) -> Option<Range<usize>> {
        let start = self.next(from, |bits| bits)?;
        let end = self.next(start, |bits| !bits).unwrap_or(self.end);
        for word in start / 64..end.div_ceil(64) {
            let mask = mask_of(word, &(start..end));
            self.words()[word] &= !mask;
        }
        self.marked -= end - start;
        if self.marked == 0 {
            self.end = 0;
        }
        Some(start..end)
    }

    /// The lowest page at or above `from` and below the end whose bit is set in what `view` makes of its word.
    fn next(&mut self, from: usize, view: fn(u64) -> u64) -> Option<usize> {
        let end = self.end;
        let mut mask = u64::MAX << (from % 64);
        for (word, &bits) in self.words().iter().enumerate().take(end.div_ceil(64)).skip(from / 64) {
            let found = view(bits) & mask;
            if found != 0 {
                return Some(word * 64 + found.trailing_zeros() as usize).filter(|&page| page < end);
            }
            mask = u64::MAX;
        }
        None
    }

    fn words(&mut self) -> &mut [u64] {
        // SAFETY: the reservation is readable and writable as a whole, aligned to a page, and only used here.
        unsafe { slice::from_raw_parts_mut(self.bits.base().cast().as_ptr(), self.bits.length() / 8) }
    }
}

/// The bits of `word` that stand for pages of `pages`.
fn mask_of(word: usize, pages: &Range<usize>) -> u64 {
    let low = u64::MAX << pages.start.saturating_sub(word * 64);
    let left = pages.end - word * 64;
    if left >= 64 { low } else { low & !(u64::MAX << left) }
}

#[inline(always)]
fn round_up(value: usize, page: usize) -> usize {
    (value + page - 1) & !(page - 1)
}
