//! Blocks that know what they should hold.

#![allow(dead_code, reason = "each test file uses a part")]

use std::fs;
use std::ptr::NonNull;
use std::sync::Once;

use heapwright_cached::{self as cached, Measures};

/// Gets the process's heap ready, hardened if `HEAPWRIGHT_HARDEN` says so.
pub fn ready() {
    static READY: Once = Once::new();
    READY.call_once(|| {
        cached::harden(measures());
        cached::start().expect("there is address space");
    });
}

/// What `HEAPWRIGHT_HARDEN` asks for.
pub fn measures() -> Measures {
    let text = std::env::var("HEAPWRIGHT_HARDEN").unwrap_or_default();
    if text.is_empty() { Measures::NONE } else { Measures::from_text(&text).expect("measures have names") }
}

/// Random numbers for a test: the same each time, unless `HEAPWRIGHT_TEST_SEED` asks for others.
pub fn seeded(seed: u64) -> fastrand::Rng {
    let other = std::env::var("HEAPWRIGHT_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0u64);
    fastrand::Rng::with_seed(seed.wrapping_add(other.wrapping_mul(1_000_000)))
}

/// Sizes from all over, most of them short.
pub fn any_size(random: &mut fastrand::Rng) -> usize {
    let most = if random.u32(0..50) == 0 { 22 } else { 14 };
    let bits = random.u32(0..most);
    random.usize(0..=1 << bits)
}

/// A block that is filled with what its number makes of it.
pub struct Filled {
    block: NonNull<u8>,
    size: usize,
    number: u64,
}

// SAFETY: a block is used by the thread that has this value.
unsafe impl Send for Filled {}

fn byte(number: u64, at: usize) -> u8 {
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 ^ at as u8
}

impl Filled {
    /// Allocates, checks what is promised of a block, and fills it.
    pub fn new(number: u64, size: usize) -> Filled {
        Filled::try_new(number, size).expect("there is memory")
    }

    /// As [`Filled::new`]; `None` when there is no memory.
    pub fn try_new(number: u64, size: usize) -> Option<Filled> {
        let block = cached::take(size).or_else(|| cached::allocate(size).ok())?;
        Some(Filled::over(block, number, size, 16))
    }

    pub fn over(block: NonNull<u8>, number: u64, size: usize, align: usize) -> Filled {
        assert!(block.addr().get().is_multiple_of(align), "{block:?} is not at a multiple of {align}");
        assert!(cached::usable_size(block).is_some_and(|usable| usable >= size), "{block:?} of {size} bytes");
        let filled = Filled { block, size, number };
        filled.fill(0);
        filled
    }

    /// The bytes that are written and looked at: all of a short block, the ends of each page of a longer one.
    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let size = self.size;
        let (short, step) = (size.min(1024), 1021);
        (0..short).chain((short..size).step_by(step)).chain(size.checked_sub(1))
    }

    fn fill(&self, from: usize) {
        for at in self.places().filter(|&at| at >= from) {
            // SAFETY: the block is that long, and this is its only user.
            unsafe { self.block.add(at).write(byte(self.number, at)) };
        }
    }

    /// Asserts that the block was not written to by another thread.
    pub fn check(&self) {
        self.check_up_to(self.size);
    }

    fn check_up_to(&self, end: usize) {
        for at in self.places().filter(|&at| at < end) {
            // SAFETY: as in `fill`.
            let found = unsafe { self.block.add(at).read() };
            assert_eq!(found, byte(self.number, at), "byte {at} of the {} at {:?}", self.size, self.block);
        }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn address(&self) -> usize {
        self.block.addr().get()
    }

    /// Frees the block, by the way that most take if it can.
    pub fn free(self) {
        self.check();
        // SAFETY: the block is this one's, and goes with it.
        unsafe {
            if !cached::give(self.block.as_ptr()) {
                cached::free(self.block).expect("it is a block");
            }
        }
    }

    /// Resizes the block, where it is or elsewhere.
    pub fn resize(self, size: usize) -> Filled {
        self.try_resize(size).unwrap_or_else(|_| panic!("there is memory"))
    }

    /// As [`Filled::resize`].
    ///
    /// # Errors
    /// The block as it was, when there is no memory.
    pub fn try_resize(self, size: usize) -> Result<Filled, Filled> {
        self.check();
        // SAFETY: the block is this one's.
        let here = unsafe { cached::resize_in_place(self.block, size) };
        if here.is_ok() {
            let resized = Filled { size, ..self };
            resized.check_up_to(self.size.min(size).min(1024));
            resized.fill(0);
            return Ok(resized);
        }
        match Filled::try_new(self.number, size) {
            Some(resized) => {
                self.free();
                Ok(resized)
            }
            None => Err(self),
        }
    }
}

/// How many bytes the heap has purged.
pub fn purged() -> u64 {
    cached::page_returns().expect("the heap is ready").bytes
}

/// How many bytes of memory are kept by what was freed and waits: a page for each block.
pub fn kept_waiting() -> usize {
    if measures().have(Measures::QUARANTINE) { 1024 << 12 } else { 0 }
}

/// How many bytes of memory the hardened heap keeps for what it knows of slabs that there once were.
pub fn kept_records() -> usize {
    if measures() == Measures::NONE { 0 } else { 1 << 20 }
}

/// Returns the idle bytes that the hardened heap keeps after it had `full` in memory: an eighth in pages of slabs, at
/// least 2 MiB, and an eighth in slabs without blocks, 1 to 16 MiB.
pub fn kept_idle(full: usize) -> usize {
    const MIB: usize = 1 << 20;
    if measures() == Measures::NONE { 0 } else { (full / 8).max(2 * MIB) + (full / 8).clamp(MIB, 16 * MIB) }
}

/// How many bytes behind each block are not for the program.
pub fn canary() -> usize {
    if measures().have(Measures::CANARY) { 8 } else { 0 }
}

/// Bytes of memory that are the process's own.
pub fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}
