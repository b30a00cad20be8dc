//! A thread that has no heap, because there are too many threads, sends each block that it frees alone. What the
//! program has left in it is not read. A process of its own: nothing else comes into the inbox.

mod common;

use std::ptr::NonNull;
use std::thread;

use common::{measures, ready};
use heapwright_cached::{self as cached, Measures};
use heapwright_slabs::heap::send_unbuffered;
use heapwright_slabs::origin::Origin;

#[test]
fn a_block_that_is_sent_alone_carries_nothing() {
    if measures() != Measures::NONE {
        return;
    }
    ready();
    for size in [16, 24, 64, 1024, 4096] {
        let block = cached::allocate(size).unwrap();
        // SAFETY: the block is that long.
        unsafe { block.write_bytes(0xAB, size) };
        let address = block.as_ptr().expose_provenance();
        let freeing = thread::spawn(move || {
            let block = NonNull::new(core::ptr::with_exposed_provenance_mut(address)).unwrap();
            // SAFETY: it is a block of this origin, and not used any more.
            unsafe { send_unbuffered(block, &Origin::of(block).unwrap()) };
        });
        freeing.join().unwrap();
        // The owner collects what has arrived when a list is empty.
        let found = (0..1000).any(|_| cached::take(size).or_else(|| cached::allocate(size).ok()) == Some(block));
        assert!(found, "{size}: the block is used again");
    }
}
