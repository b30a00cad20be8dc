//! Parallel work with results in order.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Returns how many threads this machine runs at once.
pub fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Runs `work` on each element of `range` on `jobs` threads, and passes the results to `take` in ascending order as
/// they become available. Where the system refuses threads, there are fewer; without any, this thread does the work.
///
/// # Errors
/// The first error of `work` or `take`, in that order. After an error the work in progress is finished, and no more is
/// started.
pub fn in_order<R: Send, E: Send>(
    jobs: NonZeroUsize,
    range: Range<usize>,
    work: impl Fn(usize) -> Result<R, E> + Sync,
    mut take: impl FnMut(usize, R) -> Result<(), E>,
) -> Result<(), E> {
    let (next, end) = (AtomicUsize::new(range.start), range.end);
    let (done, results) = mpsc::channel();
    let stop = || next.store(end, Ordering::Relaxed);
    let run = |done: mpsc::Sender<(usize, Result<R, E>)>| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= end {
                return;
            }
            // Work before the failed element was started earlier, and is still passed on.
            let result = work(at).inspect_err(|_| stop());
            if done.send((at, result)).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        let start = |_: &usize| {
            let (run, done) = (&run, done.clone());
            thread::Builder::new().spawn_scoped(scope, move || run(done)).is_ok()
        };
        if (0..jobs.get().min(range.len())).take_while(start).count() == 0 {
            return range.clone().try_for_each(|at| take(at, work(at)?));
        }
        drop(done);
        let (mut waiting, mut turn) = (BTreeMap::new(), range.start);
        for (at, result) in results {
            waiting.insert(at, result);
            while let Some(result) = waiting.remove(&turn) {
                result.and_then(|result| take(turn, result)).inspect_err(|_| stop())?;
                turn += 1;
            }
        }
        Ok(())
    })
}

/// Runs `work` on each element of `range` on `jobs` threads, and returns the results in ascending order.
///
/// # Errors
/// The first error of `work`, as for [`in_order`].
pub fn collect<R: Send, E: Send>(
    jobs: NonZeroUsize,
    range: Range<usize>,
    work: impl Fn(usize) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let mut all = Vec::with_capacity(range.len());
    in_order(jobs, range, work, |_, result| {
        all.push(result);
        Ok(())
    })?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FOUR: NonZeroUsize = NonZeroUsize::new(4).unwrap();

    #[test]
    fn results_are_taken_in_order_whichever_is_quickest() {
        let work = |at: usize| {
            thread::sleep(Duration::from_millis(if at.is_multiple_of(3) { 3 } else { 0 }));
            Ok::<usize, ()>(at * at)
        };
        let mut taken = Vec::new();
        let end = in_order(FOUR, 5..25, work, |at, square| {
            taken.push((at, square));
            Ok(())
        });
        assert_eq!((end, taken), (Ok(()), (5..25).map(|at| (at, at * at)).collect()));
        assert_eq!(collect(FOUR, 5..25, work), Ok((5..25).map(|at| at * at).collect()));
    }

    #[test]
    fn nothing_is_begun_after_a_failure() {
        for fails_in_work in [2, usize::MAX] {
            let begun = AtomicUsize::new(0);
            let work = |at| {
                begun.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
                if at == fails_in_work { Err(at) } else { Ok(()) }
            };
            assert_eq!(in_order(FOUR, 0..1000, work, |at, ()| if at == 2 { Err(at) } else { Ok(()) }), Err(2));
            assert!(begun.load(Ordering::Relaxed) < 1000);
        }
    }

    #[test]
    fn an_error_does_not_overtake_what_comes_before_it() {
        let work = |at: usize| {
            thread::sleep(Duration::from_millis(if at == 0 { 20 } else { 0 }));
            if at < 2 { Ok(at) } else { Err(at) }
        };
        let mut taken = Vec::new();
        let end = in_order(FOUR, 0..1000, work, |at, _| {
            taken.push(at);
            Ok(())
        });
        assert_eq!((end, taken), (Err(2), vec![0, 1]));
    }
}
