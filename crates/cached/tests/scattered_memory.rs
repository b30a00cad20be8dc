//! Memory that is given back amid what lives. A process of its own with one thread, for it looks at the whole of it,
//! and more is kept where there are other threads.

mod common;

use common::{Filled, ready};

fn main() {
    ready();
    let mut random = fastrand::Rng::with_seed(5);
    let before = common::resident();
    let mut blocks: Vec<_> = (0..200_000).map(|number| Filled::new(number, random.usize(16..=512))).collect();
    random.shuffle(&mut blocks);
    let full = common::resident() - before;
    let kept = blocks.split_off(190_000);
    blocks.into_iter().for_each(Filled::free);
    let pages: std::collections::BTreeSet<_> =
        kept.iter().flat_map(|block| block.address() >> 12..=(block.address() + block.size() - 1) >> 12).collect();
    let left = common::resident() - before;
    // Bounded by what is always kept, and a sixteenth of the slabs.
    let bound = pages.len() * 4096 + full / 16 + (2 << 20) + common::kept_waiting() + common::kept_idle(full);
    assert!(left < bound, "{left} of {full} are left for {} pages", pages.len());
    kept.into_iter().for_each(Filled::free);
    println!("pages without a block went back: {left} of {full} bytes are left for {} pages", pages.len());
}
