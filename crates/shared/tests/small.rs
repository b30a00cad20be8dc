//! Segments of a few granules, down to one.

mod common;

use common::{Spot, of};
use heapwright_shared::{Error, PolicyKind, SharedHeap};

#[test]
fn segments_of_a_few_granules_are_heaps() {
    for policy in PolicyKind::ALL {
        for granules in 1..=9 {
            let spot = Spot::new("small");
            let heap = spot.create(&of(policy, granules * 64));
            let mut blocks: Vec<_> = (0..granules).map(|_| heap.allocate(64).unwrap()).collect();
            assert!(matches!(heap.allocate(1), Err(Error::Full { .. })), "{} of {granules}", policy.name());
            heap.deallocate(blocks.remove(0)).unwrap();
            heap.check().unwrap();
            heap.close().unwrap();
            let heap = SharedHeap::open(&spot).unwrap();
            assert!(heap.allocate(64).is_ok() && heap.allocate(1).is_err());
            heap.check().unwrap();
        }
    }
}
