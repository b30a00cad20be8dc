//! Applies events to an engine.

use std::collections::HashSet;

use heapwright_placement::Engine;
use heapwright_rules::Requests;
use heapwright_trace::Event;

use crate::blocks::{Blocks, Placed, Places};
use crate::model::requested;

/// The effect of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A block was allocated.
    Placed(Placed),
    /// A block was resized in place.
    Resized {
        /// The block before.
        old: Placed,
        /// The block after.
        new: Placed,
    },
    /// A block was resized by moving it. Both places were in use at the same time.
    Moved {
        /// The block before.
        old: Placed,
        /// The block after.
        new: Placed,
    },
    /// A block was freed.
    Freed(Placed),
    /// A request failed. A block whose resize failed is unchanged.
    Refused {
        /// The requested bytes.
        size: u64,
    },
    /// The event names a block that is not live.
    Unknown,
    /// The event does not affect the heap.
    Nothing,
}

/// The live blocks, and the counts that the engine does not keep.
pub(crate) struct Steps<P = Blocks> {
    requests: Requests,
    pub(crate) blocks: P,
    /// The blocks of the trace that are null: the rules give them no block.
    nulls: HashSet<u64>,
    /// Events, changes of threads included.
    pub(crate) events: u64,
    /// Changes of threads.
    pub(crate) changes: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) moved: u64,
    pub(crate) requested: u64,
    pub(crate) peak_requested: u64,
}

impl<P: Places> Steps<P> {
    pub(crate) fn new(requests: Requests) -> Steps<P> {
        Steps {
            requests,
            blocks: P::default(),
            nulls: HashSet::new(),
            events: 0,
            changes: 0,
            refused: 0,
            unknown: 0,
            moved: 0,
            requested: 0,
            peak_requested: 0,
        }
    }

    /// Applies `event` to `engine`.
    #[inline(always)]
    pub(crate) fn apply(&mut self, engine: &mut impl Engine, event: &Event) -> Effect {
        self.events += 1;
        match *event {
            Event::Allocate { block, kind, size, align } => self.allocate(engine, block, size, kind.named_align(align)),
            Event::Resize { block, becomes, size } => self.resize(engine, block, becomes, size),
            Event::Free { block } => self.free(engine, block),
            // A request that failed in the program stays failed.
            Event::Failed { .. } => Effect::Nothing,
            Event::Thread { .. } => {
                self.changes += 1;
                Effect::Nothing
            }
        }
    }

    #[inline(always)]
    fn allocate(&mut self, engine: &mut impl Engine, number: u64, size: u64, named: u64) -> Effect {
        let Some((bytes, align)) = requested(&self.requests, size, named) else {
            self.nulls.insert(number);
            return Effect::Nothing;
        };
        let Ok(offset) = engine.allocate(bytes, align) else {
            self.refused += 1;
            return Effect::Refused { size };
        };
        let block = Placed { offset, size: size as usize };
        self.blocks.insert(number, block);
        self.add_requested(size);
        Effect::Placed(block)
    }

    fn resize(&mut self, engine: &mut impl Engine, number: u64, becomes: u64, size: u64) -> Effect {
        let Some(old) = self.blocks.remove(number) else {
            if self.nulls.remove(&number) {
                return self.resize_null(engine, becomes, size);
            }
            self.unknown += 1;
            return Effect::Unknown;
        };
        let (bytes, align) = (self.requests.raised(size as usize), self.requests.align(1));
        let at = |offset| Placed { offset, size: size as usize };
        let effect = if engine.resize(old.offset, self.requests.raised(old.size), bytes).is_ok() {
            Effect::Resized { old, new: at(old.offset) }
        } else if let Ok(offset) = engine.allocate(bytes, align) {
            let freed = engine.deallocate_sized(old.offset, self.requests.raised(old.size));
            debug_assert!(freed.is_ok());
            self.moved += 1;
            Effect::Moved { old, new: at(offset) }
        } else {
            self.blocks.insert(becomes, old);
            self.refused += 1;
            return Effect::Refused { size };
        };
        if let Effect::Resized { new, .. } | Effect::Moved { new, .. } = effect {
            self.blocks.insert(becomes, new);
        }
        self.requested -= old.size as u64;
        self.add_requested(size);
        effect
    }

    /// Allocates for a `realloc` of null. The program still has null if that is refused.
    fn resize_null(&mut self, engine: &mut impl Engine, becomes: u64, size: u64) -> Effect {
        let effect = self.allocate(engine, becomes, size, 1);
        if let Effect::Refused { .. } = effect {
            self.nulls.insert(becomes);
        }
        effect
    }

    #[inline(always)]
    fn free(&mut self, engine: &mut impl Engine, number: u64) -> Effect {
        let Some(block) = self.blocks.remove(number) else {
            if self.nulls.remove(&number) {
                return Effect::Nothing;
            }
            self.unknown += 1;
            return Effect::Unknown;
        };
        let freed = engine.deallocate_sized(block.offset, self.requests.raised(block.size));
        debug_assert!(freed.is_ok());
        self.requested -= block.size as u64;
        Effect::Freed(block)
    }

    #[inline(always)]
    fn add_requested(&mut self, size: u64) {
        self.requested += size;
        self.peak_requested = self.peak_requested.max(self.requested);
    }
}

#[cfg(test)]
mod tests {
    use heapwright_placement::{Growth, PolicyKind, Rules};
    use heapwright_rules::Zero;
    use heapwright_trace::Kind;

    use super::*;
    use crate::{Model, Simulation};

    /// The pointer of the program stays null when `realloc` refuses it, so that the next `realloc` allocates.
    #[test]
    fn a_refused_resize_of_null_leaves_null() {
        let usual = Model::usual(PolicyKind::First);
        let rules = Rules { growth: Growth::Fixed, ..usual.rules };
        let requests = Requests { zero: Zero::Null, ..usual.requests };
        let mut simulation = Simulation::new(&Model { rules, requests, capacity: 256, ..usual }).unwrap();
        let resize = |block, size| Event::Resize { block, becomes: block + 1, size };
        let events = [
            Event::Allocate { block: 0, kind: Kind::Malloc, size: 0, align: 16 },
            resize(0, 401),
            resize(1, 41),
            Event::Free { block: 2 },
        ];
        let placed = Placed { offset: 0, size: 41 };
        let effects = events.map(|event| simulation.apply(&event));
        let wanted = [Effect::Nothing, Effect::Refused { size: 401 }, Effect::Placed(placed), Effect::Freed(placed)];
        assert_eq!(effects, wanted);
        assert_eq!((simulation.outcome().refused, simulation.outcome().unknown), (1, 0));
    }
}
