//! Buddies in the map: the starts that halving a block adds and joining buddies takes away, those in one word at once.
//!
//! What is said here of granules in a word of the map is true as well of words of the map in a word of its summary.

use super::BlockMap;
use crate::bits::below;

/// The order of a block that is a word long, in granules.
const WORD: u32 = 6;

impl BlockMap<'_> {
    /// The used block at `start` is halved from order `from` down to order `to`: holes start at the high halves.
    #[inline(always)]
    pub(crate) fn mark_high_halves(&mut self, start: usize, from: u32, to: u32) {
        if to < WORD {
            let (word, mut near) = (start / 64, 0);
            for order in to..from.min(WORD) {
                near |= 1 << (1 << order);
            }
            let [starts, holes] = *self.cells.row::<2>(2 * word);
            self.cells.set(2 * word, starts | near << (start % 64));
            self.cells.set(2 * word + 1, holes | near << (start % 64));
        }
        if from > WORD {
            self.mark_high_halves_far(start / 64, from - WORD, to.saturating_sub(WORD));
        }
    }

    /// As [`BlockMap::mark_high_halves`] for halves that are whole words, in which nothing starts yet.
    #[inline(always)]
    fn mark_high_halves_far(&mut self, word: usize, from: u32, to: u32) {
        let mut near = 0;
        for order in to..from {
            let high = word + (1 << order);
            self.cells.set(2 * high, 1);
            self.cells.set(2 * high + 1, 1);
            near |= if order < WORD { 1 << (high % 64) } else { 0 };
        }
        if self.has_summary() {
            // The first word has a start, so the summary's word is not empty, and nothing changes above it.
            let summary = self.summary();
            summary.insert_into_word(&mut self.cells, word / 64, near);
            for order in to.max(WORD)..from {
                summary.insert(&mut self.cells, word + (1 << order));
            }
        }
    }

    /// The block of order `from` at `start` and its buddies have become one of order `to`: nothing starts inside it any more.
    #[inline(always)]
    pub(crate) fn unmark_buddies(&mut self, start: usize, from: u32, to: u32) {
        if from < WORD && from < to {
            let word = start / 64;
            let order = to.min(WORD);
            let first = (start % 64) >> order << order;
            let behind = if order == WORD { !1 } else { (below(1 << order) & !1) << first };
            self.cells.set(2 * word, self.starts(word) & !behind);
        }
        if to > WORD {
            self.unmark_buddies_far(start / 64, from.saturating_sub(WORD), to - WORD);
        }
    }

    /// As [`BlockMap::unmark_buddies`] for buddies that are whole words.
    #[inline(always)]
    fn unmark_buddies_far(&mut self, word: usize, from: u32, to: u32) {
        let mut gone = 0;
        for order in from..to {
            let high = (word >> order | 1) << order;
            self.cells.set(2 * high, 0);
            gone |= if order < WORD { 1 << (high % 64) } else { 0 };
        }
        if self.has_summary() {
            // What they are together up to here begins in the same 64 words, so that these do not become empty.
            self.summary().remove_from_word(&mut self.cells, word / 64, gone);
            for order in from.max(WORD)..to {
                self.forget((word >> order | 1) << order);
            }
        }
    }
}
