//! The shortest sequences of calls on which one policy fails where another does not, by exhaustive search.
//!
//! Two heaps of the same fixed region are given the same calls, and every sequence is tried in order of length. Heaps
//! with the same live blocks at the same places, and the same rovers, have the same future: of the sequences that lead
//! there only the first is continued.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use heapwright_placement::{Engine, Growth, PolicyKind, Rules, RulesError};

use super::Reference;

/// A call of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A request for a block of this many units.
    Allocate(u8),
    /// Frees the block of this allocation, counted from 0.
    Free(u8),
}

/// A sequence of calls in a fixed region. One policy serves all of them, another one all but the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// The length of the region in units.
    pub region: u8,
    /// The calls.
    pub steps: Vec<Step>,
}

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The longest region, in units; at most 64.
    pub region: u8,
    /// The most calls.
    pub calls: usize,
}

/// The smallest unit of placement, in bytes.
const UNIT: u32 = 16;

/// Returns the shortest sequence on which the first of two policies fails and the other does not, and the shortest of
/// the opposite; of sequences of the same length one in the shortest region. `None` where there is none within the
/// bounds. Time and memory grow exponentially with both bounds.
///
/// ```
/// use heapwright_placement::PolicyKind;
/// use heapwright_reference::counterexample::{Bounds, Step, shortest};
/// let bounds = Bounds { region: 6, calls: 6 };
/// let [_, worst] = shortest([PolicyKind::Best, PolicyKind::Worst], bounds)?;
/// let worst = worst.expect("worst fit splits what best fit leaves whole");
/// assert!(matches!(worst.steps.last(), Some(Step::Allocate(_))));
/// # Ok::<(), heapwright_placement::RulesError>(())
/// ```
///
/// # Errors
/// [`RulesError::Capacity`] for regions that are longer than 64 units.
pub fn shortest(policies: [PolicyKind; 2], bounds: Bounds) -> Result<[Option<Counterexample>; 2], RulesError> {
    if bounds.region > 64 {
        return Err(RulesError::Capacity);
    }
    let mut found: [Option<Counterexample>; 2] = [None, None];
    for region in 1..=bounds.region {
        // In a longer region, only a shorter sequence is better.
        let calls = found.iter().map(|found| found.as_ref().map_or(bounds.calls, |found| found.steps.len() - 1)).max();
        for (best, new) in found.iter_mut().zip(Search::new(policies, region)?.run(calls.unwrap_or(0))) {
            if let Some(steps) = new
                && best.as_ref().is_none_or(|best| steps.len() < best.steps.len())
            {
                *best = Some(Counterexample { region, steps });
            }
        }
    }
    Ok(found)
}

impl Counterexample {
    /// Returns whether a policy serves every call.
    ///
    /// # Errors
    /// [`RulesError`] if no heap of the policy has this region.
    pub fn is_served_by(&self, policy: PolicyKind) -> Result<bool, RulesError> {
        Ok(self.layouts(policy)?.len() == self.steps.len())
    }

    /// Returns the heap of a policy after each call, up to the first that it does not serve.
    ///
    /// # Errors
    /// [`RulesError`] if no heap of the policy has this region.
    pub fn layouts(&self, policy: PolicyKind) -> Result<Vec<Layout>, RulesError> {
        let mut heap = empty(policy, self.region)?;
        let mut offsets = Vec::new();
        let mut layout: Layout = vec![None; usize::from(self.region)];
        let mut layouts = Vec::new();
        for &step in &self.steps {
            if !take(&mut heap, &mut offsets, step) {
                break;
            }
            match step {
                Step::Allocate(units) => {
                    let block = offsets.len() - 1;
                    let start = offsets[block] / UNIT as usize;
                    layout[start..start + usize::from(units)].fill(Some(block as u8));
                }
                Step::Free(freed) => {
                    layout.iter_mut().filter(|unit| **unit == Some(freed)).for_each(|unit| *unit = None)
                }
            }
            layouts.push(layout.clone());
        }
        Ok(layouts)
    }
}

/// Which allocation, counted from 0, has each unit of a region; `None` where it is free, or lost to rounding.
pub type Layout = Vec<Option<u8>>;

fn empty(policy: PolicyKind, region: u8) -> Result<Reference, RulesError> {
    let rules = Rules { granule: UNIT, growth: Growth::Fixed, ..Rules::default() };
    Reference::create(policy, usize::from(region) * UNIT as usize, &rules)
}

/// Applies a call; returns whether it was served.
fn take(heap: &mut Reference, offsets: &mut Vec<usize>, step: Step) -> bool {
    match step {
        Step::Allocate(units) => match heap.allocate(usize::from(units) * UNIT as usize, 1) {
            Ok(offset) => {
                offsets.push(offset);
                true
            }
            Err(_) => false,
        },
        Step::Free(block) => offsets.get(usize::from(block)).is_some_and(|&offset| heap.deallocate(offset).is_ok()),
    }
}

/// Both heaps after a sequence.
#[derive(Clone)]
struct Heaps {
    heaps: [Reference; 2],
    offsets: [Vec<usize>; 2],
    /// The units of each allocation; 0 for one that was freed.
    sizes: Vec<u8>,
}

impl Heaps {
    /// Applies a call to both; returns which of them served it.
    fn take(&mut self, step: Step) -> [bool; 2] {
        let [first, second] = &mut self.heaps;
        let [at_first, at_second] = &mut self.offsets;
        let served = [take(first, at_first, step), take(second, at_second, step)];
        if served == [true, true] {
            match step {
                Step::Allocate(units) => self.sizes.push(units),
                Step::Free(block) => self.sizes[usize::from(block)] = 0,
            }
        }
        served
    }

    /// Returns the indices of the live blocks.
    fn live(&self) -> impl Iterator<Item = usize> {
        (0..self.sizes.len()).filter(|&block| self.sizes[block] > 0)
    }

    /// Returns a hash of what the future depends on.
    fn state(&self) -> u64 {
        let place = |block: usize| (self.sizes[block], self.offsets[0][block], self.offsets[1][block]);
        let mut places: Vec<_> = self.live().map(place).collect();
        places.sort_unstable();
        let rovers = self.heaps.each_ref().map(|heap| if heap.policy == PolicyKind::Next { heap.rover } else { 0 });
        let mut hasher = DefaultHasher::new();
        (places, rovers).hash(&mut hasher);
        hasher.finish()
    }
}

/// A sequence: that of another node, and one call more.
struct Node {
    parent: u32,
    step: Option<Step>,
}

/// A search in one region.
struct Search {
    region: u8,
    empty: Heaps,
    nodes: Vec<Node>,
    seen: HashSet<u64>,
    found: [Option<Vec<Step>>; 2],
}

impl Search {
    fn new(policies: [PolicyKind; 2], region: u8) -> Result<Search, RulesError> {
        let [first, second] = policies;
        let heaps = [empty(first, region)?, empty(second, region)?];
        let empty = Heaps { heaps, offsets: [Vec::new(), Vec::new()], sizes: Vec::new() };
        let nodes = vec![Node { parent: 0, step: None }];
        Ok(Search { region, empty, nodes, seen: HashSet::new(), found: [None, None] })
    }

    /// Tries all sequences of at most `calls` calls, the shortest first.
    fn run(mut self, calls: usize) -> [Option<Vec<Step>>; 2] {
        let mut layer = 0..1;
        for _ in 0..calls {
            for node in layer.clone() {
                self.continue_from(node);
                if self.found.iter().all(Option::is_some) {
                    return self.found;
                }
            }
            layer = layer.end..self.nodes.len();
        }
        self.found
    }

    /// Tries every call after the sequence of a node.
    fn continue_from(&mut self, node: usize) {
        let mut heaps = self.empty.clone();
        let steps = self.steps(node);
        for &step in &steps {
            heaps.take(step);
        }
        let allocations = (1..=self.region).map(Step::Allocate);
        let frees: Vec<Step> = heaps.live().map(|block| Step::Free(block as u8)).collect();
        for step in allocations.chain(frees) {
            let mut next = heaps.clone();
            match next.take(step) {
                [true, true] => {
                    if self.seen.insert(next.state()) {
                        self.nodes.push(Node { parent: node as u32, step: Some(step) });
                    }
                }
                [false, false] => {}
                [false, true] => note(&mut self.found[0], &steps, step),
                [true, false] => note(&mut self.found[1], &steps, step),
            }
        }
    }

    /// Returns the calls that lead to a node.
    fn steps(&self, mut node: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Node { parent, step: Some(step) } = self.nodes[node] {
            steps.push(step);
            node = parent as usize;
        }
        steps.reverse();
        steps
    }
}

fn note(found: &mut Option<Vec<Step>>, steps: &[Step], last: Step) {
    if found.is_none() {
        *found = Some(steps.iter().copied().chain([last]).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every sequence, without any shortcut: whether one of this length tells the policies apart.
    fn tells_apart(policies: [PolicyKind; 2], region: u8, calls: usize) -> bool {
        fn below(heaps: &Heaps, region: u8, calls: usize) -> bool {
            let frees: Vec<Step> = heaps.live().map(|block| Step::Free(block as u8)).collect();
            (1..=region).map(Step::Allocate).chain(frees).any(|step| {
                let mut next = heaps.clone();
                match next.take(step) {
                    [false, true] => calls == 1,
                    [true, true] => calls > 1 && below(&next, region, calls - 1),
                    _ => false,
                }
            })
        }
        below(&Search::new(policies, region).unwrap().empty, region, calls)
    }

    #[test]
    fn nothing_shorter_is_overlooked() {
        use PolicyKind::{Best, Buddy, First, Next, Worst};
        for policies in [[First, Best], [Best, First], [Next, First], [Worst, Best], [Buddy, First], [First, Buddy]] {
            let bounds = Bounds { region: 5, calls: 5 };
            let [found, _] = shortest(policies, bounds).unwrap();
            let least = (1..=5).find(|&calls| (1..=5).any(|region| tells_apart(policies, region, calls)));
            assert_eq!(found.as_ref().map(|found| found.steps.len()), least, "{policies:?}");
            if let Some(found) = found {
                assert!(!found.is_served_by(policies[0]).unwrap() && found.is_served_by(policies[1]).unwrap());
            }
        }
    }

    #[test]
    fn regions_that_are_too_long_are_refused() {
        let bounds = Bounds { region: 65, calls: 1 };
        assert_eq!(shortest([PolicyKind::First, PolicyKind::Best], bounds), Err(RulesError::Capacity));
    }
}
