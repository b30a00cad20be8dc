//! An engine whose policy is chosen at run time.

use core::ptr::NonNull;

use crate::buddy::Buddy;
use crate::counters::Counters;
use crate::engine::{Block, Engine, Freed};
use crate::error::{AllocateError, FreeError, ResizeError, RulesError, Violation};
use crate::fit::Fit;
use crate::noted::{Change, Noted};
use crate::parts::{Part, Reach};
use crate::policies::{BestFit, FirstFit, GoodFit, NextFit, RandomFit, WorstFit};
use crate::recover::RecoverError;
use crate::rules::{PolicyKind, Rules};

/// An engine whose policy was chosen at run time; each operation costs one more branch than that policy's own type.
///
/// ```
/// use heapwright_placement::{AnyEngine, Engine, PolicyKind, Rules};
/// let policy = PolicyKind::from_name("worst").unwrap();
/// let rules = Rules::default();
/// let mut metadata = vec![0u64; AnyEngine::metadata_cells(policy, 1 << 20, &rules).unwrap()];
/// let mut heap = AnyEngine::create(policy, &mut metadata, 1 << 20, &rules).unwrap();
/// let a = heap.allocate(1000, 16).unwrap();
/// heap.deallocate(a).unwrap();
/// ```
pub enum AnyEngine<'m> {
    /// First fit.
    First(Fit<'m, FirstFit>),
    /// Next fit.
    Next(Fit<'m, NextFit>),
    /// Best fit.
    Best(Fit<'m, BestFit>),
    /// Worst fit.
    Worst(Fit<'m, WorstFit>),
    /// Random fit.
    Random(Fit<'m, RandomFit>),
    /// Binary buddies.
    Buddy(Buddy<'m>),
    /// Good fit.
    Good(Fit<'m, GoodFit>),
}

/// Evaluates `$body` with `$engine` bound to the engine inside, whichever it is.
macro_rules! each {
    ($any:expr, $engine:ident => $body:expr) => {
        match $any {
            AnyEngine::First($engine) => $body,
            AnyEngine::Next($engine) => $body,
            AnyEngine::Best($engine) => $body,
            AnyEngine::Worst($engine) => $body,
            AnyEngine::Random($engine) => $body,
            AnyEngine::Buddy($engine) => $body,
            AnyEngine::Good($engine) => $body,
        }
    };
}

/// Evaluates `$body` with `$Type` as the type of `$policy`'s engine, and wraps the result into an `AnyEngine`.
macro_rules! build {
    ($policy:expr, $Type:ident => $body:expr) => {
        match $policy {
            PolicyKind::First => {
                type $Type<'m> = Fit<'m, FirstFit>;
                $body.map(AnyEngine::First)
            }
            PolicyKind::Next => {
                type $Type<'m> = Fit<'m, NextFit>;
                $body.map(AnyEngine::Next)
            }
            PolicyKind::Best => {
                type $Type<'m> = Fit<'m, BestFit>;
                $body.map(AnyEngine::Best)
            }
            PolicyKind::Worst => {
                type $Type<'m> = Fit<'m, WorstFit>;
                $body.map(AnyEngine::Worst)
            }
            PolicyKind::Random => {
                type $Type<'m> = Fit<'m, RandomFit>;
                $body.map(AnyEngine::Random)
            }
            PolicyKind::Buddy => {
                type $Type<'m> = Buddy<'m>;
                $body.map(AnyEngine::Buddy)
            }
            PolicyKind::Good => {
                type $Type<'m> = Fit<'m, GoodFit>;
                $body.map(AnyEngine::Good)
            }
        }
    };
}

impl<'m> AnyEngine<'m> {
    /// Returns how many cells of 8 bytes the metadata of a region of `capacity` bytes takes under `policy`.
    ///
    /// # Errors
    /// The invalid rule, or [`RulesError::Capacity`].
    pub fn metadata_cells(policy: PolicyKind, capacity: usize, rules: &Rules) -> Result<usize, RulesError> {
        match policy {
            PolicyKind::First => Fit::<FirstFit>::metadata_cells(capacity, rules),
            PolicyKind::Next => Fit::<NextFit>::metadata_cells(capacity, rules),
            PolicyKind::Best => Fit::<BestFit>::metadata_cells(capacity, rules),
            PolicyKind::Worst => Fit::<WorstFit>::metadata_cells(capacity, rules),
            PolicyKind::Random => Fit::<RandomFit>::metadata_cells(capacity, rules),
            PolicyKind::Buddy => Buddy::metadata_cells(capacity, rules),
            PolicyKind::Good => Fit::<GoodFit>::metadata_cells(capacity, rules),
        }
    }

    /// Calls `visit` with each part of that metadata, as [`Fit::each_part`] does.
    ///
    /// # Errors
    /// As [`AnyEngine::metadata_cells`].
    pub fn each_part(
        policy: PolicyKind,
        capacity: usize,
        rules: &Rules,
        reach: Reach,
        visit: &mut dyn FnMut(Part),
    ) -> Result<(), RulesError> {
        match policy {
            PolicyKind::First => Fit::<FirstFit>::each_part(capacity, rules, reach, visit),
            PolicyKind::Next => Fit::<NextFit>::each_part(capacity, rules, reach, visit),
            PolicyKind::Best => Fit::<BestFit>::each_part(capacity, rules, reach, visit),
            PolicyKind::Worst => Fit::<WorstFit>::each_part(capacity, rules, reach, visit),
            PolicyKind::Random => Fit::<RandomFit>::each_part(capacity, rules, reach, visit),
            PolicyKind::Buddy => Buddy::each_part(capacity, rules, reach, visit),
            PolicyKind::Good => Fit::<GoodFit>::each_part(capacity, rules, reach, visit),
        }
    }

    /// Lets the heap reach as far as this, and no further, as [`Fit::set_limit`] does.
    pub fn set_limit(&mut self, reach: Reach) {
        each!(self, engine => engine.set_limit(reach));
    }

    /// Makes the wilderness shorter or longer, as [`Fit::move_end`] does. Returns `false` under buddies.
    pub fn move_end(&mut self, heap_size: usize) -> bool {
        match self {
            AnyEngine::First(engine) => engine.move_end(heap_size),
            AnyEngine::Next(engine) => engine.move_end(heap_size),
            AnyEngine::Best(engine) => engine.move_end(heap_size),
            AnyEngine::Worst(engine) => engine.move_end(heap_size),
            AnyEngine::Random(engine) => engine.move_end(heap_size),
            AnyEngine::Good(engine) => engine.move_end(heap_size),
            AnyEngine::Buddy(_) => false,
        }
    }

    /// Returns the [`Reach::short`] that the last request would have needed, as [`Fit::missing`] does.
    pub fn missing(&mut self) -> usize {
        each!(self, engine => engine.missing())
    }

    /// Creates a heap over a region of `capacity` bytes, as [`Fit::create`] does.
    ///
    /// # Errors
    /// As [`Fit::create`].
    pub fn create(
        policy: PolicyKind,
        metadata: &'m mut [u64],
        capacity: usize,
        rules: &Rules,
    ) -> Result<Self, RulesError> {
        build!(policy, Chosen => Chosen::create(metadata, capacity, rules))
    }

    /// Creates a heap over zeroed metadata, as [`Fit::create_zeroed`] does.
    ///
    /// # Errors
    /// As [`Fit::create_zeroed`].
    ///
    /// # Safety
    /// As for [`Fit::create_zeroed`].
    pub unsafe fn create_zeroed(
        policy: PolicyKind,
        metadata: NonNull<u64>,
        capacity: usize,
        rules: &Rules,
    ) -> Result<Self, RulesError> {
        // SAFETY: `metadata` points to `metadata_cells` zeroed cells that are used through nothing else and are valid
        // for `'m` as far as the heap is allowed to grow, as this function requires.
        build!(policy, Chosen => unsafe { Chosen::create_zeroed(metadata, capacity, rules) })
    }

    /// Attaches to the heap whose metadata lies at `metadata`, whatever its policy, as [`Fit::attach`] does.
    ///
    /// # Errors
    /// As [`Fit::attach`].
    ///
    /// # Safety
    /// As for [`Fit::attach`]: `metadata` is valid for reads and writes of `cells` cells for `'m` and is used through
    /// nothing else. Before the heap is changed, its bytes must come from an engine of this version, or its check must
    /// have passed.
    pub unsafe fn attach(metadata: NonNull<u64>, cells: usize) -> Result<Self, RulesError> {
        // SAFETY: `metadata` is valid for reads of `cells` cells, as this function requires.
        let policy = unsafe { crate::store::policy_at(metadata, cells) }?;
        // SAFETY: `metadata` is valid for reads and writes of `cells` cells for `'m` and used through nothing else, and
        // its bytes come from an engine or are checked before a change, as this function requires.
        build!(policy, Chosen => unsafe { Chosen::attach(metadata, cells) })
    }

    /// Attaches to a heap whose last user may have died in the middle of an operation. `change` is what that operation
    /// [noted](crate::Noted), or what undoes it, if it was not complete. Recovery applies the change to the block map
    /// and rebuilds everything that is derived from the map. If recovery dies too, it is started again with the same
    /// arguments.
    ///
    /// `capacity` becomes the region's length in bytes. A larger capacity than before extends the region; the metadata
    /// must have been extended at its end too. `rules` are those of the heap: they are written, whatever the metadata
    /// says about them.
    ///
    /// Whatever the metadata contains, the result is an error or a sound heap. Time: proportional to the metadata and
    /// the number of blocks.
    ///
    /// ```
    /// use heapwright_placement::{AnyEngine, Change, Engine, Noted, PolicyKind, Rules};
    /// let (policy, rules) = (PolicyKind::Best, Rules::default());
    /// let mut metadata = vec![0u64; AnyEngine::metadata_cells(policy, 1 << 16, &rules).unwrap()];
    /// let mut heap = AnyEngine::create(policy, &mut metadata, 1 << 16, &rules).unwrap();
    /// let mut record = None;
    /// let block = heap.allocate_noted(100, 16, |change| record = Some(change)).unwrap();
    /// // If the allocating process died before it stored the offset, this undoes the allocation.
    /// let undo = record.map(Change::undone);
    /// let (start, cells) = (std::ptr::NonNull::from(&mut metadata[..]).cast(), metadata.len());
    /// // SAFETY: no other heap over the metadata is used any more, and nothing else accesses it.
    /// let heap = unsafe { AnyEngine::recover(policy, start, cells, 1 << 16, &rules, undo) }.unwrap();
    /// assert_eq!(heap.usable_size(block), None);
    /// heap.check().unwrap();
    /// ```
    ///
    /// # Errors
    /// [`RecoverError`].
    ///
    /// # Safety
    /// `metadata` is valid for reads and writes of `cells` cells for `'m` and is used through nothing else.
    pub unsafe fn recover(
        policy: PolicyKind,
        metadata: NonNull<u64>,
        cells: usize,
        capacity: usize,
        rules: &Rules,
        change: Option<Change>,
    ) -> Result<Self, RecoverError> {
        // SAFETY: `metadata` is valid for reads and writes of `cells` cells for `'m` and used through nothing else, as
        // this function requires; its bytes may be anything.
        build!(policy, Chosen => unsafe { Chosen::recover(metadata, cells, capacity, rules, change) })
    }

    /// Returns whether the heap follows `rules`. Only damage to its metadata changes that.
    #[must_use]
    pub fn has_rules(&self, rules: &Rules) -> bool {
        each!(self, engine => engine.has_rules(rules))
    }

    /// Returns what the policy decides by besides the holes, as [`Fit::cursor`] does.
    #[inline(always)]
    #[must_use]
    pub fn cursor(&self) -> u64 {
        each!(self, engine => engine.cursor())
    }

    /// Returns the counters, as [`Fit::counters_mut`] does.
    #[inline(always)]
    pub fn counters_mut(&mut self) -> Option<&mut Counters> {
        each!(self, engine => engine.counters_mut())
    }

    /// Sets the seed of random fit; the other policies have none.
    pub fn seed(&mut self, seed: u64) {
        if let AnyEngine::Random(engine) = self {
            engine.seed(seed);
        }
    }
}

/// One function for each policy, not one with all of them: each has the registers for itself.
#[inline(never)]
fn allocate_in(engine: &mut impl Engine, bytes: usize, align: usize) -> Result<usize, AllocateError> {
    engine.allocate(bytes, align)
}

impl Engine for AnyEngine<'_> {
    fn policy(&self) -> PolicyKind {
        each!(self, engine => engine.policy())
    }

    fn allocate(&mut self, bytes: usize, align: usize) -> Result<usize, AllocateError> {
        each!(self, engine => allocate_in(engine, bytes, align))
    }

    fn deallocate(&mut self, offset: usize) -> Result<Freed, FreeError> {
        each!(self, engine => engine.deallocate(offset))
    }

    fn deallocate_sized(&mut self, offset: usize, bytes: usize) -> Result<Freed, FreeError> {
        each!(self, engine => engine.deallocate_sized(offset, bytes))
    }

    fn resize(&mut self, offset: usize, old: usize, new: usize) -> Result<(), ResizeError> {
        each!(self, engine => engine.resize(offset, old, new))
    }

    fn usable_size(&self, offset: usize) -> Option<usize> {
        each!(self, engine => engine.usable_size(offset))
    }

    fn block_containing(&self, offset: usize) -> Option<Block> {
        each!(self, engine => engine.block_containing(offset))
    }

    fn heap_size(&self) -> usize {
        each!(self, engine => engine.heap_size())
    }

    fn top(&self) -> usize {
        each!(self, engine => engine.top())
    }

    fn capacity(&self) -> usize {
        each!(self, engine => engine.capacity())
    }

    fn counters(&self) -> Option<Counters> {
        each!(self, engine => engine.counters())
    }

    fn check(&self) -> Result<(), Violation> {
        each!(self, engine => engine.check())
    }
}

impl Noted for AnyEngine<'_> {
    fn allocate_noted(
        &mut self,
        bytes: usize,
        align: usize,
        note: impl FnOnce(Change),
    ) -> Result<usize, AllocateError> {
        each!(self, engine => engine.allocate_noted(bytes, align, note))
    }

    fn deallocate_noted(&mut self, offset: usize, note: impl FnOnce(Change)) -> Result<Freed, FreeError> {
        each!(self, engine => engine.deallocate_noted(offset, note))
    }

    fn resize_noted(
        &mut self,
        offset: usize,
        old: usize,
        new: usize,
        note: impl FnOnce(Change),
    ) -> Result<(), ResizeError> {
        each!(self, engine => engine.resize_noted(offset, old, new, note))
    }

    fn extend(&mut self, heap_size: usize, note: impl FnOnce(Change)) -> Result<(), AllocateError> {
        each!(self, engine => engine.extend(heap_size, note))
    }
}
