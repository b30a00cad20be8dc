//! The parameters of a workload.

use std::fs;
use std::path::Path;

use fastrand::Rng;

/// The length of a table of random sizes. Workloads draw from a table, because a logarithm per request would be
/// measured.
const TABLE: usize = 4096;

/// The parameters of a workload: its share of the full work, and recorded request sizes.
pub struct Setup {
    scale: f64,
    recorded: Vec<u32>,
}

impl Setup {
    /// Returns the parameters: `scale` is the share of the full work, above 0 and at most 1; the file `recorded_path`
    /// contains the request sizes of a real program, each a little-endian `u32`.
    ///
    /// # Errors
    /// A description, if the share is invalid or the file cannot be read or is empty.
    pub fn new(scale: &str, recorded_path: &Path) -> Result<Setup, String> {
        let share = scale.parse().ok().filter(|scale| *scale > 0.0 && *scale <= 1.0);
        let scale = share.ok_or_else(|| format!("{scale} is not a share above 0 and up to 1"))?;
        let bytes =
            fs::read(recorded_path).map_err(|error| format!("cannot read {}: {error}", recorded_path.display()))?;
        let (words, _) = bytes.as_chunks();
        let recorded: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word).max(1)).collect();
        if recorded.is_empty() {
            Err(format!("{} has no sizes", recorded_path.display()))
        } else {
            Ok(Setup { scale, recorded })
        }
    }

    /// Returns the share of `all` repetitions, at least 1.
    pub fn times(&self, all: usize) -> usize {
        ((all as f64 * self.scale) as usize).max(1)
    }

    /// Returns the request sizes of a real program, in bytes.
    pub fn recorded(&self) -> &[u32] {
        &self.recorded
    }
}

/// Returns a table of log-uniform sizes from `least` up to `most` bytes.
pub fn log_uniform(least: usize, most: usize) -> Vec<u32> {
    let mut rng = Rng::with_seed(1);
    let ratio = most as f64 / least as f64;
    (0..TABLE).map(|_| (least as f64 * ratio.powf(rng.f64())) as u32).collect()
}

/// Returns a random element of `sizes`, which must not be empty.
pub fn draw(sizes: &[u32], rng: &mut Rng) -> usize {
    sizes[rng.usize(..sizes.len())] as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_doubling_has_an_equal_share_of_sizes() {
        let sizes = log_uniform(16, 4096);
        assert!(sizes.iter().all(|size| (16..4096).contains(size)));
        for doubling in 4..12 {
            let count = sizes.iter().filter(|size| size.ilog2() == doubling).count();
            assert!((TABLE / 8 - 100..TABLE / 8 + 100).contains(&count), "{doubling}: {count}");
        }
    }

    #[test]
    fn invalid_shares_are_rejected() {
        for scale in ["", "0", "-1", "1.5", "NaN", "x"] {
            assert!(Setup::new(scale, Path::new("/proc/self/exe")).is_err(), "{scale}");
        }
        assert!(Setup::new("1", Path::new("/dev/null")).is_err());
    }
}
