//! Work on several threads, taken in order.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// How many threads this machine runs at once.
pub fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Does `work` on each of `range`, on so many threads, and has `take` take the results in ascending order as they come. A
/// `take` that fails ends it: what is under way is done, nothing more is begun.
pub fn in_order<R: Send, E>(
    jobs: NonZeroUsize,
    range: Range<usize>,
    work: impl Fn(usize) -> R + Sync,
    mut take: impl FnMut(usize, R) -> Result<(), E>,
) -> Result<(), E> {
    let (next, end) = (AtomicUsize::new(range.start), range.end);
    let (done, results) = mpsc::channel();
    let run = |done: mpsc::Sender<(usize, R)>| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= end || done.send((at, work(at))).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(range.len()) {
            let (run, done) = (&run, done.clone());
            scope.spawn(move || run(done));
        }
        drop(done);
        let (mut waiting, mut turn) = (BTreeMap::new(), range.start);
        for (at, result) in results {
            waiting.insert(at, result);
            while let Some(result) = waiting.remove(&turn) {
                if let Err(error) = take(turn, result) {
                    next.store(end, Ordering::Relaxed);
                    return Err(error);
                }
                turn += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FOUR: NonZeroUsize = NonZeroUsize::new(4).unwrap();

    #[test]
    fn results_are_taken_in_order_whoever_is_quickest() {
        let work = |at: usize| {
            thread::sleep(Duration::from_millis(if at.is_multiple_of(3) { 3 } else { 0 }));
            at * at
        };
        let mut taken = Vec::new();
        let end: Result<(), ()> = in_order(FOUR, 5..25, work, |at, square| {
            taken.push((at, square));
            Ok(())
        });
        assert_eq!((end, taken), (Ok(()), (5..25).map(|at| (at, at * at)).collect()));
    }

    #[test]
    fn nothing_is_begun_after_a_failure() {
        let begun = AtomicUsize::new(0);
        let work = |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(in_order(FOUR, 0..1000, work, |at, ()| if at == 2 { Err(at) } else { Ok(()) }), Err(2));
        assert!(begun.load(Ordering::Relaxed) < 1000);
    }
}
