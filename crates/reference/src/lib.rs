//! The reference engine: every policy on one list of blocks in address order, which is walked from end to end.
//!
//! It is slow and short enough to be verified by reading. The tests compare the fast engine with it. Simulations use it
//! for the rules that the fast engine does not have ([`Odd`]). It follows the definitions in the documentation of the
//! engine and shares none of its data structures: no bitmaps, no index, no separate wilderness. Positions and lengths
//! are in granules.

use heapwright_placement::{
    AllocateError, Block, BlockState, Counters, Engine, FreeError, Freed, Growth, PolicyKind, ResizeError, Rules,
    RulesError, Violation,
};

use heapwright_rules::Odd;

mod buddy;
mod choose;
pub mod counterexample;
mod fits;
mod need;
mod resize;
mod run;

use need::Need;
use run::Run;

/// A reference heap: a list of blocks. Every operation takes time proportional to the number of blocks.
///
/// ```
/// use heapwright_placement::{Engine, PolicyKind, Rules};
/// let mut heap = heapwright_reference::Reference::create(PolicyKind::Best, 1 << 16, &Rules::default()).unwrap();
/// assert_eq!(heap.allocate(100, 16), Ok(0));
/// assert_eq!(heap.allocate(100, 16), Ok(112));
/// ```
#[derive(Clone, Debug)]
pub struct Reference {
    policy: PolicyKind,
    odd: Odd,
    rules: Rules,
    capacity: usize,
    runs: Vec<Run>,
    /// The position at which next fit continues: the end of the last placed block.
    rover: usize,
    /// The state of the generator of random fit.
    seed: u64,
    /// The counters that cannot be derived from the list.
    history: Counters,
}

impl Reference {
    /// Creates a heap over a region of `capacity` bytes, rounded down to granules.
    ///
    /// # Errors
    /// The errors of the engine of the same policy.
    pub fn create(policy: PolicyKind, capacity: usize, rules: &Rules) -> Result<Reference, RulesError> {
        rules.validate()?;
        let granules = capacity / rules.granule as usize;
        if !(heapwright_placement::MIN_GRANULES..=policy.most_granules()).contains(&granules) {
            return Err(RulesError::Capacity);
        }
        let mut reference = Reference {
            policy,
            odd: Odd::USUAL,
            rules: *rules,
            capacity: granules,
            runs: Vec::new(),
            rover: 0,
            seed: 0,
            history: Counters::default(),
        };
        if rules.growth == Growth::Fixed {
            if policy == PolicyKind::Buddy {
                reference.append_buddies(granules);
            } else {
                reference.runs.push(Run::hole(0, granules));
            }
        }
        reference.record_heap_size();
        Ok(reference)
    }

    /// Returns the heap under these rules. Buddies are not affected.
    #[must_use]
    pub fn under(self, odd: Odd) -> Reference {
        Reference { odd, ..self }
    }

    /// Sets the seed of random fit.
    pub fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Returns all blocks in address order.
    pub fn walk(&self) -> impl Iterator<Item = Block> + '_ {
        self.runs.iter().map(|run| self.as_block(run))
    }

    /// Returns the number of blocks, used and free.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.runs.len()
    }

    fn as_block(&self, run: &Run) -> Block {
        Block { offset: self.bytes(run.start), size: self.bytes(run.len), state: run.state }
    }

    fn bytes(&self, granules: usize) -> usize {
        granules * self.rules.granule as usize
    }

    fn header(&self) -> usize {
        (self.rules.header / self.rules.granule) as usize
    }

    /// Returns the shortest length of a remainder that becomes a hole.
    fn min_remainder(&self) -> usize {
        (self.rules.min_remainder.div_ceil(self.rules.granule) as usize).max(1)
    }

    /// Returns a request in granules, at least one.
    fn granules(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.rules.granule as usize).max(1)
    }

    /// Returns the requirements of a request for `granules`, aligned to `align` bytes.
    fn need(&self, granules: usize, align: usize) -> Need {
        let granule = self.rules.granule as usize;
        Need {
            len: granules.saturating_add(self.header()),
            align: (align / granule).max(1),
            first_payload: self.rules.phase / granule + self.header(),
            min_gap: self.min_remainder(),
        }
    }

    fn end(&self) -> usize {
        self.runs.last().map_or(0, Run::end)
    }

    /// Returns the index of the used block whose payload is at `offset`.
    fn find_used(&self, offset: usize) -> Option<usize> {
        let index = self.runs.binary_search_by_key(&offset, |run| self.bytes(run.start + self.header())).ok()?;
        (self.runs[index].state == BlockState::Used).then_some(index)
    }

    fn diagnose(&self, offset: usize) -> FreeError {
        match self.block_containing(offset) {
            Some(Block { state: BlockState::Free, .. }) => FreeError::AlreadyFree,
            _ => FreeError::NotABlock,
        }
    }

    fn record_heap_size(&mut self) {
        let size = self.bytes(self.end()) as u64;
        self.history.peak_heap_size = self.history.peak_heap_size.max(size);
    }

    fn add_live(&mut self, granules: usize) {
        self.history.live += self.bytes(granules) as u64;
        self.history.peak_live = self.history.peak_live.max(self.history.live);
    }

    fn remove_live(&mut self, granules: usize) {
        self.history.live -= self.bytes(granules) as u64;
    }

    fn release(&mut self, index: usize) -> Freed {
        let run = self.runs[index];
        self.history.frees += 1;
        self.remove_live(run.len);
        let hole = match self.policy {
            PolicyKind::Buddy => self.free_buddy(index),
            _ => self.free_block(index),
        };
        Freed {
            offset: self.bytes(run.start),
            size: self.bytes(run.len),
            hole_offset: self.bytes(hole.start),
            hole_size: self.bytes(hole.len),
        }
    }
}

impl Engine for Reference {
    fn policy(&self) -> PolicyKind {
        self.policy
    }

    fn allocate(&mut self, bytes: usize, align: usize) -> Result<usize, AllocateError> {
        if !align.is_power_of_two() {
            return Err(AllocateError::BadAlignment);
        }
        let granules = self.granules(bytes);
        let grows = self.history.grows;
        let need = self.need(granules, align);
        let placed = match self.policy {
            PolicyKind::Buddy => self.place_buddy(&need),
            _ => self.place(&need),
        };
        let run = placed.ok_or(AllocateError::RegionFull)?;
        self.history.mallocs += 1;
        self.history.reuses += u64::from(self.history.grows == grows);
        self.history.requested += bytes as u64;
        self.history.rounded += self.bytes(granules) as u64;
        self.add_live(run.len);
        Ok(self.bytes(run.start + self.header()))
    }

    fn deallocate(&mut self, offset: usize) -> Result<Freed, FreeError> {
        let index = self.find_used(offset).ok_or_else(|| self.diagnose(offset))?;
        self.history.unsized_frees += 1;
        Ok(self.release(index))
    }

    fn deallocate_sized(&mut self, offset: usize, bytes: usize) -> Result<Freed, FreeError> {
        let index = self.find_used(offset).ok_or_else(|| self.diagnose(offset))?;
        if bytes > self.bytes(self.runs[index].len - self.header()) {
            return Err(FreeError::WrongSize);
        }
        self.history.released += bytes as u64;
        Ok(self.release(index))
    }

    fn resize(&mut self, offset: usize, old: usize, new: usize) -> Result<(), ResizeError> {
        let index = self.find_used(offset).ok_or(ResizeError::NotABlock)?;
        let had = self.runs[index].len;
        let old = old.min(self.bytes(had - self.header()));
        let has = self.resize_in_place(index, new).ok_or(ResizeError::NoRoom)?;
        self.history.resizes += 1;
        self.history.requested += new.saturating_sub(old) as u64;
        self.history.rounded += self.bytes(self.granules(new)).saturating_sub(self.bytes(self.granules(old))) as u64;
        self.history.released += old.saturating_sub(new) as u64;
        self.remove_live(had);
        self.add_live(has);
        Ok(())
    }

    fn usable_size(&self, offset: usize) -> Option<usize> {
        let run = self.runs[self.find_used(offset)?];
        Some(self.bytes(run.len - self.header()))
    }

    fn block_containing(&self, offset: usize) -> Option<Block> {
        let index = self.runs.partition_point(|run| self.bytes(run.end()) <= offset);
        self.runs.get(index).map(|run| self.as_block(run))
    }

    fn heap_size(&self) -> usize {
        self.bytes(self.end())
    }

    fn top(&self) -> usize {
        match self.runs.last() {
            Some(run) if run.is_hole() && self.policy != PolicyKind::Buddy => self.bytes(run.start),
            _ => self.heap_size(),
        }
    }

    fn capacity(&self) -> usize {
        self.bytes(self.capacity)
    }

    fn counters(&self) -> Option<Counters> {
        (self.rules.statistics == heapwright_placement::Statistics::Kept).then(|| Counters {
            blocks: self.runs.len() as u64,
            holes: self.runs.iter().filter(|run| run.is_hole()).count() as u64,
            heap_size: self.heap_size() as u64,
            ..self.history
        })
    }

    /// Checks that the list is a partition of the heap.
    fn check(&self) -> Result<(), Violation> {
        let mut end = 0;
        for run in &self.runs {
            if run.start != end || run.len == 0 {
                return Err(Violation { invariant: "blocks are adjacent", offset: self.bytes(run.start) });
            }
            end = run.end();
        }
        Ok(())
    }
}
