//! A history shows what the engine counted, event by event, and a census what is in the trace.

use std::collections::HashMap;

use heapwright_placement::{Engine, Growth, PolicyKind, Rules};
use heapwright_replay::history::{Census, History, Life, Moment, Resolution, lives};
use heapwright_replay::{Model, Simulation, replay};
use heapwright_trace::{About, Event, Kind, Reader, Writer};

/// A trace of allocations, resizes and frees of all sizes.
fn trace(events: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let mut live = Vec::new();
    for _ in 0..events {
        let power = random.u32(1..14);
        let size = random.u64(..1 << power);
        match random.u8(..10) {
            0..=4 => live.push(writer.allocate(Kind::Malloc, size, 16 << random.u32(..5)).unwrap()),
            5 if !live.is_empty() => {
                let at = random.usize(..live.len());
                live[at] = writer.resize(live[at], size).unwrap();
            }
            _ if live.is_empty() => writer.fail(size, 16).unwrap(),
            _ => writer.free(live.swap_remove(random.usize(..live.len()))).unwrap(),
        }
    }
    writer.finish().unwrap()
}

fn reader(bytes: &[u8]) -> Reader<&[u8]> {
    Reader::new(bytes).unwrap()
}

fn models() -> impl Iterator<Item = Model> {
    PolicyKind::ALL.into_iter().flat_map(|policy| {
        let usual = Model::usual(policy);
        let rules = Rules { granule: 8, header: 16, min_remainder: 64, growth: Growth::Extend, ..usual.rules };
        let fixed = Rules { growth: Growth::Fixed, ..usual.rules };
        [usual, Model::with(policy, rules), Model { rules: fixed, capacity: 1 << 18, ..usual }]
    })
}

#[test]
fn every_sample_is_what_the_engine_counted() {
    let bytes = trace(1000, 1);
    let census = Census::take(&mut reader(&bytes)).unwrap();
    let resolution = Resolution { buckets: 1024, rows: 50, columns: 90 };
    for model in models() {
        let outcome = replay(&mut reader(&bytes), &model).unwrap();
        let history = History::of(&mut reader(&bytes), &model, &outcome, &census, resolution).unwrap();
        let mut simulation = Simulation::new(&model).unwrap();
        let mut columns = vec![0; history.map.columns()];
        for (at, event) in reader(&bytes).enumerate() {
            simulation.apply(&event.unwrap());
            let counters = simulation.engine().counters().unwrap();
            columns[at / history.map.column_events() as usize] += counters.live;
            let sampled = [&history.heap, &history.live, &history.holes].map(|series| series.buckets()[at].last);
            assert_eq!(sampled, [counters.heap_size, counters.live, counters.holes], "{model:?}, event {at}");
        }
        for layer in history.map.layers() {
            let sums: Vec<u64> =
                layer.cells().chunks(history.map.rows()).map(|rows| rows.iter().map(|cell| cell.used).sum()).collect();
            assert_eq!(sums, columns, "{model:?}");
        }
    }
}

#[test]
fn the_peak_is_where_it_is_said_to_be() {
    let bytes = trace(5000, 2);
    let census = Census::take(&mut reader(&bytes)).unwrap();
    for model in models() {
        let outcome = replay(&mut reader(&bytes), &model).unwrap();
        let history = History::of(&mut reader(&bytes), &model, &outcome, &census, Resolution::default()).unwrap();
        let mut simulation = Simulation::new(&model).unwrap();
        let is_peak = |simulation: &Simulation| match model.rules.growth {
            Growth::Fixed => simulation.requested() == outcome.peak_requested,
            _ => simulation.engine().heap_size() as u64 == outcome.peak_heap,
        };
        let mut peak = None;
        for event in reader(&bytes) {
            simulation.apply(&event.unwrap());
            if peak.is_none() && is_peak(&simulation) {
                peak = Some(Moment::of(&simulation));
            }
        }
        let (peak, found, end) = (peak.unwrap(), history.peak.unwrap(), &history.end);
        assert_eq!((found.events, found.heap, &found.holes), (peak.events, peak.heap, &peak.holes), "{model:?}");
        assert_eq!(found.pins, peak.pins);
        let holes = simulation.engine().holes();
        assert_eq!((end.holes.count, end.holes.weight), (holes.count as u64, holes.total as u64));
        assert_eq!((end.live, end.heap), (outcome.live, outcome.heap));
        assert_eq!(end.external_fragmentation(), outcome.external_fragmentation);
        assert_eq!(history.heap.max(), Some(outcome.peak_heap));
    }
}

#[test]
fn a_pin_knows_its_oldest_block() {
    let bytes = trace(3000, 3);
    let mut simulation = Simulation::new(&Model::usual(PolicyKind::First)).unwrap();
    for event in reader(&bytes) {
        simulation.apply(&event.unwrap());
    }
    let moment = Moment::of(&simulation);
    assert!(moment.pins.len() > 10);
    for pin in moment.pins {
        let inside = |offset: usize| (pin.offset..pin.offset + pin.bytes).contains(&offset);
        let within: Vec<_> = simulation.live_blocks().filter(|(_, placed)| inside(placed.offset)).collect();
        assert_eq!(within.len(), pin.blocks);
        assert_eq!(
            pin.oldest,
            within.iter().min_by_key(|(number, _)| *number).map(|(number, placed)| (*number, placed.size))
        );
    }
}

#[test]
fn a_census_counts_what_is_in_the_trace() {
    let bytes = trace(4000, 4);
    let census = Census::take(&mut reader(&bytes)).unwrap();
    let mut all: HashMap<u64, (u64, Life)> = HashMap::new();
    let (mut live, mut peak, mut events) = (0, (0, 0), 0);
    for (at, event) in (0..).zip(reader(&bytes)) {
        let (gone, came) = match event.unwrap() {
            Event::Allocate { block, size, .. } => (None, Some((block, size))),
            Event::Resize { block, becomes, size } => (Some(block), Some((becomes, size))),
            Event::Free { block } => (Some(block), None),
            _ => (None, None),
        };
        if let Some((size, life)) = gone.and_then(|block| all.get_mut(&block)) {
            life.died = Some(at);
            live -= *size;
        }
        if let Some((block, size)) = came {
            all.insert(block, (size, Life { born: at, died: None, site: None }));
            live += size;
        }
        events = at + 1;
        peak = if live > peak.0 { (live, events) } else { peak };
    }
    assert_eq!((census.events, census.blocks, census.peak_requested), (events, all.len() as u64, peak));
    assert_eq!(census.requested.max(), Some(peak.0));
    let dead: Vec<u64> = all.values().filter_map(|(_, life)| Some(life.died? - life.born)).collect();
    assert_eq!((census.lifetimes.count, census.immortal.0), (dead.len() as u64, (all.len() - dead.len()) as u64));
    for (bin, &count) in census.lifetimes.counts().iter().enumerate() {
        let within = dead.iter().filter(|&&life| life.max(1).ilog2() as usize == bin).count();
        assert_eq!(count, within as u64, "{bin}");
    }
    assert_eq!(census.sizes.weight, all.values().map(|(size, _)| size).sum::<u64>());
    let told = lives(&mut reader(&bytes), all.keys().copied()).unwrap();
    assert_eq!(told, all.into_iter().map(|(block, (_, life))| (block, life)).collect());
}
