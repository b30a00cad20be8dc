//! An engine with its metadata.

use heapwright_os::{Reservation, page_size};
use heapwright_placement::AnyEngine;

use crate::error::ReplayError;
use crate::model::Model;

/// The engine of a [`Model`]. Its metadata is reserved at once and backed by memory as the heap grows.
pub(crate) struct Heap {
    /// Declared before the metadata that it points to, so that it is dropped first.
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
        // SAFETY: a sparse reservation is zeroed and page-aligned, and it has at least the cells that the engine needs.
        // Only this engine uses it, and the field order of `Heap` drops the engine before the reservation.
        let mut engine =
            unsafe { AnyEngine::create_zeroed(model.policy, metadata.base().cast(), model.capacity, &model.rules) }?;
        engine.seed(model.seed);
        Ok(Heap { engine, _metadata: metadata })
    }

    /// Returns the engine. Its `'static` stands for the lifetime of this heap; none of its results carry it.
    #[inline(always)]
    pub(crate) fn engine(&self) -> &AnyEngine<'static> {
        &self.engine
    }

    /// Returns the engine for changes. Callers must not move it out: it must not outlive the metadata.
    #[inline(always)]
    pub(crate) fn engine_mut(&mut self) -> &mut AnyEngine<'static> {
        &mut self.engine
    }
}
