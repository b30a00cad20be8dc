//! One event after another.

use heapwright_placement::Engine;
use heapwright_trace::Event;

use crate::blocks::{Blocks, Placed};

/// What an event did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A block was placed.
    Placed(Placed),
    /// A block was resized where it was.
    Resized {
        /// As it was.
        old: Placed,
        /// As it is.
        new: Placed,
    },
    /// A block was resized by moving it; the old one lived until its contents were in the new one.
    Moved {
        /// As it was.
        old: Placed,
        /// As it is.
        new: Placed,
    },
    /// A block went.
    Freed(Placed),
    /// A request found no place; one to resize a block leaves the block as it was.
    Refused {
        /// How many bytes were asked for.
        size: u64,
    },
    /// A block was named that does not live.
    Unknown,
    /// Nothing happened to the heap.
    Nothing,
}

/// The alignment of a block that was moved, in bytes: what every block has.
const USUAL_ALIGN: usize = 16;

/// The live blocks, and what the engine does not count.
#[derive(Default)]
pub(crate) struct Steps {
    pub(crate) blocks: Blocks,
    pub(crate) events: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) moved: u64,
    pub(crate) requested: u64,
    pub(crate) peak_requested: u64,
}

impl Steps {
    /// Lets `engine` do what `event` says.
    #[inline(always)]
    pub(crate) fn apply(&mut self, engine: &mut impl Engine, event: &Event) -> Effect {
        self.events += 1;
        match *event {
            Event::Allocate { block, size, align, .. } => self.allocate(engine, block, size, align),
            Event::Resize { block, becomes, size } => self.resize(engine, block, becomes, size),
            Event::Free { block } => self.free(engine, block),
            // What was refused there has no place here either.
            Event::Failed { .. } | Event::Thread { .. } => Effect::Nothing,
        }
    }

    #[inline(always)]
    fn allocate(&mut self, engine: &mut impl Engine, number: u64, size: u64, align: u64) -> Effect {
        let Ok(offset) = engine.allocate(size as usize, align as usize) else {
            self.refused += 1;
            return Effect::Refused { size };
        };
        let block = Placed { offset, size: size as usize };
        self.blocks.insert(number, block);
        self.grown(size);
        Effect::Placed(block)
    }

    fn resize(&mut self, engine: &mut impl Engine, number: u64, becomes: u64, size: u64) -> Effect {
        let Some(old) = self.blocks.remove(number) else {
            self.unknown += 1;
            return Effect::Unknown;
        };
        let bytes = size as usize;
        let effect = if engine.resize(old.offset, old.size, bytes).is_ok() {
            Effect::Resized { old, new: Placed { offset: old.offset, size: bytes } }
        } else if let Ok(offset) = engine.allocate(bytes, USUAL_ALIGN) {
            let freed = engine.deallocate_sized(old.offset, old.size);
            debug_assert!(freed.is_ok());
            self.moved += 1;
            Effect::Moved { old, new: Placed { offset, size: bytes } }
        } else {
            self.blocks.insert(becomes, old);
            self.refused += 1;
            return Effect::Refused { size };
        };
        if let Effect::Resized { new, .. } | Effect::Moved { new, .. } = effect {
            self.blocks.insert(becomes, new);
        }
        self.requested -= old.size as u64;
        self.grown(size);
        effect
    }

    #[inline(always)]
    fn free(&mut self, engine: &mut impl Engine, number: u64) -> Effect {
        let Some(block) = self.blocks.remove(number) else {
            self.unknown += 1;
            return Effect::Unknown;
        };
        let freed = engine.deallocate_sized(block.offset, block.size);
        debug_assert!(freed.is_ok());
        self.requested -= block.size as u64;
        Effect::Freed(block)
    }

    #[inline(always)]
    fn grown(&mut self, size: u64) {
        self.requested += size;
        self.peak_requested = self.peak_requested.max(self.requested);
    }
}
