//! Sparse slabs dissolve. A process of its own, for it looks at the whole heap.

mod common;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::mpsc;
use std::thread;

use common::{Filled, measures, ready, seeded};
use heapwright_cached::{self as cached, Measures};
use heapwright_os::refusals;

/// The sizes of the phases of a program: each leaves some blocks, and the next has other sizes.
const PHASES: [RangeInclusive<usize>; 6] = [24..=40, 300..=450, 48..=96, 600..=1000, 100..=200, 2000..=3000];

/// The bytes that each phase allocates.
const BYTES: usize = 8 << 20;

/// Of this many blocks one stays.
const PART: usize = 25;

fn main() {
    ready();
    if measures() != Measures::NONE {
        // The hardened heap dissolves nothing: the records of a slab are those of one class.
        return;
    }
    one_thread_reuses_the_holes_of_earlier_phases();
    other_threads_free_blocks_of_dissolved_slabs();
    aligned_blocks_are_aligned_in_holes();
    cached::trim();
    holes_reach_across_pages_that_are_not_in_memory();
    cached::trim();
    what_is_done_again_and_again_dissolves_little();
    cached::trim();
    holes_are_the_last_resort();
}

fn allocate_phase(sizes: &RangeInclusive<usize>, random: &mut fastrand::Rng) -> Vec<Filled> {
    let (mut blocks, mut bytes) = (Vec::new(), 0);
    while bytes < BYTES {
        let size = random.usize(sizes.clone());
        blocks.push(Filled::new(random.u64(..), size));
        bytes += size;
    }
    random.shuffle(&mut blocks);
    blocks
}

fn slab_bytes() -> usize {
    cached::census().expect("the heap is ready").slab_bytes()
}

/// The heap needs little more than one phase does, and every block keeps its contents until it is freed.
fn one_thread_reuses_the_holes_of_earlier_phases() {
    let mut random = seeded(13);
    let mut kept = Vec::new();
    let mut in_first = 0;
    for sizes in &PHASES {
        let mut blocks = allocate_phase(sizes, &mut random);
        kept.extend(blocks.split_off(blocks.len() - blocks.len() / PART));
        blocks.into_iter().for_each(Filled::free);
        if in_first == 0 {
            in_first = slab_bytes();
        }
    }
    let census = cached::census().expect("the heap is ready");
    let dissolved = census.dissolved();
    assert!(dissolved.slabs > 50, "{dissolved:?}");
    assert!(dissolved.used > 1000 && dissolved.holes > 100, "{dissolved:?}");
    assert_eq!(dissolved.used, census.classes().map(|class| class.dissolved).sum::<usize>());
    // Without dissolving, each phase adds about as much as the first.
    assert!(slab_bytes() < 2 * in_first, "{} after {in_first} in the first phase", slab_bytes());
    let live: usize = kept.iter().map(Filled::size).sum();
    assert!(census.used_bytes() >= live, "{} of {live} bytes", census.used_bytes());
    println!("six phases take {} bytes of slabs, {dissolved:?}", slab_bytes());
    let (short, long): (Vec<Filled>, Vec<Filled>) = kept.into_iter().partition(|block| block.size() <= 100);
    long.into_iter().for_each(Filled::free);
    only_pages_of_blocks_are_resident(&short);
    let kept = short;
    // Resizes find the lengths of blocks in dissolved slabs.
    let resized = kept.into_iter().map(|block| {
        let size = block.size() + random.usize(0..=block.size());
        block.resize(size)
    });
    resized.collect::<Vec<_>>().into_iter().for_each(Filled::free);
    cached::trim();
    let left = cached::census().expect("the heap is ready").dissolved();
    assert_eq!(left.used, 0, "{left:?}");
    assert_eq!(left.slabs, 0, "{left:?}");
}

/// After a trim, the slabs of `live`, which are all live blocks, have no resident page without one.
fn only_pages_of_blocks_are_resident(live: &[Filled]) {
    const PAGE: usize = 4096;
    const PAGES: usize = (64 << 10) / PAGE;
    cached::trim();
    let pages = |block: &Filled| block.address() / PAGE..=(block.address() + block.size() - 1) / PAGE;
    let with_blocks: BTreeSet<usize> = live.iter().flat_map(pages).collect();
    let slabs: BTreeSet<usize> = with_blocks.iter().map(|page| page / PAGES).collect();
    let mut resident = 0;
    for slab in &slabs {
        let mut states = [0; PAGES];
        let start = core::ptr::without_provenance_mut(slab * PAGES * PAGE);
        // SAFETY: the call reads page tables only, and there is a byte for each page.
        assert_eq!(unsafe { libc::mincore(start, PAGES * PAGE, states.as_mut_ptr()) }, 0);
        resident += states.iter().filter(|state| *state & 1 == 1).count();
    }
    assert!(resident >= with_blocks.len(), "{resident} of {}", with_blocks.len());
    assert!(
        resident <= with_blocks.len(),
        "{resident} pages of {} slabs, {} of blocks",
        slabs.len(),
        with_blocks.len()
    );
}

/// A third of the pages has no block and is given back; the holes that serve are as long as if they were still there.
fn holes_reach_across_pages_that_are_not_in_memory() {
    let mut random = seeded(17);
    let mut kept = allocate_phase(&(64..=256), &mut random);
    kept.drain(kept.len() / PART..).for_each(Filled::free);
    cached::trim();
    let before = slab_bytes();
    let blocks = allocate_phase(&(2000..=4000), &mut random);
    let more = slab_bytes() - before;
    assert!(more < BYTES / 2, "{more} bytes of slabs more");
    kept.into_iter().chain(blocks).for_each(Filled::free);
}

/// Vectors that grow in turns leave holes in the slabs of each length before, and all are freed at the end of each
/// round. To dissolve these slabs saves little, and is paid for in each round.
fn what_is_done_again_and_again_dissolves_little() {
    const VECTORS: usize = 20_000;
    let mut random = seeded(18);
    let dissolved = [(); 12].map(|()| {
        let mut vectors: Vec<(usize, Option<Filled>)> = (0..VECTORS).map(|_| (0, None)).collect();
        let mut most = 0;
        for step in 0..64 * VECTORS {
            let (length, items) = &mut vectors[random.usize(..VECTORS)];
            *length += 4;
            if length.is_power_of_two() && *length >= 16 {
                let longer = Filled::new(random.u64(..), 2 * *length);
                if let Some(shorter) = items.replace(longer) {
                    shorter.free();
                }
            }
            if step % VECTORS == 0 {
                most = cached::census().expect("the heap is ready").dissolved().slabs.max(most);
            }
        }
        vectors.into_iter().filter_map(|(_, items)| items).for_each(Filled::free);
        most
    });
    println!("slabs that are dissolved in each round: {dissolved:?}");
    assert!(dissolved[0] > 20, "{dissolved:?}");
    assert!(dissolved[6..].iter().all(|&slabs| slabs < dissolved[0] / 2), "{dissolved:?}");
}

fn other_threads_free_blocks_of_dissolved_slabs() {
    let (sender, receiver) = mpsc::channel::<Vec<Filled>>();
    let freeing = thread::spawn(move || receiver.into_iter().flatten().for_each(Filled::free));
    let mut random = seeded(14);
    let mut kept = Vec::new();
    for sizes in PHASES.iter().cycle().take(18) {
        let mut blocks = allocate_phase(sizes, &mut random);
        kept.extend(blocks.split_off(blocks.len() - blocks.len() / PART));
        let others = blocks.split_off(blocks.len() / 2);
        sender.send(others).expect("the thread lives");
        blocks.into_iter().for_each(Filled::free);
        // Old survivors go, too, some of them by the other thread.
        random.shuffle(&mut kept);
        let old = kept.split_off(kept.len() / 2);
        sender.send(old).expect("the thread lives");
        kept.iter().for_each(Filled::check);
    }
    drop(sender);
    freeing.join().expect("all blocks were whole");
    kept.into_iter().for_each(Filled::free);
}

fn aligned_blocks_are_aligned_in_holes() {
    let mut random = seeded(15);
    let mut kept: Vec<Filled> = PHASES
        .iter()
        .flat_map(|sizes| {
            let mut blocks = allocate_phase(sizes, &mut random);
            let kept = blocks.split_off(blocks.len() - blocks.len() / PART);
            blocks.into_iter().for_each(Filled::free);
            kept
        })
        .collect();
    for _ in 0..20_000 {
        let align = 1usize << random.u32(4..=12);
        let size = random.usize(1..=2048);
        let block: NonNull<u8> = cached::allocate_aligned(size, align).expect("there is memory");
        kept.push(Filled::over(block, random.u64(..), size, align));
    }
    kept.into_iter().for_each(Filled::free);
}

/// Holes too small in sum to be worth dissolving a slab for are used when the system refuses memory.
fn holes_are_the_last_resort() {
    const SMALL: usize = 64;
    const COUNT: usize = 12_000;
    const APART: usize = 40;
    const SIZE: usize = 1500;
    let mut blocks: Vec<Filled> = (0..COUNT as u64).map(|seed| Filled::new(seed, SMALL)).collect();
    let mut kept: Vec<Filled> = Vec::with_capacity(COUNT);
    let mut granted: Vec<NonNull<u8>> = Vec::with_capacity(1 << 20);
    for (number, block) in blocks.drain(..).enumerate() {
        if number % APART == 0 { kept.push(block) } else { block.free() }
    }
    let dissolved = || cached::census().expect("the heap is ready").dissolved();
    assert_eq!(dissolved().slabs, 0, "nothing was dissolved while there was memory");
    refusals::everywhere(0..u64::MAX);
    // All other memory goes first.
    while let Ok(block) = cached::allocate(32 << 10) {
        granted.push(block);
    }
    let others = granted.len();
    while let Ok(block) = cached::allocate(SIZE) {
        granted.push(block);
    }
    refusals::nowhere();
    let (in_holes, dissolved) = (granted.len() - others, dissolved());
    let holes = (COUNT - kept.len()) * SMALL;
    assert!(in_holes * SIZE > holes / 2, "{in_holes} blocks of {SIZE} bytes in holes of {holes} bytes");
    assert!(dissolved.slabs > 0, "{dissolved:?}");
    kept.iter().for_each(Filled::check);
    for (seed, block) in granted.drain(others..).enumerate() {
        // The new blocks overlap none of those that stayed.
        kept.push(Filled::over(block, seed as u64, SIZE, 16));
    }
    kept.iter().for_each(Filled::check);
    kept.into_iter().for_each(Filled::free);
    for block in granted {
        // SAFETY: the block was granted above, and is not used any more.
        unsafe { cached::free(block) }.expect("it is a block");
    }
}
