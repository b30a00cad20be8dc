//! Choices among places: the lowest, or any.

use heapwright_os::secret_word;

use super::Measures;
use heapwright_slabs::mode::measures;

/// The number of places among which random choices are made, where there are enough.
pub(super) const CHOICES: usize = 32;

/// Who chooses. The generator is quick, and not one of cryptography's: it is not foreseen by who does not see what it
/// chose, many times over.
#[repr(u64)]
pub(super) enum Draw {
    Lowest,
    Any { state: u64 },
}

impl Draw {
    /// What is asked for: a generator that starts from a secret where choices are to be random.
    pub(super) fn new() -> Draw {
        if measures().have(Measures::RANDOM) { Draw::Any { state: secret_word() } } else { Draw::Lowest }
    }

    /// A number below `choices`, which is not 0.
    #[inline]
    pub(super) fn below(&mut self, choices: usize) -> usize {
        match self {
            Draw::Lowest => 0,
            Draw::Any { state } => {
                *state = state.wrapping_add(0x2D35_8DCC_AA6C_78A5);
                ((u128::from(mix(*state)) * choices as u128) >> 64) as usize
            }
        }
    }

    /// Returns whether choices are random.
    pub(super) fn is_random(&self) -> bool {
        matches!(self, Draw::Any { .. })
    }

    /// Returns the number of places that choices need, as far as there are places.
    pub(super) fn least_choice(&self) -> u32 {
        if self.is_random() { CHOICES as u32 } else { 1 }
    }
}

/// Makes every bit depend on every other, by one multiplication of which both halves are used.
#[inline(always)]
fn mix(word: u64) -> u64 {
    let product = u128::from(word) * u128::from(word ^ 0x8BB8_4B93_962E_ACC9);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_chosen_about_as_often() {
        let mut draw = Draw::Any { state: 7 };
        let mut counts = [0; 12];
        (0..12_000).for_each(|_| counts[draw.below(12)] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_eq!((Draw::Lowest.below(12), Draw::Lowest.least_choice()), (0, 1));
    }
}
