//! The machine that figures come from.

use std::fs;
use std::thread;

use serde::{Deserialize, Serialize};

/// The machine; what it does not tell is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The model of the processors.
    pub cpu: Option<String>,
    /// How many of them this process may use.
    pub cores: Option<usize>,
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Machine {
            kernel: kernel.map(|release| release.trim().to_owned()),
            cpu: model_of(&cpus),
            cores: thread::available_parallelism().ok().map(usize::from),
        }
    }

    /// In a few words.
    pub fn describe(&self) -> String {
        let kernel = self.kernel.as_ref().map(|release| format!("Linux {release}"));
        let cores = self.cores.map(|cores| if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") });
        let words: Vec<String> = [self.cpu.clone(), cores, kernel].into_iter().flatten().collect();
        words.join(", ")
    }
}

/// The first model that the kernel's list of processors names.
fn model_of(cpus: &str) -> Option<String> {
    let (_, model) =
        cpus.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == "model name")?;
    Some(model.split_whitespace().collect::<Vec<_>>().join(" "))
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
        let machine = Machine { kernel: None, cpu: None, cores: Some(1) };
        assert_eq!(machine.describe(), "1 core");
    }
}
