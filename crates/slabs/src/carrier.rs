//! Freed blocks on their way to their owner: a list of carriers.
//!
//! A small block that is a carrier contains, behind its link, the addresses of other freed blocks. The thread that
//! frees those does not touch them, and the owner knows several blocks at once, so that it waits for their cache lines
//! together. The link of a longer carrier is in the side table, and it carries nothing.

use core::ptr::{NonNull, null_mut};

use heapwright_os::prefetch_to_write;

use crate::classes::{SMALL_CLASSES, size_of_class};
use crate::links::{Key, Links};

/// The most blocks in a carrier, itself included: as many words as a cache line has.
pub(crate) const MOST: usize = 8;

/// Returns the number of words of a carrier of a class that are used: the link, and the addresses.
const fn words_of(class: usize) -> usize {
    let words = size_of_class(class) / size_of::<usize>();
    if class >= SMALL_CLASSES {
        1
    } else if words < MOST {
        words
    } else {
        MOST
    }
}

/// The room in a carrier that is being loaded.
///
/// Invariant: the word at `place` is null unless it is at `end`.
pub(crate) struct Room {
    place: u8,
    end: u8,
}

impl Room {
    /// No room, because there is no carrier.
    pub(crate) const NONE: Room = Room { place: 0, end: 0 };

    /// Returns the room in a linked block that becomes a carrier.
    ///
    /// # Safety
    /// The block is free, of that class and in the list that is to be sent.
    #[inline(always)]
    pub(crate) unsafe fn of(carrier: *mut u8, class: usize, key: Key) -> Room {
        let room = Room { place: 1, end: words_of(class) as u8 };
        // SAFETY: the carrier has `end` words.
        unsafe { room.close(carrier, key) };
        room
    }

    /// Returns the block that was loaded last, or the carrier itself.
    ///
    /// # Safety
    /// It is the carrier's room; if there is no carrier, it is null.
    #[inline(always)]
    pub(crate) unsafe fn latest(&self, carrier: *mut u8, key: Key) -> *mut u8 {
        if self.place <= 1 {
            return carrier;
        }
        // SAFETY: the carrier has `end` words, of which those before `place` were written.
        unsafe { key.read(carrier, usize::from(self.place) - 1) }
    }

    /// Loads a block into the carrier; returns `false` if there is no room.
    ///
    /// # Safety
    /// It is the carrier's room, and the block is free and in no list.
    #[inline(always)]
    pub(crate) unsafe fn load(&mut self, carrier: *mut u8, key: Key, block: *mut u8) -> bool {
        if self.place == self.end {
            return false;
        }
        // SAFETY: the carrier has `end` words.
        unsafe {
            key.write(carrier, self.place.into(), block);
            self.place += 1;
            self.close(carrier, key);
        }
        true
    }

    /// Marks the end of what the carrier carries.
    ///
    /// # Safety
    /// As [`Room::load`].
    #[inline(always)]
    unsafe fn close(&self, carrier: *mut u8, key: Key) {
        if self.place != self.end {
            // SAFETY: the carrier has `end` words.
            unsafe { key.write(carrier, self.place.into(), null_mut()) };
        }
    }
}

/// A carrier and what it carries.
pub(crate) struct Unloaded {
    blocks: [*mut u8; MOST],
    count: usize,
    /// The next carrier of the list; null behind the last.
    pub(crate) next: *mut u8,
}

impl Unloaded {
    /// Unloads a carrier, which stays as it is, and asks for the lines of the blocks and of the next carrier.
    ///
    /// # Safety
    /// The block is free, of that class and in a list of carriers; the links are its class's.
    #[inline(always)]
    pub(crate) unsafe fn from(carrier: NonNull<u8>, class: usize, links: Links) -> Unloaded {
        let (mut blocks, mut count) = ([carrier.as_ptr(); MOST], 1);
        // SAFETY: the caller's promise; the carrier has that number of words.
        unsafe {
            if let Links::InBlock(key) = links {
                while count < words_of(class) {
                    let block = key.read(carrier.as_ptr(), count);
                    if block.is_null() {
                        break;
                    }
                    prefetch_to_write(block);
                    blocks[count] = block;
                    count += 1;
                }
            }
            let next = links.next(carrier.as_ptr());
            prefetch_to_write(next);
            Unloaded { blocks, count, next }
        }
    }

    /// Returns the blocks: what it carries, and then the carrier.
    #[inline(always)]
    pub(crate) fn blocks(&self) -> impl Iterator<Item = NonNull<u8>> + use<'_> {
        self.blocks[..self.count].iter().rev().filter_map(|&block| NonNull::new(block))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::classes::CLASSES;
    use crate::links::SideTable;

    const KEY: Key = Key(1 << 63 | 1 << 55 | 0x5A50);

    /// Blocks of 1 KiB at multiples of it, for which there is a side table.
    fn blocks(count: usize) -> (Vec<*mut u8>, SideTable) {
        const STEP: usize = 1 << 10;
        let memory = vec![0u8; (count + 1) * STEP].leak().as_mut_ptr();
        let first = memory.wrapping_add(memory.align_offset(STEP));
        let table = vec![0usize; count].leak().as_mut_ptr().cast();
        ((0..count).map(|number| first.wrapping_add(number * STEP)).collect(), SideTable::new(table, first.addr()))
    }

    #[test]
    fn a_carrier_of_each_class_returns_what_was_loaded_and_no_word_behind_its_end_is_written() {
        for class in 0..CLASSES {
            for loaded in 0..=MOST {
                let (blocks, table) = blocks(MOST + 2);
                let (carrier, next) = (blocks[0], blocks[MOST + 1]);
                let links = if class < SMALL_CLASSES { Links::InBlock(KEY) } else { Links::SideTable(table) };
                let words = size_of_class(class).min(1 << 10) / size_of::<usize>();
                let word = |number: usize| carrier.cast::<usize>().wrapping_add(number);
                // SAFETY: the blocks are used by this test only, and as long as those words.
                unsafe {
                    (0..words).for_each(|number| word(number).write(number));
                    links.link(carrier, next);
                    let mut room = Room::of(carrier, class, KEY);
                    let mut expected = vec![carrier];
                    for &block in &blocks[1..=loaded] {
                        assert_eq!(room.latest(carrier, KEY), *expected.last().unwrap());
                        if room.load(carrier, KEY, block) {
                            expected.push(block);
                        } else {
                            assert_eq!(expected.len(), words_of(class));
                        }
                    }
                    let unloaded = Unloaded::from(NonNull::new(carrier).unwrap(), class, links);
                    let found: Vec<*mut u8> = unloaded.blocks().map(NonNull::as_ptr).collect();
                    expected.reverse();
                    assert_eq!((found, unloaded.next), (expected, next), "class {class}, {loaded} loaded");
                    assert!((words_of(class)..words).all(|number| word(number).read() == number));
                    assert!(class < SMALL_CLASSES || word(0).read() == 0, "a longer block is not touched");
                }
            }
        }
    }

    #[test]
    fn without_a_carrier_there_is_no_room_and_no_latest_block() {
        let mut room = Room::NONE;
        // SAFETY: there is no carrier.
        unsafe {
            assert!(room.latest(null_mut(), KEY).is_null());
            assert!(!room.load(null_mut(), KEY, null_mut()));
        }
    }
}
