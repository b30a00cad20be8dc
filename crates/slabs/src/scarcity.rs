//! Whether memory is scarce: whether the process is near a limit on its memory.
//!
//! Limits are those of control groups, and one that is set by hand. The second is compared with the anonymous memory of
//! the process. Both are files of the system, and sandboxes kill for opening files: neither is read before the heap has
//! taken tens of MiB, then again where half of what is left would be taken, and once a second while there is a limit.
//!
//! Memory is scarce from where an eighth of a limit is left, or 256 MiB if that is less, until twice that is. Then
//! caches do not grow, free pages are purged at once, and sparse slabs are dissolved early. The check costs a
//! comparison where the arena places pages.

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use heapwright_os::{GroupMemory, GroupsRoom, MemoryGroups, own_usage, peak_resident, process_id};

/// The bytes that the heap takes before files are read.
const FIRST: usize = 32 << 20;

/// The resident bytes that the process must have had by then, too: much of what was taken may not be used.
const FIRST_RESIDENT: u64 = 48 << 20;

/// Memory is scarce when less than this part of a limit is left, and less than [`NEAR`].
const NEAR_PART: u64 = 8;

/// In bytes.
const NEAR: u64 = 256 << 20;

/// The bytes that are taken before the resident ones are looked at again.
const EARLY_STEP: usize = 2 << 20;

/// The least number of bytes between two checks.
const LEAST_STEP: usize = 256 << 10;

/// The least part of the heap between two checks while memory is scarce: to purge takes time in proportion to the heap.
const LEAST_PART: usize = 256;

/// The part of the heap between two checks beyond a limit.
const PART_BEYOND: usize = 16;

/// The time after which a limit is compared again in any case, in nanoseconds.
const AGAIN: u64 = 1_000_000_000;

/// The number of checks after which the groups are looked for again.
const MOST_CHECKS: u32 = 256;

/// Memory is scarce.
const SCARCE: u8 = 1;
/// Free pages are purged at once, because the user asked for that.
const EAGER: u8 = 2;

static MODE: AtomicU8 = AtomicU8::new(0);

/// The limit that is set by hand; 0 for none.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// The limit that was the tightest at the last check; 0 for none.
static KNOWN: AtomicU64 = AtomicU64::new(0);

/// Number of checks that found memory scarce.
static TIMES: AtomicU64 = AtomicU64::new(0);

/// The bytes at which the next check is due.
static DUE_AT: AtomicUsize = AtomicUsize::new(FIRST);

static IS_DUE: AtomicBool = AtomicBool::new(false);

/// Sets a limit on the memory of the process that the heap stays below as far as it can, by purging. Allocations beyond
/// it succeed. To be called before the first allocation.
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Relaxed);
    DUE_AT.store(FIRST.min(bytes / 2), Relaxed);
}

/// Returns the tightest limit on memory that is known, in bytes.
#[must_use]
pub fn known_limit() -> Option<u64> {
    let of_user = LIMIT.load(Relaxed) as u64;
    [KNOWN.load(Relaxed), of_user].into_iter().find(|&limit| limit != 0)
}

/// Returns the number of times that memory was found scarce, and purged.
#[must_use]
pub fn times_scarce() -> u64 {
    TIMES.load(Relaxed)
}

/// Has free pages purged at once from now on. To be called before the first allocation.
pub(crate) fn purge_at_once() {
    MODE.fetch_or(EAGER, Relaxed);
}

/// Returns whether memory is scarce.
#[inline]
pub fn is_scarce() -> bool {
    MODE.load(Relaxed) & SCARCE != 0
}

/// Returns whether free pages are purged at once.
#[inline]
pub(crate) fn purges_at_once() -> bool {
    MODE.load(Relaxed) != 0
}

/// Observes that the heap has taken `bytes` of the system.
#[inline]
pub(crate) fn observe(bytes: usize) {
    if bytes >= DUE_AT.load(Relaxed) {
        IS_DUE.store(true, Relaxed);
    }
}

/// Has [`check`] called.
pub fn make_due() {
    IS_DUE.store(true, Relaxed);
}

/// Returns whether [`check`] has to be called.
#[inline]
pub fn is_due() -> bool {
    IS_DUE.load(Relaxed)
}

/// Makes a check due once in a while if there is a limit: the use by others, or the limit, may have changed.
pub fn check_again(now: u64) {
    static AT: AtomicU64 = AtomicU64::new(0);
    let at = AT.load(Relaxed);
    if known_limit().is_some() && now >= at && AT.compare_exchange(at, now + AGAIN, Relaxed, Relaxed).is_ok() {
        make_due();
    }
}

/// Checks whether memory is scarce, in a heap that has taken `bytes`, once the program has written to the `coming`
/// bytes that it is about to get. Returns `false` if that is too early or another thread does so.
#[cold]
pub fn check(bytes: usize, coming: usize) -> bool {
    if is_too_early() {
        IS_DUE.store(false, Relaxed);
        DUE_AT.store(bytes.saturating_add(EARLY_STEP), Relaxed);
        return false;
    }
    alone(|groups| {
        IS_DUE.store(false, Relaxed);
        let memory = of_user().into_iter().chain(groups.tightest()).min_by_key(GroupMemory::left);
        let memory = memory.map(|now| GroupMemory { used: now.used.saturating_add(coming as u64), ..now });
        KNOWN.store(memory.map_or(0, |memory| memory.limit), Relaxed);
        let (is_scarce, step) = match memory {
            None => (false, (bytes / 2).max(FIRST)),
            Some(memory) => judge(memory, bytes, is_scarce()),
        };
        if is_scarce {
            MODE.fetch_or(SCARCE, Relaxed);
            TIMES.fetch_add(1, Relaxed);
        } else {
            MODE.fetch_and(!SCARCE, Relaxed);
        }
        DUE_AT.store(bytes.saturating_add(step), Relaxed);
    })
    .is_some()
}

/// Returns whether no files must be read yet.
fn is_too_early() -> bool {
    static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
    if HAS_BEGUN.load(Relaxed) {
        return false;
    }
    let has_much = LIMIT.load(Relaxed) != 0 || peak_resident().is_none_or(|bytes| bytes >= FIRST_RESIDENT);
    HAS_BEGUN.store(has_much, Relaxed);
    !has_much
}

/// Returns whether memory is scarce for a heap that has taken `bytes`, and how many more may be taken before the next
/// check.
fn judge(memory: GroupMemory, bytes: usize, was_scarce: bool) -> (bool, usize) {
    let (left, near) = (memory.left(), (memory.limit / NEAR_PART).min(NEAR));
    let is_scarce = left < if was_scarce { 2 * near } else { near };
    let (step, part) = match (is_scarce, left) {
        (false, _) => ((left - near) / 2, usize::MAX),
        (true, 0) => (0, PART_BEYOND),
        (true, _) => (left / 4, LEAST_PART),
    };
    (is_scarce, usize::try_from(step).unwrap_or(usize::MAX).max(bytes / part).max(LEAST_STEP))
}

/// Returns the memory of the process if the user has set a limit.
fn of_user() -> Option<GroupMemory> {
    let limit = LIMIT.load(Relaxed) as u64;
    (limit != 0).then(|| Some(GroupMemory { limit, used: own_usage()?.resident })).flatten()
}

/// What is known of the groups.
struct Groups {
    found: MemoryGroups,
    /// The number of checks until they are looked for.
    checks: u32,
    room: GroupsRoom,
}

impl Groups {
    fn tightest(&mut self) -> Option<GroupMemory> {
        if self.checks == 0 {
            self.found.find(&mut self.room);
            self.checks = MOST_CHECKS;
        }
        self.checks -= 1;
        self.found.tightest(&mut self.room)
    }
}

/// A value that one thread uses, while others go on without it.
struct Alone {
    /// The process whose thread uses it; 0 for none.
    process: AtomicU32,
    groups: UnsafeCell<Groups>,
}

// SAFETY: `alone` gives the value to one thread at a time.
unsafe impl Sync for Alone {}

static ALONE: Alone = Alone {
    process: AtomicU32::new(0),
    groups: UnsafeCell::new(Groups { found: MemoryGroups::NONE, checks: 0, room: GroupsRoom::new() }),
};

/// Calls `work` with what is known of the groups; `None` while another thread does so. In the child of a fork, a thread
/// of its parent may have been in the middle of it.
fn alone<R>(work: impl FnOnce(&mut Groups) -> R) -> Option<R> {
    let this = process_id();
    let before = ALONE.process.load(Relaxed);
    if before == this || ALONE.process.compare_exchange(before, this, Acquire, Relaxed).is_err() {
        return None;
    }
    // SAFETY: no other thread of this process is here, as the number of the process was stored by this thread; those of
    // a parent do not exist in this process.
    let groups = unsafe { &mut *ALONE.groups.get() };
    if before != 0 {
        // What was half written is written again.
        groups.checks = 0;
    }
    let result = work(groups);
    ALONE.process.store(0, Release);
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn judged(limit: u64, used: u64, bytes: u64, was_scarce: bool) -> (bool, u64) {
        let memory = GroupMemory { limit: limit * MIB, used: used * MIB };
        let (is_scarce, step) = judge(memory, (bytes * MIB) as usize, was_scarce);
        (is_scarce, step as u64)
    }

    #[test]
    fn memory_is_scarce_from_an_eighth_until_a_quarter_is_left() {
        let scarce = |used: u64, was: bool| judged(800, used, 0, was).0;
        assert!(!scarce(0, false) && !scarce(700, false) && scarce(701, false) && scarce(5000, false));
        assert!(scarce(700, true) && scarce(601, true) && !scarce(600, true) && !scarce(0, true));
        assert!(!judged(16384, 16128, 0, false).0 && judged(16384, 16129, 0, false).0);
    }

    #[test]
    fn checks_come_before_memory_is_scarce_and_before_it_is_used_up() {
        let step = |used: u64, was: bool| judged(800, used, 8, was).1;
        assert_eq!(step(300, false), 200 * MIB);
        assert_eq!(step(700, false), LEAST_STEP as u64);
        assert_eq!(step(760, true), 10 * MIB);
        assert_eq!(step(799, true), LEAST_STEP as u64);
        assert_eq!(judged(0, u64::MAX / MIB, 0, false).1, LEAST_STEP as u64);
        // The more there is to look at, the more is allocated between two checks.
        assert_eq!(judged(800, 799, 790, true), (true, 790 * MIB / 256));
        assert_eq!(judged(800, 1600, 1600, true), (true, 100 * MIB));
    }
}
