//! What a workload is given.

use std::fs;
use std::path::Path;

use fastrand::Rng;

/// Sizes of requests are drawn from so many that were drawn before: a logarithm per request would be measured too.
const DRAWN: usize = 4096;

/// How much a workload does, and with which sizes.
pub struct Setup {
    scale: f64,
    recorded: Vec<u32>,
}

impl Setup {
    /// A share of all the work (above 0, 1 is all of it), and the sizes of a real program's requests: a little-endian `u32` each in the
    /// file `recorded`.
    ///
    /// # Errors
    /// When the share is none, or the file cannot be read or is empty.
    pub fn new(scale: &str, recorded: &Path) -> Result<Setup, String> {
        let share = scale.parse().ok().filter(|scale| *scale > 0.0 && *scale <= 1.0);
        let scale = share.ok_or_else(|| format!("{scale} is not a share of the work"))?;
        let bytes = fs::read(recorded).map_err(|error| format!("cannot read {}: {error}", recorded.display()))?;
        let (words, _) = bytes.as_chunks();
        let recorded: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word).max(1)).collect();
        if recorded.is_empty() { Err("there are no sizes".to_owned()) } else { Ok(Setup { scale, recorded }) }
    }

    /// So many times, if it is all of the work; at least once.
    pub fn times(&self, all: usize) -> usize {
        ((all as f64 * self.scale) as usize).max(1)
    }

    /// The sizes of a real program's requests.
    pub fn recorded(&self) -> &[u32] {
        &self.recorded
    }
}

/// Sizes from `least` to `most` bytes of which each doubling has as many.
pub fn log_uniform(least: usize, most: usize) -> Vec<u32> {
    let mut rng = Rng::with_seed(1);
    let ratio = most as f64 / least as f64;
    (0..DRAWN).map(|_| (least as f64 * ratio.powf(rng.f64())) as u32).collect()
}

/// One of `sizes`, of which there is at least one.
pub fn draw(sizes: &[u32], rng: &mut Rng) -> usize {
    sizes[rng.usize(..sizes.len())] as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_doubling_has_as_many_sizes() {
        let sizes = log_uniform(16, 4096);
        assert!(sizes.iter().all(|size| (16..4096).contains(size)));
        for doubling in 4..12 {
            let count = sizes.iter().filter(|size| size.ilog2() == doubling).count();
            assert!((DRAWN / 8 - 100..DRAWN / 8 + 100).contains(&count), "{doubling}: {count}");
        }
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for scale in ["", "0", "-1", "1.5", "NaN", "x"] {
            assert!(Setup::new(scale, Path::new("/proc/self/exe")).is_err(), "{scale}");
        }
        assert!(Setup::new("1", Path::new("/dev/null")).is_err());
    }
}
