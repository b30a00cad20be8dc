//! Buddies in the map: adds the starts of halved blocks and removes those of joined buddies, for all in one word at
//! once.
//!
//! What is described for granules in a word of the map also holds for words of the map in a word of its summary.

use super::BlockMap;
use crate::bits::below;

/// The order of a block that is a word long, in granules.
const WORD: u32 = 6;

/// For each order, the bits at the powers of two `1 << 0 .. 1 << order`.
const POWERS_BELOW: [u64; WORD as usize + 1] = {
    let mut powers = [0; WORD as usize + 1];
    let mut order = 0;
    while order < WORD as usize {
        powers[order + 1] = powers[order] | 1 << (1 << order);
        order += 1;
    }
    powers
};

/// Returns the bits at the powers of two `1 << to .. 1 << from`, as far as they are in a word.
#[inline(always)]
fn powers(to: u32, from: u32) -> u64 {
    let [below, all] = [to, from].map(|order| POWERS_BELOW[order.min(WORD) as usize]);
    all & !below
}

/// Returns the bits behind the first of the run of `1 << order` bits that `bit` is in, all within one word.
#[inline(always)]
fn behind_first(bit: usize, order: u32) -> u64 {
    if order >= WORD { !1 } else { (below(1 << order) & !1) << (bit >> order << order) }
}

impl BlockMap<'_> {
    /// Halves the used block at `start` from order `from` down to order `to`: holes start at the high halves.
    #[inline(always)]
    pub(crate) fn mark_high_halves(&mut self, start: usize, from: u32, to: u32) {
        if to < WORD {
            let (word, near) = (start / 64, powers(to, from));
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
        let (mut half, whole) = (1 << to, 1 << from);
        while half < whole {
            self.cells.set(2 * (word + half), 1);
            self.cells.set(2 * (word + half) + 1, 1);
            half *= 2;
        }
        if self.has_summary() {
            // The first word has a start, so the summary's word is not empty, and nothing changes above it.
            let summary = self.summary();
            if to < WORD {
                summary.insert_into_word(&mut self.cells, word / 64, powers(to, from) << (word % 64));
            }
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
            self.cells.set(2 * word, self.starts(word) & !behind_first(start % 64, to));
        }
        if to > WORD {
            self.unmark_buddies_far(start / 64, from.saturating_sub(WORD), to - WORD);
        }
    }

    /// Does the same as [`BlockMap::unmark_buddies`] for buddies that are whole words.
    #[inline(always)]
    fn unmark_buddies_far(&mut self, word: usize, from: u32, to: u32) {
        let (mut half, whole) = (1usize << from, 1 << to);
        while half < whole {
            self.cells.set(2 * (word & half.wrapping_neg() | half), 0);
            half *= 2;
        }
        if self.has_summary() {
            // The joined block begins in the same 64 words, so that these do not become empty.
            if from < WORD {
                self.summary().remove_from_word(&mut self.cells, word / 64, behind_first(word % 64, to));
            }
            for order in from.max(WORD)..to {
                self.forget((word >> order | 1) << order);
            }
        }
    }
}
