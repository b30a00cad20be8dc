//! The live blocks of a replay, by number.
//!
//! Most blocks die young: the latest lie in a ring, indexed by their numbers' low bits; one that is still alive when its
//! place is needed again moves to a hash map. So memory grows with the live blocks, not with the trace.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// How many blocks the ring holds; a power of two.
const RECENT: usize = 1 << 16;

/// A live block: where it is, in bytes, and how many bytes were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    pub offset: usize,
    pub size: usize,
}

#[derive(Clone, Copy)]
struct Recent {
    /// [`NOBODY`] when the place is free.
    number: u64,
    block: Live,
}

const NOBODY: u64 = u64::MAX;

/// Live blocks, by number.
pub struct Blocks {
    recent: Box<[Recent]>,
    old: HashMap<u64, Live, BuildHasherDefault<Spread>>,
}

impl Blocks {
    /// No blocks.
    pub fn new() -> Blocks {
        let empty = Recent { number: NOBODY, block: Live { offset: 0, size: 0 } };
        Blocks { recent: vec![empty; RECENT].into_boxed_slice(), old: HashMap::default() }
    }

    /// A block appears.
    #[inline]
    pub fn insert(&mut self, number: u64, block: Live) {
        let place = &mut self.recent[number as usize % RECENT];
        if place.number != NOBODY {
            self.old.insert(place.number, place.block);
        }
        *place = Recent { number, block };
    }

    /// A block goes; `None` when it does not live.
    #[inline]
    pub fn remove(&mut self, number: u64) -> Option<Live> {
        let place = &mut self.recent[number as usize % RECENT];
        if place.number == number {
            place.number = NOBODY;
            return Some(place.block);
        }
        self.old.remove(&number)
    }
}

/// Spreads numbers that follow one another over a hash map; nobody who writes a trace can gain by collisions that only cost
/// their own replay time.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn young_and_old_blocks_are_found_once() {
        let mut blocks = Blocks::new();
        let block = |number: u64| Live { offset: number as usize * 16, size: number as usize };
        let count = 3 * RECENT as u64 + 7;
        for number in 0..count {
            blocks.insert(number, block(number));
            if number % 3 == 0 {
                assert_eq!(blocks.remove(number), Some(block(number)));
            }
        }
        for number in 0..count {
            assert_eq!(blocks.remove(number), (number % 3 != 0).then(|| block(number)));
            assert_eq!(blocks.remove(number), None);
        }
    }
}
