//! How much of a heap is in use while a trace is replayed: at the heap's longest, and on average over the events.

use std::io::Read;

use heapwright_placement::Engine;
use heapwright_trace::Reader;

use crate::error::ReplayError;
use crate::model::Model;
use crate::outcome::Outcome;
use crate::simulation::Simulation;

/// A heap at one moment of a replay. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// How many events have happened.
    pub event: u64,
    /// From the heap's start to its end.
    pub heap: u64,
    /// In used blocks.
    pub live: u64,
    /// As asked, that live.
    pub requested: u64,
    /// How many holes, the free tail included.
    pub holes: u64,
    /// `1 - largest hole / free bytes`; unknown without holes.
    pub external_fragmentation: Option<f64>,
    /// `1 - requested / live`; unknown when nothing lives.
    pub internal_fragmentation: Option<f64>,
}

impl Moment {
    /// Looks at a simulation as it is. Time: a walk of the heap.
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

/// What was seen of a heap during a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// When the heap was first at its longest; `None` if there never was a heap.
    pub at_peak: Option<Moment>,
    /// At evenly spaced events, the last one included.
    pub moments: Vec<Moment>,
}

impl Profile {
    /// The mean of a figure over the moments at which it is known; `None` when it never is.
    #[must_use]
    pub fn mean(&self, figure: impl Fn(&Moment) -> Option<f64>) -> Option<f64> {
        let (sum, count) =
            self.moments.iter().filter_map(figure).fold((0.0, 0_u64), |(sum, count), figure| (sum + figure, count + 1));
        (count > 0).then(|| sum / count as f64)
    }
}

/// Replays a trace of which `outcome` is known (by [`replay()`](crate::replay()), with the same model) and looks at the heap at its peak
/// and at about `moments` evenly spaced events. Time: that of a replay, and as many walks of the heap.
///
/// # Errors
/// As [`replay()`](crate::replay()).
pub fn profile(
    trace: &mut Reader<impl Read>,
    model: &Model,
    outcome: &Outcome,
    moments: u64,
) -> Result<Profile, ReplayError> {
    let stride = outcome.events.div_ceil(moments.max(1)).max(1);
    let mut simulation = Simulation::new(model)?;
    let mut profile = Profile { at_peak: None, moments: Vec::new() };
    while let Some(event) = trace.next_event()? {
        simulation.apply(&event);
        if profile.at_peak.is_none() && outcome.peak_heap > 0 && is_as_long(&simulation, outcome.peak_heap) {
            profile.at_peak = Some(Moment::of(&simulation));
        }
        if simulation.events().is_multiple_of(stride) || simulation.events() == outcome.events {
            profile.moments.push(Moment::of(&simulation));
        }
    }
    Ok(profile)
}

fn is_as_long(simulation: &Simulation, heap: u64) -> bool {
    simulation.engine().heap_size() as u64 >= heap
}

#[cfg(test)]
mod tests {
    use heapwright_placement::PolicyKind;
    use heapwright_trace::{About, Kind, Writer};

    use super::*;
    use crate::whole::replay;

    /// Four blocks, of which the first and the third go, then one that fits neither hole, then all go.
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
    fn the_heap_is_seen_at_its_longest_not_at_its_end() {
        let at_peak = profile_of(1).at_peak.unwrap();
        assert_eq!((at_peak.event, at_peak.heap, at_peak.holes), (7, 272, 2));
        assert_eq!((at_peak.requested, at_peak.live), (136, 144));
        // Holes of 96 and 32 bytes.
        assert_eq!(at_peak.external_fragmentation, Some(0.25));
        assert_eq!(at_peak.internal_fragmentation, Some(1.0 - 136.0 / 144.0));
    }

    #[test]
    fn there_are_about_as_many_moments_as_asked_for() {
        for (asked, given) in [(0, 1), (1, 1), (3, 3), (10, 10), (1000, 10)] {
            let profile = profile_of(asked);
            assert_eq!(profile.moments.len(), given, "{asked}");
            assert_eq!(profile.moments.last().unwrap().event, 10);
        }
    }

    #[test]
    fn means_are_over_the_moments_at_which_a_figure_is_known() {
        let profile = profile_of(1000);
        let external: Vec<f64> = profile.moments.iter().filter_map(|moment| moment.external_fragmentation).collect();
        assert_eq!(external.len(), 6, "there is no hole before the first free");
        assert_eq!(profile.mean(|moment| moment.external_fragmentation), Some(external.iter().sum::<f64>() / 6.0));
        assert_eq!(profile.mean(|_| None), None);
    }
}
