//! A census finds what was allocated and not freed.

mod common;

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::mpsc;
use std::thread;

use common::{any_size, ready};
use heapwright_cached::{self as cached, Census, Measures};

/// A block, by its address, for it is passed between threads.
struct Block(usize);

impl Block {
    fn new(size: usize) -> Block {
        Block(cached::allocate(size).unwrap().addr().get())
    }

    fn pointer(&self) -> NonNull<u8> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(self.0)).unwrap()
    }

    fn usable(&self) -> usize {
        cached::usable_size(self.pointer()).unwrap()
    }

    fn free(self) {
        // SAFETY: the block is not used.
        unsafe { cached::free(self.pointer()) }.unwrap();
    }
}

fn census() -> Census {
    cached::census().unwrap()
}

/// How many blocks the program has more of each size, and how many bytes more in blocks without a class.
fn difference(before: &Census, after: &Census) -> (BTreeMap<usize, isize>, isize) {
    let mut sizes: BTreeMap<usize, isize> = after.classes().map(|class| (class.size, class.used as isize)).collect();
    for class in before.classes() {
        *sizes.entry(class.size).or_default() -= class.used as isize;
    }
    sizes.retain(|_, count| *count != 0);
    (sizes, after.long_bytes() as isize - before.long_bytes() as isize)
}

fn expected(blocks: &[Block]) -> (BTreeMap<usize, isize>, isize) {
    let (mut sizes, mut long) = (BTreeMap::new(), 0);
    for size in blocks.iter().map(Block::usable) {
        match size {
            0..=32_768 => *sizes.entry(size).or_default() += 1,
            _ => long += size as isize,
        }
    }
    (sizes, long)
}

fn some_blocks(random: &mut fastrand::Rng) -> Vec<Block> {
    (0..5_000).map(|_| Block::new(any_size(random))).collect()
}

/// One test, for the whole process is looked at.
#[test]
fn a_census_finds_what_the_program_has() {
    if common::measures() != Measures::NONE {
        // The hardened heap has no lists: see `hardened.rs`.
        return;
    }
    ready();
    let mut random = fastrand::Rng::with_seed(41);
    let before = census();
    let mut blocks = some_blocks(&mut random);
    assert_eq!(difference(&before, &census()), expected(&blocks));

    // What waits in the thread's lists is not the program's.
    random.shuffle(&mut blocks);
    blocks.drain(2_500..).for_each(Block::free);
    let half = census();
    assert_eq!(difference(&before, &half), expected(&blocks));
    assert!(half.classes().any(|class| class.listed != 0));
    assert!(half.classes().all(|class| class.free() >= class.listed && class.blocks() >= class.used));

    // Nor what waits to be sent to another thread, or has come from one.
    let (to_us, from_other) = mpsc::channel();
    let (to_other, from_us) = mpsc::channel::<Vec<Block>>();
    let other = thread::spawn(move || {
        to_us.send((0..100).map(|_| Block::new(200)).collect::<Vec<_>>()).unwrap();
        from_us.recv().unwrap().into_iter().for_each(Block::free);
        to_us.send(Vec::new()).unwrap();
        // The heap stays this thread's until all has been looked at.
        let _ = from_us.recv();
    });
    let theirs = from_other.recv().unwrap();
    let with_theirs = census();
    let given_up: Vec<Block> = theirs.into_iter().take(20).collect();
    let less = expected(&given_up).0.into_iter().map(|(size, count)| (size, -count)).collect();
    given_up.into_iter().for_each(Block::free);
    assert_eq!(difference(&with_theirs, &census()), (less, 0));
    to_other.send(blocks.split_off(1_250)).unwrap();
    from_other.recv().unwrap();
    let (mine, long) = difference(&before, &census());
    let (kept, kept_long) = expected(&blocks);
    // Long blocks that it has freed are nowhere the program's.
    assert_eq!(long, kept_long);
    // What the other thread gathers, and what of its own lies in its lists, counts as the program's.
    let surplus: isize = mine.iter().map(|(size, count)| count - kept.get(size).unwrap_or(&0)).sum();
    assert!((0..=4 * 32 + 256).contains(&surplus), "{surplus}");
    drop(to_other);
    other.join().unwrap();

    blocks.into_iter().for_each(Block::free);
    let after = census();
    assert_eq!(after.long_bytes(), before.long_bytes());
    let mut holes = 0;
    cached::each_page_hole(|bytes| holes += bytes);
    assert_eq!(after.pages.heap_size as usize, after.pages.live as usize + holes);
    each_heap_has_slabs_of_its_own();
}

fn each_heap_has_slabs_of_its_own() {
    let of_heaps: Vec<usize> =
        (1..=cached::heaps()).map(|heap| cached::census_of(heap).unwrap().slab_bytes()).collect();
    assert!(of_heaps.len() >= 2 && of_heaps.iter().filter(|&&bytes| bytes != 0).count() >= 2, "{of_heaps:?}");
    assert_eq!(of_heaps.iter().sum::<usize>(), census().slab_bytes());
    assert_eq!(cached::census_of(0).unwrap().slab_bytes(), 0);
}
