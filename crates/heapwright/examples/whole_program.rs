//! A whole program on the cached heap: threads that leave their words to one another, and what remains when all are gone.
//!
//! `cargo run --release -p heapwright --example whole_program`

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::thread;

use heapwright::cached::{page_counters, page_returns, trim};

#[global_allocator]
static A: heapwright::Cached = heapwright::Cached;

const THREADS: usize = 4;
const WORDS_OF_EACH: usize = 200_000;

fn main() {
    let words = count_words();
    println!("{} words, {} different", words.values().sum::<usize>(), words.len());
    report("while they are there");
    drop(words);
    trim();
    report("when they are gone");
}

/// Every thread makes words; this one keeps them.
fn count_words() -> BTreeMap<String, usize> {
    let (sender, receiver) = channel();
    for thread in 0..THREADS {
        let sender = sender.clone();
        thread::spawn(move || {
            (0..WORDS_OF_EACH).for_each(|n| {
                // A receiver that is gone needs no words.
                let _ = sender.send(format!("{:x}", (n * (thread + 1)).wrapping_mul(0x9e37_79b9)));
            });
        });
    }
    drop(sender);
    let mut words = BTreeMap::new();
    receiver.into_iter().for_each(|word| *words.entry(word).or_default() += 1);
    words
}

fn report(when: &str) {
    if let (Some(pages), Some(returned)) = (page_counters(), page_returns()) {
        println!(
            "{when}: {} KiB in slabs and long blocks, the most was {} KiB",
            pages.live >> 10,
            pages.peak_live >> 10
        );
        println!("    {} KiB of the holes between them went back to the system", returned.bytes >> 10);
    }
}
