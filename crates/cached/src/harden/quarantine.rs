//! Where freed blocks wait: first come, first served, and no more than so many.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use heapwright_os::{Lock, Refused};

use super::table::Table;

/// How many blocks wait at most, and how many bytes of them, for each thread.
pub(super) const MOST_BLOCKS: usize = 1024;
pub(super) const MOST_BYTES: usize = 1 << 20;

/// Whatever waits, with how many bytes.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub(super) what: usize,
    pub(super) bytes: usize,
}

/// At most `N` that wait. All zeros is an empty one.
pub(super) struct Queue<const N: usize> {
    first: usize,
    count: usize,
    bytes: usize,
    waiting: [Waiting; N],
}

impl<const N: usize> Queue<N> {
    pub(super) const EMPTY: Self = Queue { first: 0, count: 0, bytes: 0, waiting: [Waiting { what: 0, bytes: 0 }; N] };

    /// Lets one wait, the last of all. There must be room: fewer than `N` wait.
    pub(super) fn add(&mut self, waiting: Waiting) {
        self.waiting[(self.first + self.count) % N] = waiting;
        self.count += 1;
        self.bytes += waiting.bytes;
    }

    /// Takes the first out if another of so many `bytes` would be too much; `most` may wait, in bytes.
    pub(super) fn make_room(&mut self, bytes: usize, most: usize) -> Option<Waiting> {
        (self.count == N || self.bytes.saturating_add(bytes) > most).then(|| self.take()).flatten()
    }

    /// Takes the first out.
    pub(super) fn take(&mut self) -> Option<Waiting> {
        self.count = self.count.checked_sub(1)?;
        let waiting = self.waiting[self.first];
        self.first = (self.first + 1) % N;
        self.bytes -= waiting.bytes;
        Some(waiting)
    }
}

/// One for each heap's thread, and how many of them are mapped.
static QUEUES: AtomicPtr<Queue<MOST_BLOCKS>> = AtomicPtr::new(null_mut());
static COVERED: AtomicUsize = AtomicUsize::new(0);

/// Extended behind no other lock, hence held across forks.
pub(super) static TABLE: Lock<Table> = Lock::new(Table::NONE);

/// Claims addresses for the queues of so many threads.
pub(super) fn lay(threads: usize) -> Result<(), Refused> {
    let queues = TABLE.lock().claim(threads * size_of::<Queue<MOST_BLOCKS>>())?;
    QUEUES.store(queues.cast(), Ordering::Relaxed);
    Ok(())
}

/// The queue of the heap of a number, if anything ever waited there; only its thread touches it.
pub(super) fn queue(owner: u32) -> Option<*mut Queue<MOST_BLOCKS>> {
    let owner = owner as usize;
    // SAFETY: the table is mapped up to this queue.
    (owner < COVERED.load(Ordering::Acquire)).then(|| unsafe { QUEUES.load(Ordering::Relaxed).add(owner) })
}

/// The same, made if there is none; `None` when there is no memory.
pub(super) fn queue_or_new(owner: u32) -> Option<*mut Queue<MOST_BLOCKS>> {
    queue(owner).or_else(|| {
        let bytes = TABLE.lock().cover((owner as usize + 1) * size_of::<Queue<MOST_BLOCKS>>()).ok()?;
        COVERED.fetch_max(bytes / size_of::<Queue<MOST_BLOCKS>>(), Ordering::Release);
        queue(owner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_goes_first_and_no_more_wait_than_may() {
        let mut queue = Queue::<4>::EMPTY;
        let mut gone = std::vec::Vec::new();
        for what in 1..=9 {
            let bytes = if what == 8 { 100 } else { 10 };
            while let Some(waiting) = queue.make_room(bytes, 105) {
                gone.push(waiting.what);
            }
            queue.add(Waiting { what, bytes });
        }
        // The eighth is alone with its hundred bytes, and the ninth is too much beside it.
        assert_eq!(gone, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((queue.take().map(|waiting| waiting.what), queue.take().is_none(), queue.bytes), (Some(9), true, 0));
    }
}
