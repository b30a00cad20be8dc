//! The first bytes of a segment: what never changes, and what changes with it.
//!
//! The fixed part is written once, before the segment has a name, and protected by a checksum. The live part is read
//! and written only under the lock, which lies on a cache line of its own, so that waiting threads do not disturb its
//! holder.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use heapwright_os::{SharedLock, pid_namespace};
use heapwright_placement::Change;

use crate::format::publication::Publication;
use crate::format::record::Record;

/// How many words the fixed part has.
pub(crate) const FIXED_WORDS: usize = 16;

/// Set in [`Live::epoch`]: the heap was found corrupted, and no process may work on it.
const BROKEN: u64 = 1 << 63;

/// The upper half of [`Live::seal`]: the lower half is a checksum.
const SEALED: u64 = 0x5ea1;

/// The low bits of [`Live::capacity`]: a checksum of the others, which are the capacity in units of 16 bytes.
const CAPACITY_CHECK: u32 = 21;

/// The header as it lies in the segment.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) fixed: [AtomicU64; FIXED_WORDS],
    pub(crate) lock: SharedLock,
    /// The namespace of process numbers that the segment was made in; 0 when its maker did not know.
    namespace: AtomicU64,
    /// The complement of [`Live::seal`] while that is set: damage to either shows.
    seal_complement: AtomicU64,
    _line: [AtomicU64; 5],
    pub(crate) live: Live,
    /// Takes precedence over [`Live::record`] while it is pending.
    pub(crate) publication: Publication,
}

/// What changes while the segment is used, under the lock.
#[cfg_attr(test, derive(Default))]
#[repr(C)]
pub(crate) struct Live {
    /// Which state of affairs the engine views of all processes must be made for; [`BROKEN`].
    epoch: AtomicU64,
    pub(crate) record: Record,
    /// The length of the engine's region: what its metadata is laid out for; with a checksum, because it decides how
    /// much memory is touched.
    capacity: AtomicU64,
    /// Number of times that a process completed or undid what a dead one left.
    recoveries: AtomicU64,
    /// [`SEALED`] and a checksum while no process is attached, else 0.
    seal: AtomicU64,
}

/// What the two words of a seal say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// The segment is in use, or its last users died.
    Open,
    /// The segment is at rest, and this is its checksum.
    Set(u32),
    /// They contradict each other: a process died while it set or broke the seal, or the seal was damaged.
    Torn,
}

impl Header {
    /// Where the words lie, in bytes, that a seal does not cover: its own, and the lock, which is held while it is set.
    pub(crate) const UNSEALED: [usize; 3] = [
        std::mem::offset_of!(Header, lock),
        std::mem::offset_of!(Header, seal_complement),
        std::mem::offset_of!(Header, live) + std::mem::offset_of!(Live, seal),
    ];

    /// Returns whether the calling process may use the segment without announcing itself: its users are in the same
    /// namespace, or it is not known in which.
    pub(crate) fn is_of_our_namespace(&self) -> bool {
        let namespace = self.namespace.load(Relaxed);
        namespace == 0 || Some(namespace) == pid_namespace()
    }

    /// Returns the namespace in which the numbers of its users mean something, but of those that say that theirs do
    /// not.
    pub(crate) fn namespace(&self) -> Option<u64> {
        Some(self.namespace.load(Relaxed)).filter(|&namespace| namespace != 0)
    }

    pub(crate) fn seal(&self) -> Seal {
        match (self.live.seal.load(Relaxed), self.seal_complement.load(Relaxed)) {
            (0, 0) => Seal::Open,
            (word, complement) if word >> 32 == SEALED && complement == !word => Seal::Set(word as u32),
            _ => Seal::Torn,
        }
    }

    /// The segment is at rest. The store of the second word commits it, after everything that the checksum covers.
    pub(crate) fn set_seal(&self, checksum: u32) {
        let word = SEALED << 32 | u64::from(checksum);
        compiler_fence(SeqCst);
        self.live.seal.store(word, Relaxed);
        compiler_fence(SeqCst);
        self.seal_complement.store(!word, Relaxed);
        compiler_fence(SeqCst);
    }

    /// The segment is in use again. Called before anything else in it changes.
    pub(crate) fn break_seal(&self) {
        self.live.seal.store(0, Relaxed);
        compiler_fence(SeqCst);
        self.seal_complement.store(0, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Returns the change that is under way.
    pub(crate) fn pending_change(&self) -> Option<Change> {
        match self.publication.read() {
            Some(published) => published.change,
            None => self.live.record.read(),
        }
    }

    /// Nothing is under way any more. The record is cleared first: what it would undo, the publication has made final.
    pub(crate) fn clear_pending(&self) {
        self.live.record.clear();
        self.publication.clear();
    }

    /// From now on the segment is used in the namespace of the calling process.
    pub(crate) fn set_our_namespace(&self) {
        self.namespace.store(pid_namespace().unwrap_or(0), Relaxed);
    }
}

const _: () = assert!(size_of::<Header>() == 320 && std::mem::offset_of!(Header, live) == 192);

impl Live {
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.epoch() & BROKEN != 0
    }

    /// Forbids work on the heap until it is repaired: every view is out of date for good.
    pub(crate) fn set_broken(&self) {
        self.epoch.fetch_or(BROKEN, Relaxed);
    }

    /// Every process must look anew at how the engine's metadata is laid out before it works on it. Returns the new
    /// epoch.
    pub(crate) fn begin_epoch(&self) -> u64 {
        let next = self.epoch().wrapping_add(1) & !BROKEN;
        self.epoch.store(next, Relaxed);
        next
    }

    /// Returns the capacity in bytes; `None` when the word is not one that was stored.
    pub(crate) fn capacity(&self) -> Option<usize> {
        let word = self.capacity.load(Relaxed);
        let capacity = usize::try_from(word >> CAPACITY_CHECK << 4).ok()?;
        (capacity_word(capacity) == word).then_some(capacity)
    }

    /// Makes the metadata one for `capacity` bytes. A process that finds it laid out otherwise, because its writer died
    /// on the way, lays it out so from what is primary. The store is therefore the commit, and the memory was backed
    /// before.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        compiler_fence(SeqCst);
        self.capacity.store(capacity_word(capacity), Relaxed);
        compiler_fence(SeqCst);
    }

    pub(crate) fn recoveries(&self) -> u64 {
        self.recoveries.load(Relaxed)
    }

    pub(crate) fn count_recovery(&self) {
        self.recoveries.fetch_add(1, Relaxed);
    }
}

pub(super) fn checksum(words: &[u64]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    words.iter().for_each(|word| hasher.update(&word.to_ne_bytes()));
    hasher.finalize()
}

/// Returns the word for a capacity, a multiple of 16 of at most 2⁴⁶ bytes.
fn capacity_word(capacity: usize) -> u64 {
    let units = capacity as u64 >> 4;
    let check = checksum(&[units]) & ((1 << CAPACITY_CHECK) - 1);
    units << CAPACITY_CHECK | u64::from(check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_capacity_is_protected() {
        for capacity in [1024, 1 << 20, 3 << 30, 1 << 46] {
            let word = capacity_word(capacity);
            let decode = |word| Live { capacity: AtomicU64::new(word), ..Live::default() }.capacity();
            assert_eq!(decode(word), Some(capacity));
            assert!((0..64).all(|bit| decode(word ^ 1 << bit).is_none()));
        }
        assert_eq!(Live::default().capacity(), None);
    }
}
