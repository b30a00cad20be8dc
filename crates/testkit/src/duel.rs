//! Compares an engine with the oracle.

use std::fmt::{self, Debug};
use std::ptr::NonNull;

use heapwright_placement::{AnyEngine, Engine, RulesError};

use crate::{ClaimedSize, Operation, Oracle, Scenario, Target};

/// A difference between the engine and the oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence(String);

impl Divergence {
    /// Returns the divergence for a panic of the engine or the oracle.
    pub(crate) fn panicked(operation: Operation) -> Divergence {
        Divergence(format!("panic at {operation:?}"))
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Divergence {}

fn compare<T: PartialEq + Debug>(what: &str, engine: T, oracle: T) -> Result<T, Divergence> {
    if engine == oracle {
        return Ok(engine);
    }
    Err(Divergence(format!("{what}: engine {engine:?}, oracle {oracle:?}")))
}

/// A used block, as the caller of the heap records it.
#[derive(Clone, Copy)]
struct Live {
    offset: usize,
    bytes: usize,
}

/// The number of offsets of freed blocks kept for double frees.
const DEAD_LIMIT: usize = 64;

/// A heap under test and its oracle. Every operation is performed on both, and the results are compared.
///
/// ```
/// use heapwright_placement::{PolicyKind, Rules};
/// use heapwright_testkit::{Duel, Operation, Scenario, Target};
/// let scenario = Scenario { policy: PolicyKind::First, rules: Rules::default(), capacity: 4096, seed: 0 };
/// let mut duel = Duel::begin(&scenario).unwrap();
/// duel.perform(Operation::Allocate { bytes: 100, align: 16 }).unwrap();
/// duel.perform(Operation::Deallocate(Target::Live(0))).unwrap();
/// duel.perform(Operation::Inspect).unwrap();
/// ```
pub struct Duel {
    engine: AnyEngine<'static>,
    /// The metadata of `engine`. Declared after it, so that it is dropped after it.
    metadata: Metadata,
    oracle: Oracle,
    live: Vec<Live>,
    dead: Vec<usize>,
}

impl Duel {
    /// Creates both heaps.
    ///
    /// # Errors
    /// The errors of [`AnyEngine::create`]. Engine and oracle agree on them.
    pub fn begin(scenario: &Scenario) -> Result<Duel, RulesError> {
        let Scenario { policy, rules, capacity, seed } = *scenario;
        let cells = scenario.metadata_cells();
        let mut oracle = Oracle::create(policy, capacity, &rules)?;
        oracle.seed(seed);
        let metadata = Metadata::zeroed(cells?);
        // SAFETY: the cells are zeroed and as many as the engine requires. Only this engine uses them, and the field
        // order of `Duel` drops the engine first.
        let mut engine = unsafe { AnyEngine::create_zeroed(policy, metadata.base, capacity, &rules) }?;
        engine.seed(seed);
        Ok(Duel { engine, metadata, oracle, live: Vec::new(), dead: Vec::new() })
    }

    /// Returns the number of used blocks.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Performs one operation on both heaps.
    ///
    /// # Errors
    /// The first difference.
    pub fn perform(&mut self, operation: Operation) -> Result<(), Divergence> {
        match operation {
            Operation::Allocate { bytes, align } => self.allocate(bytes, align)?,
            Operation::Deallocate(target) => {
                let offset = self.offset_of(target);
                let (engine, oracle) = (self.engine.deallocate(offset), self.oracle.deallocate(offset));
                if compare("deallocate", engine, oracle)?.is_ok() {
                    self.mark_dead(target, offset);
                }
            }
            Operation::DeallocateSized(target, claim) => {
                let offset = self.offset_of(target);
                let bytes = self.claimed_size(target, claim);
                let engine = self.engine.deallocate_sized(offset, bytes);
                let oracle = self.oracle.deallocate_sized(offset, bytes);
                if compare("deallocate_sized", engine, oracle)?.is_ok() {
                    self.mark_dead(target, offset);
                }
            }
            Operation::Resize { target, old, new } => self.resize(target, old, new)?,
            Operation::Relocate => self.relocate()?,
            Operation::Inspect => self.inspect()?,
        }
        self.compare_figures()
    }

    fn allocate(&mut self, bytes: usize, align: usize) -> Result<(), Divergence> {
        let (engine, oracle) = (self.engine.allocate(bytes, align), self.oracle.allocate(bytes, align));
        if let Ok(offset) = compare("allocate", engine, oracle)? {
            compare("usable size", self.engine.usable_size(offset), self.oracle.usable_size(offset))?;
            self.live.push(Live { offset, bytes });
        }
        Ok(())
    }

    fn resize(&mut self, target: Target, old: ClaimedSize, new: usize) -> Result<(), Divergence> {
        let offset = self.offset_of(target);
        let old = self.claimed_size(target, old);
        let (engine, oracle) = (self.engine.resize(offset, old, new), self.oracle.resize(offset, old, new));
        if compare("resize", engine, oracle)?.is_ok() {
            compare("usable size", self.engine.usable_size(offset), self.oracle.usable_size(offset))?;
            if let Some(block) = self.live.iter_mut().find(|block| block.offset == offset) {
                block.bytes = new;
            }
        }
        Ok(())
    }

    /// Copies the metadata to another address and attaches the engine there; drops the old metadata.
    fn relocate(&mut self) -> Result<(), Divergence> {
        let copy = self.metadata.copy();
        // SAFETY: an engine of this version wrote the cells. Only the new engine uses the copy, which `self.metadata`
        // keeps alive as long as that engine.
        let attached = unsafe { AnyEngine::attach(copy.base, copy.cells) };
        self.engine = attached.map_err(|error| Divergence(format!("attach: {error}")))?;
        self.metadata = copy;
        Ok(())
    }

    /// Compares the figures that are checked after every operation.
    fn compare_figures(&self) -> Result<(), Divergence> {
        compare("counters", self.engine.counters(), self.oracle.counters())?;
        compare("heap size", self.engine.heap_size(), self.oracle.heap_size())?;
        compare("top", self.engine.top(), self.oracle.top())?;
        Ok(())
    }

    fn inspect(&self) -> Result<(), Divergence> {
        self.compare_blocks()?;
        self.engine.check().map_err(|violation| Divergence(format!("check: {violation}")))
    }

    /// Compares all blocks, and the results for offsets outside of every block.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare_blocks(&self) -> Result<(), Divergence> {
        compare("capacity", self.engine.capacity(), self.oracle.capacity())?;
        compare("policy", self.engine.policy(), self.oracle.policy())?;
        let mut walk = self.engine.blocks();
        for block in self.oracle.walk() {
            compare("block", walk.next(), Some(block))?;
            let middle = block.offset + block.size / 2;
            compare("block containing", self.engine.block_containing(middle), Some(block))?;
        }
        compare("block", walk.next(), None)?;
        for offset in [self.engine.heap_size(), self.engine.capacity(), usize::MAX] {
            compare("block containing", self.engine.block_containing(offset), None)?;
            compare("usable size", self.engine.usable_size(offset), self.oracle.usable_size(offset))?;
        }
        Ok(())
    }

    fn offset_of(&self, target: Target) -> usize {
        match target {
            Target::Live(index) => self.pick(index).map_or(0, |block| block.offset),
            Target::Dead(index) => self.dead.get(index % self.dead.len().max(1)).copied().unwrap_or(0),
            Target::Inside(index, distance) => self.pick(index).map_or(0, |block| block.offset).wrapping_add(distance),
            Target::At(offset) => offset,
        }
    }

    fn pick(&self, index: usize) -> Option<&Live> {
        self.live.get(index % self.live.len().max(1))
    }

    fn claimed_size(&self, target: Target, claim: ClaimedSize) -> usize {
        match (claim, target) {
            (ClaimedSize::Other(bytes), _) => bytes,
            (ClaimedSize::Actual, Target::Live(index)) => self.pick(index).map_or(0, |block| block.bytes),
            (ClaimedSize::Actual, _) => 0,
        }
    }

    /// Moves the block at `offset` from the live blocks to the dead ones.
    fn mark_dead(&mut self, target: Target, offset: usize) {
        let at = match target {
            Target::Live(index) => Some(index % self.live.len().max(1)),
            _ => self.live.iter().position(|block| block.offset == offset),
        };
        if let Some(at) = at {
            self.live.swap_remove(at);
        }
        if self.dead.len() == DEAD_LIMIT {
            self.dead.remove(0);
        }
        self.dead.push(offset);
    }
}

impl Debug for Duel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Duel").field("oracle", &self.oracle).finish_non_exhaustive()
    }
}

/// Memory for the metadata of an engine, zeroed by the system on first touch.
struct Metadata {
    base: NonNull<u64>,
    cells: usize,
}

impl Metadata {
    fn zeroed(cells: usize) -> Metadata {
        let base = NonNull::from(Box::leak(vec![0u64; cells].into_boxed_slice())).cast();
        Metadata { base, cells }
    }

    fn copy(&self) -> Metadata {
        let copy = Metadata::zeroed(self.cells);
        // SAFETY: both allocations have `self.cells` cells, and the new one does not overlap the old one.
        unsafe { copy.base.copy_from_nonoverlapping(self.base, self.cells) };
        copy
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        let slice = NonNull::slice_from_raw_parts(self.base, self.cells);
        // SAFETY: `zeroed` leaked a boxed slice of this base and length, and this is the only place that frees it.
        drop(unsafe { Box::from_raw(slice.as_ptr()) });
    }
}
