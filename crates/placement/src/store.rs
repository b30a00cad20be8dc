//! The division of a metadata block: the state, the counters when they are kept, the block map, the index.

use core::ptr::NonNull;

use crate::cells::Cells;
use crate::counters::Counters;
use crate::error::RulesError;
use crate::rules::{PolicyKind, Rules, Statistics};
use crate::state::State;

pub(crate) const STATE_CELLS: usize = size_of::<State>().div_ceil(8);
pub(crate) const COUNTER_CELLS: usize = size_of::<Counters>().div_ceil(8);

/// The lengths of the parts, in cells of 8 bytes, in the order in which they lie.
#[derive(Clone, Copy)]
pub(crate) struct Sections {
    counters: usize,
    map: usize,
    index: usize,
}

impl Sections {
    pub(crate) const fn new(statistics: Statistics, map: usize, index: usize) -> Sections {
        let counters = match statistics {
            Statistics::Kept => COUNTER_CELLS,
            Statistics::Off => 0,
        };
        Sections { counters, map, index }
    }

    pub(crate) const fn total(self) -> usize {
        self.before_index() + self.index
    }

    const fn before_index(self) -> usize {
        self.before_map() + self.map
    }

    pub(crate) const fn before_map(self) -> usize {
        STATE_CELLS + self.counters
    }

    /// Zeroes the index of the metadata at `base`.
    ///
    /// # Safety
    /// `base` is valid for writes of [`Sections::total`] cells.
    pub(crate) unsafe fn zero_index(self, base: NonNull<u64>) {
        // SAFETY: `base` is valid for writes of all sections, as this function requires, and the index is the last of
        // them.
        unsafe { base.add(self.before_index()).write_bytes(0, self.index) };
    }
}

/// The parts of a metadata block.
pub(crate) struct Parts<'m> {
    pub(crate) state: &'m mut State,
    pub(crate) counters: Option<&'m mut Counters>,
    pub(crate) map: Cells<'m, u64>,
    pub(crate) index: Cells<'m, u64>,
}

impl Parts<'_> {
    /// Returns the parts of the block at `base`.
    ///
    /// # Safety
    /// `base` is valid for reads and writes of `sections.total()` cells for the lifetime, used through nothing else,
    /// and begins with a state; what follows may be any bytes (all parts are plain integers).
    pub(crate) unsafe fn of(base: NonNull<u64>, sections: Sections) -> Self {
        let Sections { counters, map, index } = sections;
        // SAFETY: the block is valid for the lifetime and used through nothing else, as this function requires. The
        // parts lie one behind the other in it, so that they do not overlap, and each consists of integers aligned to
        // at most 8 bytes.
        unsafe {
            let after_state = base.add(STATE_CELLS);
            let at_map = after_state.add(counters);
            Parts {
                state: base.cast::<State>().as_mut(),
                counters: (counters != 0).then(|| after_state.cast::<Counters>().as_mut()),
                map: Cells::new(at_map.as_ptr(), map),
                index: Cells::new(at_map.add(map).as_ptr(), index),
            }
        }
    }
}

/// Returns the state of the heap whose metadata lies at `base`; it may be anything.
///
/// # Safety
/// `base` is valid for reads of `cells` cells.
pub(crate) unsafe fn state_at(base: NonNull<u64>, cells: usize) -> Result<State, RulesError> {
    if cells < STATE_CELLS {
        return Err(RulesError::MetadataTooShort);
    }
    // SAFETY: `base` is valid for reads of `cells` cells, as this function requires. They are long enough for a state,
    // which consists of integers, for which any bytes are valid.
    Ok(unsafe { base.cast::<State>().read() })
}

/// Prepares recovery: returns the state of the heap of `policy` at `base`, for a region of `capacity` bytes under
/// `rules`; empties the index.
///
/// # Safety
/// `base` is valid for reads and writes of `cells` cells and used through nothing else.
pub(crate) unsafe fn begin_recovery(
    base: NonNull<u64>,
    cells: usize,
    policy: PolicyKind,
    capacity: usize,
    rules: &Rules,
    sections: fn(usize, Statistics) -> Sections,
) -> Result<State, RulesError> {
    // SAFETY: `base` is valid for reads of `cells` cells, as this function requires.
    let state = State::to_recover(policy, capacity, rules, &unsafe { state_at(base, cells) }?)?;
    let sections = sections(state.capacity, state.statistics());
    if cells < sections.total() {
        return Err(RulesError::MetadataTooShort);
    }
    // SAFETY: `base` is valid for writes of `cells` cells, as this function requires, and the block was just found to
    // be as long as all its parts.
    unsafe { sections.zero_index(base) };
    Ok(state)
}

/// Returns the policy of the heap whose metadata lies at `base`.
///
/// # Safety
/// `base` is valid for reads of `cells` cells.
pub(crate) unsafe fn policy_at(base: NonNull<u64>, cells: usize) -> Result<PolicyKind, RulesError> {
    if cells < STATE_CELLS {
        return Err(RulesError::MetadataTooShort);
    }
    // SAFETY: `base` is valid for reads of `cells` cells, as this function requires. They are long enough for a state,
    // which consists of integers, for which any bytes are valid.
    unsafe { base.cast::<State>().as_ref() }.policy().ok_or(RulesError::NotAHeap)
}
