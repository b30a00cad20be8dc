//! Policies as types, and the policy chosen at run time.

use core::ptr::NonNull;

use heapwright_placement::{
    AnyEngine, BestFit, Buddy, Engine, FirstFit, Fit, GoodFit, NextFit, PolicyKind, RandomFit, Rules, RulesError,
    WorstFit,
};

/// How a heap places its blocks: [`FirstFit`] and its kin, [`Buddies`], or [`Chosen`] at run time.
///
/// Only this crate implements it: heaps turn an engine's offsets into pointers, so they must be able to trust it.
pub trait Policy: sealed::Sealed {
    /// What is still to be chosen when the heap is made.
    type Choice: Copy;

    /// The engine that places blocks so.
    type Engine<'m>: Engine;

    /// Which of the policies this is.
    fn kind(choice: Self::Choice) -> PolicyKind;

    /// How many cells of 8 bytes the metadata of a region of `capacity` bytes takes.
    ///
    /// # Errors
    /// The rule that makes no sense, or [`RulesError::Capacity`].
    fn metadata_cells(choice: Self::Choice, capacity: usize, rules: &Rules) -> Result<usize, RulesError>;

    /// Creates an engine over zeroed metadata, of which only what is used is touched.
    ///
    /// # Errors
    /// As [`Policy::metadata_cells`].
    ///
    /// # Safety
    /// As [`Fit::create_zeroed`].
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

/// The policy of this name, chosen when the heap is made.
pub enum Chosen {}

macro_rules! policy {
    ($Policy:ty, $kind:ident, $Engine:ident $(<$Parameter:ident>)?, $seed:expr) => {
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

            unsafe fn create_zeroed<'m>(
                (): (),
                metadata: NonNull<u64>,
                capacity: usize,
                rules: &Rules,
            ) -> Result<Self::Engine<'m>, RulesError> {
                // SAFETY: the caller's promise is the same.
                unsafe { $Engine$(::<$Parameter>)?::create_zeroed(metadata, capacity, rules) }
            }

            fn seed(engine: &mut Self::Engine<'_>, seed: u64) {
                $seed(engine, seed);
            }
        }
    };
}

policy!(FirstFit, First, Fit<FirstFit>, Fit::seed);
policy!(NextFit, Next, Fit<NextFit>, Fit::seed);
policy!(BestFit, Best, Fit<BestFit>, Fit::seed);
policy!(WorstFit, Worst, Fit<WorstFit>, Fit::seed);
policy!(RandomFit, Random, Fit<RandomFit>, Fit::seed);
policy!(GoodFit, Good, Fit<GoodFit>, Fit::seed);
policy!(Buddies, Buddy, Buddy, |_: &mut Buddy<'_>, _| ());

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

    unsafe fn create_zeroed<'m>(
        choice: PolicyKind,
        metadata: NonNull<u64>,
        capacity: usize,
        rules: &Rules,
    ) -> Result<Self::Engine<'m>, RulesError> {
        // SAFETY: the caller's promise is the same.
        unsafe { AnyEngine::create_zeroed(choice, metadata, capacity, rules) }
    }

    fn seed(engine: &mut AnyEngine<'_>, seed: u64) {
        engine.seed(seed);
    }
}
