//! The record of each block of a slab, out of band: whether the program has the block, and how many of its bytes were
//! not requested.
//!
//! Records lie in one table, in runs: a slab has a run, with a record per block. Runs are bump-allocated and reused by
//! slabs whose blocks are about as long, so that the table is as long as the slabs need that exist at the same time.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use heapwright_os::{Lock, Refused};

use super::slab::MOST_BLOCKS;
use super::table::Table;
use heapwright_slabs::arena::ARENA;
use heapwright_slabs::classes::{GRAIN, LARGEST, size_of_class};
use heapwright_slabs::platform::{AtomicU16, is_single_threaded};

/// The record of a block: [`NEVER`], [`FREE`], or [`USED`] plus the bytes that were not requested.
#[repr(transparent)]
pub(super) struct Record(AtomicU16);

/// The program never had the block since its slab was placed.
const NEVER: u16 = 0;
/// The program has had the block.
const FREE: u16 = 1;
/// The program has the block.
const USED: u16 = 2;

const _: () = assert!(LARGEST + USED as usize <= u16::MAX as usize);

impl Record {
    /// Returns whether the program has ever had the block.
    #[inline]
    pub(super) fn was_used(&self) -> bool {
        self.0.load(Ordering::Relaxed) != NEVER
    }

    /// Records that the program has the block now, and did not request `slack` bytes of it. The calling thread took
    /// the block, or the program resizes it.
    #[inline]
    pub(super) fn set_used(&self, slack: usize) {
        self.0.store(USED + slack as u16, Ordering::Release);
    }

    /// Records that the program does not have the block any more; returns how many bytes of it were not requested.
    /// `None` if the program does not have it: of two threads that free a block, one gets `None`.
    #[inline]
    pub(super) fn set_free(&self) -> Option<usize> {
        let before = if is_single_threaded() {
            let before = self.0.load(Ordering::Relaxed);
            self.0.store(FREE, Ordering::Relaxed);
            before
        } else {
            self.0.swap(FREE, Ordering::AcqRel)
        };
        slack_of(before)
    }

    /// Returns how many bytes of the block were not requested; `None` if the program does not have the block.
    #[inline]
    pub(super) fn slack(&self) -> Option<usize> {
        slack_of(self.0.load(Ordering::Acquire))
    }
}

fn slack_of(record: u16) -> Option<usize> {
    record.checked_sub(USED).map(usize::from)
}

/// The records of the blocks of a slab.
pub(super) type Run = NonNull<Record>;

/// A run has room for this many blocks or that number halved several times: for slabs of the classes from a power of
/// two up to the next. Behind them is room for the link of a free run, which takes [`LINK`] records: a faulty program
/// may free a block whose slab is just going, and so write to the block's record.
const DOUBLINGS: usize = (LARGEST / GRAIN).ilog2() as usize + 1;

const LINK: usize = size_of::<usize>() / size_of::<u16>();

/// The table of records, and its free runs.
struct Runs {
    table: Table,
    /// Records in runs that were ever handed out.
    used: usize,
    /// The free run that was given back last, for each doubling: its first record, plus one; 0 for none.
    free: [usize; DOUBLINGS],
}

/// Locked behind the lock of a class, or not in use: free during a fork.
static RUNS: Lock<Runs> = Lock::new(Runs { table: Table::NONE, used: 0, free: [0; DOUBLINGS] });

static TABLE: AtomicPtr<Record> = AtomicPtr::new(null_mut());

fn doubling_of(class: usize) -> usize {
    (size_of_class(class) / GRAIN).ilog2() as usize
}

/// Returns for how many blocks a run has records.
fn blocks_of(doubling: usize) -> usize {
    MOST_BLOCKS >> doubling
}

/// Returns the number of records of a run, with those of its link.
fn length_of(doubling: usize) -> usize {
    blocks_of(doubling) + LINK
}

/// Claims addresses for the records of `room` slabs.
pub(super) fn init(room: usize) -> Result<(), Refused> {
    // Each slab was at most once of each doubling.
    let most: usize = (0..DOUBLINGS).map(length_of).sum();
    let table = RUNS.lock().table.claim(room * most * size_of::<Record>())?;
    TABLE.store(table.cast(), Ordering::Release);
    Ok(())
}

/// What the memory of a new slab was before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// Not in use: it is zero.
    Unused,
    /// Another slab.
    Slab,
}

/// Hands out a run for a new slab of a class. `None` when there is no memory.
pub(super) fn take_run(class: usize, past: Past) -> Option<Run> {
    let (doubling, runs) = (doubling_of(class), &mut *RUNS.lock());
    let length = length_of(doubling);
    let recycled = runs.free[doubling].checked_sub(1);
    let first = match recycled {
        Some(first) => first,
        None => {
            let first = runs.used;
            let bytes = (first + length) * size_of::<Record>();
            let covered = runs.table.cover(bytes);
            covered.or_else(|Refused| runs.table.cover_from(&mut *ARENA.lock().ok_or(Refused)?, bytes)).ok()?;
            runs.used += length;
            first
        }
    };
    let run = run_at(first)?;
    if recycled.is_some() {
        runs.free[doubling] = read_link(run, doubling);
    }
    if recycled.is_some() || past == Past::Slab {
        let begin = if past == Past::Slab { FREE } else { NEVER };
        (0..blocks_of(doubling)).for_each(|block| record(run, block).0.store(begin, Ordering::Relaxed));
    }
    Some(run)
}

/// Takes back the run of a slab of a class.
pub(super) fn give_run(class: usize, run: Run) {
    let (doubling, free) = (doubling_of(class), &mut RUNS.lock().free);
    let first = (run.addr().get() - TABLE.load(Ordering::Relaxed).addr()) / size_of::<Record>();
    write_link(run, doubling, core::mem::replace(&mut free[doubling], first + 1));
}

/// Returns the record of a block in its slab's run, or one of the run's link.
#[inline(always)]
pub(super) fn record(run: Run, block: usize) -> &'static Record {
    // SAFETY: a run has a record for each block of its slab and for its link, and the table stays mapped.
    unsafe { run.add(block).as_ref() }
}

/// Returns the run from a record on, which was handed out.
fn run_at(first: usize) -> Option<Run> {
    // SAFETY: the table is mapped up to the end of the runs that were handed out.
    NonNull::new(unsafe { TABLE.load(Ordering::Relaxed).add(first) })
}

/// Returns a part of the link in a free run.
fn link_part(run: Run, doubling: usize, part: usize) -> &'static AtomicU16 {
    &record(run, blocks_of(doubling) + part).0
}

fn read_link(run: Run, doubling: usize) -> usize {
    let read = |part| usize::from(link_part(run, doubling, part).load(Ordering::Relaxed)) << (16 * part);
    (0..LINK).fold(0, |link, part| link | read(part))
}

fn write_link(run: Run, doubling: usize, link: usize) {
    (0..LINK).for_each(|part| {
        link_part(run, doubling, part).store((link >> (16 * part)) as u16, Ordering::Relaxed);
    });
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The slab went while another thread freed a block of it, which the program had freed before.
    #[test]
    fn a_late_free_does_not_change_the_list_of_free_runs() {
        let class = heapwright_slabs::classes::CLASSES - 1;
        init(4).unwrap();
        let taken = [(); 3].map(|()| take_run(class, Past::Unused).unwrap());
        for run in taken {
            give_run(class, run);
            (0..blocks_of(doubling_of(class))).for_each(|block| _ = record(run, block).set_free());
        }
        let again = [(); 3].map(|()| take_run(class, Past::Unused).unwrap());
        assert_eq!(again.iter().rev().collect::<std::vec::Vec<_>>(), taken.iter().collect::<std::vec::Vec<_>>());
        assert!(take_run(class, Past::Unused).is_some_and(|run| !taken.contains(&run)));
    }
}

#[cfg(all(loom, test))]
mod interleavings {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[test]
    fn of_two_threads_that_free_a_block_one_does() {
        loom::model(|| {
            let record = Arc::new(Record(AtomicU16::new(NEVER)));
            record.set_used(5);
            let others = Arc::clone(&record);
            let other = thread::spawn(move || others.set_free());
            let freed = [record.set_free(), other.join().unwrap()];
            assert_eq!(freed.iter().flatten().collect::<std::vec::Vec<_>>(), [&5]);
            assert!(record.was_used() && record.slack().is_none());
        });
    }

    /// The thread that frees a block overwrites it: what the thread that resized it wrote happens before.
    #[test]
    fn a_free_happens_after_the_last_resize_that_it_sees() {
        loom::model(|| {
            let record = Arc::new((Record(AtomicU16::new(NEVER)), UnsafeCell::new(0)));
            let others = Arc::clone(&record);
            let resizer = thread::spawn(move || {
                // SAFETY: loom checks that no other thread uses the contents.
                others.1.with_mut(|contents| unsafe { *contents = 7 });
                others.0.set_used(7);
            });
            if record.0.set_free() == Some(7) {
                // SAFETY: as above.
                record.1.with_mut(|contents| assert_eq!(unsafe { core::mem::replace(&mut *contents, 0) }, 7));
            }
            resizer.join().unwrap();
        });
    }
}
