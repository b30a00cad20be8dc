//! The histories of heaps that are simulated once, together, equal those of heaps that are each simulated twice.

use std::fs::File;

use heapwright_placement::{Growth, PolicyKind, Rules};
use heapwright_replay::history::{Census, Detail, History, Moment, Outline, Series, SiteClasses};
use heapwright_replay::{Model, replay};
use heapwright_rules::{Merging, Odd, Split};
use heapwright_trace::{About, Kind, Reader, Writer};

/// Returns a trace of allocations, resizes, failures, frees and changes of threads, some of them with a site.
fn trace(events: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let sites = ["a", "b", "c"].map(|frame| writer.define_site(&[frame]).unwrap());
    let mut live = Vec::new();
    for _ in 0..events {
        let power = random.u32(1..14);
        let size = random.u64(..1 << power);
        if let Some(&site) = sites.get(random.usize(..6)) {
            writer.from_site(site).unwrap();
        }
        match random.u8(..12) {
            0..=4 => live.push(writer.allocate(Kind::Malloc, size, 16 << random.u32(..5)).unwrap()),
            5 | 6 if !live.is_empty() => {
                let at = random.usize(..live.len());
                live[at] = writer.resize(live[at], size).unwrap();
            }
            7 => writer.in_thread(random.u64(..3)).unwrap(),
            _ if live.is_empty() => writer.fail(size, 16).unwrap(),
            _ => writer.free(live.swap_remove(random.usize(..live.len()))).unwrap(),
        }
    }
    writer.finish().unwrap()
}

fn reader(bytes: &[u8]) -> Reader<'_> {
    Reader::new(bytes).unwrap().with_sites()
}

/// Returns heaps of all policies under the rules of the fast engine.
fn models() -> Vec<Model> {
    let of = |policy| {
        let usual = Model::usual(policy);
        let rules = Rules { granule: 8, header: 16, min_remainder: 64, growth: Growth::Extend, ..usual.rules };
        let fixed = Rules { growth: Growth::Fixed, ..usual.rules };
        let appends = Rules { growth: Growth::Append, ..usual.rules };
        let pages = Rules { growth: Growth::Pages(4096), ..usual.rules };
        let rules = [rules, appends, pages].map(|rules| Model::with(policy, rules));
        // In so short a region many requests are refused, resizes among them.
        let short = [1 << 14, 1 << 18].map(|capacity| Model { rules: fixed, capacity, ..usual });
        [usual].into_iter().chain(rules).chain(short)
    };
    PolicyKind::ALL.into_iter().flat_map(of).collect()
}

/// Returns heaps that only the reference engine simulates.
fn odd_models() -> Vec<Model> {
    let deferred = Odd { merging: Merging::Deferred, ..Odd::USUAL };
    let high = Odd { split: Split::High, ..Odd::USUAL };
    let fits = PolicyKind::ALL.into_iter().filter(|&policy| policy != PolicyKind::Buddy);
    fits.flat_map(|policy| [deferred, high].map(|odd| Model { odd, ..Model::usual(policy) })).collect()
}

fn outlines(bytes: &[u8], models: &[Model]) -> Vec<Outline> {
    let files: Vec<File> = models.iter().map(|_| tempfile::tempfile().unwrap()).collect();
    let outlines = Outline::all(&mut reader(bytes), models, files, Census::BUCKETS, |_| {}).unwrap();
    outlines.into_iter().map(Result::unwrap).collect()
}

fn assert_same_series(found: &Series, expected: &Series) {
    assert_eq!((found.width(), found.buckets()), (expected.width(), expected.buckets()));
}

fn assert_same_moments(found: &Moment, expected: &Moment) {
    let figures = |moment: &Moment| (moment.events, moment.heap, moment.live, moment.requested, moment.longest_hole);
    assert_eq!(figures(found), figures(expected));
    assert_eq!(found.holes, expected.holes);
    assert_eq!(found.pins, expected.pins);
}

fn assert_same(found: &History, expected: &History) {
    assert_same_series(&found.heap, &expected.heap);
    assert_same_series(&found.live, &expected.live);
    assert_same_series(&found.holes, &expected.holes);
    for (found, expected) in found.map.levels().zip(expected.map.levels()) {
        assert_eq!((found.rows(), found.row_bytes()), (expected.rows(), expected.row_bytes()));
        assert_eq!(found.used(), expected.used());
        assert_eq!(found.classes(), expected.classes());
    }
    assert_eq!(found.peak.is_some(), expected.peak.is_some());
    found.peak.iter().zip(&expected.peak).for_each(|(found, expected)| assert_same_moments(found, expected));
    assert_same_moments(&found.end, &expected.end);
}

/// Compares the histories of all models with those of a simulation of each alone.
fn compare(bytes: &[u8], models: &[Model]) {
    let census = Census::take(&mut reader(bytes)).unwrap();
    let chosen: Vec<_> = census.sites.iter().filter_map(|entry| entry.site).take(2).collect();
    let sites = SiteClasses::new(chosen.iter().map(|&site| [site]));
    let detail = Detail { rows: 50, columns: 90, sites, ..Detail::default() };
    let outlines = outlines(bytes, models);
    let outcomes: Vec<_> = outlines.iter().map(|outline| outline.outcome().clone()).collect();
    let histories = Outline::complete_all(outlines, &mut reader(bytes), &census, &detail, |_| {}).unwrap();
    for ((model, outcome), history) in models.iter().zip(outcomes).zip(histories) {
        let alone = replay(&mut reader(bytes), model).unwrap();
        assert_eq!(outcome, alone, "{model:?}");
        assert_same(&history, &History::of(&mut reader(bytes), model, &alone, &census, &detail).unwrap());
    }
}

#[test]
fn histories_of_random_traces_equal_those_of_separate_simulations() {
    for (events, seed) in [(0, 0), (1, 1), (2, 2), (50, 3), (1000, 4), (20_000, 5)] {
        compare(&trace(events, seed), &models());
    }
    compare(&trace(1000, 6), &odd_models());
}

#[test]
fn frees_of_unknown_blocks_and_growth_to_the_end_are_no_exception() {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let blocks: Vec<u64> = (0..9000).map(|size| writer.allocate(Kind::Malloc, size % 700, 16).unwrap()).collect();
    blocks.iter().step_by(3).for_each(|&block| writer.free(block).unwrap());
    blocks.iter().step_by(6).for_each(|&block| writer.free(block).unwrap());
    writer.resize(blocks[0], 10).unwrap();
    (0..9000).for_each(|size| _ = writer.allocate(Kind::Malloc, size % 1100, 16).unwrap());
    compare(&writer.finish().unwrap(), &models());
}
