//! Names the process for which a command waits.

use std::process;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use heapwright_shared::{Access, Error, Observer, Place, Snapshot};

/// The time after which the user learns for whom the command waits.
const SILENCE: Duration = Duration::from_secs(1);

/// Reads a segment, as [`Snapshot::read_with`], and names the process for which that waits.
pub fn read(place: &Place, access: &Access) -> Result<Snapshot, Error> {
    announced(place, access, || Snapshot::read_with(place, access))
}

/// Does work that takes the lock of a segment. If it takes a second, prints which process holds the lock, and for how
/// long that is waited for. Where the system has no room for a thread, nothing is printed.
pub fn announced<R>(place: &Place, access: &Access, work: impl FnOnce() -> R) -> R {
    thread::scope(|scope| {
        let (working, end) = mpsc::channel::<()>();
        let name = move || {
            if end.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout)
                && let Some(holder) = holder(place, access)
            {
                let seconds = access.patience.as_secs();
                heapwright_show::eprintln!(
                    "heapwright: {place}: process {holder} holds the lock; waiting for it, at most {seconds} s"
                );
            }
        };
        thread::Builder::new().spawn_scoped(scope, name).map(drop).unwrap_or_default();
        let result = work();
        drop(working);
        result
    })
}

/// Returns the other process that holds the lock of a segment.
fn holder(place: &Place, access: &Access) -> Option<u32> {
    let lock = Observer::open_with(place, access).and_then(|observer| observer.lock()).ok()?;
    lock.holder.filter(|&holder| holder != process::id())
}
