//! Named roots: how processes find each other's data.
//!
//! The table is hashed with open addressing: a root lies in the first slot that was free from its name's home on, and
//! every slot between the two has been used since the table was made, so that a search ends at the first that has not.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use heapwright_os::spread;

use crate::error::Error;
use crate::heap::{Section, SharedHeap};
use crate::offset::Offset;

/// The longest name of a root, in bytes.
pub const LONGEST_NAME: usize = 40;

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
type Name = [u64; NAME_WORDS];

fn pack(name: &str) -> Result<Name, Error> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > LONGEST_NAME || bytes.contains(&0) {
        return Err(Error::BadRootName);
    }
    let mut packed = [0; NAME_WORDS];
    for (word, part) in packed.iter_mut().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..part.len()].copy_from_slice(part);
        *word = u64::from_ne_bytes(padded);
    }
    Ok(packed)
}

/// Where the search for a root of this name begins in a table of so many slots.
fn home(name: &Name, slots: usize) -> usize {
    let hash = name.iter().fold(0_u64, |hash, word| spread(hash ^ word).rotate_left(29));
    let mixed = spread(hash ^ (hash >> 32));
    ((u128::from(mixed) * slots as u128) >> 64) as usize
}

/// The slots in which a root of this name may lie, in the order in which they are searched.
fn searched<'s>(slots: &'s [RootSlot], name: &Name) -> impl Iterator<Item = &'s RootSlot> {
    let (before, from) = slots.split_at(home(name, slots.len()));
    from.iter().chain(before)
}

/// All roots that are set, by name.
pub(crate) fn list(slots: &[RootSlot]) -> Vec<Root> {
    let mut roots: Vec<Root> = slots.iter().filter_map(RootSlot::read).collect();
    roots.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    roots
}

/// Makes slots that are unset count as never used, from the one at `last` back, if the one behind that was never used:
/// no root lies behind them whose search comes past them. Cut short, fewer are; searches then take longer.
fn forget(slots: &[RootSlot], last: usize) {
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

    fn is_unset(&self) -> bool {
        self.offset().is_none()
    }

    /// Whether no root has been here since the table was made, or none need be known to have been.
    fn is_fresh(&self) -> bool {
        self.is_unset() && self.name[0].load(Relaxed) == 0
    }

    /// An unset slot does not count as used any more. Commits by its only store.
    fn make_fresh(&self) {
        compiler_fence(SeqCst);
        self.name[0].store(0, Relaxed);
        compiler_fence(SeqCst);
    }

    fn is(&self, name: &Name) -> bool {
        self.offset().is_some() && self.name() == *name
    }

    /// Commits by one store of eight bytes.
    fn point(&self, offset: Option<Offset>) {
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
    fn set(&self, name: &Name, offset: Offset) {
        for (word, &value) in self.name.iter().zip(name) {
            word.store(value, Relaxed);
        }
        self.point(Some(offset));
    }

    pub(crate) fn read(&self) -> Option<Root> {
        self.offset().map(|offset| Root { name: unpack(&self.name()), offset })
    }
}

impl Section<'_> {
    fn root_slot(&self, name: &Name) -> Option<&RootSlot> {
        searched(self.mapping().roots(), name).take_while(|slot| !slot.is_fresh()).find(|slot| slot.is(name))
    }

    /// Points the root at `new` and returns where it pointed. The block there becomes this handle's, as its creator may
    /// be dead: a process that reclaims before it is freed would free it too.
    fn change_root(&mut self, name: &Name, new: Option<Offset>) -> Result<Option<Offset>, Error> {
        if let Some(new) = new {
            self.block_at(new)?;
        }
        let old = self.root_slot(name).and_then(RootSlot::offset);
        if let Some(old) = old.filter(|&old| Some(old) != new) {
            // A root may point at a block that was freed: it can be removed all the same.
            let _ = self.adopt(old);
        }
        let slots = self.mapping().roots();
        match (self.root_slot(name), new) {
            (Some(slot), Some(new)) => {
                slot.point(Some(new));
                Ok(old)
            }
            (Some(slot), None) => {
                slot.unset();
                forget(slots, (&raw const *slot as usize - slots.as_ptr() as usize) / size_of::<RootSlot>());
                Ok(old)
            }
            (None, Some(new)) => {
                let free = searched(slots, name).find(|slot| slot.is_unset());
                free.ok_or(Error::RootsFull { most: slots.len() })?.set(name, new);
                Ok(None)
            }
            (None, None) => Ok(None),
        }
    }

    /// Verifies that each root that is set points at a used block.
    pub(crate) fn check_roots(&mut self) -> Result<(), Error> {
        list(self.mapping().roots()).into_iter().try_for_each(|Root { name, offset }| match self.block_at(offset) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::RootOfNoBlock { name, offset: offset.get() }),
        })
    }
}

impl SharedHeap {
    /// Where the root of this name points; `None` when it is not set. Time: does not grow with the number
    /// of roots while the table has room; close to full, it grows with the table. So do all of these.
    ///
    /// # Errors
    /// [`Error::BadRootName`], and those of every operation: [`Error::TimedOut`], [`Error::Corrupted`].
    pub fn root(&self, name: &str) -> Result<Option<Offset>, Error> {
        let name = pack(name)?;
        Ok(self.enter()?.root_slot(&name).and_then(RootSlot::offset))
    }

    /// Points the root of this name at the block at `offset`, and returns where it pointed before. This handle owns the
    /// block there from then on ([`SharedHeap::adopt`]): it is not reclaimed before it can be freed.
    ///
    /// # Errors
    /// [`Error::NotABlock`], [`Error::AlreadyFree`], [`Error::RootsFull`], and as [`SharedHeap::root`].
    pub fn set_root(&self, name: &str, offset: Offset) -> Result<Option<Offset>, Error> {
        let name = pack(name)?;
        self.enter()?.change_root(&name, Some(offset))
    }

    /// Points the root at `new` (`None` removes it) if it points at `expected` (`None`: is not set). As
    /// [`SharedHeap::set_root`], this handle owns the block at `expected` from then on.
    ///
    /// # Errors
    /// [`Error::RootDiffers`], which tells where it points; and as [`SharedHeap::set_root`].
    pub fn replace_root(&self, name: &str, expected: Option<Offset>, new: Option<Offset>) -> Result<(), Error> {
        let name = pack(name)?;
        let mut section = self.enter()?;
        let found = section.root_slot(&name).and_then(RootSlot::offset);
        if found != expected {
            return Err(Error::RootDiffers { found: found.map(Offset::get) });
        }
        section.change_root(&name, new).map(|_| ())
    }

    /// All roots that are set, by name. Time: proportional to the number of roots that there may be.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn roots(&self) -> Result<Vec<Root>, Error> {
        Ok(list(self.enter()?.mapping().roots()))
    }
}
