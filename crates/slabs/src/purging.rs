//! When free pages are purged that nothing asks for: the setting, and the state of the purging thread.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU8, AtomicU64};
use core::time::Duration;

use crate::scarcity;

/// When free pages are purged that the program does not use again.
///
/// ```
/// use core::time::Duration;
/// use heapwright_slabs::purging::Purging;
///
/// assert_eq!(Purging::from_text("10s"), Some(Purging::After(Duration::from_secs(10))));
/// assert_eq!(Purging::from_text("thread:500ms"), Some(Purging::ByThread(Duration::from_millis(500))));
/// assert_eq!(Purging::from_text("0"), Some(Purging::AtOnce));
/// assert_eq!(Purging::from_text("soon"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purging {
    /// Only when there are many of them.
    Never,
    /// As soon as there are some.
    AtOnce,
    /// When they were not used for this time, by threads that allocate.
    After(Duration),
    /// When they were not used for this time, also in a process that does not allocate: by a thread of its own, which
    /// is started when the heap has taken some MiB.
    ByThread(Duration),
}

impl Purging {
    /// The usual setting.
    pub const USUAL: Purging = Purging::After(Duration::from_secs(1));

    /// What [`Purging::from_text`] understands, in words.
    pub const CHOICES: &str = "never, 0, a time such as 500ms, 10s or 2m, thread, or thread: and a time";

    /// Parses a setting. `None` when it means nothing.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Purging> {
        match text {
            "never" => Some(Purging::Never),
            "0" => Some(Purging::AtOnce),
            "thread" => Some(Purging::ByThread(Duration::from_secs(1))),
            _ => match text.strip_prefix("thread:") {
                Some(time) => time_from(time).map(Purging::ByThread),
                None => time_from(text).map(Purging::After),
            },
        }
    }
}

/// Parses a number with a unit: `ms`, `s` or `m`. Not 0.
fn time_from(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok().filter(|&number| number != 0)?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    number.checked_mul(milliseconds).map(Duration::from_millis)
}

/// The least time after which pages are looked at again, in nanoseconds.
const LEAST: u64 = 10_000_000;

/// The time after which unused pages are purged in nanoseconds; the maximum for never.
static PERIOD: AtomicU64 = AtomicU64::new(if cfg!(loom) { u64::MAX } else { 1_000_000_000 });

/// The state of the purging thread.
static THREAD: AtomicU8 = AtomicU8::new(NOT_WANTED);

const NOT_WANTED: u8 = 0;
const WANTED: u8 = 1;
const STARTED: u8 = 2;

/// Sets when free pages are purged. To be called before the first allocation.
pub fn set_purging(purging: Purging) {
    let period = match purging {
        Purging::Never => u64::MAX,
        Purging::AtOnce => {
            scarcity::purge_at_once();
            LEAST
        }
        Purging::After(time) | Purging::ByThread(time) => {
            u64::try_from(time.as_nanos()).unwrap_or(u64::MAX - 1).max(LEAST)
        }
    };
    PERIOD.store(period, Relaxed);
    if matches!(purging, Purging::ByThread(_)) {
        THREAD.store(WANTED, Relaxed);
    }
}

/// Returns the time after which unused pages are purged in nanoseconds; `None` for never.
pub fn period() -> Option<u64> {
    match PERIOD.load(Relaxed) {
        u64::MAX => None,
        period => Some(period),
    }
}

/// Returns whether the purging thread has to be started.
pub fn wants_thread() -> bool {
    THREAD.load(Relaxed) == WANTED
}

/// Returns whether the calling thread has to start it, which no other thread then does.
pub fn begin_thread() -> bool {
    THREAD.compare_exchange(WANTED, STARTED, Relaxed, Relaxed).is_ok()
}

/// The child of a fork has no such thread: one is started again.
pub fn begin_child() {
    let _ = THREAD.compare_exchange(STARTED, WANTED, Relaxed, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_settings() {
        let seconds = Duration::from_secs;
        for (text, purging) in [
            ("never", Purging::Never),
            ("0", Purging::AtOnce),
            ("1s", Purging::USUAL),
            ("1ms", Purging::After(Duration::from_millis(1))),
            ("2m", Purging::After(seconds(120))),
            ("thread", Purging::ByThread(seconds(1))),
            ("thread:30s", Purging::ByThread(seconds(30))),
        ] {
            assert_eq!(Purging::from_text(text), Some(purging), "{text}");
        }
        let nonsense = [
            "",
            "1",
            "00",
            "0s",
            "-1s",
            "s",
            "1.5s",
            "1 s",
            "1h",
            "thread:",
            "thread:0",
            "Thread",
            "99999999999999999m",
        ];
        for text in nonsense {
            assert_eq!(Purging::from_text(text), None, "{text:?}");
        }
    }
}
