//! A block that two other threads free, one after the other, ends the process when its owner collects both, or another
//! thread does so in its place: linked to itself it would be every later request's. A process of its own, which ends.

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
    // Whether the owner's list has room for the block or not.
    let lists = (0..40).map(|own| (1000, own));
    for (size, own) in [16, 1000, 1024, 2000, 32_768].map(|size| (size, 0)).into_iter().chain(lists) {
        // Among short blocks of one page, also if others were freed between.
        let others = if size == 16 { 5 } else { 0 };
        for (collect, between) in [(allocate as fn(usize), 0), (trim, 0), (trim, others)] {
            // SAFETY: this process has one thread, which the new one goes on with; the status is a local variable.
            let status = unsafe {
                let child = libc::fork();
                if child == 0 {
                    free_twice(size, own, collect, between);
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                status
            };
            let is_aborted = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT;
            assert!(
                is_aborted,
                "{size} bytes, {own} in the list, {between} between: what was freed twice was used again: {status:#x}"
            );
        }
    }
}

/// The owner collects.
fn allocate(size: usize) {
    for _ in 0..1000 {
        let _ = cached::take(size).or_else(|| cached::allocate(size).ok());
    }
}

/// Another thread does.
fn trim(_: usize) {
    thread::spawn(|| _ = cached::trim()).join().expect("it does nothing else");
}

/// Frees `own` blocks, then another one by two threads, the second of which frees `between` others before, and collects
/// it; ends with 0 if nothing is found, or is ended after a minute.
fn free_twice(size: usize, own: usize, collect: fn(usize), between: usize) -> ! {
    // SAFETY: the alarm has no handler.
    unsafe { libc::alarm(60) };
    ready();
    let blocks: Vec<_> = (0..own).map(|_| cached::allocate(size).expect("there is memory")).collect();
    let block = cached::allocate(size).expect("there is memory").as_ptr().expose_provenance();
    for own in blocks {
        // SAFETY: the block is not used any more.
        unsafe { cached::free(own) }.expect("it is a block");
    }
    let others = || cached::allocate(size).expect("there is memory").as_ptr().expose_provenance();
    let others: Vec<usize> = (0..between).map(|_| others()).collect();
    for freed in [vec![block], others.into_iter().chain([block]).collect()] {
        let freeing = thread::spawn(move || {
            for block in freed {
                let block = core::ptr::NonNull::new(core::ptr::with_exposed_provenance_mut(block)).expect("a block");
                // SAFETY: the block is not used any more. The second free is the mistake that is to be found.
                let _ = unsafe { cached::free(block) };
            }
        });
        freeing.join().expect("it does nothing else");
    }
    collect(size);
    exit(0)
}
