//! Checks explanations against a textbook heap, a list walked step by step, and screens against their expected text.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use heapwright_placement::{Engine, Generator, PolicyKind, Rules};
use heapwright_replay::Model;
use heapwright_rules::RuleSet;
use heapwright_testkit::Oracle;
use heapwright_trace::{About, Event, Kind, Writer};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;

use super::before::{Before, Hole, Need};
use super::lane::Lane;
use super::player::Player;
use super::screen;
use super::show::Show;
use super::why::{Untaken, Why};

/// The textbook heap, with next fit's rover.
struct Textbook {
    model: Model,
    oracle: Oracle,
    rover: usize,
}

impl Textbook {
    fn new(policy: PolicyKind) -> Textbook {
        Textbook::of(Model::usual(policy))
    }

    fn of(model: Model) -> Textbook {
        let mut oracle = Oracle::create(model.policy, 1 << 24, &model.rules).unwrap();
        oracle.seed(model.seed);
        Textbook { model, oracle, rover: 0 }
    }

    /// Returns the block's length for a request.
    fn length(&self, size: usize) -> usize {
        size.max(1).div_ceil(self.granule()) * self.granule() + self.model.rules.header as usize
    }

    fn granule(&self) -> usize {
        self.model.rules.granule as usize
    }

    /// Returns whether a block of `len` bytes whose payload is at a multiple of `align` fits the hole, by trying every
    /// place.
    fn has_room(&self, hole: &Hole, len: usize, align: usize) -> bool {
        let Rules { header, min_remainder, .. } = self.model.rules;
        (hole.start..hole.end()).step_by(self.granule()).any(|at| {
            let gap = at - hole.start;
            let leaves_a_hole = gap == 0 || gap >= min_remainder as usize;
            leaves_a_hole && (at + header as usize).is_multiple_of(align) && at + len <= hole.end()
        })
    }

    /// Returns the sizes, in bytes, at which good fit's classes begin, as the textbook lists them.
    fn classes(&self) -> Vec<usize> {
        let long = (6..20).flat_map(|doubling| (0..8).map(move |eighth| (8 + eighth) << (doubling - 3)));
        (1..=64).chain([65]).chain(long.skip(1)).map(|granules| granules * self.granule()).collect()
    }

    fn class_of(&self, len: usize) -> usize {
        self.classes().into_iter().filter(|&from| from <= len).max().unwrap()
    }

    fn before(&self) -> Before {
        Before::of(&self.oracle, self.rover, 0..0)
    }

    fn allocate(&mut self, size: usize, align: usize) -> usize {
        let offset = self.oracle.allocate(size, align).unwrap();
        self.rover = offset + self.oracle.usable_size(offset).unwrap();
        offset
    }
}

/// Checks every claim of `why` against the holes that there were.
fn verify(heap: &Textbook, why: Why, before: &Before, (size, align): (usize, usize), chosen: Option<Hole>) {
    let len = heap.length(size);
    let fits = |hole: &&Hole| heap.has_room(hole, len, align);
    let holes = &before.holes;
    let taken = chosen.unwrap_or(Hole { start: usize::MAX, len: 0 });
    let lower: Vec<&Hole> = holes.iter().filter(|hole| hole.start < taken.start).collect();
    let as_long: Vec<&Hole> = holes.iter().filter(|hole| hole.len == taken.len && fits(hole)).collect();
    match why {
        Why::Lowest { lower: count } => assert!(count == lower.len() && !lower.iter().any(&fits)),
        Why::NextUp { rover, between } => {
            let passed: Vec<_> = lower.into_iter().filter(|hole| hole.end() > rover).collect();
            assert!(taken.end() > rover && passed.len() == between && !passed.iter().any(&fits));
        }
        Why::NextAround { rover, lower: count } => {
            assert!(!holes.iter().filter(|hole| hole.end() > rover).any(|hole| fits(&hole)));
            assert!(count == lower.len() && !lower.iter().any(&fits));
        }
        Why::Shortest { fitting, equals } => {
            assert_eq!(fitting, holes.iter().filter(fits).count());
            assert_eq!(holes.iter().filter(fits).map(|hole| hole.len).min(), Some(taken.len));
            assert_eq!((equals, as_long[0]), (as_long.len(), &taken));
        }
        Why::Longest { holes: count, equals } => {
            assert_eq!(count, holes.len());
            assert_eq!(holes.iter().map(|hole| hole.len).max(), Some(taken.len));
            let longest: Vec<_> = holes.iter().filter(|hole| hole.len == taken.len).collect();
            assert_eq!((equals, longest[0]), (longest.len(), &taken));
        }
        Why::LongestUnfit => {
            let longest = holes.iter().max_by_key(|hole| (hole.len, std::cmp::Reverse(hole.start))).unwrap();
            assert!(!fits(&longest) && before.is_tail(taken));
        }
        Why::Drawn { place, fitting } => {
            let mut candidates: Vec<&Hole> = holes.iter().filter(fits).collect();
            candidates.sort_by_key(|hole| hole.len);
            assert_eq!((candidates.len(), candidates[place - 1]), (fitting, &taken));
        }
        Why::Class { from, missed } => {
            assert!(heap.classes().contains(&from) && taken.len >= from && !before.is_tail(taken));
            let others = holes.iter().filter(|hole| !before.is_tail(**hole));
            let in_reach: Vec<_> = others.clone().filter(|hole| hole.len >= from).collect();
            let least = in_reach.iter().map(|hole| heap.class_of(hole.len)).min().unwrap();
            assert_eq!(in_reach.into_iter().find(|hole| heap.class_of(hole.len) == least), Some(&taken));
            assert_eq!(missed, others.filter(|hole| hole.len < from && fits(hole)).count());
        }
        Why::NoClass { from } => {
            assert!(before.is_tail(taken) && heap.classes().contains(&from));
            assert!(holes.iter().all(|hole| before.is_tail(*hole) || hole.len < from));
        }
        Why::Order { block, equals } => {
            assert!(block >= len.max(align) && block.is_power_of_two() && (block / 2 < len || block == align));
            assert_eq!(holes.iter().map(|hole| hole.len).filter(|&len| len >= block).min(), Some(taken.len));
            let same: Vec<_> = holes.iter().filter(|hole| hole.len == taken.len).collect();
            assert_eq!((equals, same[0]), (same.len(), &taken));
        }
        Why::Grew { untaken, by } => {
            let fitting = holes.iter().filter(fits).count();
            let longest = holes.iter().max_by_key(|hole| (hole.len, std::cmp::Reverse(hole.start)));
            assert!(by > 0);
            match untaken {
                Untaken::Unfit { holes: count } => assert!(count == holes.len() && fitting == 0, "{holes:?}"),
                Untaken::Unsearched { fitting: count, from } => {
                    assert!(count == fitting && heap.classes().contains(&from));
                    assert!(holes.iter().filter(fits).all(|hole| hole.len < from && !before.is_tail(*hole)));
                }
                Untaken::LongestUnfit { fitting: count } => {
                    assert!(count == fitting && !fits(&longest.unwrap()));
                    assert!(holes.iter().filter(fits).all(|hole| !before.is_tail(*hole)));
                }
            }
        }
    }
}

/// Checks that no hole fits when `why` claims so, policy by policy.
fn verify_growth(heap: &Textbook, before: &Before, (size, align): (usize, usize)) {
    let (policy, len) = (heap.model.policy, heap.length(size));
    let holds = |hole: &&Hole| match policy {
        PolicyKind::Buddy => hole.len >= len.next_power_of_two().max(align),
        PolicyKind::Good if !before.is_tail(**hole) => hole.len >= Need::of(size, align, &heap.model.rules).longest(),
        _ => heap.has_room(hole, len, align),
    };
    // Good fit may skip holes that are just long enough, because their class may contain shorter ones.
    let held = before.holes.iter().find(holds);
    assert!(held.is_none() || policy == PolicyKind::Good || policy == PolicyKind::Worst, "{policy:?} {held:?}");
}

#[test]
fn every_reason_is_true_under_every_policy_and_rule() {
    let published = ["report000", "report000,growth=extend,min-remainder=12"].map(|rules| {
        let set = RuleSet::from_text(rules, RuleSet::SIMULATED).unwrap();
        PolicyKind::ALL.map(|policy| Model::of_set(policy, &set))
    });
    for model in PolicyKind::ALL.map(Model::usual).into_iter().chain(published.into_iter().flatten()) {
        let (policy, mut heap) = (model.policy, Textbook::of(model));
        let (mut seed, mut live, mut reasons) = (11, Vec::new(), std::collections::HashSet::new());
        for _ in 0..4000 {
            let mut draw = |below| Generator(&mut seed).below(below);
            if draw(100) < 52 || live.is_empty() {
                let most = 1 << draw(13);
                let granule = heap.granule();
                // Behind a header, buddies have no other alignment.
                let may_align = policy != PolicyKind::Buddy || model.rules.header == 0;
                let request = (draw(most), if may_align && draw(8) == 0 { granule << draw(5) } else { granule });
                let before = heap.before();
                let offset = heap.allocate(request.0, request.1);
                let chosen = before.hole_around(offset - model.rules.header as usize);
                let need = Need::of(request.0, request.1, &model.rules);
                let why = Why::of(policy, &before, &need, chosen, heap.oracle.heap_size());
                if let Why::Grew { .. } = why {
                    verify_growth(&heap, &before, request);
                }
                verify(&heap, why, &before, request, chosen);
                reasons.insert(std::mem::discriminant(&why));
                live.push(offset);
            } else {
                heap.oracle.deallocate(live.swap_remove(draw(live.len()))).unwrap();
            }
        }
        assert!(reasons.len() >= 2, "{policy:?} was asked for too little");
    }
}

#[test]
fn a_lane_places_blocks_where_the_textbook_does() {
    for policy in PolicyKind::ALL {
        let (mut lane, mut heap) = (Lane::new(Model::usual(policy)).unwrap(), Textbook::new(policy));
        let mut offsets = Vec::new();
        for block in 0..200 {
            let size = 1 + block * 37 % 500;
            lane.explain(&Event::Allocate { block, kind: Kind::Malloc, size, align: 16 });
            offsets.push(heap.allocate(size as usize, 16));
            if block % 3 == 2 {
                lane.explain(&Event::Free { block: block / 2 });
                heap.oracle.deallocate(offsets[block as usize / 2]).unwrap();
            }
            assert!(lane.engine().blocks().eq(heap.oracle.walk()), "{policy:?} {block}");
        }
    }
}

/// Writes a trace of six requests, one of them freed before the last.
fn write_trace(path: &Path) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = Writer::new(file, &About::of_program("demo")).unwrap();
    let sizes = [160, 16, 96, 16, 1000];
    let blocks: Vec<u64> = sizes.into_iter().map(|size| writer.allocate(Kind::Malloc, size, 16).unwrap()).collect();
    writer.in_thread(1).unwrap();
    writer.free(blocks[0]).unwrap();
    writer.free(blocks[2]).unwrap();
    writer.allocate(Kind::Malloc, 90, 16).unwrap();
    writer.resize(blocks[4], 2000).unwrap();
    writer.allocate(Kind::Aligned, 100, 256).unwrap();
    writer.free(blocks[1]).unwrap();
    writer.finish().unwrap().flush().unwrap();
}

/// Returns the demonstration after `at` events.
pub(super) fn show(policies: &[PolicyKind], at: u64) -> Show {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.hwt");
    write_trace(&path);
    let heaps: Vec<Model> = policies.iter().map(|&policy| Model::usual(policy)).collect();
    let mut player = Player::open(&path, &heaps, PolicyKind::ALL.map(Model::usual).to_vec()).unwrap();
    player.is_paused = true;
    player.seek(at).unwrap();
    player.advance(Duration::ZERO).unwrap();
    assert_eq!((player.at, player.count, player.is_seeking()), (at, 11, false));
    Show::of(player)
}

fn explained(policy: PolicyKind, at: u64) -> String {
    let show = show(&[policy], at);
    let story = show.player.lanes[0].story.clone().unwrap();
    format!("{} | {}", story.what, story.why)
}

#[test]
fn events_are_told_with_what_was_chosen_and_why() {
    use PolicyKind::{Best, Buddy, First, Next, Worst};
    assert_eq!(explained(First, 1), "malloc 160 → block 0 at 0x0 | There is no hole: the heap grows by 160 B.");
    assert_eq!(
        explained(First, 6),
        "free of block 0 at 0x0 (160 B) | Used blocks on both sides: a new hole, 160 B free at 0x0."
    );
    assert_eq!(
        explained(First, 8),
        "malloc 90 → block 5 at 0x0 | The hole at 0x0 (160 B) is taken: the lowest of all, and it fits. Split: 64 B remain."
    );
    assert_eq!(
        explained(Best, 8),
        "malloc 90 → block 5 at 0xb0 | The hole at 0xb0 (96 B) is taken: the smallest of 2 that fit. It fits exactly."
    );
    assert_eq!(
        explained(Worst, 8),
        "malloc 90 → block 5 at 0x0 | The hole at 0x0 (160 B) is taken: the largest of 2 holes. Split: 64 B remain."
    );
    assert_eq!(
        explained(Next, 8),
        "malloc 90 → block 5 at 0x0 | The hole at 0x0 (160 B) is taken: the first from the rover at 0x0 on, and it fits. Split: 64 B remain."
    );
    assert_eq!(
        explained(Buddy, 8),
        "malloc 90 → block 5 at 0x180 | The hole at 0x180 (128 B) is taken: a block of 128 B is due: the smallest free one that suffices. It is as long."
    );
    assert_eq!(
        explained(First, 9),
        "realloc 2000 of block 4 at 0x120: it stays | It is the last block: the heap grows by 992 B behind it."
    );
    assert_eq!(
        explained(First, 10),
        "malloc 100 at a multiple of 256 → block 7 at 0x900 | None of 2 holes holds it: the heap grows by 128 B."
    );
    assert_eq!(
        explained(First, 11),
        "free of block 1 at 0xa0 (16 B) | Joined with the hole before and the hole behind: 176 B free at 0x60."
    );
}

#[test]
fn resizing_is_told_too() {
    let explained = |policy, sizes: &[u64]| {
        let mut lane = Lane::new(Model::usual(policy)).unwrap();
        lane.explain(&Event::Allocate { block: 0, kind: Kind::Malloc, size: sizes[0], align: 16 });
        for (number, &size) in (0..).zip(&sizes[1..]) {
            lane.explain(&Event::Resize { block: number, becomes: number + 1, size });
        }
        lane.story.unwrap().why
    };
    let (first, buddy) = (PolicyKind::First, PolicyKind::Buddy);
    assert_eq!(
        explained(first, &[200, 50]),
        "Shorter where it is: 144 B go. It is the free tail now: 144 B free at 0x40."
    );
    assert_eq!(
        explained(first, &[200, 50, 40]),
        "Shorter where it is: 16 B go. Joined with the free tail: 160 B free at 0x30."
    );
    assert_eq!(explained(first, &[200, 50, 60]), "It has room enough where it is, and nothing to give back.");
    assert_eq!(explained(first, &[200, 50, 100]), "Longer where it is: 48 B are taken from the free tail behind it.");
    assert_eq!(explained(buddy, &[200, 50]), "Shorter where it is: halved 2 times.");
    assert_eq!(explained(buddy, &[200, 50, 100]), "Longer where it is: joined with the free buddies behind it.");
    assert_eq!(
        explained(buddy, &[200, 300]),
        "No room behind it. There is no hole: the heap grows by 768 B. Then the old one goes. Joined with its buddy: 512 B free at 0x0."
    );
}

#[test]
fn headers_null_and_kept_bytes_are_told() {
    let set = RuleSet::from_text("report000", RuleSet::SIMULATED).unwrap();
    let mut lane = Lane::new(Model::of_set(PolicyKind::First, &set)).unwrap();
    let mut told = |event: Event| {
        lane.explain(&event);
        let story = lane.story.as_ref().unwrap();
        format!("{} | {}", story.what, story.why)
    };
    let request = |block, size| Event::Allocate { block, kind: Kind::Malloc, size, align: 16 };
    assert_eq!(told(request(0, 100)), "malloc 100 → block 0 at 0x18 | There is no hole: the heap grows by 124 B.");
    told(request(1, 10));
    assert_eq!(told(request(2, 0)), "malloc 0 → null | By these rules, a request for nothing gets no block.");
    assert_eq!(told(Event::Free { block: 2 }), "free of block 2, which is null | Nothing happens.");
    assert_eq!(
        told(Event::Free { block: 0 }),
        "free of block 0 at 0x18 (124 B) | Used blocks on both sides: a new hole, 124 B free at 0x0."
    );
    // 28 bytes remain, too few to be split off.
    assert_eq!(
        told(request(3, 72)),
        "malloc 72 → block 3 at 0x18 | The hole at 0x0 (124 B) is taken: the lowest of all, and it fits. It keeps the 28 B behind it, too few for a hole."
    );
}

#[test]
fn an_alignment_of_16_is_told_and_asked_for_where_the_granule_is_shorter() {
    let set = RuleSet::from_text("granule=8", RuleSet::SIMULATED).unwrap();
    let mut lane = Lane::new(Model::of_set(PolicyKind::Best, &set)).unwrap();
    let request = |block, kind| Event::Allocate { block, kind, size: 8, align: 16 };
    (0..8).for_each(|block| lane.explain(&request(block, Kind::Malloc)));
    // Holes at 8, 32 and 48.
    [1, 4, 6].into_iter().for_each(|block| lane.explain(&Event::Free { block }));
    let holes = |lane: &Lane, kind| lane.question(&request(8, kind)).unwrap().choices.len();
    assert_eq!((holes(&lane, Kind::Malloc), holes(&lane, Kind::Aligned)), (3, 2));
    let mut told = |event: Event| {
        lane.explain(&event);
        let story = lane.story.as_ref().unwrap();
        format!("{} | {}", story.what, story.why)
    };
    assert_eq!(
        told(request(8, Kind::Aligned)),
        "malloc 8 at a multiple of 16 → block 8 at 0x20 | The hole at 0x20 (8 B) is taken: the smallest of 2 that fit, \
         the lowest of 2 as large. It fits exactly."
    );
    lane.explain(&Event::Free { block: 8 });
    lane.explain(&request(9, Kind::Malloc));
    assert_eq!(
        lane.story.unwrap().why,
        "The hole at 0x8 (8 B) is taken: the smallest of 3 that fit, the lowest of 3 as large. It fits exactly."
    );
}

#[test]
fn no_reason_is_given_where_the_rules_are_odd() {
    let set = RuleSet::from_text("merging=forward", RuleSet::SIMULATED).unwrap();
    let mut lane = Lane::new(Model::of_set(PolicyKind::Best, &set)).unwrap();
    lane.explain(&Event::Allocate { block: 0, kind: Kind::Malloc, size: 100, align: 16 });
    assert_eq!(lane.story.as_ref().unwrap().why, "The heap grew (reference engine: merging is forward only).");
}

/// Returns the explanations of events under first fit by these rules.
fn told_by_odd_rules(rules: &str, events: &[Event]) -> Vec<String> {
    let set = RuleSet::from_text(rules, RuleSet::SIMULATED).unwrap();
    let mut lane = Lane::new(Model::of_set(PolicyKind::First, &set)).unwrap();
    let mut told = |event: &Event| {
        lane.explain(event);
        lane.story.clone().unwrap().why
    };
    events.iter().map(&mut told).collect()
}

/// Blocks of these sizes.
fn requests(sizes: &[u64]) -> Vec<Event> {
    let request = |(block, &size)| Event::Allocate { block, kind: Kind::Malloc, size, align: 16 };
    (0..).zip(sizes).map(request).collect()
}

#[test]
fn holes_that_are_not_merged_are_told() {
    let free = |block| Event::Free { block };
    let told = |rules, sizes: &[u64], rest: &[Event]| {
        let events = [&requests(sizes)[..], rest].concat();
        told_by_odd_rules(rules, &events)[sizes.len()..].to_vec()
    };
    let sizes = [64, 64, 64, 16];
    assert_eq!(
        told("merging=deferred", &sizes, &[free(0), free(1), free(3), free(2)]),
        [
            "Used blocks on both sides: a new hole, 64 B free at 0x0.",
            "A new hole, 64 B free at 0x40. It is not merged with the hole before it (reference engine: merging is \
             deferred).",
            "It is the free tail now: 16 B free at 0xc0.",
            "A new hole, 64 B free at 0x80. It is not merged with the hole before it and the free tail behind it \
             (reference engine: merging is deferred).",
        ]
    );
    assert_eq!(
        told("merging=forward", &sizes, &[free(1), free(2), free(0), free(3)]),
        [
            "Used blocks on both sides: a new hole, 64 B free at 0x40.",
            "A new hole, 64 B free at 0x80. It is not merged with the hole before it (reference engine: merging is \
             forward only).",
            "Joined with the hole behind: 128 B free at 0x0. It is not merged with the hole behind it (reference \
             engine: merging is forward only).",
            "It is the free tail now: 16 B free at 0xc0. It is not merged with the hole before it (reference engine: \
             merging is forward only).",
        ]
    );
    let resize = Event::Resize { block: 0, becomes: 4, size: 150 };
    assert_eq!(
        told("merging=forward", &sizes, &[free(1), free(2), resize])[2],
        "The hole behind it is too short, and not merged with the next one. The heap grew (reference engine: merging \
         is forward only). Then the old one goes. Joined with the hole behind: 128 B free at 0x0. It is not merged \
         with the hole behind it (reference engine: merging is forward only)."
    );
}

#[test]
fn an_allocation_that_merges_deferred_holes_says_so() {
    let told = |rules, rest: &[Event]| {
        let freed = [Event::Free { block: 0 }, Event::Free { block: 1 }];
        told_by_odd_rules(rules, &[&requests(&[64, 64, 64, 16]), &freed[..], rest].concat()).pop().unwrap()
    };
    let request = |size| Event::Allocate { block: 4, kind: Kind::Malloc, size, align: 16 };
    assert_eq!(
        told("merging=deferred", &[request(60)]),
        "The hole at 0x0 (64 B) is taken (reference engine: merging is deferred)."
    );
    assert_eq!(
        told("merging=deferred", &[request(120)]),
        "The policy selected no hole, so the holes that touch were merged. The hole at 0x0 (128 B) is taken \
         (reference engine: merging is deferred)."
    );
    assert_eq!(
        told("merging=deferred", &[request(200)]),
        "The policy selected no hole, so the holes that touch were merged. The heap grew (reference engine: merging \
         is deferred)."
    );
    assert_eq!(
        told("merging=deferred,growth=fixed,limit=256", &[request(200)]),
        "The policy selected no hole, so the holes that touch were merged. No hole holds it, and the heap may not \
         grow so far."
    );
    assert_eq!(
        told("merging=deferred", &[Event::Resize { block: 2, becomes: 4, size: 120 }]),
        "No room behind it. The policy selected no hole, so the holes that touch were merged. The hole at 0x0 (128 B) \
         is taken (reference engine: merging is deferred). Then the old one goes. Used blocks on both sides: a new \
         hole, 64 B free at 0x80."
    );
}

#[test]
fn a_refused_resize_is_told() {
    let set = RuleSet::from_text("growth=fixed,limit=256,zero=null", RuleSet::SIMULATED).unwrap();
    let mut lane = Lane::new(Model::of_set(PolicyKind::First, &set)).unwrap();
    let mut told = |event: Event| {
        lane.explain(&event);
        let story = lane.story.as_ref().unwrap();
        format!("{} | {}", story.what, story.why)
    };
    requests(&[0, 16]).into_iter().for_each(|event| drop(told(event)));
    assert_eq!(
        told(Event::Resize { block: 1, becomes: 2, size: 401 }),
        "realloc of block 1 to 401 B: no room | No room where it is. No hole holds it, and the heap may not grow so \
         far."
    );
    assert_eq!(
        told(Event::Resize { block: 0, becomes: 3, size: 401 }),
        "realloc 401 of block 0, which is null: no room | No hole holds it, and the heap may not grow so far."
    );
    assert_eq!(
        told(Event::Resize { block: 3, becomes: 4, size: 41 }),
        "realloc 41 of block 3, which is null → block 3 at 0x10 | The free tail at 0x10 (240 B) is taken: the lowest \
         of all, and it fits. Split: 192 B remain."
    );
}

/// A tail that is too short is extended, not taken.
#[test]
fn a_heap_that_grew_by_odd_rules_is_told_so() {
    let events = [&requests(&[64])[..], &[Event::Free { block: 0 }], &requests(&[100])].concat();
    assert_eq!(
        told_by_odd_rules("split=high", &events)[2],
        "The heap grew (reference engine: blocks are cut from the high end)."
    );
}

/// A request may be refused although a hole would hold it: the sentence does not contradict the picture.
#[test]
fn a_refusal_names_the_holes_that_are_passed_over() {
    let explained = |policy, rules: &str, sizes: &[u64]| {
        let set = RuleSet::from_text(&format!("growth=fixed,{rules}"), RuleSet::SIMULATED).unwrap();
        let mut lane = Lane::new(Model::of_set(policy, &set)).unwrap();
        for (block, &size) in sizes.iter().enumerate() {
            if block + 1 == sizes.len() {
                lane.explain(&Event::Free { block: 0 });
            }
            lane.explain(&Event::Allocate { block: block as u64, kind: Kind::Malloc, size, align: 16 });
        }
        lane.story.unwrap().why
    };
    assert_eq!(
        explained(PolicyKind::Good, "limit=1104", &[1088, 16, 1088]),
        "1 hole would hold it, but is in no class of sizes from 1.12 KiB on, which are searched, and the heap may \
         not grow so far."
    );
    assert_eq!(
        explained(PolicyKind::Worst, "limit=256,worst=never-exact", &[64, 192 - 16, 64]),
        "1 hole would hold it (reference engine: worst fit never takes an exact hole), and the heap may not grow so \
         far."
    );
    assert_eq!(
        explained(PolicyKind::First, "limit=256", &[64, 192, 80]),
        "No hole holds it, and the heap may not grow so far."
    );
}

/// Returns the screen as text.
pub(super) fn drawn(show: &Show, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen::draw(frame, show)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content.chunks(usize::from(width));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()).collect()
}

#[test]
fn one_policy_at_80_by_24() {
    let lines = drawn(&show(&[PolicyKind::First], 8), 80, 24);
    let expected = [
        " demo  event 8 of 11 · paused                                  1 event a second",
        " first, 16 B a cell ──────────────────────────── █ used ▓▒░ mixed · hole ╌ tail",
        "0x000 ██████····█······███████████████████████████████████████████████",
        "0x400 █████████████████",
        "",
        "",
        "",
        "",
        "malloc 90 → block 5 at 0x0",
        "The hole at 0x0 (160 B) is taken: the lowest of all, and it fits. Split: 64 B",
        "remain.",
        "",
        " counters ────────────────────────────  holes: 2 ──────────  over time ─────────",
        "mallocs                 6                   64 B ███████ 2  heap 1.27 KiB",
        "frees                   2                                       ████",
        "reuses                  1                                   ▁▂▃▃████",
        "grows                   5                                   live 1.11 KiB",
        "splits                  1                                       █▆▄▆",
        "coalesces               0                                   ▁▂▃▃████",
        "resizes                 0                                   fragmented 40.0 %",
        "live             1.11 KiB of 1.27 KiB",
        "heap             1.27 KiB of 1.27 KiB                             ▆▆",
        "  73 % ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━────────────────────",
        " q  quit  space  play  + -  speed  ← →  step  g  go to  s  policy  z Z  zoom",
    ];
    assert_eq!(lines.len(), expected.len());
    for (number, (line, wanted)) in lines.iter().zip(expected).enumerate() {
        assert_eq!(line, wanted, "row {number} of\n{}", lines.join("\n"));
    }
}

#[test]
fn two_policies_are_below_each_other_or_side_by_side() {
    let mut show = show(&[PolicyKind::First, PolicyKind::Best], 8);
    let low = drawn(&show, 80, 24);
    assert!(
        low[1].starts_with(" ▶ first, 16 B a cell ─")
            && low.iter().any(|line| line.starts_with(" best, 16 B a cell ─"))
    );
    let compared = low.iter().position(|line| line.starts_with(" side by side ")).unwrap();
    let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(columns(&low[compared])[3..5], ["first", "best"]);
    assert_eq!(columns(&low[compared + 3]), ["holes", "2", "1"]);
    let wide = drawn(&show, 120, 40);
    assert!(wide[1].starts_with(" ▶ first, 16 B a cell ─") && wide[1].contains(" best, 16 B a cell ─"), "{}", wide[1]);
    assert!(
        wide.iter()
            .any(|line| line.contains("malloc 90 → block 5 at 0x0") && line.contains("malloc 90 → block 5 at 0xb0"))
    );
    show.take(KeyCode::Tab, &[]).unwrap();
    assert!(drawn(&show, 120, 40)[1].contains(" ▶ best"));
}

#[test]
fn keys_step_go_and_change_the_policy() {
    // The file must exist for going back.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.hwt");
    write_trace(&path);
    let mut show = Show::of(
        Player::open(&path, &[Model::usual(PolicyKind::First)], PolicyKind::ALL.map(Model::usual).to_vec()).unwrap(),
    );
    let areas = screen::map_areas(Rect::new(0, 0, 80, 24), 1);
    let press = |show: &mut Show, keys: &[KeyCode]| {
        for &key in keys {
            show.take(key, &areas).unwrap();
            show.player.advance(Duration::ZERO).unwrap();
        }
        show.player.at
    };
    assert_eq!(press(&mut show, &[KeyCode::Right, KeyCode::Right, KeyCode::Right]), 3);
    assert_eq!(press(&mut show, &[KeyCode::Left]), 2);
    let go = [KeyCode::Char('g'), KeyCode::Char('1'), KeyCode::Char('9'), KeyCode::Backspace, KeyCode::Char('0')];
    assert_eq!(press(&mut show, &go), 2);
    assert!(drawn(&show, 80, 24)[23].contains("Go to event: 10"));
    assert_eq!(press(&mut show, &[KeyCode::Enter]), 10);
    assert_eq!(press(&mut show, &[KeyCode::Char('g'), KeyCode::Char('3'), KeyCode::Esc]), 10);
    assert_eq!(press(&mut show, &[KeyCode::Char('s')]), 10);
    assert_eq!(show.player.lanes[0].policy(), PolicyKind::Next);
    assert_eq!(press(&mut show, &[KeyCode::Right, KeyCode::Right, KeyCode::Right]), 11);
    assert_eq!(press(&mut show, &[KeyCode::Char('g'), KeyCode::Char('0'), KeyCode::Enter]), 0);
    assert!(show.player.lanes[0].story.is_none());
}
