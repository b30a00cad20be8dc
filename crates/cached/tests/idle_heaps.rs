//! The order in which idle heaps are adopted. A process of its own, so that no other thread adopts one.

mod common;

use common::ready;
use heapwright_slabs::arena::ARENA;

#[test]
fn the_last_abandoned_is_adopted_first_and_the_purged_ones_last() {
    ready();
    let mut arena = ARENA.lock().unwrap();
    let [one, two, three, four] = std::array::from_fn(|_| arena.adopt_heap().unwrap());
    assert_eq!(arena.heaps.count_idle(), 0);
    arena.heaps.abandon(one);
    arena.heaps.abandon_purged(two);
    arena.heaps.abandon_purged(three);
    arena.heaps.abandon(four);
    assert_eq!(arena.heaps.count_idle(), 4);
    let adopted: [u32; 4] = std::array::from_fn(|_| arena.adopt_heap().unwrap().owner());
    assert_eq!(adopted, [four, one, two, three].map(|heap| heap.owner()));
    assert_eq!(arena.heaps.count_idle(), 0);
    // An empty list begins again, from either end.
    arena.heaps.abandon_purged(two);
    arena.heaps.abandon(one);
    let adopted: [u32; 2] = std::array::from_fn(|_| arena.adopt_heap().unwrap().owner());
    assert_eq!(adopted, [one.owner(), two.owner()]);
}
