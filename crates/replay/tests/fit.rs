//! The search for the shortest region, compared with trying every region.

use std::fs::File;

use heapwright_placement::{PolicyKind, Rules};
use heapwright_replay::{Bound, Certainty, Demand, Effort, Fit, Model, Recording, Says};
use heapwright_rules::{Requests, RuleSet, Zero};
use heapwright_trace::{About, Event, Kind, Writer};

/// The parameters of a random trace.
#[derive(Clone, Copy)]
struct Mix {
    events: usize,
    longest: u64,
    resizes: bool,
    alignments: bool,
}

const PLAIN: Mix = Mix { events: 60, longest: 200, resizes: false, alignments: false };

/// Returns a random trace, in which about half of the allocated blocks are live.
fn random_events(seed: u64, mix: Mix) -> Vec<Event> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut events, mut live, mut next) = (Vec::new(), Vec::new(), 0);
    let mut new_block = |live: &mut Vec<u64>| {
        live.push(next);
        next += 1;
        next - 1
    };
    while events.len() < mix.events {
        let size = random.u64(0..=mix.longest);
        events.push(match random.u8(0..10) {
            0..4 if !live.is_empty() => Event::Free { block: live.swap_remove(random.usize(..live.len())) },
            4 if mix.resizes && !live.is_empty() => {
                let block = live.swap_remove(random.usize(..live.len()));
                Event::Resize { block, becomes: new_block(&mut live), size }
            }
            _ => {
                let align = if mix.alignments && random.bool() { 1 << random.u8(0..9) } else { 16 };
                Event::Allocate { block: new_block(&mut live), kind: Kind::Malloc, size, align }
            }
        });
    }
    events
}

/// Returns the mixes that every property is tested with.
fn mixes() -> [Mix; 3] {
    [PLAIN, Mix { resizes: true, ..PLAIN }, Mix { resizes: true, alignments: true, ..PLAIN }]
}

fn rules(seed: u64) -> Rules {
    let granule = [8, 16, 32][seed as usize % 3];
    let (header, min_remainder) = if seed.is_multiple_of(2) { (0, 1) } else { (granule, 3 * granule) };
    Rules { granule, header, min_remainder, ..Rules::default() }
}

fn in_region(recording: &Recording, model: &Model, region: u64) -> bool {
    let rules = Rules { growth: heapwright_placement::Growth::Fixed, ..model.rules };
    recording.fits(&Model { rules, capacity: region as usize, ..*model }).unwrap()
}

#[test]
fn exhaustive_search_finds_the_shortest_region() {
    let mut local = 0;
    for seed in 0..40 {
        for (mix, policy) in mixes().into_iter().flat_map(|mix| PolicyKind::ALL.map(|policy| (mix, policy))) {
            let recording = Recording::of(random_events(seed, mix));
            let model = Model { seed, ..Model::with(policy, rules(seed)) };
            let granule = u64::from(model.rules.granule);
            let least =
                Demand::of(&recording, &model.rules, &model.requests).unwrap().least_region(policy, &model.rules);
            let Some(scanned) = Fit::search(&recording, &model, Effort::Exhaustive, |_| ()).unwrap() else {
                // Under buddies with headers, no payload has an alignment above that of the header.
                assert!(
                    policy == PolicyKind::Buddy && model.rules.header != 0 && !in_region(&recording, &model, 1 << 30)
                );
                continue;
            };
            let mut regions = (least..=scanned.region).step_by(granule as usize);
            let shortest = regions.find(|&region| in_region(&recording, &model, region)).unwrap();

            assert_eq!(scanned.region, shortest, "{policy:?}, seed {seed}");
            assert_ne!(scanned.certainty, Certainty::Local);

            let sampled = Fit::search(&recording, &model, Effort::Samples(4), |_| ()).unwrap().unwrap();
            assert!(in_region(&recording, &model, sampled.region));
            assert!(sampled.region == least || !in_region(&recording, &model, sampled.region - granule));
            for &fails in &sampled.fails_above {
                assert!(fails > sampled.region && !in_region(&recording, &model, fails));
            }
            if sampled.certainty != Certainty::Local {
                assert_eq!(sampled.region, shortest, "{policy:?}, seed {seed}, {:?}", sampled.certainty);
            }
            local += u32::from(sampled.region != shortest);
        }
    }
    // Otherwise this test could not distinguish bisection from an exact search.
    assert!(local > 0, "every sampled search found the shortest region");
}

/// Returns how requests are read: as usual, or raised to a minimum, with null for nothing.
fn ways_to_read() -> [Requests; 2] {
    let usual = RuleSet::SIMULATED.requests;
    [usual, Requests { least: 48, zero: Zero::Null, ..usual }]
}

#[test]
fn every_request_succeeds_from_enough_region_on() {
    let mut bounded = [0; PolicyKind::ALL.len()];
    for seed in 0..60 {
        for (mix, requests) in mixes().into_iter().flat_map(|mix| ways_to_read().map(|requests| (mix, requests))) {
            let recording = Recording::of(random_events(seed, mix));
            let rules = rules(seed);
            let demand = Demand::of(&recording, &rules, &requests).unwrap();
            for (number, policy) in PolicyKind::ALL.into_iter().enumerate() {
                let model = Model { seed, requests, ..Model::with(policy, rules) };
                let Some(enough) = demand.enough_region(policy, &rules) else {
                    assert!(policy == PolicyKind::Good || !in_region(&recording, &model, 1 << 30), "{policy:?}");
                    continue;
                };
                bounded[number] += 1;
                assert!(demand.least_region(policy, &rules) <= enough, "{policy:?}, seed {seed}");
                for more in [0, 1, 2, 5, 40] {
                    let region = enough + more * u64::from(rules.granule);
                    assert!(in_region(&recording, &model, region), "{policy:?}, seed {seed}");
                }
            }
        }
    }
    for (policy, bounded) in PolicyKind::ALL.into_iter().zip(bounded) {
        assert_eq!(bounded == 0, policy == PolicyKind::Good, "{policy:?}");
    }
}

#[test]
fn enough_for_buddies_counts_powers_of_two() {
    let request = |block, size, align| Event::Allocate { block, kind: Kind::Aligned, size, align };
    let enough = |events: &[Event], header| {
        let rules = Rules { header, ..Rules::default() };
        let demand = Demand::of(&Recording::of(events.to_vec()), &rules, &RuleSet::SIMULATED.requests).unwrap();
        demand.enough_region(PolicyKind::Buddy, &rules)
    };
    // The first block takes 512 bytes, and lies in one of the places for 1,024.
    assert_eq!(enough(&[request(0, 272, 16), request(1, 528, 16)], 0), Some(2048));
    // A block is as long as its alignment.
    assert_eq!(enough(&[request(0, 16, 512), request(1, 16, 512)], 0), Some(1024));
    // Behind a header of 16 bytes, nothing is at a multiple of 64.
    assert_eq!(enough(&[request(0, 16, 64)], 16), None);
}

/// Under good fit, holes that are long enough may be in classes that are not searched.
#[test]
fn nothing_is_enough_for_good_fit_for_certain() {
    let request = |block, size| Event::Allocate { block, kind: Kind::Malloc, size, align: 16 };
    let recording = Recording::of([request(0, 1088), request(1, 16), Event::Free { block: 0 }, request(2, 1088)]);
    let model = Model::usual(PolicyKind::Good);
    let demand = Demand::of(&recording, &model.rules, &model.requests).unwrap();
    assert!(!in_region(&recording, &model, demand.always_enough));
    assert_eq!(demand.enough_region(PolicyKind::Good, &model.rules), None);
}

#[test]
fn no_trace_exceeds_the_upper_bounds() {
    for seed in 0..200 {
        let recording = Recording::of(random_events(seed, PLAIN));
        let rules = Rules::default();
        let demand = Demand::of(&recording, &rules, &RuleSet::SIMULATED.requests).unwrap();
        assert!(Bound::premises_hold(&demand, &rules));
        for policy in [PolicyKind::First, PolicyKind::Best, PolicyKind::Worst, PolicyKind::Buddy] {
            let fit =
                Fit::search(&recording, &Model::with(policy, rules), Effort::Samples(0), |_| ()).unwrap().unwrap();
            let most = Bound::all(&demand, &rules)
                .into_iter()
                .filter(|bound| bound.heaps.includes(policy) && bound.says == Says::NoProgramNeedsMore)
                .map(|bound| bound.bytes)
                .min();
            assert!(fit.region <= most.unwrap().max(256), "{policy:?}, seed {seed}: {} {most:?}", fit.region);
        }
    }
}

#[test]
fn an_impossible_request_has_no_region() {
    let impossible = |size, align| {
        let request = Event::Allocate { block: 0, kind: Kind::Malloc, size, align };
        Fit::search(&Recording::of([request]), &Model::usual(PolicyKind::Best), Effort::Samples(4), |_| ()).unwrap()
    };
    assert_eq!(impossible(u64::MAX, 16), None);
    assert_eq!(impossible(1 << 45, 16), None);
    let nothing = Fit::search(&Recording::of([]), &Model::usual(PolicyKind::Best), Effort::Samples(4), |_| ());
    assert_eq!(nothing.unwrap().map(|fit| (fit.region, fit.certainty)), Some((16, Certainty::LowerBound)));
}

#[test]
fn a_recording_in_a_file_gives_the_same_result() {
    let path = std::env::temp_dir().join(format!("heapwright-fit-{}.hwt", std::process::id()));
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::default()).unwrap();
    let events = random_events(3, Mix { events: 500, resizes: true, ..PLAIN });
    events.iter().for_each(|event| writer.add(event).unwrap());
    writer.finish().unwrap();
    let (in_memory, in_file) = (Recording::open(&path, 1 << 20).unwrap(), Recording::open(&path, 100).unwrap());
    assert!(in_memory.is_in_memory() && !in_file.is_in_memory());
    for policy in PolicyKind::ALL {
        let search = |recording| Fit::search(recording, &Model::usual(policy), Effort::Samples(3), |_| ()).unwrap();
        assert_eq!(search(&in_memory), search(&in_file));
        assert!(search(&in_memory).is_some());
    }
    std::fs::remove_file(&path).unwrap();
    assert!(Recording::open(&path, 100).is_err());
}
