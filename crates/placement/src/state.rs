//! The head of an engine's metadata, and the location of the metadata's other parts.

use crate::engine::Engine;
use crate::error::RulesError;
use crate::rules::{Growth, MAX_HEADER, MAX_MIN_REMAINDER, MIN_GRANULES, PolicyKind, Rules, Statistics};

/// "H" and the version of the metadata's layout.
const MAGIC: u16 = 0x4803;

/// The scalar state of an engine. Positions and lengths are in granules.
///
/// Invariant: `top <= end <= capacity`.
#[derive(Clone)]
#[repr(C)]
pub struct State {
    /// The region's length.
    pub(crate) capacity: usize,
    /// The heap's end: nothing above belongs to the heap.
    pub(crate) end: usize,
    /// Where the wilderness starts; equal to `end` when there is none.
    pub(crate) top: usize,
    /// The rover of next fit; the generator of random fit.
    pub(crate) cursor: u64,
    /// The low half of [`Rules::phase`] in granules.
    phase: u32,
    pub(crate) min_remainder: u32,
    /// The growth step of [`Growth::Pages`].
    step: u32,
    pub(crate) header: u16,
    magic: u16,
    /// The height of the index: its root covers as many words of the map as `top` needed at its highest.
    pub(crate) height: u8,
    policy: u8,
    growth: u8,
    /// log2 of the granule in bytes, and the top bit when counters are kept.
    shift_and_statistics: u8,
    /// The high half of [`Rules::phase`] in granules.
    high_phase: u32,
}

const COUNTED: u8 = 0x80;

impl State {
    pub(crate) fn new(policy: PolicyKind, capacity: usize, rules: &Rules) -> Result<State, RulesError> {
        rules.validate()?;
        let granules = capacity / rules.granule as usize;
        if !(MIN_GRANULES..=policy.most_granules()).contains(&granules) {
            return Err(RulesError::Capacity);
        }
        let (growth, step) = match rules.growth {
            Growth::Fixed => (0, 0),
            Growth::Append => (1, 0),
            Growth::Extend => (2, 0),
            Growth::Pages(step) => (3, step / rules.granule),
        };
        let statistics = match rules.statistics {
            Statistics::Kept => COUNTED,
            Statistics::Off => 0,
        };
        Ok(State {
            capacity: granules,
            end: if growth == 0 { granules } else { 0 },
            top: 0,
            cursor: 0,
            phase: (rules.phase / rules.granule as usize) as u32,
            high_phase: ((rules.phase / rules.granule as usize) as u64 >> 32) as u32,
            min_remainder: rules.min_remainder.div_ceil(rules.granule).max(1),
            step,
            header: (rules.header / rules.granule) as u16,
            magic: MAGIC,
            height: 0,
            policy: policy as u8,
            growth,
            shift_and_statistics: rules.granule.trailing_zeros() as u8 | statistics,
        })
    }

    /// Returns the state with which the recovery of a heap begins: what the rules and the length of its region decide,
    /// and the end, top and cursor that were `found`. The index is empty.
    pub(crate) fn to_recover(
        policy: PolicyKind,
        capacity: usize,
        rules: &Rules,
        found: &State,
    ) -> Result<State, RulesError> {
        if found.magic != MAGIC || found.policy != policy as u8 {
            return Err(RulesError::NotAHeap);
        }
        let state =
            State { end: found.end, top: found.top, cursor: found.cursor, ..Self::new(policy, capacity, rules)? };
        if state.end > state.capacity { Err(RulesError::Capacity) } else { Ok(state) }
    }

    /// Returns whether the heap follows `rules`.
    pub(crate) fn has_rules(&self, rules: &Rules) -> bool {
        let decided = |state: &State| {
            let State { min_remainder, step, header, growth, shift_and_statistics, .. } = *state;
            (state.phase(), min_remainder, step, header, growth, shift_and_statistics)
        };
        let one_granule = rules.granule as usize;
        let policy = PolicyKind::from_tag(self.policy);
        policy
            .and_then(|policy| Self::new(policy, one_granule, rules).ok())
            .is_some_and(|state| decided(&state) == decided(self))
    }

    /// Returns whether this can be the state of an engine of this version under `policy`: every field used in
    /// arithmetic is in its range.
    pub(crate) fn is_plausible(&self, policy: PolicyKind) -> bool {
        let shift = self.shift();
        self.height <= 8
            && self.top <= self.end
            && self.magic == MAGIC
            && self.policy == policy as u8
            && shift <= 12
            && (MIN_GRANULES..=policy.most_granules().min(usize::MAX >> shift)).contains(&self.capacity)
            && self.end <= self.capacity
            && u32::from(self.header) <= MAX_HEADER >> shift
            && (1..=(MAX_MIN_REMAINDER >> shift).max(1)).contains(&self.min_remainder)
            && match self.growth {
                0..=2 => self.step == 0,
                3 => (1..=u32::MAX >> shift).contains(&self.step),
                _ => false,
            }
    }

    /// Returns the granule up to which the checks look: all of a fixed heap, but only the grown part of one that grows
    /// by itself, since its capacity may be a whole address space.
    pub(crate) fn reach(&self) -> usize {
        if self.growth == 0 { self.capacity } else { self.end }
    }

    /// Returns the policy whose heap this state describes, if it describes one.
    pub(crate) fn policy(&self) -> Option<PolicyKind> {
        PolicyKind::from_tag(self.policy).filter(|&kind| self.is_plausible(kind))
    }

    #[inline(always)]
    pub(crate) fn shift(&self) -> u32 {
        u32::from(self.shift_and_statistics & !COUNTED)
    }

    /// Returns [`Rules::phase`] in granules.
    #[inline(always)]
    pub(crate) fn phase(&self) -> usize {
        (u64::from(self.high_phase) << 32 | u64::from(self.phase)) as usize
    }

    pub(crate) fn statistics(&self) -> Statistics {
        if self.shift_and_statistics & COUNTED == 0 { Statistics::Off } else { Statistics::Kept }
    }

    pub(crate) fn growth(&self) -> Growth {
        match self.growth {
            0 => Growth::Fixed,
            1 => Growth::Append,
            2 => Growth::Extend,
            _ => Growth::Pages(self.step << self.shift()),
        }
    }

    /// Returns the number of blocks before the first request: a fixed region is one hole.
    pub(crate) fn blocks_at_creation(&self) -> u64 {
        u64::from(self.growth == 0)
    }

    /// Returns the length of the heap's free tail, in granules.
    #[inline(always)]
    pub(crate) fn wilderness(&self) -> usize {
        self.end - self.top
    }

    /// Returns how many bytes more `new` takes than `old`, each rounded up to granules; 0 if it takes no more.
    pub(crate) fn rounded_growth(&self, old: usize, new: usize) -> u64 {
        let (old, new) = (self.granules(old).unwrap_or(0), self.granules(new).unwrap_or(0));
        (new.saturating_sub(old) << self.shift()) as u64
    }

    /// Returns `bytes` rounded up to granules, at least one; `None` when the region is not that long.
    #[inline(always)]
    pub(crate) fn granules(&self, bytes: usize) -> Option<usize> {
        if bytes > self.capacity << self.shift() {
            return None;
        }
        let shift = self.shift();
        Some(((bytes + ((1 << shift) - 1)) >> shift).max(1))
    }
}

/// A request in granules: the length of the block and its possible starts.
#[derive(Clone, Copy)]
pub struct Need {
    /// The block's length, header included.
    pub(crate) len: usize,
    /// Every payload starts at a multiple of this (a power of two); 1 when any granule will do.
    pub(crate) align: usize,
    /// Added to a block's start before its alignment is computed: the region's phase and the header.
    pub(crate) skew: usize,
    /// A front gap is a hole, and no hole is shorter than this.
    pub(crate) min_gap: usize,
}

impl Need {
    /// Returns the distance from `start` to the lowest place at or above it where the block may start.
    #[inline(always)]
    pub(crate) fn gap(&self, start: usize) -> usize {
        if self.align == 1 { 0 } else { self.aligned_gap(start) }
    }

    #[inline(never)]
    fn aligned_gap(&self, start: usize) -> usize {
        let gap = (start.wrapping_add(self.skew)).wrapping_neg() & (self.align - 1);
        if gap == 0 || gap >= self.min_gap {
            return gap;
        }
        gap + (self.min_gap - gap).next_multiple_of(self.align)
    }

    /// Returns a length that suffices wherever the hole starts.
    #[inline(always)]
    pub(crate) fn longest(&self) -> usize {
        if self.align == 1 { self.len } else { self.len.saturating_add(self.align - 1).saturating_add(self.min_gap) }
    }

    /// Returns whether a hole of `len` granules at `start` can contain the block.
    #[inline(always)]
    pub(crate) fn fits(&self, start: usize, len: usize) -> bool {
        len >= self.len && len - self.len >= self.gap(start)
    }
}

/// Returns the bytes at which a heap of a fit ends when it has grown for a block of `bytes` at a multiple of `align` (a
/// power of two), for which it has no hole; `None` when there is no such number. The block begins behind the last used
/// one, or behind the heap's end if blocks are appended, as soon as the alignment allows; a gap in front of it is no
/// shorter than the minimum remainder. Time: constant.
///
/// ```
/// use heapwright_placement::{AnyEngine, Engine, Growth, PolicyKind, Rules, fit_end};
/// let rules = Rules { growth: Growth::Extend, min_remainder: 100, ..Rules::default() };
/// let mut metadata = vec![0u64; AnyEngine::metadata_cells(PolicyKind::First, 4096, &rules)?];
/// let mut heap = AnyEngine::create(PolicyKind::First, &mut metadata, 4096, &rules)?;
/// heap.allocate(16, 16)?;
/// let end = fit_end(&heap, &rules, 64, 64);
/// assert_eq!((heap.allocate(64, 64)?, end), (128, Some(192)));
/// assert_eq!(Some(heap.heap_size()), end);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit_end(heap: &impl Engine, rules: &Rules, bytes: usize, align: usize) -> Option<usize> {
    let granule = rules.granule as usize;
    let header = rules.header as usize / granule;
    let need = Need {
        len: bytes.max(1).div_ceil(granule) + header,
        align: (align / granule).max(1),
        skew: rules.phase / granule + header,
        min_gap: rules.min_remainder.div_ceil(rules.granule).max(1) as usize,
    };
    let behind = if rules.growth == Growth::Append { heap.heap_size() } else { heap.top() };
    let start = behind / granule;
    start.checked_add(need.gap(start))?.checked_add(need.len)?.checked_mul(granule)
}
