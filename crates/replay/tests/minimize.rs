//! Minimized traces have no block and no byte that can be left out.

use std::collections::HashMap;

use heapwright_placement::{Growth, PolicyKind, Rules};
use heapwright_replay::{Lives, Model, Recording};
use heapwright_trace::{Event, Kind};

fn request(block: u64, size: u64) -> Event {
    Event::Allocate { block, kind: Kind::Malloc, size, align: 16 }
}

/// Returns random events, some of them resizes.
fn random_events(seed: u64, events: usize) -> Vec<Event> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut all, mut live, mut next) = (Vec::new(), Vec::new(), 0..);
    while all.len() < events {
        match random.u8(0..8) {
            0..3 if !live.is_empty() => all.push(Event::Free { block: live.swap_remove(random.usize(..live.len())) }),
            3 if !live.is_empty() => {
                let (at, becomes) = (random.usize(..live.len()), next.next().unwrap());
                all.push(Event::Resize { block: live[at], becomes, size: random.u64(0..300) });
                live[at] = becomes;
            }
            _ => {
                live.push(next.next().unwrap());
                all.push(request(live[live.len() - 1], random.u64(0..300)));
            }
        }
    }
    all
}

fn is_refused(events: &[Event], policy: PolicyKind, capacity: usize) -> bool {
    let rules = Rules { growth: Growth::Fixed, ..Rules::default() };
    !Recording::of(events.iter().copied()).fits(&Model { capacity, ..Model::with(policy, rules) }).unwrap()
}

/// Returns the trace without the block allocated as `gone`, including its numbers after resizes.
fn without(events: &[Event], gone: u64) -> Vec<Event> {
    let (mut numbers, mut next) = (HashMap::from([(gone, None)]), 0);
    let mut new_block = |numbers: &mut HashMap<u64, Option<u64>>, block: u64| {
        numbers.insert(block, Some(next));
        next += 1;
        next - 1
    };
    let mut left = Vec::new();
    for event in events {
        match *event {
            Event::Allocate { block, .. } if block == gone => {}
            Event::Allocate { block, kind, size, align } => {
                left.push(Event::Allocate { block: new_block(&mut numbers, block), kind, size, align });
            }
            Event::Resize { block, becomes, size } => match numbers[&block] {
                None => drop(numbers.insert(becomes, None)),
                Some(block) => left.push(Event::Resize { block, becomes: new_block(&mut numbers, becomes), size }),
            },
            Event::Free { block } => left.extend(numbers[&block].map(|block| Event::Free { block })),
            _ => {}
        }
    }
    left
}

#[test]
fn lives_round_trip() {
    for seed in 0..50 {
        let events = random_events(seed, 80);
        assert_eq!(Lives::of(events.clone()).events(), events);
    }
    let odd = [
        Event::Free { block: 9 },
        request(0, 1),
        Event::Thread { thread: 3 },
        Event::Free { block: 0 },
        Event::Free { block: 0 },
    ];
    assert_eq!(Lives::of(odd).events(), [request(0, 1), Event::Free { block: 0 }]);
}

#[test]
fn no_further_block_or_byte_can_be_left_out() {
    let mut several = 0;
    for seed in 0..30 {
        for policy in PolicyKind::ALL {
            let events = random_events(seed, 100);
            if !is_refused(&events, policy, 2048) {
                continue;
            }
            let holds = |lives: &Lives| Ok::<_, ()>(Some(is_refused(&lives.events(), policy, 2048)));
            let small = Lives::of(events.clone()).minimize(holds).unwrap();
            let left = small.lives.events();
            assert!(small.is_minimal && is_refused(&left, policy, 2048), "{policy:?}, seed {seed}");
            let begins = left.iter().filter_map(|event| match *event {
                Event::Allocate { block, .. } => Some(block),
                _ => None,
            });
            for block in begins {
                assert!(
                    !is_refused(&without(&left, block), policy, 2048),
                    "{policy:?}, seed {seed}: block {block} can go"
                );
            }
            for at in 0..left.len() {
                let mut less = left.clone();
                match &mut less[at] {
                    Event::Allocate { size, .. } | Event::Resize { size, .. } if *size > 0 => *size -= 1,
                    _ => continue,
                }
                assert!(!is_refused(&less, policy, 2048), "{policy:?}, seed {seed}: event {at} can be smaller");
            }
            several += usize::from(small.lives.len() > 2);
            assert_eq!(Lives::of(events).minimize(holds).unwrap().lives, small.lives);
        }
    }
    assert!(several > 20, "nearly every trace was trivial: {several}");
}

#[test]
fn a_search_without_time_returns_the_smallest_so_far() {
    let events: Vec<Event> = (0..64).map(|block| request(block, 100)).collect();
    let mut left = 10;
    let small = Lives::of(events).minimize(|lives| {
        if left == 0 {
            return Ok(None);
        }
        left -= 1;
        Ok::<_, ()>(Some(lives.len() >= 5))
    });
    let small = small.unwrap();
    assert!(!small.is_minimal && small.asked == 10 && (5..64).contains(&small.lives.len()), "{small:?}");
    assert_eq!(Lives::of([request(0, 1)]).minimize(|_| Err::<Option<bool>, _>("broken")).unwrap_err(), "broken");
}
