//! The root table as it lies in a segment.
//!
//! It is hashed with open addressing: a root lies in the first slot that was free from its name's home on, and every
//! slot between the two has been used since the table was made, so that a search ends at the first that has not.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use heapwright_os::spread;

use crate::terms::limits::LONGEST_NAME;
use crate::terms::offset::Offset;

const NAME_WORDS: usize = LONGEST_NAME / 8;

/// A root as it lies in the segment: unset while the offset is 0, and never used while its name begins with 0 as well.
#[repr(C)]
pub(crate) struct RootSlot {
    offset: AtomicU64,
    /// Padded with zeros.
    name: [AtomicU64; NAME_WORDS],
}

/// A named root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its name.
    pub name: String,
    /// Where it points.
    pub offset: Offset,
}

/// A name as it lies in a slot.
pub(crate) type Name = [u64; NAME_WORDS];

/// Returns a name as it lies in a slot; `None` for what cannot be one.
pub(crate) fn pack(name: &str) -> Option<Name> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > LONGEST_NAME || bytes.contains(&0) {
        return None;
    }
    let mut packed = [0; NAME_WORDS];
    for (word, part) in packed.iter_mut().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..part.len()].copy_from_slice(part);
        *word = u64::from_ne_bytes(padded);
    }
    Some(packed)
}

/// Returns the slot at which the search for a root of this name begins, in a table of `slots`.
fn home(name: &Name, slots: usize) -> usize {
    let hash = name.iter().fold(0_u64, |hash, word| spread(hash ^ word).rotate_left(29));
    let mixed = spread(hash ^ (hash >> 32));
    ((u128::from(mixed) * slots as u128) >> 64) as usize
}

/// Returns the slots in which a root of this name may lie, in the order in which they are searched.
pub(crate) fn searched<'s>(slots: &'s [RootSlot], name: &Name) -> impl Iterator<Item = &'s RootSlot> {
    let (before, from) = slots.split_at(home(name, slots.len()));
    from.iter().chain(before)
}

/// Returns all roots that are set, by name.
pub(crate) fn list(slots: &[RootSlot]) -> Vec<Root> {
    let mut roots: Vec<Root> = slots.iter().filter_map(RootSlot::read).collect();
    roots.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    roots
}

/// Makes slots that are unset count as never used, from the one at `last` back, if the one behind that was never used:
/// no root lies behind them whose search comes past them. Cut short, fewer are; searches then take longer.
pub(crate) fn forget(slots: &[RootSlot], last: usize) {
    if !slots[(last + 1) % slots.len()].is_fresh() {
        return;
    }
    let (before, behind) = slots.split_at(last + 1);
    let back = before.iter().rev().chain(behind.iter().rev());
    let unset = back.take_while(|slot| slot.is_unset() && !slot.is_fresh());
    unset.for_each(RootSlot::make_fresh);
}

fn unpack(name: &Name) -> String {
    let bytes: Vec<u8> = name.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl RootSlot {
    pub(crate) fn offset(&self) -> Option<Offset> {
        Offset::new(self.offset.load(Relaxed))
    }

    fn name(&self) -> Name {
        std::array::from_fn(|at| self.name[at].load(Relaxed))
    }

    pub(crate) fn is_unset(&self) -> bool {
        self.offset().is_none()
    }

    /// Returns whether no root has been here since the table was made, or none need be known to have been.
    pub(crate) fn is_fresh(&self) -> bool {
        self.is_unset() && self.name[0].load(Relaxed) == 0
    }

    /// An unset slot does not count as used any more. Commits by its only store.
    fn make_fresh(&self) {
        compiler_fence(SeqCst);
        self.name[0].store(0, Relaxed);
        compiler_fence(SeqCst);
    }

    pub(crate) fn is(&self, name: &Name) -> bool {
        self.offset().is_some() && self.name() == *name
    }

    /// Commits by one store of eight bytes.
    pub(crate) fn point(&self, offset: Option<Offset>) {
        compiler_fence(SeqCst);
        self.offset.store(offset.map_or(0, Offset::get), Relaxed);
        compiler_fence(SeqCst);
    }

    /// The root is not set any more.
    pub(crate) fn unset(&self) {
        self.point(None);
    }

    /// Takes an unset slot. Its name means no root before the offset is stored, which is the commit; cut short, the
    /// slot is unset and used.
    pub(crate) fn set(&self, name: &Name, offset: Offset) {
        for (word, &value) in self.name.iter().zip(name) {
            word.store(value, Relaxed);
        }
        self.point(Some(offset));
    }

    pub(crate) fn read(&self) -> Option<Root> {
        self.offset().map(|offset| Root { name: unpack(&self.name()), offset })
    }
}
