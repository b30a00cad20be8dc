//! Runs of calls, which the collector reads without looking for other entries.

use core::cell::UnsafeCell;
use core::slice;

use crate::record::{FREE, MALLOC, Record, TICKET, TICKETS, known_path, usual_call};

/// A slot of a buffer.
pub(crate) type Slot = UnsafeCell<[u64; 2]>;

/// Calls that follow one another, in a buffer and by their tickets, and of which at most the number of their path is
/// recorded besides.
pub struct Run<'b> {
    slots: &'b [Slot],
    since_base: u64,
}

impl<'b> Run<'b> {
    /// Slots of a buffer below its count, the first of which has a call with the ticket at this distance from the base.
    pub(crate) fn of(slots: &'b [Slot], since_base: u64) -> Run<'b> {
        Run { slots, since_base }
    }

    /// Returns the number of slots that have not been passed.
    #[must_use]
    pub fn rest(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the distance from the base of the ticket of the next call.
    #[must_use]
    pub fn since_base(&self) -> u64 {
        self.since_base
    }

    /// Returns the next call, the number of its path if that is recorded, and the run behind it; `None` at the end of
    /// the run.
    #[inline(always)]
    #[must_use]
    pub fn split_first(&self) -> Option<(Record, Option<u32>, Run<'b>)> {
        let (record, path, slots) = first_call(self.slots, self.since_base)?;
        Some((record, path, Run { slots, since_base: self.since_base + 1 }))
    }

    /// Passes the calls of `malloc` and `free` with which the run begins to `sink`, `most` at most, until another call
    /// or one that it does not take, and returns the run from that call on.
    #[inline(always)]
    #[must_use]
    pub fn pass_usual(self, most: usize, sink: &mut impl Usual) -> Self {
        let Run { slots: all, since_base } = self;
        // A call takes a slot at least. A ticket that is further from the base is no call's.
        let most = most.min(all.len()).min(TICKETS.saturating_sub(since_base) as usize);
        let (mut slots, first_ticket) = (all[..most].iter(), since_base.wrapping_mul(TICKET));
        let mut ticket = first_ticket;
        loop {
            let mut behind = slots.clone();
            let Some(first) = behind.next() else { break };
            let first = words(first);
            match usual_call(first, ticket) {
                Some((MALLOC, record)) if sink.take_malloc(record, None) => {}
                Some((FREE, record)) if sink.take_free(record) => {}
                Some(_) => break,
                None => match malloc_from_path(first, &mut behind, ticket) {
                    Some((record, path)) if sink.take_malloc(record, Some(path)) => {}
                    _ => break,
                },
            }
            (slots, ticket) = (behind, ticket.wrapping_add(TICKET));
        }
        let passed = ticket.wrapping_sub(first_ticket) / TICKET;
        Run { slots: &all[most - slots.len()..], since_base: since_base + passed }
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
/// with something else, or the call has another ticket.
#[inline(always)]
fn first_call(slots: &[Slot], since_base: u64) -> Option<(Record, Option<u32>, &[Slot])> {
    let (first, mut rest) = slots.split_first()?;
    let first = words(first);
    let (call, path) = match Record::from_words(first) {
        Some(call) => (call, None),
        None => {
            let path = known_path(first)?;
            let (second, behind) = rest.split_first()?;
            rest = behind;
            (Record::from_words(words(second))?, Some(path))
        }
    };
    let (record, ticket) = call;
    (ticket == since_base).then_some((record, path, rest))
}

#[inline(always)]
fn words(slot: &Slot) -> [u64; 2] {
    // SAFETY: slots below the count are not written to until the buffer is reused, which the collector permits.
    unsafe { slot.get().read() }
}

/// Returns the call of `malloc` with this ticket that a path and the next slot are, and the path; `None` when they are
/// another.
#[inline(always)]
fn malloc_from_path(path: [u64; 2], slots: &mut slice::Iter<'_, Slot>, ticket: u64) -> Option<(Record, u32)> {
    let path = known_path(path)?;
    match usual_call(words(slots.next()?), ticket)? {
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

    #[test]
    fn a_call_that_is_unusual_or_not_taken_is_left_in_the_run() {
        let entry = |call, since_base| Entry::Call { record: Record { call, ..record(1) }, since_base };
        let entries = [entry(Call::Malloc, 0), entry(Call::Free, 1), entry(Call::Calloc, 2), entry(Call::Malloc, 3)];
        let slots: Vec<Slot> = entries.iter().map(|entry| UnsafeCell::new(entry.to_words())).collect();
        let mut taken = Taken(Vec::new());
        let rest = Run::of(&slots, 0).pass_usual(4, &mut taken);
        assert_eq!((taken.0.len(), rest.rest(), rest.since_base()), (2, 2, 2));
        assert_eq!(rest.split_first().map(|first| first.0.call), Some(Call::Calloc));
    }

    /// Returns the sizes and paths of the run that begins with ticket 7, and the number of slots behind it.
    fn run_of(entries: &[Entry]) -> (Vec<(u64, Option<u32>)>, u32) {
        let slots: Vec<Slot> = entries.iter().map(|entry| UnsafeCell::new(entry.to_words())).collect();
        let mut found = Vec::new();
        let mut run = Run::of(&slots, 7);
        while let Some((record, path, behind)) = run.split_first() {
            found.push((record.size, path));
            run = behind;
        }
        assert_eq!(run.since_base(), 7 + found.len() as u64);
        for most in 0..=slots.len() {
            let mut taken = Taken(Vec::new());
            let rest = Run::of(&slots, 7).pass_usual(most, &mut taken);
            assert!(found.starts_with(&taken.0) && taken.0.len() <= most);
            assert_eq!(rest.since_base(), 7 + taken.0.len() as u64);
            assert_eq!(rest.split_first().map(|first| first.0.size), found.get(taken.0.len()).map(|call| call.0));
            assert!(most < slots.len() || (taken.0 == found && rest.rest() == run.rest()));
        }
        (found, run.rest())
    }

    #[test]
    fn a_run_ends_where_another_entry_or_another_ticket_follows() {
        let call = |since_base| Entry::Call { record: record(since_base), since_base };
        let calls = [call(7), Entry::Path(0), call(8), call(9)];
        assert_eq!(run_of(&calls), (std::vec![(7, None), (8, Some(0)), (9, None)], 0));
        for (behind, rest) in [
            ([Entry::Time(1), call(10)], 2),
            ([Entry::Path(1), call(11)], 2),
            ([Entry::Calls { length: 2 }, call(10)], 2),
            ([Entry::Path(1), Entry::Path(2)], 2),
            ([call(10), Entry::Path(1)], 1),
            ([call(10), call(10)], 1),
            ([call(10), call(12)], 1),
        ] {
            let (found, left) = run_of(&[&calls[..], &behind].concat());
            assert_eq!((found.len(), left), (5 - rest as usize, rest), "{behind:?}");
        }
        assert_eq!(run_of(&[call(8)]), (Vec::new(), 1));
        // Behind the last ticket that a record can express is another base.
        let slots = [TICKETS - 1, 0].map(|since_base| UnsafeCell::new(call(since_base).to_words()));
        let mut taken = Taken(Vec::new());
        let rest = Run::of(&slots, TICKETS - 1).pass_usual(slots.len(), &mut taken);
        assert_eq!((taken.0.len(), rest.rest(), rest.since_base()), (1, 1, TICKETS));
        assert_eq!(Run::of(&slots[1..], TICKETS).pass_usual(1, &mut taken).rest(), 1);
        assert_eq!(run_of(&[]), (Vec::new(), 0));
    }
}
