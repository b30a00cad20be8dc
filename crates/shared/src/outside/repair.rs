//! Repair: believing what can be believed of a segment that is refused.

use heapwright_os::{Identity, Numbers, Taken};

use crate::format::header::Seal;
use crate::format::root_slot::Root;
use crate::handle::heap::SharedHeap;
use crate::handle::open::map;
use crate::mapped::engine::Placer;
use crate::mapped::mapping::Mapping;
use crate::mapped::sections::Sections;
use crate::order::condition::Condition;
use crate::order::processes;
use crate::order::recover::{Prepare, lay_out, take_up};
use crate::order::seal;
use crate::slabs::parts::size_of_block;
use crate::terms::error::Error;
use crate::terms::place::Place;
use crate::terms::settings::Access;

/// Whether to repair a segment although it is unknown which of its processes live: it is of another namespace of
/// process numbers (a container, say), or of one that is not known, or a process runs that does not use this file any
/// more, or has never used it, since it is a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strangers {
    /// It is refused if it is of another namespace, and not taken from its lock's holder otherwise: its processes may
    /// live.
    #[default]
    Respect,
    /// It is taken over, all its processes being held for dead. The caller has made sure that no process uses it there.
    Displace,
}

/// What a repair found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The condition of the segment before.
    pub found: Condition,
    /// The names of roots that pointed at no block and are unset now.
    pub unset: Vec<String>,
}

impl SharedHeap {
    /// Puts the segment at `place` in order even if it is refused: when it was changed at rest, when a process found it
    /// broken, and, on request, when it is of another namespace. Afterwards it is sealed, and no process is attached.
    ///
    /// What the block map says is believed if it can be true at all; it may have been changed, and blocks with it. The
    /// contents of blocks are not looked at.
    ///
    /// # Errors
    /// [`Error::InUse`] while a process uses it that lives: that one keeps it in order. [`Error::BeyondRepair`] when
    /// there is nothing to be believed; and as [`SharedHeap::open`].
    pub fn repair(place: &Place, access: &Access, strangers: Strangers) -> Result<Repaired, Error> {
        let mapping = map(place, access.owner)?.0;
        let me = mapping.identify();
        let displaced =
            strangers == Strangers::Displace && has_strangers(&mapping) && !processes::is_any_certain(&mapping);
        let (held, taken) = if displaced {
            // SAFETY: the caller has made sure that no process that lives uses the segment.
            unsafe { mapping.seize(me.unwrap_or_else(|_| Identity::mine())) }
        } else {
            mapping.lock(me?, access.patience)?
        };
        let found = Condition::of(&mapping, taken);
        // No process is attached to a segment at rest, whatever its damaged table says.
        let user = if displaced || found == Condition::AtRest { None } else { processes::one_alive(&mapping) };
        if let Some(by) = user {
            if let Taken::FromTheDead(dead) = taken {
                held.return_to(dead);
            }
            return Err(Error::InUse { place: place.clone(), by });
        }
        // In this namespace their numbers may be those of others.
        let held_for_dead = if displaced { processes::doubtful(&mapping) } else { Vec::new() };
        let engine = rebuild(&mapping).map_err(beyond_repair)?;
        processes::hold_for_dead(&mapping, &engine, &held_for_dead);
        let unset = unset_dangling(&mapping, &engine);
        if !processes::any_alive(&mapping) {
            seal::set(&mapping)?;
        }
        Ok(Repaired { found, unset })
    }
}

/// Returns the error for damage that repair cannot put in order.
fn beyond_repair(error: Error) -> Error {
    match error {
        Error::Corrupted { what, offset } => Error::BeyondRepair { what, offset },
        error => error,
    }
}

/// Returns whether it is unknown here which of the segment's processes live.
fn has_strangers(mapping: &Mapping) -> bool {
    let holder = mapping.header().lock.holder();
    let is_doubted = holder.is_some_and(|holder| mapping.deaths().doubt_about(holder).is_some());
    is_doubted || Numbers::of(mapping.header().namespace()) == Numbers::Unknown || processes::doubt(mapping).is_some()
}

/// Derives anew all that is derived, and makes the segment one of this namespace.
fn rebuild(mapping: &Mapping) -> Result<Placer, Error> {
    let header = mapping.header();
    if matches!(header.seal(), Seal::Set(_)) {
        // Nothing was under way when the segment was sealed, whatever the record says now.
        header.clear_pending();
    }
    header.break_seal();
    header.set_our_namespace();
    let engine = take_up(mapping, lay_out_anyhow)?;
    processes::count_anew(mapping, &engine);
    Ok(engine)
}

/// Lays out the metadata, if need be as if nothing had been under way: the last resort when the record contradicts the
/// map.
fn lay_out_anyhow(mapping: &Mapping, prepare: Prepare<'_>) -> Result<Placer, Error> {
    match lay_out(mapping, prepare) {
        Err(Error::Corrupted { .. }) => {
            mapping.header().clear_pending();
            lay_out(mapping, prepare)
        }
        laid_out => laid_out,
    }
}

fn unset_dangling(sections: &Sections, engine: &Placer) -> Vec<String> {
    let data = sections.layout.data as u64;
    let dangles = |root: &Root| match root.offset.get().checked_sub(data) {
        Some(place) => size_of_block(sections, engine, place as usize).is_none(),
        None => true,
    };
    let mut unset = Vec::new();
    for slot in sections.roots() {
        if let Some(root) = slot.read().filter(dangles) {
            slot.unset();
            unset.push(root.name);
        }
    }
    unset
}
