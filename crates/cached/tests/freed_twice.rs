//! A block that two other threads free, one after the other, ends the process when its owner collects both: linked to
//! itself it would be every later request's. A process of its own, which ends.

mod common;

use std::process::exit;
use std::thread;

use common::ready;
use heapwright_cached::{self as cached, Measures};

fn main() {
    if common::measures() != Measures::NONE {
        // The hardened heap finds the second free at once.
        return;
    }
    for size in [16, 1000, 1024, 2000, 32_768] {
        // SAFETY: this process has one thread, which the new one goes on with; the status is a local variable.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                free_twice(size);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            status
        };
        let is_aborted = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT;
        assert!(is_aborted, "a block of {size} bytes that was freed twice was used again: {status:#x}");
    }
}

/// Frees a block by two threads, and allocates what the owner has; ends with 0 if nothing is found.
fn free_twice(size: usize) -> ! {
    ready();
    let block = cached::allocate(size).expect("there is memory").as_ptr().expose_provenance();
    for _ in 0..2 {
        let freeing = thread::spawn(move || {
            let block = core::ptr::NonNull::new(core::ptr::with_exposed_provenance_mut(block)).expect("a block");
            // SAFETY: the block is not used any more. The second free is the mistake that is to be found.
            let _ = unsafe { cached::free(block) };
        });
        freeing.join().expect("it does nothing else");
    }
    for _ in 0..1000 {
        let _ = cached::take(size).or_else(|| cached::allocate(size).ok());
    }
    exit(0)
}
