//! Memory that is given back. A process of its own, for it looks at the whole of it.

mod common;

use std::fs;
use std::sync::Mutex;

use common::{Filled, any_size, ready};
use heapwright_cached as cached;

/// The tests look at the memory of the process, so they run one after another.
static TURN: Mutex<()> = Mutex::new(());

/// Bytes of memory that are the process's own.
fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[test]
fn what_is_freed_goes_back_to_the_system() {
    let _turn = TURN.lock();
    ready();
    let mut random = fastrand::Rng::with_seed(4);
    cached::trim();
    let before = resident();
    let mut blocks: Vec<_> = (0..60_000).map(|number| Filled::new(number, any_size(&mut random).min(3000))).collect();
    blocks.extend((0..20).map(|number| Filled::new(number, 1 << 20)));
    random.shuffle(&mut blocks);
    let full = resident();
    assert!(full > before + (40 << 20), "{full}");
    blocks.into_iter().for_each(Filled::free);
    let after = resident();
    assert!(after < before + (6 << 20), "{before} {full} {after}");
    cached::trim();
    assert!(resident() < before + (2 << 20), "{before} {full} {after} {}", resident());
}

#[test]
fn pages_without_a_block_go_back_while_their_neighbours_live() {
    let _turn = TURN.lock();
    ready();
    let mut random = fastrand::Rng::with_seed(5);
    cached::trim();
    let before = resident();
    let mut blocks: Vec<_> = (0..200_000).map(|number| Filled::new(number, random.usize(16..=512))).collect();
    random.shuffle(&mut blocks);
    let full = resident() - before;
    let kept = blocks.split_off(190_000);
    blocks.into_iter().for_each(Filled::free);
    let pages: std::collections::BTreeSet<_> =
        kept.iter().flat_map(|block| block.address() >> 12..=(block.address() + block.size() - 1) >> 12).collect();
    let left = resident() - before;
    // Bounded by what is always kept, and a sixteenth of the slabs.
    let bound = pages.len() * 4096 + full / 16 + (2 << 20);
    assert!(left < bound, "{left} of {full} are left for {} pages", pages.len());
    kept.into_iter().for_each(Filled::free);
}
