//! Searches the shortest region in which a trace succeeds.

use heapwright_placement::{Growth, MAX_GRANULES, PolicyKind, Rules, Statistics};
use serde::Serialize;

use crate::demand::Demand;
use crate::error::ReplayError;
use crate::model::Model;
use crate::recording::Recording;

/// The shortest fixed region in which a trace succeeds: every request of the trace succeeds.
///
/// Regions are multiples of the granule. Success need not be monotonic in their length: a policy that compares the free
/// tail with other holes places blocks differently in a longer region, and may fail in it. The search finds a length at
/// which the trace succeeds and one granule below which it fails; [`Fit::certainty`] states whether a shorter region is
/// possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fit {
    /// The length in bytes. The trace succeeds in a region of this length, and fails in one that is a granule shorter.
    pub region: u64,
    /// Whether a shorter region is possible.
    pub certainty: Certainty,
    /// Longer regions in which the trace fails, among those tried, in ascending order, in bytes.
    pub fails_above: Vec<u64>,
    /// The number of regions tried.
    pub tried: u32,
}

/// The certainty that no shorter region succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// No shorter region succeeds: each is below the peak of the sizes of all live blocks.
    LowerBound,
    /// No shorter region succeeds: under first fit without resizes and kept remainders, blocks are placed alike in
    /// regions of all lengths, until a request would reach beyond the end.
    FirstFit,
    /// No shorter region succeeds: all were tried.
    Scanned,
    /// A shorter region may succeed: those that were tried fail.
    Local,
}

/// The effort of [`Fit::search`] to find a shorter region than the first answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Tries this number of regions on each side of the answer, near ones more densely.
    Samples(u32),
    /// Tries every shorter region down to the lower bound. The answer is the shortest of all.
    Exhaustive,
}

/// A region that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The length of the region in bytes.
    pub region: u64,
    /// Whether the trace succeeds in it.
    pub fits: bool,
    /// The estimated number of regions still to try.
    pub left: u64,
}

impl Fit {
    /// Searches the shortest region under the policy, the rules and the seed of `model`; ignores its growth and
    /// capacity. Calls `watch` with every region tried. Returns `None` if no region is long enough for the trace.
    ///
    /// Time: some 20 replays and those of `effort`. A replay stops at the first request that fails.
    ///
    /// ```
    /// use heapwright_placement::PolicyKind;
    /// use heapwright_replay::{Certainty, Effort, Fit, Model, Recording};
    /// use heapwright_trace::{Event, Kind};
    ///
    /// let request = |block, size| Event::Allocate { block, kind: Kind::Malloc, size, align: 16 };
    /// let events = [request(0, 512), request(1, 16), Event::Free { block: 0 }, request(2, 528)];
    /// let recording = Recording::of(events);
    /// let fit = Fit::search(&recording, &Model::usual(PolicyKind::First), Effort::Samples(8), |_| ())?.unwrap();
    /// // 16 bytes are between the hole of 512 and the block that did not fit there.
    /// assert_eq!((fit.region, fit.certainty), (512 + 16 + 528, Certainty::FirstFit));
    /// # Ok::<(), heapwright_replay::ReplayError>(())
    /// ```
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn search(
        recording: &Recording,
        model: &Model,
        effort: Effort,
        watch: impl FnMut(Trial),
    ) -> Result<Option<Fit>, ReplayError> {
        let demand = Demand::of(recording, &model.rules, &model.requests)?;
        Search::new(recording, model, &demand, watch).run(effort)
    }
}

/// The state of a search. Lengths in granules.
struct Search<'r, W> {
    recording: &'r Recording,
    /// The heap, except for its length.
    model: Model,
    granule: u64,
    /// The lower bound from the demand.
    least: u64,
    demand: Demand,
    watch: W,
    tried: u32,
    /// The estimated number of regions still to try.
    left: u64,
    fails: Vec<u64>,
}

impl<'r, W: FnMut(Trial)> Search<'r, W> {
    fn new(recording: &'r Recording, model: &Model, demand: &Demand, watch: W) -> Search<'r, W> {
        let rules = Rules { growth: Growth::Fixed, statistics: Statistics::Off, ..model.rules };
        let granule = u64::from(rules.granule);
        Search {
            recording,
            model: Model { rules, ..*model },
            granule,
            least: demand.least_region(model.policy, &rules) / granule,
            demand: *demand,
            watch,
            tried: 0,
            left: 0,
            fails: Vec::new(),
        }
    }

    fn run(mut self, effort: Effort) -> Result<Option<Fit>, ReplayError> {
        let Some(enough) = self.find_enough()? else { return Ok(None) };
        // `least - 1` is known to fail, `enough` is known to succeed.
        let mut found = self.bisect(self.least - 1, enough)?;
        let certainty = match self.proof_at(found) {
            Some(certainty) => certainty,
            None => match effort {
                Effort::Samples(number) => self.sample(&mut found, number)?,
                Effort::Exhaustive => self.scan(&mut found)?,
            },
        };
        let mut fails_above: Vec<u64> =
            self.fails.iter().filter(|&&fails| fails > found).map(|n| n * self.granule).collect();
        fails_above.sort_unstable();
        Ok(Some(Fit { region: found * self.granule, certainty, fails_above, tried: self.tried }))
    }

    /// Returns whether the trace succeeds in a region of `length`.
    fn fits(&mut self, length: u64) -> Result<bool, ReplayError> {
        let capacity = usize::try_from(length * self.granule).unwrap_or(usize::MAX);
        let fits = self.recording.fits(&Model { capacity, ..self.model })?;
        self.tried += 1;
        self.left = self.left.saturating_sub(1);
        if !fits {
            self.fails.push(length);
        }
        (self.watch)(Trial { region: length * self.granule, fits, left: self.left });
        Ok(fits)
    }

    /// Returns a length that is enough: the peak of a heap that grows, or more if the trace fails in that.
    fn find_enough(&mut self) -> Result<Option<u64>, ReplayError> {
        let rules = Rules { growth: Growth::Extend, statistics: Statistics::Kept, ..self.model.rules };
        let usual = Model::with(self.model.policy, rules);
        let Model { seed, requests, odd, .. } = self.model;
        let grown = Model { seed, requests, odd, ..usual };
        let outcome = self.recording.replay(&grown)?;
        let longest = (grown.capacity as u64 / self.granule).min(MAX_GRANULES as u64);
        if outcome.refused > 0 || self.least > longest {
            return Ok(None);
        }
        let mut length = outcome.peak_heap.div_ceil(self.granule).max(self.least);
        self.left = u64::from((length - self.least + 1).ilog2() + 2);
        while !self.fits(length)? {
            if length == longest {
                return Ok(None);
            }
            length = (length + length / 4).min(longest);
        }
        Ok(Some(length))
    }

    /// Returns a length between `fails` and `succeeds` at which the trace succeeds and one granule below which it
    /// fails.
    fn bisect(&mut self, mut fails: u64, mut succeeds: u64) -> Result<u64, ReplayError> {
        while succeeds - fails > 1 {
            self.left = self.left.max(u64::from((succeeds - fails).ilog2()));
            let middle = fails + (succeeds - fails) / 2;
            if self.fits(middle)? {
                succeeds = middle;
            } else {
                fails = middle;
            }
        }
        Ok(succeeds)
    }

    /// Returns the proof that no shorter length than `found` succeeds, if there is one without trying.
    fn proof_at(&self, found: u64) -> Option<Certainty> {
        let rules = &self.model.rules;
        if found == self.least {
            Some(Certainty::LowerBound)
        } else if self.model.policy == PolicyKind::First
            && self.demand.resizes == 0
            && rules.min_remainder <= rules.granule
            && self.model.odd_reason().is_none()
        {
            Some(Certainty::FirstFit)
        } else {
            None
        }
    }

    /// Tries some lengths below `found`, continues from the first that succeeds, and then tries some above.
    fn sample(&mut self, found: &mut u64, number: u32) -> Result<Certainty, ReplayError> {
        self.left = 2 * u64::from(number);
        while let Some(shorter) = self.shorter_sample(*found, number)? {
            let fails = self.fails.iter().copied().filter(|&fails| fails < shorter).max();
            *found = self.bisect(fails.unwrap_or(self.least - 1), shorter)?;
            if let Some(certainty) = self.proof_at(*found) {
                return Ok(certainty);
            }
        }
        for distance in distances(*found, number) {
            self.fits(*found + distance)?;
        }
        Ok(Certainty::Local)
    }

    /// Returns a length below `found` that succeeds, if one among a few does.
    fn shorter_sample(&mut self, found: u64, number: u32) -> Result<Option<u64>, ReplayError> {
        for distance in distances(found - self.least, number) {
            let length = found - distance;
            if !self.fails.contains(&length) && self.fits(length)? {
                return Ok(Some(length));
            }
        }
        Ok(None)
    }

    /// Tries every length below `found`, starting with the shortest.
    fn scan(&mut self, found: &mut u64) -> Result<Certainty, ReplayError> {
        self.left = *found - self.least;
        let known: std::collections::HashSet<u64> = self.fails.iter().copied().collect();
        for length in self.least..*found {
            if !known.contains(&length) && self.fits(length)? {
                *found = length;
                break;
            }
        }
        Ok(Certainty::Scanned)
    }
}

/// Returns up to `number` different distances from 1 to `furthest`, near ones more densely.
fn distances(furthest: u64, number: u32) -> impl Iterator<Item = u64> {
    let number = if furthest == 0 { 0 } else { number };
    let step = (furthest.max(1) as f64).powf(1.0 / f64::from(number.max(2) - 1));
    let mut last = 0;
    (0..number).filter_map(move |index| {
        let distance = (step.powi(index as i32).round() as u64).clamp(1, furthest);
        let is_new = distance > last;
        last = distance;
        is_new.then_some(distance)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_reach_the_furthest_without_repeating() {
        assert_eq!(distances(1000, 4).collect::<Vec<_>>(), [1, 10, 100, 1000]);
        assert_eq!(distances(3, 8).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(distances(9, 1).collect::<Vec<_>>(), [1]);
        assert_eq!(distances(0, 8).count() + distances(7, 0).count(), 0);
    }
}
