//! Putting a heap in order in which somebody died.

use heapwright_placement::Engine;

use crate::engine::{self, Placer};
use crate::error::Error;
use crate::mapping::Mapping;
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
    let live = &sections.header().live;
    let engine = engine::recover(sections, live.record.read()).inspect_err(|_| live.set_broken())?;
    slabs::reconcile(sections, &engine);
    live.begin_epoch();
    live.record.clear();
    Ok(engine)
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
