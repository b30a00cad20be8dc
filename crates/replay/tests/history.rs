//! A history matches the counters of the engine at every event, and a census matches the trace.

use std::collections::HashMap;

use heapwright_placement::{Engine, Growth, PolicyKind, Rules};
use heapwright_replay::history::{Census, Classes, Detail, History, Life, Moment, SiteClasses, SiteUse, lives};
use heapwright_replay::{Model, Simulation, replay};
use heapwright_trace::{About, Event, Kind, Reader, Writer};

/// Returns a trace of allocations, resizes and frees of all sizes.
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

fn reader(bytes: &[u8]) -> Reader<'_> {
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
fn every_sample_matches_the_counters_of_the_engine() {
    let bytes = trace(1000, 1);
    let census = Census::take(&mut reader(&bytes)).unwrap();
    let detail = Detail { rows: 50, columns: 90, ..Detail::default() };
    for model in models() {
        let outcome = replay(&mut reader(&bytes), &model).unwrap();
        let history = History::of(&mut reader(&bytes), &model, &outcome, &census, &detail).unwrap();
        let mut simulation = Simulation::new(&model).unwrap();
        let grid = history.map.levels().next().unwrap();
        let mut columns = vec![0; grid.columns()];
        for (at, event) in reader(&bytes).enumerate() {
            simulation.apply(&event.unwrap());
            let counters = simulation.engine().counters().unwrap();
            columns[at / grid.column_events() as usize] += counters.live;
            let sampled = [&history.heap, &history.live, &history.holes].map(|series| series.buckets()[at].last);
            assert_eq!(sampled, [counters.heap_size, counters.live, counters.holes], "{model:?}, event {at}");
        }
        let sums: Vec<u64> = grid.used().chunks(grid.rows()).map(|rows| rows.iter().sum()).collect();
        assert_eq!(sums, columns, "{model:?}");
    }
}

#[test]
fn the_peak_is_at_the_documented_event() {
    let bytes = trace(5000, 2);
    let census = Census::take(&mut reader(&bytes)).unwrap();
    for model in models() {
        let outcome = replay(&mut reader(&bytes), &model).unwrap();
        let history = History::of(&mut reader(&bytes), &model, &outcome, &census, &Detail::default()).unwrap();
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
fn a_pin_has_its_oldest_block() {
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
fn a_census_matches_the_trace() {
    let bytes = trace(4000, 4);
    let census = Census::take(&mut reader(&bytes)).unwrap();
    let mut all: HashMap<u64, (u64, Life)> = HashMap::new();
    let (mut live, mut peak, mut events) = (0, (0, 0), 0);
    for (at, event) in (0..).zip(reader(&bytes)) {
        let (removed, added) = match event.unwrap() {
            Event::Allocate { block, size, .. } => (None, Some((block, size))),
            Event::Resize { block, becomes, size } => (Some(block), Some((becomes, size))),
            Event::Free { block } => (Some(block), None),
            _ => (None, None),
        };
        if let Some((size, life)) = removed.and_then(|block| all.get_mut(&block)) {
            life.died = Some(at);
            live -= *size;
        }
        if let Some((block, size)) = added {
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
    let found = lives(&mut reader(&bytes), all.keys().copied()).unwrap();
    assert_eq!(found, all.into_iter().map(|(block, (_, life))| (block, life)).collect());
}

/// Returns a trace with times, whose requests come from three sites or have none.
fn trace_with_sites(events: u64) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let sites = ["a", "b", "c"].map(|frame| writer.define_site(&[frame]).unwrap());
    let mut random = fastrand::Rng::with_seed(5);
    let mut live = Vec::new();
    for event in 0..events {
        writer.at(1_000_000 + event * event);
        match random.u8(..10) {
            0..=5 => {
                sites.get(random.usize(..4)).into_iter().for_each(|&site| writer.from_site(site).unwrap());
                live.push(writer.allocate(Kind::Malloc, random.u64(1..500), 16).unwrap());
            }
            6 if !live.is_empty() => {
                let at = random.usize(..live.len());
                writer.from_site(sites[random.usize(..3)]).unwrap();
                live[at] = writer.resize(live[at], random.u64(1..500)).unwrap();
            }
            _ if live.is_empty() => writer.fail(1, 16).unwrap(),
            _ => writer.free(live.swap_remove(random.usize(..live.len()))).unwrap(),
        }
    }
    writer.finish().unwrap()
}

fn reader_with_all(bytes: &[u8]) -> Reader<'_> {
    reader(bytes).with_sites().with_times()
}

#[test]
fn a_census_has_times_and_use_by_call_site() {
    let bytes = trace_with_sites(3000);
    assert_eq!(Census::take(&mut reader(&bytes)).unwrap().sites, []);
    assert!(Census::take(&mut reader(&bytes)).unwrap().times.is_none());
    let census = Census::take(&mut reader_with_all(&bytes)).unwrap();
    let mut uses: HashMap<_, SiteUse> = HashMap::new();
    let mut live: HashMap<u64, (u64, _)> = HashMap::new();
    let mut times = Vec::new();
    let mut trace = reader_with_all(&bytes);
    while let Some(event) = trace.next_event().unwrap() {
        times.extend(trace.time());
        let (removed, added) = match event {
            Event::Allocate { block, size, .. } => (None, Some((block, size))),
            Event::Resize { block, becomes, size } => (Some(block), Some((becomes, size))),
            Event::Free { block } => (Some(block), None),
            _ => (None, None),
        };
        removed.map(|block| live.remove(&block));
        if let Some((block, size)) = added {
            live.insert(block, (size, trace.site()));
            let entry = uses.entry(trace.site()).or_default();
            (entry.site, entry.blocks, entry.bytes) = (trace.site(), entry.blocks + 1, entry.bytes + size);
        }
        for (size, site) in live.values() {
            uses.get_mut(site).unwrap().byte_events += u128::from(*size);
        }
    }
    let mut expected: Vec<SiteUse> = uses.into_values().collect();
    expected.sort_by_key(|entry| std::cmp::Reverse(entry.byte_events));
    assert_eq!((census.sites.len(), census.sites), (4, expected));
    let found = census.times.unwrap();
    for (bucket, times) in found.buckets().iter().zip(times.chunks(found.width() as usize)) {
        assert_eq!((bucket.min, bucket.last), (times[0], times[times.len() - 1]));
    }
}

#[test]
fn a_map_distinguishes_sites() {
    let bytes = trace_with_sites(500);
    let census = Census::take(&mut reader_with_all(&bytes)).unwrap();
    let chosen: Vec<_> = census.sites.iter().filter_map(|entry| entry.site).take(2).collect();
    let sites = SiteClasses::new(chosen.iter().map(|&site| [site]));
    assert_eq!((sites.unknown(), sites.of(Some(chosen[1])), sites.of(None)), (3, 1, 3));
    assert_eq!(sites.classes(), Some(Classes { count: 4, ranked: 3 }));
    // One cell per event and granule, so that each cell has at most one block.
    let detail = Detail { rows: 1 << 16, columns: 500, sites, ..Detail::default() };
    for policy in PolicyKind::ALL {
        let model = Model::usual(policy);
        let outcome = replay(&mut reader(&bytes), &model).unwrap();
        let history = History::of(&mut reader_with_all(&bytes), &model, &outcome, &census, &detail).unwrap();
        let grid = history.map.levels().next().unwrap();
        let [_, _, classes] = grid.classes() else { panic!("three colourings") };
        let mut simulation = Simulation::new(&model).unwrap();
        let mut site_of: HashMap<u64, u8> = HashMap::new();
        let mut trace = reader_with_all(&bytes);
        let mut column = 0;
        while let Some(event) = trace.next_event().unwrap() {
            if let Event::Allocate { block, .. } | Event::Resize { becomes: block, .. } = event {
                site_of.insert(block, detail.sites.of(trace.site()));
            }
            simulation.apply(&event);
            for (block, placed) in simulation.live_blocks() {
                let cell = column * grid.rows() + placed.offset / grid.row_bytes() as usize;
                assert_eq!((grid.used()[cell] > 0, classes[cell]), (true, site_of[&block]), "{policy:?} {column}");
            }
            column += 1;
        }
    }
}
