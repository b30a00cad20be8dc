//! Memory that is given back when all is freed. A process of its own, for it looks at the whole of it.

mod common;

use common::{Filled, any_size, ready};
use heapwright_cached as cached;

#[test]
fn what_is_freed_goes_back_to_the_system() {
    ready();
    let mut random = fastrand::Rng::with_seed(4);
    let before = common::resident();
    let mut blocks: Vec<_> = (0..60_000).map(|number| Filled::new(number, any_size(&mut random).min(3000))).collect();
    blocks.extend((0..20).map(|number| Filled::new(number, 1 << 20)));
    random.shuffle(&mut blocks);
    let full = common::resident();
    assert!(full > before + (40 << 20), "{full}");
    blocks.into_iter().for_each(Filled::free);
    let after = common::resident();
    let kept = common::kept_waiting() + common::kept_idle(full - before);
    assert!(after < before + (6 << 20) + kept, "{before} {full} {after}");
    cached::trim();
    assert!(
        common::resident() < before + (2 << 20) + common::kept_records(),
        "{before} {full} {after} {}",
        common::resident()
    );
}
