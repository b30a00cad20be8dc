//! The published programs' generator against the C library's. Alone in its process: `rand` has one state for all
//! threads.
#![cfg(target_env = "gnu")]

use heapwright_workloads::published::GnuRandom;

#[test]
fn the_generator_draws_what_the_gnu_c_library_draws() {
    for seed in [0, 1, 2, 42, 12_345, i32::MAX as u32, 1 << 31, u32::MAX] {
        let mut random = GnuRandom::seeded(seed);
        // SAFETY: srand has no preconditions except that no other thread uses the generator; this is the only test.
        unsafe { libc::srand(seed) };
        for at in 0..100_000 {
            // SAFETY: as above.
            let theirs = unsafe { libc::rand() } as u32;
            assert_eq!(random.draw(), theirs, "draw {at} after seed {seed}");
        }
    }
}
