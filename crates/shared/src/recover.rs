//! Putting a heap in order in which somebody died.

use crate::engine::{self, Placer};
use crate::error::Error;
use crate::mapping::Mapping;
use crate::view::refuse_broken;

/// Completes or undoes the operation that is on record and derives anew all that is derived, under the lock.
///
/// Idempotent: who is killed here leaves the lock to somebody who does all of it again. The record is cleared when what it says
/// has become of the heap; the new epoch makes everybody look anew at how the metadata is laid out.
#[cold]
pub(crate) fn recover(mapping: &Mapping) -> Result<Placer, Error> {
    refuse_broken(mapping)?;
    let live = &mapping.header().live;
    let engine = engine::recover(mapping, live.record.read()).inspect_err(|_| live.set_broken())?;
    live.begin_epoch();
    live.record.clear();
    live.count_recovery();
    Ok(engine)
}
