//! Policies as types, and the policy chosen at run time.

use core::ptr::NonNull;

use heapwright_placement::{
    AnyEngine, BestFit, Buddy, Counters, Engine, FirstFit, Fit, GoodFit, NextFit, Part, PolicyKind, RandomFit, Reach,
    Rules, RulesError, WorstFit,
};

/// A placement policy: [`FirstFit`] and the like, [`Buddies`], or [`Chosen`] at run time.
///
/// Only this crate implements it: heaps turn an engine's offsets into pointers, so that they depend on its correctness.
pub trait Policy: sealed::Sealed {
    /// What is chosen when the heap is created.
    type Choice: Copy;

    /// The engine that implements the policy.
    type Engine<'m>: Engine;

    /// Returns the policy.
    fn kind(choice: Self::Choice) -> PolicyKind;

    /// Returns how many cells of 8 bytes the metadata of a region of `capacity` bytes takes.
    ///
    /// # Errors
    /// The invalid rule, or [`RulesError::Capacity`].
    fn metadata_cells(choice: Self::Choice, capacity: usize, rules: &Rules) -> Result<usize, RulesError>;

    /// Calls `visit` with each part of that metadata, as far as a heap with this reach accesses it, see
    /// [`Fit::each_part`].
    ///
    /// # Errors
    /// As [`Policy::metadata_cells`].
    fn each_part(
        choice: Self::Choice,
        capacity: usize,
        rules: &Rules,
        reach: Reach,
        visit: &mut dyn FnMut(Part),
    ) -> Result<(), RulesError>;

    /// Lets the engine's heap reach as far as this, and no further, see [`Fit::set_limit`].
    fn set_limit(engine: &mut Self::Engine<'_>, reach: Reach);

    /// Returns the [`Reach::short`] that the last request would have needed, see [`Fit::missing`].
    fn missing(engine: &mut Self::Engine<'_>) -> usize;

    /// Makes the engine's wilderness shorter or longer, see [`Fit::move_end`].
    fn move_end(engine: &mut Self::Engine<'_>, heap_size: usize) -> bool;

    /// Returns what the policy decides by besides the holes, see [`Fit::cursor`].
    fn cursor(engine: &Self::Engine<'_>) -> u64;

    /// Returns the engine's counters, see [`Fit::counters_mut`].
    fn counters_mut<'e>(engine: &'e mut Self::Engine<'_>) -> Option<&'e mut Counters>;

    /// Creates an engine over zeroed metadata; touches only the metadata in use.
    ///
    /// # Errors
    /// As [`Policy::metadata_cells`].
    ///
    /// # Safety
    /// As for [`Fit::create_zeroed`].
    unsafe fn create_zeroed<'m>(
        choice: Self::Choice,
        metadata: NonNull<u64>,
        capacity: usize,
        rules: &Rules,
    ) -> Result<Self::Engine<'m>, RulesError>;

    /// Sets the seed of random fit; the other policies have none.
    fn seed(_engine: &mut Self::Engine<'_>, _seed: u64) {}
}

mod sealed {
    pub trait Sealed {}
}

/// Binary buddies, as a [`Policy`].
pub enum Buddies {}

/// A policy chosen when the heap is created.
pub enum Chosen {}

macro_rules! policy {
    ($Policy:ty, $kind:ident, $Engine:ident $(<$Parameter:ident>)?, $seed:expr, $move_end:expr) => {
        impl sealed::Sealed for $Policy {}

        impl Policy for $Policy {
            type Choice = ();
            type Engine<'m> = $Engine<'m $(, $Parameter)?>;

            fn kind((): ()) -> PolicyKind {
                PolicyKind::$kind
            }

            fn metadata_cells((): (), capacity: usize, rules: &Rules) -> Result<usize, RulesError> {
                $Engine$(::<$Parameter>)?::metadata_cells(capacity, rules)
            }

            fn each_part(
                (): (),
                capacity: usize,
                rules: &Rules,
                reach: Reach,
                visit: &mut dyn FnMut(Part),
            ) -> Result<(), RulesError> {
                $Engine$(::<$Parameter>)?::each_part(capacity, rules, reach, visit)
            }

            fn set_limit(engine: &mut Self::Engine<'_>, reach: Reach) {
                engine.set_limit(reach);
            }

            fn missing(engine: &mut Self::Engine<'_>) -> usize {
                engine.missing()
            }

            fn move_end(engine: &mut Self::Engine<'_>, heap_size: usize) -> bool {
                $move_end(engine, heap_size)
            }

            #[inline(always)]
            fn cursor(engine: &Self::Engine<'_>) -> u64 {
                engine.cursor()
            }

            #[inline(always)]
            fn counters_mut<'e>(engine: &'e mut Self::Engine<'_>) -> Option<&'e mut Counters> {
                engine.counters_mut()
            }

            unsafe fn create_zeroed<'m>(
                (): (),
                metadata: NonNull<u64>,
                capacity: usize,
                rules: &Rules,
            ) -> Result<Self::Engine<'m>, RulesError> {
                // SAFETY: `metadata` points to a zeroed block of `metadata_cells` cells that only this engine uses and
                // that is valid as far as the heap is allowed to grow, as this function requires.
                unsafe { $Engine$(::<$Parameter>)?::create_zeroed(metadata, capacity, rules) }
            }

            fn seed(engine: &mut Self::Engine<'_>, seed: u64) {
                $seed(engine, seed);
            }
        }
    };
}

policy!(FirstFit, First, Fit<FirstFit>, Fit::seed, Fit::move_end);
policy!(NextFit, Next, Fit<NextFit>, Fit::seed, Fit::move_end);
policy!(BestFit, Best, Fit<BestFit>, Fit::seed, Fit::move_end);
policy!(WorstFit, Worst, Fit<WorstFit>, Fit::seed, Fit::move_end);
policy!(RandomFit, Random, Fit<RandomFit>, Fit::seed, Fit::move_end);
policy!(GoodFit, Good, Fit<GoodFit>, Fit::seed, Fit::move_end);
policy!(Buddies, Buddy, Buddy, |_: &mut Buddy<'_>, _| (), |_: &mut Buddy<'_>, _| false);

impl sealed::Sealed for Chosen {}

impl Policy for Chosen {
    type Choice = PolicyKind;
    type Engine<'m> = AnyEngine<'m>;

    fn kind(choice: PolicyKind) -> PolicyKind {
        choice
    }

    fn metadata_cells(choice: PolicyKind, capacity: usize, rules: &Rules) -> Result<usize, RulesError> {
        AnyEngine::metadata_cells(choice, capacity, rules)
    }

    fn each_part(
        choice: PolicyKind,
        capacity: usize,
        rules: &Rules,
        reach: Reach,
        visit: &mut dyn FnMut(Part),
    ) -> Result<(), RulesError> {
        AnyEngine::each_part(choice, capacity, rules, reach, visit)
    }

    fn set_limit(engine: &mut AnyEngine<'_>, reach: Reach) {
        engine.set_limit(reach);
    }

    fn missing(engine: &mut AnyEngine<'_>) -> usize {
        engine.missing()
    }

    unsafe fn create_zeroed<'m>(
        choice: PolicyKind,
        metadata: NonNull<u64>,
        capacity: usize,
        rules: &Rules,
    ) -> Result<Self::Engine<'m>, RulesError> {
        // SAFETY: `metadata` points to a zeroed block of `metadata_cells` cells that only this engine uses and that is
        // valid as far as the heap is allowed to grow, as this function requires.
        unsafe { AnyEngine::create_zeroed(choice, metadata, capacity, rules) }
    }

    fn move_end(engine: &mut AnyEngine<'_>, heap_size: usize) -> bool {
        engine.move_end(heap_size)
    }

    #[inline(always)]
    fn cursor(engine: &AnyEngine<'_>) -> u64 {
        engine.cursor()
    }

    #[inline(always)]
    fn counters_mut<'e>(engine: &'e mut AnyEngine<'_>) -> Option<&'e mut Counters> {
        engine.counters_mut()
    }

    fn seed(engine: &mut AnyEngine<'_>, seed: u64) {
        engine.seed(seed);
    }
}
