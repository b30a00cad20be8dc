//! Named roots: how processes find each other's data.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use heapwright_placement::Engine;

use crate::error::Error;
use crate::heap::{Section, SharedHeap};
use crate::offset::Offset;

/// The longest name of a root, in bytes.
pub const LONGEST_NAME: usize = 40;

const NAME_WORDS: usize = LONGEST_NAME / 8;

/// A root as it lies in the segment: unset while the offset is 0.
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

    /// Takes an unset slot. Its name means nothing before the offset is stored, which is the commit.
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
        self.mapping().roots().iter().find(|slot| slot.is(name))
    }

    /// Points the root at `new` and returns where it pointed.
    fn change_root(&mut self, name: &Name, new: Option<Offset>) -> Result<Option<Offset>, Error> {
        if let Some(new) = new {
            self.require_block(new)?;
        }
        if let Some(slot) = self.root_slot(name) {
            let old = slot.offset();
            slot.point(new);
            return Ok(old);
        }
        let Some(new) = new else { return Ok(None) };
        let slots = self.mapping().roots();
        let free = slots.iter().find(|slot| slot.offset().is_none()).ok_or(Error::RootsFull { most: slots.len() })?;
        free.set(name, new);
        Ok(None)
    }

    fn require_block(&mut self, offset: Offset) -> Result<(), Error> {
        let place = self.place_of(offset)?;
        match self.engine().usable_size(place) {
            Some(_) => Ok(()),
            None => Err(Error::NotABlock { offset: offset.get() }),
        }
    }
}

impl SharedHeap {
    /// Where the root of this name points; `None` when it is not set. Time: proportional to the number of roots, as for all of these.
    ///
    /// # Errors
    /// [`Error::BadRootName`], and those of every operation: [`Error::TimedOut`], [`Error::Corrupted`].
    pub fn root(&self, name: &str) -> Result<Option<Offset>, Error> {
        let name = pack(name)?;
        Ok(self.enter()?.root_slot(&name).and_then(RootSlot::offset))
    }

    /// Points the root of this name at the block at `offset`, and returns where it pointed before.
    ///
    /// # Errors
    /// [`Error::NotABlock`], [`Error::RootsFull`], and as [`SharedHeap::root`].
    pub fn set_root(&self, name: &str, offset: Offset) -> Result<Option<Offset>, Error> {
        let name = pack(name)?;
        self.enter()?.change_root(&name, Some(offset))
    }

    /// Points the root at `new` (`None` removes it) if it points at `expected` (`None`: is not set).
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

    /// All roots that are set.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn roots(&self) -> Result<Vec<Root>, Error> {
        Ok(self.enter()?.mapping().roots().iter().filter_map(RootSlot::read).collect())
    }
}
