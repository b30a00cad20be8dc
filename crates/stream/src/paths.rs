//! Paths: how a process follows its own call stacks, and those that the collector has seen before.
//!
//! The collector unwinds the copy of a stack. Of each frame it adds to a table in the stream how the registers of its
//! caller are found, by the frame's address. From then on, threads follow these [rules](Rule) through their stacks:
//! they interpret no unwinding information, and follow no pointer out of the stack. The addresses of the frames are a
//! path. The collector gives it a number, by which it is recorded from then on. A stack with a frame that has no rule
//! is copied as before.
//!
//! The collector alone writes the table. It changes nothing that it has written: when other code has come to known
//! addresses, it begins another generation, in which no address has a rule.

use core::ops::Range;
use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use heapwright_os::{Place, spread};

/// The most frames of a path: 24 of the program, and before them up to 8 of the recorder's own.
pub const PATH: usize = 32;

/// The base-2 logarithms of the numbers of places, for rules and for numbers of paths.
const LOG2_RULES: u32 = 15;
const LOG2_NUMBERS: u32 = 16;

/// Number of places in which an entry may be, from the one that its key selects on.
const PROBES: usize = 16;

/// The generation's position in the key of a rule, above the address.
const GENERATION: u32 = 48;

/// The most frames of a stack of Python functions.
pub const PYTHON: usize = 24;

/// What the hashes of Python's frames and stacks begin with: more than any generation.
const PYTHON_FRAME: u32 = 1 << 20;
const PYTHON_STACK: u32 = 2 << 20;

/// Rules by address, and numbers of paths by their hashes: 1.5 MiB.
#[repr(C, align(64))]
pub struct Paths {
    /// 0 before the first rule is added.
    generation: AtomicU32,
    /// How often the process has unloaded code, and for how many of these the collector has begun a generation where it
    /// had to. No rule counts until both are equal.
    unloaded: AtomicU32,
    settled: AtomicU32,
    rules: [Slot; 1 << LOG2_RULES],
    numbers: [Slot; 1 << LOG2_NUMBERS],
}

/// A place of the tables.
#[repr(C, align(16))]
#[derive(Default)]
struct Slot {
    /// 0 in a free place. Written last.
    key: AtomicU64,
    value: AtomicU64,
}

/// The rules that a thread followed last, by the depth of the frame. Where a stack goes the same way as the last one,
/// the rule is loaded before the address of the frame is, and no frame waits for the one before it. Rules are not
/// changed within a generation, which is a part of the key, so that those of another thread or an earlier time are
/// right too.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct RecentRules {
    rules: [Slot; PATH],
}

impl RecentRules {
    /// Returns the rule with this key for a frame of this depth, less than [`PATH`], from `paths` unless it is at hand.
    #[inline(always)]
    fn rule(&self, depth: usize, key: u64, paths: &Paths) -> Option<u64> {
        let place = &self.rules[depth];
        if place.key.load(Ordering::Relaxed) == key {
            return Some(place.value.load(Ordering::Relaxed));
        }
        let rule = found(&paths.rules, key)?;
        // Calls of signal handlers do not use this buffer meanwhile: none comes between the two stores.
        place.value.store(rule, Ordering::Relaxed);
        place.key.store(key, Ordering::Relaxed);
        Some(rule)
    }
}

/// How the registers of a caller are found. The return address lies below the caller's stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// There is no caller.
    End,
    /// There is one.
    Caller {
        /// The register to which `stack` is added.
        base: Base,
        /// The caller's stack pointer, as a distance from the base in bytes.
        stack: u32,
        /// Where the caller's frame pointer is stored, as a distance from the caller's stack pointer in bytes; `None`
        /// when the register still has it.
        frame: Option<i16>,
    },
}

/// A register from which a caller's stack pointer is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The stack pointer.
    Stack,
    /// The frame pointer.
    Frame,
}

const IS_CALLER: u64 = 1;
const BY_FRAME: u64 = 2;
const RESTORES_FRAME: u64 = 4;

impl Rule {
    const fn to_word(self) -> u64 {
        let Rule::Caller { base, stack, frame } = self else { return 0 };
        let by_frame = if matches!(base, Base::Frame) { BY_FRAME } else { 0 };
        let frame = match frame {
            Some(frame) => (frame as u16 as u64) << 48 | RESTORES_FRAME,
            None => 0,
        };
        frame | (stack as u64) << 16 | by_frame | IS_CALLER
    }

    const fn from_word(word: u64) -> Rule {
        if word & IS_CALLER == 0 {
            return Rule::End;
        }
        let base = if word & BY_FRAME == 0 { Base::Stack } else { Base::Frame };
        let frame = if word & RESTORES_FRAME == 0 { None } else { Some((word >> 48) as u16 as i16) };
        Rule::Caller { base, stack: (word >> 16) as u32, frame }
    }
}

/// A path that a thread has followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    /// A path with this number.
    Known(u32),
    /// A path of this length, whose addresses were stored.
    New(usize),
}

impl Paths {
    /// Follows the path of the calling thread from `place` on; `None` when a frame has no rule. Passes the index and
    /// the address of each frame to `store`.
    ///
    /// # Safety
    /// `stack` is mapped.
    #[inline(always)]
    pub(crate) unsafe fn follow(
        &self,
        place: Place,
        stack: &Range<usize>,
        recent: &RecentRules,
        store: impl Fn(usize, u64),
    ) -> Option<Followed> {
        let read = |at: u64| {
            let at = at as usize;
            let is_inside = at >= stack.start && at <= stack.end.saturating_sub(8);
            // SAFETY: the eight bytes are in the stack, which is mapped as this function requires. The load has no
            // requirement on the alignment.
            is_inside.then(|| unsafe { with_exposed_provenance::<u64>(at).read_unaligned() })
        };
        self.follow_by(place, recent, read, store)
    }

    /// Follows a path, with the words of the stack from `read`. It ends where they cannot be read.
    #[inline(always)]
    fn follow_by(
        &self,
        place: Place,
        recent: &RecentRules,
        read: impl Fn(u64) -> Option<u64>,
        store: impl Fn(usize, u64),
    ) -> Option<Followed> {
        let (mut address, mut stack, mut frame) = (place.instruction, place.stack, place.frame);
        // In this order: where the collector has settled all that was unloaded, its generation is seen.
        if self.settled.load(Ordering::Acquire) != self.unloaded.load(Ordering::Relaxed) {
            return None;
        }
        let generation = self.generation.load(Ordering::Acquire);
        let mut hash = first_hash(generation);
        let mut length = 0;
        while length < PATH {
            let rule = Rule::from_word(recent.rule(length, rule_key(generation, address), self)?);
            store(length, address);
            hash = next_hash(hash, address);
            length += 1;
            let Rule::Caller { base, stack: distance, frame: stored } = rule else { break };
            let base = if base == Base::Stack { stack } else { frame };
            let caller = base.wrapping_add(u64::from(distance));
            let Some(back) = read(caller.wrapping_sub(8)).filter(|&back| back != 0 && caller > stack) else { break };
            if let Some(stored) = stored {
                let Some(restored) = read(caller.wrapping_add(i64::from(stored) as u64)) else { break };
                frame = restored;
            }
            (address, stack) = (back, caller);
        }
        Some(match found(&self.numbers, last_hash(hash)) {
            Some(number) => Followed::Known(number as u32),
            None => Followed::New(length),
        })
    }

    /// Notes that code was unloaded: no rule counts until the collector has settled that. Called by the process.
    pub fn note_unloaded(&self) {
        self.unloaded.fetch_add(1, Ordering::Relaxed);
    }

    /// Settles that code was unloaded, once for each time. Called by the collector, when all rules are right again.
    pub fn settle_unloaded(&self) {
        self.settled.fetch_add(1, Ordering::Release);
    }

    /// Begins a generation, in which no address has a rule. Numbers from 1 to 65,535.
    pub fn begin(&self, generation: u16) {
        self.generation.store(u32::from(generation), Ordering::Release);
    }

    /// Adds the rule of frames with this address in the present generation; returns `false` when there is no room.
    /// Called by the collector only, once per address.
    pub fn add_rule(&self, address: u64, rule: Rule) -> bool {
        let generation = self.generation.load(Ordering::Relaxed);
        add(&self.rules, rule_key(generation, address), rule.to_word())
    }

    /// Adds the number of the path with this [hash](Paths::hash); returns `false` when there is no room. Called by the
    /// collector only, once per path.
    pub fn add_number(&self, hash: u64, number: u32) -> bool {
        add(&self.numbers, hash, u64::from(number))
    }

    /// Returns the hash of a frame of a Python function, by what identifies it; the highest bit is set.
    #[must_use]
    pub fn hash_of_python_frame(words: &[usize]) -> u64 {
        let hash = words.iter().fold(first_hash(PYTHON_FRAME), |hash, &word| next_hash(hash, word as u64));
        last_hash(hash) | 1 << 63
    }

    /// Returns the hash of a stack of Python functions, by those of its frames.
    #[must_use]
    pub fn hash_of_python_stack(hashes: &[u64]) -> u64 {
        last_hash(hashes.iter().fold(first_hash(PYTHON_STACK), |hash, &frame| next_hash(hash, frame)))
    }

    /// Returns the number that was added for a hash.
    pub(crate) fn number(&self, hash: u64) -> Option<u32> {
        found(&self.numbers, hash).map(|number| number as u32)
    }

    /// Returns the hash of a path in the present generation.
    #[must_use]
    pub fn hash(&self, addresses: &[u64]) -> u64 {
        let first = first_hash(self.generation.load(Ordering::Relaxed));
        last_hash(addresses.iter().fold(first, |hash, &address| next_hash(hash, address)))
    }
}

fn first_hash(generation: u32) -> u64 {
    spread(u64::from(generation))
}

#[inline(always)]
fn next_hash(hash: u64, address: u64) -> u64 {
    spread(hash.rotate_left(23) ^ address)
}

/// Mixes the upper bits into the lower ones, and returns no 0.
#[inline(always)]
fn last_hash(hash: u64) -> u64 {
    (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1
}

#[inline(always)]
fn rule_key(generation: u32, address: u64) -> u64 {
    u64::from(generation) << GENERATION ^ address
}

/// Returns the places in which a key may be, in the order in which they are taken.
#[inline(always)]
fn places_of<const N: usize>(key: u64) -> impl Iterator<Item = usize> {
    let first = (spread(key) >> (u64::BITS - N.trailing_zeros())) as usize;
    (0..PROBES).map(move |probe| (first + probe) % N)
}

#[inline(always)]
fn found<const N: usize>(places: &[Slot; N], key: u64) -> Option<u64> {
    for place in places_of::<N>(key) {
        let there = places[place].key.load(Ordering::Acquire);
        if there == key {
            return Some(places[place].value.load(Ordering::Relaxed));
        }
        if there == 0 {
            return None;
        }
    }
    None
}

fn add<const N: usize>(places: &[Slot; N], key: u64, value: u64) -> bool {
    let mut free = places_of::<N>(key).map(|place| &places[place]);
    let Some(place) = free.find(|place| place.key.load(Ordering::Relaxed) == 0) else { return false };
    place.value.store(value, Ordering::Relaxed);
    place.key.store(key, Ordering::Release);
    true
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;
    use std::cell::RefCell;
    use std::collections::HashMap;
    use std::vec::Vec;

    use super::*;

    fn empty() -> Box<Paths> {
        // SAFETY: the table consists of integers, for which zeros are valid.
        unsafe { Box::<Paths>::new_zeroed().assume_init() }
    }

    #[test]
    fn rules_survive_being_packed() {
        let frames = [None, Some(-16), Some(i16::MIN), Some(i16::MAX), Some(0)];
        let callers = [Base::Stack, Base::Frame].into_iter().flat_map(|base| {
            let stacks = [8, 16, 1 << 20, u32::MAX].into_iter();
            stacks.flat_map(move |stack| frames.map(|frame| Rule::Caller { base, stack, frame }))
        });
        callers.chain([Rule::End]).for_each(|rule| assert_eq!(Rule::from_word(rule.to_word()), rule));
    }

    #[test]
    fn a_path_is_followed_when_all_its_frames_have_rules() {
        let paths = empty();
        let words: HashMap<u64, u64> = [(0x1010, 0x2000), (0x1018, 0xa), (0x2000, 7), (0x2008, 0xb)].into();
        let place = Place { instruction: 0xc, stack: 0x1000, frame: 0, link: 0 };
        let stored = RefCell::new([0; PATH]);
        let recent = RecentRules::default();
        let follow = || {
            paths.follow_by(
                place,
                &recent,
                |at| words.get(&at).copied(),
                |index, address| stored.borrow_mut()[index] = address,
            )
        };
        assert_eq!(follow(), None);
        paths.begin(1);
        assert!(paths.add_rule(0xc, Rule::Caller { base: Base::Stack, stack: 0x20, frame: Some(-16) }));
        assert!(paths.add_rule(0xa, Rule::Caller { base: Base::Frame, stack: 16, frame: Some(-16) }));
        assert_eq!(follow(), None, "the last frame has no rule");
        assert!(paths.add_rule(0xb, Rule::End));
        assert_eq!(follow(), Some(Followed::New(3)));
        assert_eq!(stored.borrow()[..3], [0xc, 0xa, 0xb]);
        assert!(paths.add_number(paths.hash(&[0xc, 0xa, 0xb]), 7));
        assert_eq!(follow(), Some(Followed::Known(7)));
        let shorter = |read: &dyn Fn(u64) -> Option<u64>| paths.follow_by(place, &recent, read, |_, _| {});
        assert_eq!(shorter(&|at| words.get(&at).copied().filter(|_| at < 0x2000)), Some(Followed::New(2)));
        assert_eq!(shorter(&|_| Some(0)), Some(Followed::New(1)), "a return address of 0 ends the stack");
        paths.note_unloaded();
        paths.note_unloaded();
        paths.settle_unloaded();
        assert_eq!(follow(), None, "there may be other code at these addresses");
        paths.settle_unloaded();
        assert_eq!(follow(), Some(Followed::Known(7)));
        paths.begin(2);
        assert_eq!(follow(), None);
    }

    #[test]
    fn stacks_that_alternate_have_their_own_rules_at_each_depth() {
        let paths = empty();
        paths.begin(1);
        let (recent, addresses) = (RecentRules::default(), [[1, 2, 3], [1, 4, 3], [5, 2, 6]]);
        let step = |address: u64| Rule::Caller { base: Base::Stack, stack: 8 * address as u32, frame: None };
        (1..=6).for_each(|address| assert!(paths.add_rule(address, step(address))));
        for frames in addresses.into_iter().cycle().take(9) {
            let returns = |at: u64| {
                let depth = (1..3).find(|&depth| at + 8 == 8 * frames[..depth].iter().sum::<u64>())?;
                Some(frames[depth])
            };
            let place = Place { instruction: frames[0], stack: 0, frame: 0, link: 0 };
            let stored = RefCell::new(Vec::new());
            let found = paths.follow_by(place, &recent, returns, |_, address| stored.borrow_mut().push(address));
            assert_eq!((found, stored.into_inner()), (Some(Followed::New(3)), frames.to_vec()));
        }
    }

    #[test]
    fn entries_are_found_until_the_table_is_full() {
        let paths = empty();
        paths.begin(1);
        let addresses = (0..100_000).map(|number| 0x7f00_0000_0000 + number * 5);
        let added: Vec<u64> = addresses.clone().filter(|&address| paths.add_rule(address, Rule::End)).collect();
        assert!(added.len() > 25_000, "{}", added.len());
        let hashes = addresses.map(|address| paths.hash(&[address, 1]));
        let numbered: Vec<u64> = hashes.filter(|&hash| paths.add_number(hash, hash as u32)).collect();
        assert!(numbered.len() > 50_000, "{}", numbered.len());
        for address in added {
            assert_eq!(found(&paths.rules, rule_key(1, address)), Some(0));
            assert_eq!(found(&paths.rules, rule_key(2, address)), None);
        }
        numbered.into_iter().for_each(|hash| assert_eq!(found(&paths.numbers, hash), Some(u64::from(hash as u32))));
    }

    #[test]
    fn a_circle_is_not_followed_for_ever() {
        let paths = empty();
        assert!(paths.add_rule(9, Rule::Caller { base: Base::Stack, stack: 8, frame: None }));
        let place = Place { instruction: 9, stack: 0, frame: 0, link: 0 };
        assert_eq!(paths.follow_by(place, &RecentRules::default(), |_| Some(9), |_, _| {}), Some(Followed::New(PATH)));
    }
}
