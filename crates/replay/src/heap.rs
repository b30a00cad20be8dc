//! An engine that owns its metadata.

use heapwright_os::{Reservation, page_size};
use heapwright_placement::AnyEngine;

use crate::error::ReplayError;
use crate::model::Model;

/// The engine of a [`Model`], over metadata that becomes memory as the heap grows.
pub(crate) struct Heap {
    /// Stands before the metadata that it points to, so that it goes first.
    engine: AnyEngine<'static>,
    _metadata: Reservation,
}

impl Heap {
    pub(crate) fn new(model: &Model) -> Result<Heap, ReplayError> {
        let cells = AnyEngine::metadata_cells(model.policy, model.capacity, &model.rules)?;
        let bytes = cells.saturating_mul(size_of::<u64>()).max(1);
        let refused = |_| ReplayError::NoRoom { bytes };
        let length = bytes.checked_next_multiple_of(page_size()).ok_or(ReplayError::NoRoom { bytes })?;
        let metadata = Reservation::sparse(length).map_err(refused)?;
        // SAFETY: the metadata is zero, aligned to a page, long enough, ours alone, and goes after the engine.
        let mut engine =
            unsafe { AnyEngine::create_zeroed(model.policy, metadata.base().cast(), model.capacity, &model.rules) }?;
        engine.seed(model.seed);
        Ok(Heap { engine, _metadata: metadata })
    }

    /// The engine. (It names its metadata's lifetime, which is this heap's; nothing that it gives out does.)
    #[inline(always)]
    pub(crate) fn engine(&self) -> &AnyEngine<'static> {
        &self.engine
    }

    /// The engine, for changes that leave it in its place.
    #[inline(always)]
    pub(crate) fn engine_mut(&mut self) -> &mut AnyEngine<'static> {
        &mut self.engine
    }
}
