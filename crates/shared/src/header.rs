//! The first bytes of a segment: what never changes, and what changes with it.
//!
//! The fixed part is written once, before the segment has a name, and protected by a checksum. The live part is only
//! read and written by whoever holds the lock, which lies on a cache line of its own so that those who wait do not
//! disturb who works.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use heapwright_os::{SharedLock, pid_namespace};
use heapwright_placement::{Change, PolicyKind};

use crate::layout::{Layout, Plan};
use crate::publication::Publication;
use crate::record::Record;
use crate::settings::SmallBlocks;

/// The first eight bytes of every segment.
pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"hwshared");

/// The version of all that lies in a segment.
pub(crate) const VERSION: u32 = 8;

/// How many words the fixed part has.
pub(crate) const FIXED_WORDS: usize = 16;

/// Set in [`Live::epoch`]: the heap was found corrupted, nobody may work on it.
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
    /// How often somebody completed or undid what a dead process left.
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

    /// Whether the calling process may use the segment without announcing itself: its users are in the same namespace,
    /// or it is not known in which.
    pub(crate) fn is_of_our_namespace(&self) -> bool {
        let namespace = self.namespace.load(Relaxed);
        namespace == 0 || Some(namespace) == pid_namespace()
    }

    /// The namespace in which the numbers of its users mean something, but of those that say that theirs do not.
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

    /// The change that is under way.
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

/// The fixed part, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    pub(crate) plan: Plan,
    /// The whole segment's length and where its parts begin.
    length: u64,
    metadata: u64,
    data: u64,
}

/// Why the words of a fixed part are not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    Magic,
    Version(u32),
    Checksum,
    Contents,
}

impl Fixed {
    pub(crate) fn of(layout: &Layout) -> Fixed {
        Fixed {
            plan: layout.plan,
            length: layout.length() as u64,
            metadata: layout.metadata as u64,
            data: layout.data as u64,
        }
    }

    pub(crate) fn encode(&self) -> [u64; FIXED_WORDS] {
        let Plan { policy, granule, processes, roots, size, max_size, small } = self.plan;
        let mut words = [0; FIXED_WORDS];
        words[..12].copy_from_slice(&[
            MAGIC,
            u64::from(VERSION),
            policy as u64,
            u64::from(granule),
            processes as u64,
            roots as u64,
            size as u64,
            max_size as u64,
            self.length,
            self.metadata,
            self.data,
            small as u64,
        ]);
        words[FIXED_WORDS - 1] = u64::from(checksum(&words[..FIXED_WORDS - 1]));
        words
    }

    /// The fixed part in `words`, and the layout that follows from it; nothing in it is believed before it was looked
    /// at.
    pub(crate) fn decode(words: &[u64; FIXED_WORDS]) -> Result<(Fixed, Layout), Unfit> {
        if words[0] != MAGIC {
            return Err(Unfit::Magic);
        }
        match u32::try_from(words[1]) {
            Ok(VERSION) => {}
            Ok(found) => return Err(Unfit::Version(found)),
            Err(_) => return Err(Unfit::Checksum),
        }
        if words[FIXED_WORDS - 1] != u64::from(checksum(&words[..FIXED_WORDS - 1])) {
            return Err(Unfit::Checksum);
        }
        Self::contents(words).ok_or(Unfit::Contents)
    }

    fn contents(words: &[u64; FIXED_WORDS]) -> Option<(Fixed, Layout)> {
        let number = |at: usize| usize::try_from(words[at]).ok();
        let plan = Plan {
            policy: PolicyKind::ALL.into_iter().find(|&kind| kind as u64 == words[2])?,
            granule: u32::try_from(words[3]).ok()?,
            processes: number(4)?,
            roots: number(5)?,
            size: number(6)?,
            max_size: number(7)?,
            small: SmallBlocks::ALL.into_iter().find(|&small| small as u64 == words[11])?,
        };
        let layout = Layout::of(&plan).ok()?;
        let fixed = Fixed::of(&layout);
        (fixed.encode() == *words).then_some((fixed, layout))
    }

    /// How long the segment must be.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}

fn checksum(words: &[u64]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    words.iter().for_each(|word| hasher.update(&word.to_ne_bytes()));
    hasher.finalize()
}

impl Live {
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.epoch() & BROKEN != 0
    }

    /// Nobody may work on the heap any more, until it is repaired: every view is out of date for good.
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

    /// The capacity in bytes; `None` when the word is not one that was stored.
    pub(crate) fn capacity(&self) -> Option<usize> {
        let word = self.capacity.load(Relaxed);
        let capacity = usize::try_from(word >> CAPACITY_CHECK << 4).ok()?;
        (capacity_word(capacity) == word).then_some(capacity)
    }

    /// From here on the metadata is one for `capacity` bytes. Whoever finds it laid out otherwise, because its writer
    /// died on the way, lays it out so from what is primary; so the store is the commit, and the memory was backed
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

/// The word for a capacity, a multiple of 16 of at most 2⁴⁶ bytes.
fn capacity_word(capacity: usize) -> u64 {
    let units = capacity as u64 >> 4;
    let check = checksum(&[units]) & ((1 << CAPACITY_CHECK) - 1);
    units << CAPACITY_CHECK | u64::from(check)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn words() -> [u64; FIXED_WORDS] {
        Fixed::of(&Layout::of(&Plan::of(&Settings::default()).unwrap()).unwrap()).encode()
    }

    #[test]
    fn what_was_written_is_read() {
        let (fixed, layout) = Fixed::decode(&words()).unwrap();
        assert_eq!(fixed, Fixed::of(&layout));
        assert_eq!(fixed.length(), layout.length() as u64);
    }

    #[test]
    fn every_bit_is_protected() {
        for bit in 0..FIXED_WORDS * 64 {
            let mut changed = words();
            changed[bit / 64] ^= 1 << (bit % 64);
            let expected = match bit / 64 {
                0 => Unfit::Magic,
                1 if bit % 64 < 32 => Unfit::Version(changed[1] as u32),
                _ => Unfit::Checksum,
            };
            assert_eq!(Fixed::decode(&changed), Err(expected));
        }
    }

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

    #[test]
    fn contents_are_not_believed_because_their_checksum_fits() {
        for at in 2..FIXED_WORDS - 1 {
            for value in [0, 1, 12345, 1 << 40, u64::MAX] {
                let mut forged = words();
                if forged[at] == value {
                    continue;
                }
                forged[at] = value;
                forged[FIXED_WORDS - 1] = u64::from(checksum(&forged[..FIXED_WORDS - 1]));
                // Another policy, granule or table would be another layout; lengths and places are not as they were.
                assert_eq!(Fixed::decode(&forged), Err(Unfit::Contents), "word {at} = {value}");
            }
        }
    }
}
