//! A Rust program on this heap: collections, threads, and what its threads leave to one another.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::channel;
use std::thread;

use heapwright_cached::Cached;

#[global_allocator]
static HEAP: Cached = Cached;

#[test]
fn collections_work() {
    let mut words: HashMap<String, Vec<u64>> = HashMap::new();
    for number in 0..50_000u64 {
        words.entry((number * 7919 % 5003).to_string()).or_default().push(number);
    }
    let sorted: BTreeMap<_, _> = words.into_iter().collect();
    assert_eq!(sorted.len(), 5003);
    assert_eq!(sorted.values().flatten().sum::<u64>(), 50_000 * 49_999 / 2);
}

#[test]
fn a_forked_child_goes_on_while_others_allocate() {
    let busy =
        thread::spawn(|| (0..200_000).map(|number| Box::new(number).to_string()).map(|text| text.len()).sum::<usize>());
    for _ in 0..20 {
        // SAFETY: the child does nothing but allocate, which this heap allows, and exits.
        match unsafe { libc::fork() } {
            0 => {
                let words: Vec<String> = (0..2000).map(|number: u32| number.to_string()).collect();
                // SAFETY: no preconditions.
                unsafe { libc::_exit(i32::from(words.concat().len() != 6890)) };
            }
            child => {
                let mut status = 0;
                // SAFETY: the status is written to a local variable.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert_eq!(status, 0);
            }
        }
    }
    assert!(busy.join().unwrap() > 0);
}

#[test]
fn long_vectors_grow_and_shrink() {
    let mut bytes: Vec<u32> = Vec::new();
    (0..3_000_000).for_each(|number| bytes.push(number));
    bytes.truncate(100);
    bytes.shrink_to_fit();
    assert!(bytes.iter().copied().eq(0..100));
}

#[test]
fn over_aligned_values_are_aligned() {
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let pages: Vec<Box<Page>> = (0..100).map(|_| Box::new(Page([1; 4096]))).collect();
    assert!(pages.iter().all(|page| (&raw const page.0).addr().is_multiple_of(4096) && page.0[4095] == 1));
}

#[test]
fn threads_leave_values_to_one_another() {
    let (to, from) = channel();
    for thread in 0..4u64 {
        let to = to.clone();
        thread::spawn(move || (0..5_000).for_each(|number| to.send(Box::new(thread * 5_000 + number)).unwrap()));
    }
    drop(to);
    let mut all: Vec<u64> = from.into_iter().map(|number| *number).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..20_000));
}
