//! An engine and the oracle side by side.

use std::fmt::{self, Debug};
use std::ptr::NonNull;

use heapwright_placement::{AnyEngine, Engine, RulesError};

use crate::{Operation, Oracle, Scenario, Target, Told};

/// Where the engine and the oracle disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence(String);

impl Divergence {
    /// The engine, or the oracle, panicked.
    pub(crate) fn panicked(operation: Operation) -> Divergence {
        Divergence(format!("a panic at {operation:?}"))
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
    Err(Divergence(format!("{what}: the engine says {engine:?}, the oracle {oracle:?}")))
}

/// A block in use, as the program under test knows it.
#[derive(Clone, Copy)]
struct Live {
    offset: usize,
    bytes: usize,
}

/// How many offsets of freed blocks are remembered, to be freed once more.
const REMEMBERED: usize = 64;

/// A heap under test, beside the oracle's. Every operation is done to both and every answer compared.
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
    /// What `engine` lives in; declared behind it, dropped after it.
    metadata: Metadata,
    oracle: Oracle,
    live: Vec<Live>,
    dead: Vec<usize>,
}

impl Duel {
    /// Makes both heaps.
    ///
    /// # Errors
    /// As [`AnyEngine::create`], about which the two agree.
    pub fn begin(scenario: &Scenario) -> Result<Duel, RulesError> {
        let Scenario { policy, rules, capacity, seed } = *scenario;
        let cells = scenario.metadata_cells();
        let mut oracle = Oracle::create(policy, capacity, &rules)?;
        oracle.seed(seed);
        let metadata = Metadata::zeroed(cells?);
        // SAFETY: the cells are zero, ours alone, as many as the engine says, and outlive it.
        let mut engine = unsafe { AnyEngine::create_zeroed(policy, metadata.base, capacity, &rules) }?;
        engine.seed(seed);
        Ok(Duel { engine, metadata, oracle, live: Vec::new(), dead: Vec::new() })
    }

    /// How many blocks are in use.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Does one operation to both.
    ///
    /// # Errors
    /// What they disagree about.
    pub fn perform(&mut self, operation: Operation) -> Result<(), Divergence> {
        match operation {
            Operation::Allocate { bytes, align } => self.allocate(bytes, align)?,
            Operation::Deallocate(target) => {
                let offset = self.offset_of(target);
                let (engine, oracle) = (self.engine.deallocate(offset), self.oracle.deallocate(offset));
                if compare("deallocate", engine, oracle)?.is_ok() {
                    self.bury(target, offset);
                }
            }
            Operation::DeallocateSized(target, told) => {
                let offset = self.offset_of(target);
                let bytes = self.size_told(target, told);
                let engine = self.engine.deallocate_sized(offset, bytes);
                let oracle = self.oracle.deallocate_sized(offset, bytes);
                if compare("deallocate_sized", engine, oracle)?.is_ok() {
                    self.bury(target, offset);
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

    fn resize(&mut self, target: Target, old: Told, new: usize) -> Result<(), Divergence> {
        let offset = self.offset_of(target);
        let old = self.size_told(target, old);
        let (engine, oracle) = (self.engine.resize(offset, old, new), self.oracle.resize(offset, old, new));
        if compare("resize", engine, oracle)?.is_ok() {
            compare("usable size", self.engine.usable_size(offset), self.oracle.usable_size(offset))?;
            if let Some(block) = self.live.iter_mut().find(|block| block.offset == offset) {
                block.bytes = new;
            }
        }
        Ok(())
    }

    /// Copies the metadata to another place and goes on there; the old place is overwritten and given back.
    fn relocate(&mut self) -> Result<(), Divergence> {
        let copy = self.metadata.copy();
        // SAFETY: the cells were written by an engine of this version, are ours alone and outlive the new one.
        let attached = unsafe { AnyEngine::attach(copy.base, copy.cells) };
        self.engine = attached.map_err(|error| Divergence(format!("attach: {error}")))?;
        self.metadata = copy;
        Ok(())
    }

    /// Compares what is asked for after every operation.
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

    /// Compares all blocks, and what is said about offsets that are in none.
    ///
    /// # Errors
    /// What the two disagree about.
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

    fn size_told(&self, target: Target, told: Told) -> usize {
        match (told, target) {
            (Told::As(bytes), _) => bytes,
            (Told::Truly, Target::Live(index)) => self.pick(index).map_or(0, |block| block.bytes),
            (Told::Truly, _) => 0,
        }
    }

    /// The block at `offset` is gone.
    fn bury(&mut self, target: Target, offset: usize) {
        let at = match target {
            Target::Live(index) => Some(index % self.live.len().max(1)),
            _ => self.live.iter().position(|block| block.offset == offset),
        };
        if let Some(at) = at {
            self.live.swap_remove(at);
        }
        if self.dead.len() == REMEMBERED {
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

/// Memory for an engine's metadata, which the system zeroes when it is first touched.
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
        // SAFETY: both are that long, and the copy is new.
        unsafe { copy.base.copy_from_nonoverlapping(self.base, self.cells) };
        copy
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        let slice = NonNull::slice_from_raw_parts(self.base, self.cells);
        // SAFETY: it came from such a box.
        drop(unsafe { Box::from_raw(slice.as_ptr()) });
    }
}
