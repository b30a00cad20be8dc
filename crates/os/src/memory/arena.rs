//! A part of the address space from which long ranges are chosen without a call to the system.
//!
//! The ranges lie where systems map nothing unless a program asks for it: below programs, above the regions of
//! sanitizers and of other collectors, mostly below the mappings of the layout that unlimited stacks cause. Those that
//! are not very long lie above the middle of the address space, too: V8 and other collectors draw the address of each
//! of their many chunks at random below it, and a chunk behind a heap would end its growth.
//!
//! The first range begins at a random place, unless the system does not randomise addresses: several copies of this
//! code (a preloaded library, the program) are most likely to choose ranges that do not overlap, and nothing depends on
//! it.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::own::secret::secret_word;
use crate::spread::spread;

/// Ranges begin and end at multiples of this.
const UNIT: usize = 1 << 16;

/// The word holds the end of the last range in units below this bit, and above it the number of ranges handed out.
const COUNT: u32 = 40;
const END: u64 = (1 << COUNT) - 1;

/// An address space is worth an arena from this many bytes on.
const LEAST_SPACE: usize = 1 << 36;

/// Parts of the address space, in 64ths of it: in an address space of 128 TiB, from 20 to 66 and from there to 84 TiB.
/// Address sanitizers use up to 16 TiB and Java up to 20, V8 up to 64 and a little more. Programs begin at two thirds.
/// Linux's layout for unlimited stacks begins at 42 TiB: only ranges of many TiB reach that far from below, and one
/// with anything in it is not chosen.
const LOWER: Range<usize> = 10..33;
const UPPER: Range<usize> = 33..42;

/// The first range begins in the first 8 or 4 TiB of them.
static ARENAS: [Arena; 2] = [Arena::new(UPPER, 4), Arena::new(LOWER, 2)];

/// In a shorter address space (46 bits), the system may choose addresses in the arena: where it has chosen one range,
/// as under valgrind, the next ones could lie above another's extent, which could not grow any more.
const LONG_SPACE: usize = 1 << 46;

/// Whether the system has chosen a range in a short address space, and so chooses all that follow.
static LEFT_TO_SYSTEM: AtomicBool = AtomicBool::new(false);

/// Hands out `length` bytes at a multiple of `align`, a power of two; `None` when no such range is left, or the system
/// is to choose.
pub(crate) fn take(length: usize, align: usize) -> Option<usize> {
    if LEFT_TO_SYSTEM.load(Ordering::Relaxed) {
        return None;
    }
    ARENAS.iter().find_map(|arena| arena.take(length, align))
}

/// Returns how many bytes of addresses are mapped at most to reserve them, where the system chooses. It is often an
/// emulator then, and some (qemu 7.2) keep a record of every page that was ever mapped: 6 MiB for each GiB.
pub(crate) fn most_mapped() -> usize {
    (space() / 64).max(8 << 30)
}

/// Returns how many bytes of a range that was chosen are mapped at most to see whether something is there: in address
/// spaces such as those of these emulators (39 bits) only the beginning of a long range, for the same reason. What lies
/// behind it ends the growth. Those of valgrind (37 bits), where something often does, are shorter.
pub(crate) fn most_probed() -> usize {
    const SHORT_SPACE: usize = 1 << 38;
    if (SHORT_SPACE..LONG_SPACE).contains(&space()) { 1 << 30 } else { usize::MAX }
}

/// Records that the system has chosen a range.
pub(crate) fn record_system_choice() {
    if space() < LONG_SPACE {
        LEFT_TO_SYSTEM.store(true, Ordering::Relaxed);
    }
}

/// Counts one more range: one that was handed out at this address is given back in two parts.
pub(crate) fn divide(at: usize) {
    arena_of(at).divide();
}

/// Takes back a range.
pub(crate) fn give_back(at: usize, length: usize) {
    arena_of(at).give_back(at, length);
}

/// Takes back a range behind which another part of the same one begins.
pub(crate) fn give_back_before_another(at: usize, length: usize) {
    arena_of(at).give_back_before_another(at, length);
}

fn arena_of(at: usize) -> &'static Arena {
    let [upper, lower] = &ARENAS;
    if at / (space() / 64) < UPPER.start { lower } else { upper }
}

struct Arena {
    /// In 64ths of the address space.
    part: Range<usize>,
    /// The length of its beginning, in which the first range begins, in 64ths.
    beginning: usize,
    /// The first address that is handed out; 0 before it was chosen, 1 where there is no arena.
    start: AtomicUsize,
    /// See [`COUNT`]; an end of 0 stands for the start.
    handed_out: AtomicU64,
}

impl Arena {
    const fn new(part: Range<usize>, beginning: usize) -> Arena {
        Arena { part, beginning, start: AtomicUsize::new(0), handed_out: AtomicU64::new(0) }
    }

    /// Hands out `length` bytes at a multiple of `align`, a power of two; `None` when the arena is used up.
    fn take(&self, length: usize, align: usize) -> Option<usize> {
        let (start, end) = (self.start()?, self.bounds(space())?.end);
        let mut chosen = 0;
        let hand_out = |word: u64| {
            let next = ((word & END) as usize * UNIT).max(start);
            chosen = next.checked_next_multiple_of(align.max(UNIT))?;
            let behind = chosen.checked_add(length)?.checked_next_multiple_of(UNIT)?;
            (behind <= end).then_some(((word >> COUNT) + 1) << COUNT | (behind / UNIT) as u64)
        };
        self.handed_out.fetch_update(Ordering::Relaxed, Ordering::Relaxed, hand_out).ok()?;
        Some(chosen)
    }

    /// Counts one more range: one that was handed out is given back in two parts.
    fn divide(&self) {
        self.handed_out.fetch_add(1 << COUNT, Ordering::Relaxed);
    }

    /// Takes back a range. Its addresses are handed out again if it was the last range, or no other is left; the unit
    /// in which it begins, only if it begins there: another part of the same range may end in it.
    fn give_back(&self, at: usize, length: usize) {
        let is_last = |end: u64| end as usize == (at + length).div_ceil(UNIT);
        self.take_back(|end| if is_last(end) { at.div_ceil(UNIT) as u64 } else { end });
    }

    /// Takes back a range behind which another part of the same one begins, perhaps in the unit in which this one ends.
    fn give_back_before_another(&self, at: usize, length: usize) {
        match (at + length).is_multiple_of(UNIT) {
            true => self.give_back(at, length),
            false => self.take_back(|end| end),
        }
    }

    /// Counts one range less, behind the last of which `behind` says where the next one begins.
    fn take_back(&self, behind: impl Fn(u64) -> u64) {
        let take_back = |word: u64| {
            let count = (word >> COUNT).saturating_sub(1);
            Some(if count == 0 { 0 } else { count << COUNT | behind(word & END) })
        };
        let _ = self.handed_out.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_back);
    }

    /// The first address that is handed out.
    fn start(&self) -> Option<usize> {
        match self.start.load(Ordering::Relaxed) {
            0 => {
                let chosen = self.choose_start(space()).unwrap_or(1);
                let first = self.start.compare_exchange(0, chosen, Ordering::Relaxed, Ordering::Relaxed);
                Some(first.map_or_else(|earlier| earlier, |_| chosen))
            }
            start => Some(start),
        }
        .filter(|&start| start != 1)
    }

    /// The addresses of the arena; `None` in a short address space.
    fn bounds(&self, space: usize) -> Option<Range<usize>> {
        (space >= LEAST_SPACE).then_some(space / 64 * self.part.start..space / 64 * self.part.end)
    }

    /// A place in the beginning of the arena.
    fn choose_start(&self, space: usize) -> Option<usize> {
        let from = self.bounds(space)?.start;
        let places = space / 64 * self.beginning / UNIT;
        Some(from + (choice(space) % places as u64) as usize * UNIT)
    }
}

/// The end of the stack at the program's start, by the address of its name, which lies there.
fn stack_end() -> usize {
    // SAFETY: the call has no preconditions.
    usize::try_from(unsafe { libc::getauxval(libc::AT_EXECFN) }).unwrap_or(0)
}

/// Returns the length of the address space: the stack begins at its end.
fn space() -> usize {
    stack_end().checked_next_power_of_two().unwrap_or(0)
}

/// A random word; where the system does not randomise addresses, one that is the same in each run.
fn choice(space: usize) -> u64 {
    const RANDOMISED_FROM: usize = 1 << 16;
    if space - stack_end() < RANDOMISED_FROM {
        // Differs between the copies of this code in a process.
        return spread((&raw const ARENAS).addr() as u64) >> 20;
    }
    secret_word()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three parts of one unit: no order in which two are given back makes the unit free.
    #[test]
    #[cfg_attr(miri, ignore = "there is no address space")]
    fn a_unit_is_not_handed_out_before_all_its_parts_are_back() {
        for order in [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]] {
            let arena = Arena::new(UPPER, 4);
            let before = arena.take(UNIT, 1).unwrap();
            let start = arena.take(3 * 4096, 1).unwrap();
            (0..2).for_each(|_| arena.divide());
            for part in order {
                match part {
                    2 => arena.give_back(start + 2 * 4096, 4096),
                    _ => arena.give_back_before_another(start + part * 4096, 4096),
                }
                let next = arena.take(UNIT, 1).unwrap();
                assert_ne!(next, start, "{order:?}");
                arena.give_back(next, UNIT);
            }
            assert_ne!(before, start);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no address space")]
    fn ranges_are_apart_and_handed_out_again() {
        let arena = Arena::new(UPPER, 4);
        let first = arena.take(1 << 30, 1 << 22).unwrap();
        let second = arena.take(5000, 1).unwrap();
        assert!(first.is_multiple_of(1 << 22) && second == first + (1 << 30));
        arena.give_back(second, 5000);
        assert_eq!(arena.take(1 << 20, 1), Some(second));
        arena.give_back(first, 1 << 30);
        assert_eq!(arena.take(UNIT, 1), Some(second + (1 << 20)));
        arena.give_back(second, 1 << 20);
        arena.give_back(second + (1 << 20), UNIT);
        assert_eq!(arena.take(1 << 30, 1 << 22), Some(first));
        assert_eq!(arena.take(usize::MAX / 2, 1), None);
        assert!(arena.take(1, 1 << 63).is_none());
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no address space")]
    fn ranges_lie_where_others_draw_no_addresses_unless_they_are_too_long() {
        let unit = space() / 64;
        let (short, long) = (take(unit * 2, 1 << 30).unwrap(), take(unit * 16, 1 << 30).unwrap());
        assert!(short >= unit * 33 && short + unit * 2 <= unit * 42, "{short:#x}");
        assert!(long >= unit * 10 && long + unit * 16 <= unit * 33, "{long:#x}");
        divide(long);
        for (at, length) in [(short, unit * 2), (long + unit, unit * 15), (long, unit)] {
            give_back(at, length);
        }
        assert_eq!(take(unit * 16, 1 << 30), Some(long));
        give_back(long, unit * 16);
    }

    #[test]
    fn starts_lie_in_the_arena() {
        for arena in &ARENAS {
            assert_eq!(arena.choose_start(1 << 32), None);
            for space in (36..=47).map(|bits| 1 << bits).filter(|&space| stack_end() < space) {
                let (start, bounds) = (arena.choose_start(space).unwrap(), arena.bounds(space).unwrap());
                assert!(start >= bounds.start && start < bounds.start + space / 16, "{start:#x} {bounds:x?}");
            }
        }
    }
}
