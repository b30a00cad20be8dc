//! Threads of a process: their stacks, and what their thread-local storage points to.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter::once;
use std::ops::Range;

use heapwright_host::target::Thread;

use crate::mappings::Mapping;
use crate::memory::{Memory, PageState, page_count};

/// The thread's number in glibc's control block on x86-64, in every version.
const ID_AT: u64 = 0x2d0;

/// Bytes of thread-local storage that are looked at: in front of a control block on x86-64, behind it on aarch64.
const STORAGE: u64 = 8192;

/// Where programs have more, the C library's is behind theirs: the most that is looked at.
const LONGEST_STORAGE: u64 = 1 << 20;

/// The most modules with thread-local storage that are looked at.
const MODULES: u64 = 1024;

/// Where control blocks are looked for: at the ends of stacks, first in a short part and then in a longer one; at the
/// ends of other mappings, for that of the main thread, in front of which the kernel may have put blocks; and at the
/// start of the program break, for those of static programs.
const ENDS: [u64; 2] = [16 << 10, 1 << 20];
const LAST_PART: u64 = 256 << 10;
const START_OF_HEAP: u64 = 64 << 10;

/// What is known of a thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadFacts {
    /// Its number.
    pub id: u32,
    /// Its number in the namespace of its process.
    id_inside: u32,
    /// Its name.
    pub name: String,
    /// Its stack pointer, where it is known.
    stack_pointer: Option<u64>,
    /// Its stack, where it was found.
    pub stack: Option<Range<u64>>,
    /// Its thread-local storage.
    storage: Storage,
}

impl ThreadFacts {
    /// Returns the thread's own variable at `place`, where it was read.
    pub fn variable(&self, place: Place) -> Option<u64> {
        let at = place.checked_sub(self.storage.first)?;
        self.storage.words.get(usize::try_from(at).ok()? / 8).copied()
    }
}

/// Where a variable lies of which each thread has its own: bytes from the control block, the same in all threads.
pub type Place = i64;

/// Words of a thread's own storage. The stack may begin in front, with what calls have left there.
#[derive(Clone, Debug, Default)]
struct Storage {
    /// Where the first word lies.
    first: Place,
    words: Vec<u64>,
}

impl Storage {
    /// Reads `range` of the storage whose control block is at `block`.
    fn read(memory: &impl Memory, block: u64, range: &Range<u64>) -> Storage {
        Storage { first: range.start.wrapping_sub(block) as i64, words: memory.words(range) }
    }
}

/// The threads of a process, and its stacks.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    /// The threads.
    pub all: Vec<ThreadFacts>,
    /// Mappings that are stacks, of threads that have ended too.
    pub stacks: Vec<Range<u64>>,
}

impl Threads {
    /// Returns what is known of `threads`. Control blocks are recognised on x86-64 under glibc.
    pub fn find(memory: &impl Memory, mappings: &[Mapping], threads: &[Thread]) -> Threads {
        let all: Vec<ThreadFacts> = threads.iter().map(|thread| fact(mappings, thread)).collect();
        let stacks = all.iter().filter_map(|thread| thread.stack.clone()).collect();
        let mut found = Threads { all, stacks };
        for (fact, thread) in found.all.iter_mut().zip(threads) {
            if let Some(block) = thread.control_block {
                let range = storage_start(memory, block)..block.saturating_add(STORAGE);
                fact.storage = Storage::read(memory, block, &range);
            }
        }
        // Since 2.42 stacks have guards that the kernel does not show, and neighbours look like one mapping.
        for fact in &mut found.all {
            let Some((pointer, stack)) = fact.stack_pointer.zip(fact.stack.as_ref()) else { continue };
            let start = pointer & !63;
            let range = start..stack.end.min(start.saturating_add(ENDS[1]));
            if let Some((block, _)) = control_block(memory, &range).filter(|(_, id)| *id == fact.id_inside) {
                let range = storage_start(memory, block).max(stack.start)..block;
                fact.storage = Storage::read(memory, block, &range);
            }
        }
        for (number, mapping) in mappings.iter().enumerate() {
            let block = places(mappings, number).iter().find_map(|range| control_block(memory, range));
            let Some((block, id_inside)) = block else { continue };
            let is_stack = has_guard(mappings, number);
            if is_stack {
                found.stacks.push(mapping.range.clone());
            }
            let Some(at) = threads.iter().position(|thread| thread.id_inside == id_inside) else { continue };
            let range = storage_start(memory, block).max(mapping.range.start)..block;
            found.all[at].storage = Storage::read(memory, block, &range);
            if is_stack {
                found.all[at].stack.get_or_insert(mapping.range.clone());
            }
        }
        found
    }

    /// Returns the place at which most threads have a word that `is_one`; of several, the one nearest to the control
    /// block. A word at another place may be left over on a stack, and be another thread's.
    pub fn place_of(&self, is_one: impl Fn(u64) -> bool) -> Option<Place> {
        let mut counts: BTreeMap<Place, usize> = BTreeMap::new();
        for Storage { first, words } in self.all.iter().map(|thread| &thread.storage) {
            let places = (*first..).step_by(8).zip(words).filter(|(_, word)| is_one(**word));
            places.for_each(|(place, _)| *counts.entry(place).or_default() += 1);
        }
        let best = counts.into_iter().max_by_key(|(place, count)| (*count, Reverse(place.abs())));
        best.map(|(place, _)| place)
    }

    /// Whether a mapping is a stack.
    pub fn has_stack(&self, mapping: &Mapping) -> bool {
        mapping.name.starts_with("[stack") || self.stacks.contains(&mapping.range)
    }
}

fn fact(mappings: &[Mapping], thread: &Thread) -> ThreadFacts {
    let has_stack = |mapping: &&Mapping| thread.stack_pointer.is_some_and(|pointer| mapping.range.contains(&pointer));
    let stack = mappings.iter().find(has_stack).map(|mapping| mapping.range.clone());
    ThreadFacts {
        id: thread.id,
        id_inside: thread.id_inside,
        name: thread.name.clone(),
        stack_pointer: thread.stack_pointer,
        stack,
        storage: Storage::default(),
    }
}

/// Returns where the storage in front of a control block begins. Its second word points to a vector with the place of
/// each module's storage; the word pair in front of the vector contains the vector's length.
fn storage_start(memory: &impl Memory, block: u64) -> u64 {
    let vector = memory.word(block.saturating_add(8)).unwrap_or(0);
    let length = vector.checked_sub(16).and_then(|at| memory.word(at)).unwrap_or(0).min(MODULES);
    let places = memory.words(&(vector..vector.saturating_add(16 * (length + 1))));
    let places = places.into_iter().skip(2).step_by(2);
    let in_front = places.filter(|place| *place < block && block - place <= LONGEST_STORAGE);
    in_front.chain([block.saturating_sub(STORAGE)]).min().unwrap_or(block)
}

/// Whether a mapping without access and name lies in front.
fn has_guard(mappings: &[Mapping], number: usize) -> bool {
    let guard = number.checked_sub(1).map(|before| &mappings[before]);
    guard.is_some_and(|guard| {
        guard.access.starts_with("---") && guard.name.is_empty() && guard.range.end == mappings[number].range.start
    })
}

/// Returns where in a mapping a control block may be.
fn places(mappings: &[Mapping], number: usize) -> Vec<Range<u64>> {
    let mapping = &mappings[number];
    let Range { start, end } = mapping.range;
    match mapping {
        mapping if mapping.name == "[heap]" => once(start..end.min(start.saturating_add(START_OF_HEAP))).collect(),
        mapping if !mapping.is_plain() => Vec::new(),
        _ if has_guard(mappings, number) => {
            ENDS.into_iter().map(|length| start.max(end.saturating_sub(length))..end).collect()
        }
        _ => once(start.max(end.saturating_sub(LAST_PART))..end).collect(),
    }
}

/// Returns the control block in `range`, which contains its own address twice, and the number of its thread, 0 when
/// that has ended.
fn control_block(memory: &impl Memory, range: &Range<u64>) -> Option<(u64, u32)> {
    if !memory.pages(range.start, page_count(range)).contains(&PageState::Present) {
        return None;
    }
    let words = memory.words(range);
    let word = |address: u64| words.get(((address - range.start) / 8) as usize).copied();
    let is_one = |block: &u64| word(*block) == Some(*block) && word(*block + 16) == Some(*block);
    (range.start..range.end).step_by(64).filter(is_one).find_map(|block| Some((block, word(block + ID_AT)? as u32)))
}
