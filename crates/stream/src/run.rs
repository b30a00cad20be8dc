//! Runs of calls, which the collector reads without looking for other entries.

use core::cell::UnsafeCell;
use core::slice;

use crate::record::{FREE, MALLOC, Record, known_path, usual_call};

/// A slot of a buffer.
pub(crate) type Slot = UnsafeCell<[u64; 2]>;

/// Calls that follow one another in a turn, and of which at most the number of their path is recorded besides.
pub struct Run<'b> {
    slots: &'b [Slot],
}

impl<'b> Run<'b> {
    /// The run with which slots of a buffer below its count begin.
    pub(crate) fn of(slots: &'b [Slot]) -> Run<'b> {
        Run { slots }
    }

    /// Returns the number of slots that have not been passed.
    #[must_use]
    pub fn rest(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the next call, the number of its path if that is recorded, and the run behind it; `None` at the end of
    /// the run.
    #[inline(always)]
    #[must_use]
    pub fn split_first(&self) -> Option<(Record, Option<u32>, Run<'b>)> {
        let (record, path, slots) = first_call(self.slots)?;
        Some((record, path, Run { slots }))
    }

    /// Passes the calls of `malloc` and `free` with which the run begins to `sink`, `most` at most, until another call
    /// or one that it does not take, and returns the run from that call on.
    #[inline(always)]
    #[must_use]
    pub fn pass_usual(self, most: usize, sink: &mut impl Usual) -> Self {
        let all = self.slots;
        // A call takes a slot at least.
        let most = most.min(all.len());
        let mut slots = all[..most].iter();
        loop {
            let mut behind = slots.clone();
            let Some(first) = behind.next() else { break };
            let first = words(first);
            match usual_call(first) {
                Some((MALLOC, record)) if sink.take_malloc(record, None) => {}
                Some((FREE, record)) if sink.take_free(record) => {}
                Some(_) => break,
                None => match malloc_from_path(first, &mut behind) {
                    Some((record, path)) if sink.take_malloc(record, Some(path)) => {}
                    _ => break,
                },
            }
            slots = behind;
        }
        Run { slots: &all[most - slots.len()..] }
    }
}

/// What takes calls of `malloc` and `free`. Its methods return `false`, and have no effect, when a call is to be taken
/// otherwise.
pub trait Usual {
    /// Takes a call of `malloc`, with the number of its path if that is recorded.
    fn take_malloc(&mut self, record: Record, path: Option<u32>) -> bool;
    /// Takes a call of `free`.
    fn take_free(&mut self, record: Record) -> bool;
}

/// Returns the call with which slots begin, the number of its path, and the slots behind it; `None` when they begin
/// with something else.
#[inline(always)]
fn first_call(slots: &[Slot]) -> Option<(Record, Option<u32>, &[Slot])> {
    let (first, rest) = slots.split_first()?;
    let first = words(first);
    if let Some(record) = Record::from_words(first) {
        return Some((record, None, rest));
    }
    let path = known_path(first)?;
    let (second, behind) = rest.split_first()?;
    Some((Record::from_words(words(second))?, Some(path), behind))
}

#[inline(always)]
fn words(slot: &Slot) -> [u64; 2] {
    // SAFETY: slots below the count are not written to until the buffer is reused, which the collector permits.
    unsafe { slot.get().read() }
}

/// Returns the call of `malloc` that a path and the next slot are, and the path; `None` when they are another.
#[inline(always)]
fn malloc_from_path(path: [u64; 2], slots: &mut slice::Iter<'_, Slot>) -> Option<(Record, u32)> {
    let path = known_path(path)?;
    match usual_call(words(slots.next()?))? {
        (MALLOC, record) => Some((record, path)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::record::{Call, Entry};

    const fn record(size: u64) -> Record {
        Record { call: Call::Malloc, log2_align: 4, size, address: size << 4 }
    }

    /// The sizes and paths of the calls that were taken.
    struct Taken(Vec<(u64, Option<u32>)>);

    impl Usual for Taken {
        fn take_malloc(&mut self, record: Record, path: Option<u32>) -> bool {
            self.0.push((record.size, path));
            true
        }

        fn take_free(&mut self, record: Record) -> bool {
            self.take_malloc(record, None)
        }
    }

    fn slots_of(entries: &[Entry]) -> Vec<Slot> {
        entries.iter().map(|entry| UnsafeCell::new(entry.to_words())).collect()
    }

    #[test]
    fn a_call_that_is_unusual_or_not_taken_is_left_in_the_run() {
        let kinds = [Call::Malloc, Call::Free, Call::Calloc, Call::Malloc];
        let slots = slots_of(&kinds.map(|call| Entry::Call(Record { call, ..record(1) })));
        let mut taken = Taken(Vec::new());
        let rest = Run::of(&slots).pass_usual(4, &mut taken);
        assert_eq!((taken.0.len(), rest.rest()), (2, 2));
        assert_eq!(rest.split_first().map(|first| first.0.call), Some(Call::Calloc));
    }

    /// Returns the sizes and paths of the run with which the entries begin, and the number of slots behind it.
    fn run_of(entries: &[Entry]) -> (Vec<(u64, Option<u32>)>, u32) {
        let slots = slots_of(entries);
        let mut found = Vec::new();
        let mut run = Run::of(&slots);
        while let Some((record, path, behind)) = run.split_first() {
            found.push((record.size, path));
            run = behind;
        }
        for most in 0..=slots.len() {
            let mut taken = Taken(Vec::new());
            let rest = Run::of(&slots).pass_usual(most, &mut taken);
            assert!(found.starts_with(&taken.0) && taken.0.len() <= most);
            assert_eq!(rest.split_first().map(|first| first.0.size), found.get(taken.0.len()).map(|call| call.0));
            assert!(most < slots.len() || (taken.0 == found && rest.rest() == run.rest()));
        }
        (found, run.rest())
    }

    #[test]
    fn a_run_ends_where_another_entry_follows() {
        let call = |size| Entry::Call(record(size));
        let calls = [call(7), Entry::Path(0), call(8), call(9)];
        assert_eq!(run_of(&calls), (std::vec![(7, None), (8, Some(0)), (9, None)], 0));
        for (behind, rest) in [
            ([Entry::Time(1), call(10)], 2),
            ([Entry::Turn(10), call(10)], 2),
            ([Entry::Calls { length: 2 }, call(10)], 2),
            ([Entry::Path(1), Entry::Path(2)], 2),
            ([Entry::Path(1), Entry::Turn(10)], 2),
            ([call(10), Entry::Path(1)], 1),
        ] {
            let (found, left) = run_of(&[&calls[..], &behind].concat());
            assert_eq!((found.len(), left), (5 - rest as usize, rest), "{behind:?}");
        }
        assert_eq!(run_of(&[]), (Vec::new(), 0));
    }
}
