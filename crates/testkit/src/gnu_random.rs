//! The GNU C library's `rand()`.

/// The additive feedback generator behind the GNU C library's `srand` and `rand`: `x[i] = x[i-3] + x[i-31]`, of which
/// the lowest bit is thrown away.
///
/// ```
/// let mut random = heapwright_testkit::GnuRandom::seeded(1);
/// assert_eq!(random.draw(), 1804289383);
/// ```
pub struct GnuRandom {
    window: [u32; 31],
    at: usize,
}

impl GnuRandom {
    /// As `srand(seed)`, for which 0 is the same as 1.
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

    /// As `rand()`: a number below 2^31.
    pub fn draw(&mut self) -> u32 {
        let sum = self.window[self.at].wrapping_add(self.window[(self.at + 28) % 31]);
        self.window[self.at] = sum;
        self.at = (self.at + 1) % 31;
        sum >> 1
    }
}
