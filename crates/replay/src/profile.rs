//! Samples of a heap during a replay: at its peak length, and at evenly spaced events.

use heapwright_placement::{Engine, Growth};
use heapwright_trace::Reader;

use crate::error::ReplayError;
use crate::model::Model;
use crate::outcome::Outcome;
use crate::simulation::Simulation;

/// The state of a heap at one moment of a replay. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// The number of events applied.
    pub event: u64,
    /// The length of the heap.
    pub heap: u64,
    /// The bytes in used blocks.
    pub live: u64,
    /// The requested bytes of all live blocks.
    pub requested: u64,
    /// The number of holes, including the free tail.
    pub holes: u64,
    /// `1 - largest hole / free bytes`; `None` without holes.
    pub external_fragmentation: Option<f64>,
    /// `1 - requested / live`; `None` without live blocks.
    pub internal_fragmentation: Option<f64>,
}

impl Moment {
    /// Returns the current state of a simulation. Time: a walk of the heap.
    #[must_use]
    pub fn of(simulation: &Simulation) -> Moment {
        let counters = simulation.engine().counters().unwrap_or_default();
        let requested = simulation.requested();
        Moment {
            event: simulation.events(),
            heap: counters.heap_size,
            live: counters.live,
            requested,
            holes: counters.holes,
            external_fragmentation: simulation.engine().holes().external_fragmentation(),
            internal_fragmentation: (counters.live != 0).then(|| 1.0 - requested as f64 / counters.live as f64),
        }
    }
}

/// Samples of a heap during a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The first moment at which the heap had its peak length, or, in a fixed region, the most requested bytes; `None`
    /// if the heap was always empty.
    pub at_peak: Option<Moment>,
    /// Samples at evenly spaced events, including the last.
    pub moments: Vec<Moment>,
}

impl Profile {
    /// Returns the mean of a figure over the moments that have it; `None` if none does.
    #[must_use]
    pub fn mean(&self, figure: impl Fn(&Moment) -> Option<f64>) -> Option<f64> {
        let (sum, count) =
            self.moments.iter().filter_map(figure).fold((0.0, 0_u64), |(sum, count), figure| (sum + figure, count + 1));
        (count > 0).then(|| sum / count as f64)
    }
}

/// Replays a trace and samples the heap at its peak and at about `moments` evenly spaced events. `outcome` is that of
/// [`replay()`](crate::replay()) for the same trace and model. Time: that of a replay, and `moments` walks of the heap.
///
/// # Errors
/// The errors of [`replay()`](crate::replay()).
pub fn profile(trace: &mut Reader<'_>, model: &Model, outcome: &Outcome, moments: u64) -> Result<Profile, ReplayError> {
    let stride = outcome.events.div_ceil(moments.max(1)).max(1);
    let mut simulation = Simulation::new(model)?;
    let mut profile = Profile { at_peak: None, moments: Vec::new() };
    while let Some(event) = trace.next_call()? {
        simulation.apply(&event);
        if profile.at_peak.is_none() && outcome.peak_heap > 0 && is_peak(&simulation, model.rules.growth, outcome) {
            profile.at_peak = Some(Moment::of(&simulation));
        }
        if simulation.events().is_multiple_of(stride) || simulation.events() == outcome.events {
            profile.moments.push(Moment::of(&simulation));
        }
    }
    Ok(profile)
}

/// Whether the heap is as long as it becomes. A region has one length: there, whether as much is requested as ever is.
pub(crate) fn is_peak(simulation: &Simulation, growth: Growth, outcome: &Outcome) -> bool {
    match growth {
        Growth::Fixed => simulation.requested() == outcome.peak_requested,
        _ => simulation.engine().heap_size() as u64 >= outcome.peak_heap,
    }
}

#[cfg(test)]
mod tests {
    use heapwright_placement::PolicyKind;
    use heapwright_trace::{About, Kind, Writer};

    use super::*;
    use crate::whole::replay;

    #[test]
    fn the_peak_of_a_region_is_when_most_is_requested() {
        let trace = trace();
        let rules = heapwright_placement::Rules { growth: Growth::Fixed, ..heapwright_placement::Rules::default() };
        let model = Model { capacity: 4096, ..Model::with(PolicyKind::First, rules) };
        let outcome = replay(&mut Reader::new(&trace[..]).unwrap(), &model).unwrap();
        let profile = profile(&mut Reader::new(&trace[..]).unwrap(), &model, &outcome, 1).unwrap();
        let at_peak = profile.at_peak.unwrap();
        assert_eq!((at_peak.heap, at_peak.event, at_peak.requested), (4096, 4, 152));
    }

    /// Allocates four blocks, frees the first and the third, allocates one that fits neither hole, then frees all.
    fn trace() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), &About::of_program("test")).unwrap();
        let blocks: Vec<u64> =
            [96, 16, 32, 8].map(|size| writer.allocate(Kind::Malloc, size, 16).unwrap()).into_iter().collect();
        writer.free(blocks[0]).unwrap();
        writer.free(blocks[2]).unwrap();
        let last = writer.allocate(Kind::Malloc, 112, 16).unwrap();
        [blocks[1], blocks[3], last].into_iter().for_each(|block| writer.free(block).unwrap());
        writer.finish().unwrap()
    }

    fn profile_of(moments: u64) -> Profile {
        let (bytes, model) = (trace(), Model::usual(PolicyKind::First));
        let outcome = replay(&mut Reader::new(&bytes[..]).unwrap(), &model).unwrap();
        profile(&mut Reader::new(&bytes[..]).unwrap(), &model, &outcome, moments).unwrap()
    }

    #[test]
    fn the_peak_is_sampled_at_the_peak_length() {
        let at_peak = profile_of(1).at_peak.unwrap();
        assert_eq!((at_peak.event, at_peak.heap, at_peak.holes), (7, 272, 2));
        assert_eq!((at_peak.requested, at_peak.live), (136, 144));
        // Holes of 96 and 32 bytes.
        assert_eq!(at_peak.external_fragmentation, Some(0.25));
        assert_eq!(at_peak.internal_fragmentation, Some(1.0 - 136.0 / 144.0));
    }

    #[test]
    fn the_number_of_moments_is_about_the_requested_one() {
        for (requested_count, expected) in [(0, 1), (1, 1), (3, 3), (10, 10), (1000, 10)] {
            let profile = profile_of(requested_count);
            assert_eq!(profile.moments.len(), expected, "{requested_count}");
            assert_eq!(profile.moments.last().unwrap().event, 10);
        }
    }

    #[test]
    fn means_skip_moments_without_the_figure() {
        let profile = profile_of(1000);
        let external: Vec<f64> = profile.moments.iter().filter_map(|moment| moment.external_fragmentation).collect();
        assert_eq!(external.len(), 6, "there is no hole before the first free");
        assert_eq!(profile.mean(|moment| moment.external_fragmentation), Some(external.iter().sum::<f64>() / 6.0));
        assert_eq!(profile.mean(|_| None), None);
    }
}
