//! An engine with its metadata.

use heapwright_os::{Reservation, page_size};
use heapwright_placement::{AnyEngine, Growth};
use heapwright_reference::Reference;

use crate::engine::SimulatedEngine;
use crate::error::ReplayError;
use crate::model::Model;

/// The engine of a [`Model`]. The metadata of a fast engine is reserved at once and backed by memory as the heap grows.
pub(crate) struct Heap {
    /// Declared before the metadata that it points to, so that it is dropped first.
    engine: SimulatedEngine,
    _metadata: Option<Reservation>,
    /// The bytes of metadata that the system refused, if the capacity is less than the model's for that reason.
    missing: Option<usize>,
}

/// Where the system refuses the metadata of a heap, the next attempt is for this part of its capacity.
const STEP: usize = 4;

/// Then as much must be left, in multiples of the metadata: other heaps are simulated at the same time.
const LEFT: usize = 8;

/// The least capacity in bytes that is attempted.
const LEAST: usize = 64 << 20;

impl Heap {
    pub(crate) fn new(model: &Model) -> Result<Heap, ReplayError> {
        if model.odd_reason().is_none() {
            return Heap::fast(model);
        }
        let mut engine = Reference::create(model.policy, model.capacity, &model.rules)?.under(model.odd);
        engine.seed(model.seed);
        Ok(Heap { engine: SimulatedEngine::Reference(Box::new(engine)), _metadata: None, missing: None })
    }

    /// Returns a heap of the fast engine. Under a limit on address space, a heap that grows has a lower capacity: it
    /// places all blocks as the model does until one does not fit, which [`Heap::ensure_room`] reports.
    fn fast(model: &Model) -> Result<Heap, ReplayError> {
        let whole = metadata_bytes(model, model.capacity)?;
        let (mut capacity, mut metadata) = (model.capacity, Reservation::sparse(whole));
        while metadata.is_err() && model.rules.growth != Growth::Fixed && capacity / STEP >= LEAST {
            capacity = (capacity / STEP).next_multiple_of(model.rules.granule as usize);
            let bytes = metadata_bytes(model, capacity)?;
            metadata = Reservation::sparse(bytes.saturating_mul(LEFT)).and_then(|probe| {
                drop(probe);
                Reservation::sparse(bytes)
            });
        }
        let metadata = metadata.map_err(|_| ReplayError::NoRoom { bytes: whole })?;
        // SAFETY: a sparse reservation is zeroed and page-aligned, and it has at least the cells that the engine needs.
        // Only this engine uses it, and the field order of `Heap` drops the engine before the reservation.
        let mut engine =
            unsafe { AnyEngine::create_zeroed(model.policy, metadata.base().cast(), capacity, &model.rules) }?;
        engine.seed(model.seed);
        let missing = (capacity < model.capacity).then_some(whole);
        Ok(Heap { engine: SimulatedEngine::Fast(engine), _metadata: Some(metadata), missing })
    }

    /// Checks that no request failed because the system refused metadata, where `refused` requests failed.
    ///
    /// # Errors
    /// [`ReplayError::NoRoom`].
    pub(crate) fn ensure_room(&self, refused: u64) -> Result<(), ReplayError> {
        self.missing.filter(|_| refused > 0).map_or(Ok(()), |bytes| Err(ReplayError::NoRoom { bytes }))
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

/// Returns the whole pages of metadata that a heap of this capacity takes, in bytes.
fn metadata_bytes(model: &Model, capacity: usize) -> Result<usize, ReplayError> {
    let cells = AnyEngine::metadata_cells(model.policy, capacity, &model.rules)?;
    let bytes = cells.saturating_mul(size_of::<u64>()).max(1);
    bytes.checked_next_multiple_of(page_size()).ok_or(ReplayError::NoRoom { bytes })
}
