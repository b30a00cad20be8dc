//! How much of a 1 KB region requests of one size can have when handle and metadata lie inside it too.
//!
//! `cargo run --release -p heapwright --example one_kilobyte` (a debug build's handles are longer, for their checks)

use std::alloc::Layout;
use std::mem::MaybeUninit;

use heapwright::{
    BestFit, COMPACT, Chosen, FirstFit, FixedHeap, GoodFit, NextFit, Policy, PolicyKind, RandomFit, WorstFit,
};

#[repr(align(8))]
struct Region([MaybeUninit<u8>; 1024]);

const REQUESTS: [usize; 4] = [16, 24, 40, 100];

fn percent<P: Policy>(choice: P::Choice, request: usize) -> f64 {
    let mut region = Region([MaybeUninit::uninit(); 1024]);
    let Ok(heap) = FixedHeap::<P>::carve(choice, &mut region.0, &COMPACT) else { return 0.0 };
    let layout = Layout::array::<u8>(request).expect("a short layout");
    let served = std::iter::from_fn(|| heap.allocate(layout).ok()).count();
    (served * request) as f64 / 10.24
}

fn row<P: Policy>(name: &str, choice: P::Choice) {
    print!("{name:<22}");
    for request in REQUESTS {
        print!("{:>7.1} %", percent::<P>(choice, request));
    }
    println!("{:>6} bytes", size_of::<FixedHeap<'_, P>>());
}

fn main() {
    println!("{:<22}{:>9}{:>9}{:>9}{:>9}      handle", "payload at", 16, 24, 40, 100);
    row::<FirstFit>("first", ());
    row::<NextFit>("next", ());
    row::<BestFit>("best", ());
    row::<WorstFit>("worst", ());
    row::<RandomFit>("random", ());
    row::<GoodFit>("good", ());
    row::<Chosen>("best, chosen by name", PolicyKind::Best);
}
