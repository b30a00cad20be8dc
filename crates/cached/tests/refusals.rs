//! A system that refuses: each call that a scenario makes of it, alone and with all that follow, until the scenario
//! runs through. Nothing may come of it but that requests fail: blocks stay as they are, can be freed, and no page is
//! lost.
//!
//! What is tested is a process's, so each run is a process of its own.

mod common;

use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{iter, mem, thread};

use common::Filled;
use heapwright_cached::{self as cached, Measures};
use heapwright_os::refusals;

/// Blocks that were granted, from all threads.
type Blocks = Vec<Filled>;

struct Scenario {
    name: &'static str,
    /// What is done before the system refuses anything.
    prepare: fn() -> Blocks,
    /// What is done while it does.
    run: fn(&mut Blocks),
}

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "the first block of a process", prepare: never_begun, run: |blocks| allocate(blocks, &[40]) },
    Scenario {
        name: "the first long block of a process",
        prepare: Blocks::new,
        run: |blocks| allocate(blocks, &[1 << 20]),
    },
    Scenario { name: "blocks of every class", prepare: begun, run: every_class },
    Scenario { name: "long blocks", prepare: begun, run: long_blocks },
    Scenario { name: "aligned blocks", prepare: begun, run: aligned_blocks },
    Scenario { name: "zeroed blocks", prepare: begun, run: zeroed_blocks },
    Scenario { name: "growing blocks", prepare: begun, run: growing_blocks },
    Scenario { name: "frees and trims", prepare: many_blocks, run: frees_and_trims },
    Scenario { name: "threads", prepare: begun, run: threads },
    Scenario { name: "blocks of other threads", prepare: blocks_of_threads, run: free_every_other },
    Scenario { name: "forks", prepare: Blocks::new, run: fork_and_go_on },
];

fn main() {
    // Chooses the part of the address space that all processes share: what they ask of the system depends on addresses.
    drop(heapwright_os::Reservation::claim(1 << 16, 1));
    assert_eq!(in_a_process(fork_after_a_refused_entry), 0, "forks are not seen");
    let mut runs = 0;
    for scenario in SCENARIOS {
        let before = runs;
        for first in 0.. {
            let alone = in_a_process(|| refuse(scenario, first, first + 1));
            let with_all_that_follow = in_a_process(|| refuse(scenario, first, u64::MAX));
            runs += 2;
            match (alone, with_all_that_follow) {
                (REFUSED, REFUSED) => {}
                (RAN_THROUGH, RAN_THROUGH) => break,
                // Where distances are drawn, two runs need not ask for as much.
                (REFUSED, RAN_THROUGH) | (RAN_THROUGH, REFUSED) if common::measures().have(Measures::RANDOM) => break,
                codes => panic!(
                    "{}: the calls from {first} on were refused, and the processes ended with {codes:?}",
                    scenario.name
                ),
            }
        }
        println!("{}: {} refusals", scenario.name, runs - before - 2);
        // The hardened heap needs nothing to free what another thread allocated.
        let asks = runs - before > 2 || common::measures() != Measures::NONE;
        assert!(asks, "{} asks nothing of the system", scenario.name);
    }
}

/// The codes by which a process says that all is well.
const REFUSED: i32 = 0;
const RAN_THROUGH: i32 = 42;

/// Runs `body` in a new process; returns the code that it ended with, negative for a signal.
fn in_a_process(body: impl FnOnce() -> i32) -> i32 {
    const SECONDS: u32 = 60;
    // SAFETY: this process has one thread, which the new one goes on with; the status is a local variable.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(SECONDS);
            exit(body());
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) }
    }
}

/// Runs a scenario while the calls from number `first` up to before `end` are refused; then all must be well.
fn refuse(scenario: &Scenario, first: u64, end: u64) -> i32 {
    let mut blocks = (scenario.prepare)();
    refusals::everywhere(first..end);
    (scenario.run)(&mut blocks);
    let calls = refusals::nowhere();
    blocks.iter().for_each(Filled::check);
    every_class(&mut blocks);
    blocks.into_iter().for_each(Filled::free);
    thread::spawn(|| Filled::new(1, 100).free()).join().unwrap();
    cached::trim();
    let pages = cached::page_counters().unwrap();
    assert_eq!(pages.live, 0, "{}: bytes of pages are lost", scenario.name);
    if calls > first { REFUSED } else { RAN_THROUGH }
}

/// More beginnings than there are keys for the ends of threads fail for want of memory: no key may be lost by that.
fn never_begun() -> Blocks {
    refusals::after(0, || (0..1100).for_each(|_| assert!(cached::allocate(40).is_err())));
    Blocks::new()
}

fn begun() -> Blocks {
    Filled::new(0, 16).free();
    Blocks::new()
}

fn many_blocks() -> Blocks {
    (0..20_000)
        .map(|number| Filled::new(number, 16 + number as usize % 10 * 50))
        .chain((0..20).map(|n| Filled::new(n, 300_000)))
        .collect()
}

fn blocks_of_threads() -> Blocks {
    let made =
        |seed| move || (0..3000).map(|number| Filled::new(number, 16 + (number + seed) as usize % 700)).collect();
    (0..3).flat_map(|seed| -> Blocks { thread::spawn(made(seed)).join().unwrap() }).collect()
}

fn allocate(blocks: &mut Blocks, sizes: &[usize]) {
    blocks.extend(sizes.iter().filter_map(|&size| Filled::try_new(size as u64, size)));
}

fn every_class(blocks: &mut Blocks) {
    for bits in 4..16 {
        allocate(blocks, &[1 << bits, (1 << bits) + (1 << (bits - 1)), (2 << bits) - 1]);
    }
    // So many that pages are had together.
    (0..600).for_each(|_| allocate(blocks, &[100]));
}

fn long_blocks(blocks: &mut Blocks) {
    for number in 0..20 {
        allocate(blocks, &[(40 << 10) << (number % 9)]);
        if number % 3 == 2 {
            blocks.pop().into_iter().for_each(Filled::free);
        }
    }
}

fn aligned_blocks(blocks: &mut Blocks) {
    for bits in 5..24 {
        let size = 3000 << (bits % 5);
        if let Ok(block) = cached::allocate_aligned(size, 1 << bits) {
            blocks.push(Filled::over(block, bits, size, 1 << bits));
        }
    }
}

fn zeroed_blocks(blocks: &mut Blocks) {
    for bits in 4..23 {
        let size = 1 << bits;
        Filled::try_new(bits, size).into_iter().for_each(Filled::free);
        if let Ok(block) = cached::allocate_zeroed(size) {
            // SAFETY: the block is that long.
            assert!(unsafe { std::slice::from_raw_parts(block.as_ptr(), size) }.iter().all(|&byte| byte == 0));
            blocks.push(Filled::over(block, bits, size, 16));
        }
    }
}

fn growing_blocks(blocks: &mut Blocks) {
    let Some(mut growing) = Filled::try_new(7, 64) else { return };
    for size in iter::successors(Some(96), |size| Some(size + size / 2)).take_while(|&size| size < 16 << 20) {
        growing = growing.try_resize(size).unwrap_or_else(|as_it_was| as_it_was);
        // So that not all can grow where they are.
        allocate(blocks, &[size / 8]);
    }
    blocks.push(growing);
}

fn frees_and_trims(blocks: &mut Blocks) {
    for part in 1..=4 {
        let kept = blocks.len() / (part + 1);
        blocks.drain(kept..).for_each(Filled::free);
        cached::trim();
        allocate(blocks, &[50, 5000, 50_000]);
    }
}

fn threads(blocks: &mut Blocks) {
    for round in 0..3 {
        let thread = thread::spawn(move || {
            let mut made = Blocks::new();
            every_class(&mut made);
            made.drain(..made.len().min(round * 5)).for_each(Filled::free);
            made
        });
        blocks.extend(thread.join().unwrap());
    }
}

fn free_every_other(blocks: &mut Blocks) {
    for (number, block) in mem::take(blocks).into_iter().enumerate() {
        if number % 2 == 0 {
            block.free();
        } else {
            blocks.push(block);
        }
    }
}

fn fork_and_go_on(blocks: &mut Blocks) {
    every_class(blocks);
    assert_eq!(in_a_process(|| go_on(mem::take(blocks))), 0, "the child of a fork");
}

fn go_on(mut blocks: Blocks) -> i32 {
    blocks.iter().for_each(Filled::check);
    every_class(&mut blocks);
    threads(&mut blocks);
    blocks.into_iter().for_each(Filled::free);
    cached::trim();
    0
}

/// The first call of all is for the entry by which forks are seen.
fn fork_after_a_refused_entry() -> i32 {
    refusals::everywhere(0..1);
    // It is made again for the same request, and granted.
    Filled::new(1, 40).free();
    refusals::nowhere();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                Filled::new(5, 300_000).free();
                cached::trim();
            }
        });
        for _ in 0..20 {
            assert_eq!(in_a_process(|| go_on(Blocks::new())), 0, "the child of a fork");
        }
        done.store(true, Relaxed);
    });
    0
}
