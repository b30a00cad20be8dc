//! The order in which idle heaps are adopted. A process of its own, so that no other thread adopts one.

mod common;

use common::ready;
use heapwright_slabs::arena::ARENA;
use heapwright_slabs::heap::Pages;

#[test]
fn the_last_abandoned_is_adopted_first_and_the_purged_ones_last() {
    ready();
    let mut arena = ARENA.lock().unwrap();
    let [one, two, three, four] = std::array::from_fn(|_| arena.adopt_heap().unwrap());
    assert!(!arena.heaps.has_kept(1));
    arena.heaps.abandon(one, Pages::Kept);
    arena.heaps.abandon(two, Pages::Purged);
    arena.heaps.abandon(three, Pages::Purged);
    arena.heaps.abandon(four, Pages::Kept);
    assert!(arena.heaps.has_kept(2) && !arena.heaps.has_kept(3));
    let adopted: [u32; 4] = std::array::from_fn(|_| arena.adopt_heap().unwrap().owner());
    assert_eq!(adopted, [four, one, two, three].map(|heap| heap.owner()));
    // An empty list begins again, from either end.
    arena.heaps.abandon(two, Pages::Purged);
    assert!(!arena.heaps.has_kept(1));
    arena.heaps.abandon(one, Pages::Kept);
    let adopted: [u32; 2] = std::array::from_fn(|_| arena.adopt_heap().unwrap().owner());
    assert_eq!(adopted, [one.owner(), two.owner()]);
}
