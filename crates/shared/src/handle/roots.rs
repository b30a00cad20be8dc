//! Named roots: how processes find each other's data.

use super::heap::{Section, SharedHeap};
use crate::format::root_slot::{self, Name, Root, RootSlot, forget, list, searched};
use crate::terms::error::Error;
use crate::terms::offset::Offset;

fn pack(name: &str) -> Result<Name, Error> {
    root_slot::pack(name).ok_or(Error::BadRootName)
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
    /// Returns where the root of this name points; `None` when it is not set. Time: does not grow with the number of
    /// roots while the table has room; close to full, it grows with the table. So do all of these.
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

    /// Returns all roots that are set, by name. Time: proportional to the number of roots that there may be.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn roots(&self) -> Result<Vec<Root>, Error> {
        Ok(list(self.enter()?.mapping().roots()))
    }
}
