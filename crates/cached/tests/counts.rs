//! Counts of calls. A process of its own, because everything in it is counted.

mod common;

use std::thread;

use common::{Filled, any_size, ready};
use heapwright_cached::{self as cached, Totals};

#[test]
fn everything_is_counted_from_the_first_block_on() {
    cached::keep_counts();
    ready();
    assert_eq!(cached::totals(), Some(Totals::default()));
    let mut random = fastrand::Rng::with_seed(6);
    let sizes: Vec<usize> = (0..10_000).map(|_| any_size(&mut random)).collect();
    let requested = sizes.iter().map(|&size| size.max(usize::from(size > 32 << 10)) as u64).sum::<u64>();
    let blocks: Vec<Filled> = sizes.iter().map(|&size| Filled::new(1, size)).collect();
    let full = cached::totals().unwrap();
    assert_eq!((full.allocated, full.freed, full.requested), (10_000, 0, requested));
    assert!(full.live == full.rounded && full.peak_live == full.live && full.rounded >= requested);

    // Half of them are freed by another thread.
    let mut blocks = blocks;
    let half = blocks.split_off(5_000);
    thread::spawn(|| half.into_iter().for_each(Filled::free)).join().unwrap();
    blocks.into_iter().for_each(Filled::free);
    let empty = cached::totals().unwrap();
    assert_eq!((empty.allocated, empty.freed, empty.live), (10_000, 10_000, 0));
    assert_eq!(empty.peak_live, full.live);

    // What is not freed is not counted.
    let block = cached::allocate(40).unwrap();
    // SAFETY: the block is this test's; the second time nothing happens.
    unsafe {
        assert!(cached::free(block).is_ok() && cached::free(block).is_err());
    }
    assert_eq!((cached::totals().unwrap().freed, cached::totals().unwrap().live), (10_001, 0));

    let of_class = |size| cached::class_counts().find(|count| count.size == size).unwrap();
    let expected = sizes.iter().filter(|&&size| (33..=48).contains(&(size + common::canary()))).count() as u64;
    // The first few of a class are blocks of another: until there is use for slabs of its own.
    let elsewhere = if common::measures() == heapwright_cached::Measures::NONE { 8 } else { 0 };
    let own = expected + 1 - elsewhere;
    assert_eq!((of_class(Some(48)).allocated, of_class(Some(48)).freed), (own, own));
    let longer = sizes.iter().filter(|&&size| size + common::canary() > 32 << 10).count() as u64;
    assert_eq!(of_class(None).allocated, longer);
    assert_eq!(cached::class_counts().map(|count| count.allocated).sum::<u64>(), 10_001);
}
