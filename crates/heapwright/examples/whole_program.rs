//! A whole program on the cached heap: threads make words, another keeps them, and the memory goes back when they are
//! gone.
//!
//! `cargo run --release -p heapwright --example whole_program`

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::channel;
use std::thread;

use heapwright::cached::{census, trim};

#[global_allocator]
static A: heapwright::Cached = heapwright::Cached;

const THREADS: usize = 4;
const WORDS_OF_EACH: usize = 200_000;

fn main() {
    let words = count_words();
    println!("{} words, {} different", words.values().sum::<usize>(), words.len());
    report("while they are there");
    drop(words);
    report("when they are gone");
    trim();
    report("and after trim");
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
    if let (Some(census), Some(resident)) = (census(), resident()) {
        println!("{when}: {} KiB in blocks, {resident} KiB of memory", census.used_bytes() >> 10);
    }
}

/// How many KiB of memory the process has, as the system tells it; `None` where it does not.
fn resident() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?.parse().ok()
}
