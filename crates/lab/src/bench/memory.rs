//! How much memory there is to measure with.

use std::fs;

use anyhow::{Context, Result};

/// The bytes that measuring may use: half of what is available, on the machine and to this process' control group.
///
/// # Errors
/// When the system does not say what is available.
pub fn budget() -> Result<usize> {
    let text = fs::read_to_string("/proc/meminfo").context("cannot read how much memory there is")?;
    let machine = available(&text).context("/proc/meminfo does not say how much memory is available")?;
    Ok(group_allowance().map_or(machine, |group| group.min(machine)) / 2)
}

/// What `/proc/meminfo` gives as available, in bytes.
fn available(meminfo: &str) -> Option<usize> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = rest.trim().strip_suffix(" kB")?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// What is left of the control group's limit as a container sees it, or `None` without a limit.
fn group_allowance() -> Option<usize> {
    let number = |file: &str| -> Option<usize> {
        fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_found_or_missing() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   24 kB\n"), Some(24 * 1024));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert_eq!(available("MemAvailable: lots\n"), None);
    }
}
