//! Recovery of a heap in which a process died.

use heapwright_placement::Engine;

use crate::format::publication::Published;
use crate::mapped::engine::{self, Placer};
use crate::mapped::mapping::Mapping;
use crate::mapped::sections::Sections;
use crate::order::beyond;
use crate::slabs::marks;
use crate::slabs::parts;
use crate::terms::error::Error;

/// What is done between the recovery of the engine, which says how long the heap is, and the first access to what is
/// backed as far as the heap is long.
pub(crate) type Prepare<'p> = &'p dyn Fn(&Placer) -> Result<(), Error>;

/// For a segment that others use, or used a moment ago: all that it needs is backed.
pub(crate) const NOTHING: Prepare<'static> = &|_| Ok(());

/// Completes or undoes the operation that is on record and derives anew all that is derived, under the lock.
///
/// Idempotent: after a process is killed here, the next one takes the lock and does all of it again. The record is
/// cleared when what it says has become of the heap. The new epoch makes every process read anew how the metadata is
/// laid out.
#[cold]
pub(crate) fn recover(sections: &Sections, prepare: Prepare<'_>) -> Result<Placer, Error> {
    refuse_broken(sections)?;
    let engine = lay_out(sections, prepare)?;
    sections.header().live.count_recovery();
    Ok(engine)
}

pub(crate) fn refuse_broken(sections: &Sections) -> Result<(), Error> {
    match sections.header().live.is_broken() {
        true => Err(Error::Corrupted { what: "a process found the heap's metadata beyond recovery", offset: 0 }),
        false => Ok(()),
    }
}

/// Lays out the engine's metadata for the segment's capacity, and puts it in order.
pub(crate) fn lay_out(sections: &Sections, prepare: Prepare<'_>) -> Result<Placer, Error> {
    let header = sections.header();
    let engine = complete(sections, prepare).inspect_err(|error| {
        if matches!(error, Error::Corrupted { .. }) {
            header.live.set_broken();
        }
    })?;
    marks::reconcile(sections, &engine);
    header.live.begin_epoch();
    header.clear_pending();
    Ok(engine)
}

/// Completes or undoes the change that is under way, and the word that it publishes in.
fn complete(sections: &Sections, prepare: Prepare<'_>) -> Result<Placer, Error> {
    let (engine, published) = complete_blocks(sections, prepare)?;
    if let Some(published) = published {
        sections.publish(published);
    }
    Ok(engine)
}

/// Completes or undoes the change that is under way, but for the word that it publishes in, which is returned: it lies
/// in the heap.
pub(crate) fn complete_blocks(sections: &Sections, prepare: Prepare<'_>) -> Result<(Placer, Option<Published>), Error> {
    let (header, data) = (sections.header(), sections.layout.data);
    let published = header.publication.read();
    let implausible = |offset| Error::Corrupted { what: "the word on record is none", offset };
    if published.is_some_and(|published| !published.is_plausible(data, sections.layout.length())) {
        return Err(implausible(0));
    }
    let engine = engine::recover(sections, header.pending_change())?;
    prepare(&engine)?;
    if let Some(published) = published {
        if !published.is_plausible(data, data + engine.heap_size()) {
            return Err(implausible(published.word));
        }
        parts::redo(sections, engine.heap_size(), &published)?;
    }
    Ok((engine, published))
}

/// Takes up a segment that no process uses and which may be a sparse copy of one: `order` puts the engine in order, and
/// touches more only after it has called what it is given, which has it backed again.
pub(crate) fn take_up(
    mapping: &Mapping,
    order: fn(&Mapping, Prepare<'_>) -> Result<Placer, Error>,
) -> Result<Placer, Error> {
    let capacity = engine::capacity(mapping)?;
    mapping.back_again(&mapping.layout.backed(0, capacity)?)?;
    order(mapping, &|engine| {
        beyond::verify(mapping, engine.heap_size())?;
        back_again(mapping, &mapping.layout.backed(engine.heap_size(), capacity)?)
    })
}

/// Backs the ranges again. Asking for what is there takes time for every page: only if less is there than there should
/// be.
fn back_again(mapping: &Mapping, ranges: &[(usize, usize)]) -> Result<(), Error> {
    match mapping.allocated()? < ranges.iter().map(|(from, to)| (to - from) as u64).sum() {
        true => mapping.back_again(ranges),
        false => Ok(()),
    }
}
