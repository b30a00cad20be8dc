//! Runs of calls, which the collector reads without looking for other entries.

use core::cell::UnsafeCell;

use crate::record::{Record, known_path};

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

    /// Passes the calls to `take`, each with the number of its path if that is recorded, and returns what is left.
    ///
    /// # Errors
    /// The first error of `take`.
    #[inline(always)]
    pub fn pass_on<E>(self, mut take: impl FnMut(Record, Option<u32>) -> Result<(), E>) -> Result<Self, E> {
        let Run { mut slots, mut since_base } = self;
        while let Some((record, path, rest)) = first_call(slots, since_base) {
            take(record, path)?;
            (slots, since_base) = (rest, since_base + 1);
        }
        Ok(Run { slots, since_base })
    }
}

/// Returns the call with which slots begin, the number of its path, and the slots behind it; `None` when they begin
/// with something else, or the call has another ticket.
#[inline(always)]
fn first_call(slots: &[Slot], since_base: u64) -> Option<(Record, Option<u32>, &[Slot])> {
    // SAFETY: slots below the count are not written to until the buffer is reused, which the collector permits.
    let words = |slot: &Slot| unsafe { slot.get().read() };
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

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::record::{Call, Entry};

    const fn record(size: u64) -> Record {
        Record { call: Call::Malloc, log2_align: 4, size, address: size << 4 }
    }

    /// Returns the sizes and paths of the run that begins with ticket 7, and the number of slots behind it.
    fn run_of(entries: &[Entry]) -> (Vec<(u64, Option<u32>)>, u32) {
        let slots: Vec<Slot> = entries.iter().map(|entry| UnsafeCell::new(entry.to_words())).collect();
        let mut found = Vec::new();
        let rest = Run::of(&slots, 7).pass_on(|record, path| {
            found.push((record.size, path));
            Ok::<(), ()>(())
        });
        let rest = rest.unwrap();
        assert_eq!(rest.since_base(), 7 + found.len() as u64);
        (found, rest.rest())
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
        assert_eq!(run_of(&[]), (Vec::new(), 0));
    }
}
