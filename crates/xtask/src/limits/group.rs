//! A control group of this command's own, with a limit on its memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail, ensure};

/// The directories of the hierarchies, the files that their limits are written to, and those that contain the peak.
const HIERARCHIES: [(&str, &str, &str); 2] = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
    ("/sys/fs/cgroup", "memory.max", "memory.peak"),
];

/// A control group, removed when dropped.
pub struct Group {
    directory: PathBuf,
    limit: &'static str,
    peak: &'static str,
}

impl Group {
    /// Makes a group.
    ///
    /// # Errors
    /// When there is swap, which hides what is too much, or the user may not make groups.
    pub fn new() -> Result<Group> {
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        ensure!(swaps.lines().count() <= 1, "a limit says nothing while there is swap: run `swapoff -a` first");
        let mut refused = None;
        for (hierarchy, limit, peak) in HIERARCHIES {
            match Group::under(Path::new(hierarchy), limit, peak) {
                Ok(group) => return Ok(group),
                Err(error) => refused = Some(error),
            }
        }
        refused.map_or_else(|| bail!("there are no control groups"), Err)
    }

    fn under(hierarchy: &Path, limit: &'static str, peak: &'static str) -> Result<Group> {
        // Version 2 has to be told which controllers groups below have; version 1 has no such file.
        let _ = fs::write(hierarchy.join("cgroup.subtree_control"), "+memory");
        let directory = hierarchy.join(format!("heapwright-limits-{}", process::id()));
        fs::create_dir(&directory).with_context(|| format!("cannot make the control group {}", directory.display()))?;
        let group = Group { directory, limit, peak };
        ensure!(group.directory.join(limit).exists(), "{} has no limit on memory", hierarchy.display());
        Ok(group)
    }

    /// Sets the limit.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn set_limit(&self, bytes: u64) -> Result<()> {
        fs::write(self.directory.join(self.limit), bytes.to_string()).context("cannot set the limit of the group")
    }

    /// Returns the most bytes that the group has had.
    ///
    /// # Errors
    /// When the system does not report them.
    pub fn peak(&self) -> Result<u64> {
        let text = fs::read_to_string(self.directory.join(self.peak)).context("cannot read the peak of the group")?;
        text.trim().parse().context("the peak of the group is no number")
    }

    /// Returns the file to which a process writes its number to join the group.
    pub fn members(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}
