//! Putting a heap in order in which somebody died.

use heapwright_placement::Engine;

use crate::engine::{self, Placer};
use crate::error::Error;
use crate::mapping::Mapping;
use crate::publication::Published;
use crate::sections::Sections;
use crate::slabs;
use crate::view::refuse_broken;

/// Completes or undoes the operation that is on record and derives anew all that is derived, under the lock.
///
/// Idempotent: who is killed here leaves the lock to somebody who does all of it again. The record is cleared when what it says
/// has become of the heap; the new epoch makes everybody look anew at how the metadata is laid out.
#[cold]
pub(crate) fn recover(sections: &Sections) -> Result<Placer, Error> {
    refuse_broken(sections)?;
    let engine = lay_out(sections)?;
    sections.header().live.count_recovery();
    Ok(engine)
}

/// Lays out the engine's metadata for the segment's capacity, and puts it in order.
pub(crate) fn lay_out(sections: &Sections) -> Result<Placer, Error> {
    let header = sections.header();
    let engine = complete(sections).inspect_err(|_| header.live.set_broken())?;
    slabs::reconcile(sections, &engine);
    header.live.begin_epoch();
    header.clear_pending();
    Ok(engine)
}

/// Completes or undoes the change that is under way, and the word that it publishes in.
fn complete(sections: &Sections) -> Result<Placer, Error> {
    let (engine, published) = complete_blocks(sections)?;
    if let Some(published) = published {
        sections.publish(published);
    }
    Ok(engine)
}

/// Completes or undoes the change that is under way, but for the word that it publishes in, which is returned: it lies in the
/// heap.
pub(crate) fn complete_blocks(sections: &Sections) -> Result<(Placer, Option<Published>), Error> {
    let (header, data) = (sections.header(), sections.layout.data);
    let published = header.publication.read();
    let implausible = |offset| Error::Corrupted { what: "the word on record is none", offset };
    if published.is_some_and(|published| !published.is_plausible(data, sections.layout.length())) {
        return Err(implausible(0));
    }
    let engine = engine::recover(sections, header.pending_change())?;
    if let Some(published) = published {
        if !published.is_plausible(data, data + engine.heap_size()) {
            return Err(implausible(published.word));
        }
        slabs::redo(sections, engine.heap_size(), &published)?;
    }
    Ok((engine, published))
}

/// As `order`, for a segment that nobody uses and which may be a sparse copy of one: what it touches is backed again before.
pub(crate) fn take_up(mapping: &Mapping, order: fn(&Mapping) -> Result<Placer, Error>) -> Result<Placer, Error> {
    let capacity = engine::capacity(mapping)?;
    mapping.back_again(&mapping.layout.backed(0, capacity)?)?;
    let engine = order(mapping)?;
    let backed = mapping.layout.backed(engine.heap_size(), capacity)?;
    // Asking for what is there takes time for every page: only if less is there than there should be.
    if mapping.allocated()? < backed.iter().map(|(from, to)| (to - from) as u64).sum() {
        mapping.back_again(&backed)?;
    }
    Ok(engine)
}
