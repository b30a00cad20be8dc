//! Buddies in the map: adds the starts of halved blocks and removes those of joined buddies, for all in one word at
//! once.
//!
//! What is described for granules in a word of the map also holds for words of the map in a word of its summary.

use super::BlockMap;
use crate::bits::below;

/// The order of a block that is a word long, in granules.
const WORD: u32 = 6;

impl BlockMap<'_> {
    /// Halves the used block at `start` from order `from` down to order `to`: holes start at the high halves.
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

    /// Does the same as [`BlockMap::mark_high_halves`] for halves that are whole words, in which nothing starts yet.
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

    /// Joins the block of order `from` at `start` and its buddies to one of order `to`: removes all starts inside it.
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

    /// Does the same as [`BlockMap::unmark_buddies`] for buddies that are whole words.
    #[inline(always)]
    fn unmark_buddies_far(&mut self, word: usize, from: u32, to: u32) {
        let mut gone = 0;
        for order in from..to {
            let high = (word >> order | 1) << order;
            self.cells.set(2 * high, 0);
            gone |= if order < WORD { 1 << (high % 64) } else { 0 };
        }
        if self.has_summary() {
            // The joined block begins in the same 64 words, so that these do not become empty.
            self.summary().remove_from_word(&mut self.cells, word / 64, gone);
            for order in from.max(WORD)..to {
                self.forget((word >> order | 1) << order);
            }
        }
    }
}
