//! How a process takes its place at a segment: what it needs to work on the heap, and what it finds out first.

use heapwright_os::{Identity, Taken};

use crate::mapped::engine::{self, Placer};
use crate::mapped::mapping::Mapping;
use crate::order::processes;
use crate::order::recover::{NOTHING, Prepare, recover, refuse_broken, take_up};
use crate::order::seal;
use crate::terms::error::Error;

/// What a handle works on the heap with; valid under the lock while its epoch is the segment's.
pub(crate) struct View {
    pub(crate) engine: Placer,
    pub(crate) epoch: u64,
    /// The number of the handle's slot in the process table: the owner of what it allocates.
    pub(crate) slot: u8,
    /// What a check through the handle found damaged: nothing is done to the heap on the strength of such bytes.
    damage: Option<(&'static str, u64)>,
}

impl View {
    /// Enters `me` among the processes at the segment, under the lock, which was got as `taken` says.
    ///
    /// A segment at rest is believed if its seal fits. One that is in use is believed to be in order, unless the lock
    /// comes from a dead process. One that was neither closed nor is in use was left by processes that all died:
    /// what is primary is looked through, and all else derived anew.
    pub(crate) fn enter(mapping: &Mapping, taken: Taken, me: Identity) -> Result<View, Error> {
        let header = mapping.header();
        if !me.is_announced() && !header.is_of_our_namespace() {
            return Err(Error::OtherNamespace { place: mapping.place.clone() });
        }
        refuse_broken(mapping)?;
        let seal = seal::judge(mapping, taken)?;
        if seal.is_none() {
            // It may be half broken, which must not be found once the lock was released.
            header.break_seal();
        }
        let engine = match seal {
            None if processes::any_alive(mapping) => match taken {
                Taken::Clean => engine::attach(mapping)?,
                Taken::FromTheDead(_) => recover(mapping, NOTHING)?,
            },
            None => {
                engine::believe_claim(mapping, mapping.allocated()?)?;
                take_up(mapping, recover_and_count)?
            }
            Some(checksum) => {
                seal::verify(mapping, checksum)?;
                take_up(mapping, attach)?
            }
        };
        header.break_seal();
        let slot = processes::enter(mapping, &engine, me)?;
        Ok(View::new(engine, header.live.epoch(), slot))
    }

    pub(crate) fn new(engine: Placer, epoch: u64, slot: u8) -> View {
        View { engine, epoch, slot, damage: None }
    }

    /// Has the handle refuse every further operation for the damage that a check found.
    #[cold]
    pub(crate) fn refuse(&mut self, found: &Error) {
        /// No segment's: the next operation refreshes the view.
        const NEVER: u64 = u64::MAX;
        if let &Error::Corrupted { what, offset } = found {
            (self.damage, self.epoch) = (Some((what, offset)), NEVER);
        }
    }

    /// Looks anew at the heap's metadata, which was laid out anew.
    #[cold]
    pub(crate) fn refresh(&mut self, mapping: &Mapping) -> Result<(), Error> {
        if let Some((what, offset)) = self.damage {
            return Err(Error::Corrupted { what, offset });
        }
        refuse_broken(mapping)?;
        self.engine = engine::attach(mapping)?;
        self.epoch = mapping.header().live.epoch();
        Ok(())
    }
}

/// Returns the engine of a segment at rest.
fn attach(mapping: &Mapping, prepare: Prepare<'_>) -> Result<Placer, Error> {
    let engine = engine::attach(mapping)?;
    prepare(&engine)?;
    Ok(engine)
}

/// Returns the engine of a segment whose users all died: put in order.
fn recover_and_count(mapping: &Mapping, prepare: Prepare<'_>) -> Result<Placer, Error> {
    let engine = recover(mapping, prepare)?;
    processes::count_anew(mapping, &engine);
    Ok(engine)
}
