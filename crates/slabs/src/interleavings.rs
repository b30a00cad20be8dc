//! Every interleaving of a few threads at an inbox and at a heap's lock, run by loom: `.ci/loom`. Those of whole heaps
//! are in `heapwright-cached`.

use std::vec::Vec;

use loom::sync::Arc;
use loom::thread;

use crate::inbox::Inbox;
use crate::links::{Chain, Key, Links};
use crate::owner_lock::OwnerLock;
use crate::platform::interleave;

#[test]
fn what_is_added_to_an_inbox_is_taken_once() {
    interleave(3, || {
        const KEY: Key = Key(1 << 63);
        static BLOCKS: [[u64; 2]; 3] = [[0; 2]; 3];
        let memory = Vec::leak(BLOCKS.to_vec());
        let blocks: Vec<usize> = memory.iter_mut().map(|block| (&raw mut *block).expose_provenance()).collect();
        let block = |number: usize| core::ptr::with_exposed_provenance_mut::<u8>(blocks[number]);
        let inbox = Arc::new(Inbox::new());

        // SAFETY: the blocks are used by the list only.
        unsafe { KEY.link(block(0), block(1)) };
        let chains = [(0, 1, 2), (2, 2, 1)];
        let adders = chains.map(|(first, last, count)| {
            let (inbox, first, last) = (inbox.clone(), blocks[first], blocks[last]);
            thread::spawn(move || {
                let place = core::ptr::with_exposed_provenance_mut::<u8>;
                // SAFETY: as above.
                unsafe {
                    inbox.add(&Chain { first: place(first), last: place(last), count, end: Links::InBlock(KEY) }, 0)
                };
            })
        });
        let mut taken = Vec::new();
        let mut take = || {
            let mut next = inbox.take();
            while !next.is_null() {
                taken.push(next.addr());
                // SAFETY: the block is in the list that was taken.
                next = unsafe { KEY.next(next) };
            }
        };
        take();
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        take();
        taken.sort_unstable();
        assert_eq!(taken, blocks);
    });
}

#[test]
fn an_owner_and_visitors_use_a_value_one_at_a_time() {
    interleave(3, || {
        let lock = Arc::new(OwnerLock::new(0));
        let visitors = [(); 2].map(|()| {
            let lock = lock.clone();
            thread::spawn(move || match lock.try_lock() {
                Some(mut value) => {
                    *value += 1;
                    1
                }
                None => 0,
            })
        });
        *lock.lock() += 1;
        *lock.lock() += 1;
        let visits: i32 = visitors.into_iter().map(|visitor| visitor.join().unwrap()).sum();
        assert_eq!(*lock.lock(), 2 + visits);
    });
}
