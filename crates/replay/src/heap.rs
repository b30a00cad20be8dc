//! An engine with its metadata.

use heapwright_os::{Reservation, page_size};
use heapwright_placement::AnyEngine;
use heapwright_reference::Reference;

use crate::engine::SimulatedEngine;
use crate::error::ReplayError;
use crate::model::Model;

/// The engine of a [`Model`]. The metadata of a fast engine is reserved at once and backed by memory as the heap grows.
pub(crate) struct Heap {
    /// Declared before the metadata that it points to, so that it is dropped first.
    engine: SimulatedEngine,
    _metadata: Option<Reservation>,
}

impl Heap {
    pub(crate) fn new(model: &Model) -> Result<Heap, ReplayError> {
        if model.odd_reason().is_none() {
            return Heap::fast(model);
        }
        let mut engine = Reference::create(model.policy, model.capacity, &model.rules)?.under(model.odd);
        engine.seed(model.seed);
        Ok(Heap { engine: SimulatedEngine::Reference(Box::new(engine)), _metadata: None })
    }

    fn fast(model: &Model) -> Result<Heap, ReplayError> {
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
        Ok(Heap { engine: SimulatedEngine::Fast(engine), _metadata: Some(metadata) })
    }

    /// Returns the engine. The `'static` of its metadata stands for the lifetime of this heap; none of its results
    /// carry it.
    #[inline(always)]
    pub(crate) fn engine(&self) -> &SimulatedEngine {
        &self.engine
    }

    /// Returns the engine for changes. Callers must not move it out: it must not outlive the metadata.
    #[inline(always)]
    pub(crate) fn engine_mut(&mut self) -> &mut SimulatedEngine {
        &mut self.engine
    }
}
