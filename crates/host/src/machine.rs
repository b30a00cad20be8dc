//! Identity of the machine that measurements come from.

use std::fs;
use std::thread;

use serde::{Deserialize, Serialize};

/// A machine; unknown properties are `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The model of the processors.
    pub cpu: Option<String>,
    /// Number of processors that this process may use.
    pub cores: Option<usize>,
    /// Total memory, in bytes.
    #[serde(default)]
    pub memory: Option<u64>,
}

/// The kernel keeps a part of the memory for itself, not always the same: amounts that differ by less are the same.
const SAME_MEMORY: f64 = 0.01;

impl Machine {
    /// Returns this machine.
    pub fn this() -> Machine {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Machine {
            kernel: kernel.map(|release| release.trim().to_owned()),
            cpu: model_of(&cpus),
            cores: thread::available_parallelism().ok().map(usize::from),
            memory: memory_of(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        }
    }

    /// Returns whether figures of `other` are comparable with this machine's: the same model and number of processors,
    /// kernel and memory. A property that is known of one of the two only decides nothing.
    pub fn is_like(&self, other: &Machine) -> bool {
        fn agree<T>(left: Option<T>, right: Option<T>, is_same: impl Fn(T, T) -> bool) -> bool {
            left.zip(right).is_none_or(|(left, right)| is_same(left, right))
        }
        let is_same_memory = |left: u64, right: u64| left.abs_diff(right) as f64 <= SAME_MEMORY * left as f64;
        agree(self.kernel.as_ref(), other.kernel.as_ref(), |left, right| left == right)
            && agree(self.cpu.as_ref(), other.cpu.as_ref(), |left, right| left == right)
            && agree(self.cores, other.cores, |left, right| left == right)
            && agree(self.memory, other.memory, is_same_memory)
    }

    /// Describes it in a few words.
    pub fn describe(&self) -> String {
        let kernel = self.kernel.as_ref().map(|release| format!("Linux {release}"));
        let cores = self.cores.map(|cores| if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") });
        let words: Vec<String> = [self.cpu.clone(), cores, kernel].into_iter().flatten().collect();
        words.join(", ")
    }
}

/// Returns the first model in the kernel's list of processors.
fn model_of(cpus: &str) -> Option<String> {
    let (_, model) =
        cpus.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == "model name")?;
    Some(model.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the total in the kernel's account of memory, in bytes.
fn memory_of(account: &str) -> Option<u64> {
    let total = account.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found_in_the_kernels_list() {
        let list = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: A  Processor @ 2 GHz\n\nmodel name\t: other\n";
        assert_eq!(model_of(list).as_deref(), Some("A Processor @ 2 GHz"));
        assert_eq!(model_of("Features : fp asimd"), None);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let machine = Machine { kernel: None, cpu: None, cores: Some(1), memory: None };
        assert_eq!(machine.describe(), "1 core");
    }

    #[test]
    fn the_total_of_memory_is_in_bytes() {
        assert_eq!(memory_of("MemTotal:        8000 kB\nMemFree:  1 kB\n"), Some(8_192_000));
        assert_eq!(memory_of("MemFree:  1 kB\n"), None);
    }

    #[test]
    fn machines_are_alike_in_all_that_is_known_of_both() {
        let machine = || Machine {
            kernel: Some("6.1".to_owned()),
            cpu: Some("A".to_owned()),
            cores: Some(2),
            memory: Some(1_000_000_000),
        };
        assert!(machine().is_like(&machine()));
        assert!(machine().is_like(&Machine { memory: Some(1_001_000_000), ..machine() }));
        assert!(machine().is_like(&Machine { memory: None, ..machine() }));
        for other in [
            Machine { memory: Some(2_000_000_000), ..machine() },
            Machine { cores: Some(4), ..machine() },
            Machine { cpu: Some("B".to_owned()), ..machine() },
            Machine { kernel: Some("6.2".to_owned()), ..machine() },
        ] {
            assert!(!machine().is_like(&other), "{other:?}");
        }
    }
}
