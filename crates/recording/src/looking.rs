//! When the mappings of a process are listed.

use std::time::{Duration, Instant};

use heapwright_os::thread_usage;
use heapwright_translation::{Listed, Look, Mappings};

/// The processor time for lists that a process is granted from the beginning.
const LITTLE: Duration = Duration::from_millis(100);

/// Returns a function that lists the mappings of a process. It takes at most a tenth of the elapsed time and [`LITTLE`]
/// more. Its own time is processor time, which does not grow when the machine is busy. The mappings of a process that
/// is over are listed once.
pub fn looking(mappings: Mappings) -> Look {
    let (start, mut spent, mut last) = (Instant::now(), Duration::ZERO, Listed::SoFar);
    Box::new(move |visit| {
        if last == Listed::Finally {
            return true;
        }
        if spent > start.elapsed() / 10 + LITTLE {
            return false;
        }
        let before = processor_time();
        last = mappings.each(visit);
        spent += processor_time().saturating_sub(before);
        true
    })
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    Duration::from_nanos(thread_usage().1)
}
