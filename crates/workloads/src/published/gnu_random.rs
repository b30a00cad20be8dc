//! The `rand()` of the GNU C library, from which the published programs drew their requests.
//!
//! Here it has no state that threads share, and does not depend on the C library that this program is built for.

/// The additive feedback generator behind `srand` and `rand` of the GNU C library: `x[i] = x[i-3] + x[i-31]`, without
/// the lowest bit.
///
/// ```
/// let mut random = heapwright_workloads::published::GnuRandom::seeded(1);
/// assert_eq!(random.draw(), 1804289383);
/// ```
pub struct GnuRandom {
    window: [u32; 31],
    at: usize,
}

impl GnuRandom {
    /// Returns the generator after `srand(seed)`. Seed 0 is the same as 1.
    #[must_use]
    pub fn seeded(seed: u32) -> Self {
        let mut word = i64::from(seed.max(1) as i32);
        let window = std::array::from_fn(|_| {
            let this = word as u32;
            word = (16807 * word).rem_euclid(0x7fff_ffff);
            this
        });
        let mut random = GnuRandom { window, at: 3 };
        for _ in 0..310 {
            random.draw();
        }
        random
    }

    /// Returns the next number of `rand()`, below 2^31.
    pub fn draw(&mut self) -> u32 {
        let sum = self.window[self.at].wrapping_add(self.window[(self.at + 28) % 31]);
        self.window[self.at] = sum;
        self.at = (self.at + 1) % 31;
        sum >> 1
    }
}
