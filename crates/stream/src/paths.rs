//! Paths: the call stacks that the collector has unwound before, so that the process recognises them.
//!
//! The collector unwinds the copy of a stack, and adds each of its steps to a table in the stream: in which node of the
//! tree of all paths the step begins, the address of the call, the node it leads to, and how the registers of the
//! caller are found. A thread follows these steps through its own stack and records the number of the last node. It
//! interprets no unwinding information and follows no pointer out of its stack. Where a step is missing, it copies the
//! stack as before. The collector alone writes the table, and never changes a step that it has written.

use core::ops::Range;
use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use heapwright_os::Place;

/// The base-2 logarithm of the number of places for steps.
const LOG2_STEPS: u32 = 17;

/// Number of places for a step, from the one that its hash selects on.
const PROBES: usize = 16;

/// The table of steps: 4 MiB.
#[repr(C, align(64))]
pub struct Paths {
    /// The node at which all paths begin; 0 before the first step is added.
    root: AtomicU32,
    steps: [Step; 1 << LOG2_STEPS],
}

/// A step: from a node, by a call, to the next node.
#[repr(C, align(32))]
struct Step {
    /// The instruction pointer or return address; 0 in a place without a step. Written last.
    address: AtomicU64,
    /// The node in the upper half, the next node in the lower one.
    nodes: AtomicU64,
    /// [`Rule::to_word`].
    rule: AtomicU64,
}

/// How the registers of a caller are found. The return address lies below the caller's stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// There is no caller, or no more frames are wanted.
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

impl Paths {
    /// Returns the node to which the path of the calling thread leads from `place`; `None` when a step is not known.
    ///
    /// # Safety
    /// `stack` begins at the stack pointer of `place` and is mapped.
    #[inline]
    pub(crate) unsafe fn follow(&self, place: Place, stack: &Range<usize>) -> Option<u32> {
        let read = |at: u64| {
            let at = at as usize;
            let is_inside = at >= stack.start && at <= stack.end.saturating_sub(8);
            // SAFETY: the eight bytes are in the stack, which is mapped as this function requires. The load has no
            // requirement on the alignment.
            is_inside.then(|| unsafe { with_exposed_provenance::<u64>(at).read_unaligned() })
        };
        self.follow_by(place, read)
    }

    /// Follows a path, with the words of the stack from `read`. A path ends where they cannot be read.
    #[inline(always)]
    fn follow_by(&self, place: Place, read: impl Fn(u64) -> Option<u64>) -> Option<u32> {
        /// A damaged table may have a circle.
        const LONGEST: usize = 64;
        let (mut address, mut stack, mut frame) = (place.instruction, place.stack, place.frame);
        let mut node = self.root.load(Ordering::Acquire);
        for _ in 0..LONGEST {
            let (next, rule) = self.step(node, address)?;
            node = next;
            let Rule::Caller { base, stack: distance, frame: stored } = Rule::from_word(rule) else {
                return Some(node);
            };
            let base = if base == Base::Stack { stack } else { frame };
            let caller = base.wrapping_add(u64::from(distance));
            let Some(back) = read(caller.wrapping_sub(8)).filter(|&back| back != 0 && caller > stack) else {
                return Some(node);
            };
            if let Some(stored) = stored {
                let Some(restored) = read(caller.wrapping_add(i64::from(stored) as u64)) else { return Some(node) };
                frame = restored;
            }
            (address, stack) = (back, caller);
        }
        None
    }

    #[inline(always)]
    fn step(&self, node: u32, address: u64) -> Option<(u32, u64)> {
        for place in places_of(node, address) {
            let step = &self.steps[place];
            let found = step.address.load(Ordering::Acquire);
            if found == address {
                let nodes = step.nodes.load(Ordering::Relaxed);
                if (nodes >> 32) as u32 == node {
                    return Some((nodes as u32, step.rule.load(Ordering::Relaxed)));
                }
            } else if found == 0 {
                return None;
            }
        }
        None
    }

    /// Sets the node at which paths begin from now on. Steps from other ones are not used any more.
    pub fn begin_at(&self, root: u32) {
        self.root.store(root, Ordering::Release);
    }

    /// Adds the step from `node` by the call with this address to the node `next`; returns `false` when there is no
    /// room for it. Called by the collector only, once per step.
    #[must_use]
    pub fn add(&self, node: u32, address: u64, next: u32, rule: Rule) -> bool {
        let mut places = places_of(node, address).map(|place| &self.steps[place]);
        let Some(step) = places.find(|step| step.address.load(Ordering::Relaxed) == 0) else { return false };
        step.nodes.store(u64::from(node) << 32 | u64::from(next), Ordering::Relaxed);
        step.rule.store(rule.to_word(), Ordering::Relaxed);
        step.address.store(address, Ordering::Release);
        true
    }
}

/// Returns the places in which a step may be, in the order in which they are taken.
#[inline(always)]
fn places_of(node: u32, address: u64) -> impl Iterator<Item = usize> {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = (address ^ u64::from(node) << 40).wrapping_mul(SPREAD).rotate_left(26).wrapping_mul(SPREAD);
    let first = (hash >> (u64::BITS - LOG2_STEPS)) as usize;
    (0..PROBES).map(move |probe| (first + probe) % (1 << LOG2_STEPS))
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;
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
    fn a_path_is_followed_as_far_as_it_is_known() {
        let paths = empty();
        let by_stack = Rule::Caller { base: Base::Stack, stack: 0x20, frame: Some(-16) };
        let by_frame = Rule::Caller { base: Base::Frame, stack: 16, frame: Some(-16) };
        let words: HashMap<u64, u64> = [(0x1010, 0x2000), (0x1018, 0xa), (0x2000, 7), (0x2008, 0xb)].into();
        let place = Place { instruction: 0xc, stack: 0x1000, frame: 0, link: 0 };
        let follow = || paths.follow_by(place, |at| words.get(&at).copied());
        assert_eq!(follow(), None);
        paths.begin_at(1);
        assert!(paths.add(1, 0xc, 2, by_stack));
        assert_eq!(follow(), None, "the next step is not known");
        assert!(paths.add(2, 0xa, 3, by_frame));
        assert_eq!(follow(), None);
        assert!(paths.add(3, 0xb, 4, Rule::End));
        assert_eq!(follow(), Some(4));
        assert_eq!(paths.follow_by(place, |at| words.get(&at).copied().filter(|_| at < 0x2000)), Some(3));
        assert_eq!(paths.follow_by(place, |_| Some(0)), Some(2), "a return address of 0 ends the stack");
        paths.begin_at(5);
        assert_eq!(follow(), None);
    }

    #[test]
    fn steps_are_found_until_the_table_is_full() {
        let paths = empty();
        let mut added = Vec::new();
        for node in 0..200_000_u32 {
            let address = 0x7f00_0000_0000 + u64::from(node % 64) * 5;
            if paths.add(node, address, node + 1, Rule::End) {
                added.push((node, address));
            }
        }
        assert!(added.len() > 100_000, "{}", added.len());
        for (node, address) in added {
            assert_eq!(paths.step(node, address), Some((node + 1, 0)));
            assert_eq!(paths.step(node + 1, address), None);
        }
    }

    #[test]
    fn a_circle_is_not_followed_for_ever() {
        let paths = empty();
        paths.begin_at(1);
        assert!(paths.add(1, 9, 1, Rule::Caller { base: Base::Stack, stack: 8, frame: None }));
        let place = Place { instruction: 9, stack: 0, frame: 0, link: 0 };
        assert_eq!(paths.follow_by(place, |_| Some(9)), None);
    }
}
