//! Processes of other namespaces of process numbers, as the namespace of this process knows them.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::maps::Maps;

/// A process in the namespace of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its number here.
    pub pid: u32,
    /// The number of its parent here.
    pub parent: u32,
}

impl Seen {
    /// Finds the process that has the number `inside` in `namespace` and has mapped the stream that this process has
    /// mapped at `own`, with its mappings. Reads a file for each process of the system, the latest first.
    pub(crate) fn look_for(inside: u32, namespace: u64, own: usize) -> Option<(Seen, Maps)> {
        let names = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut numbers: Vec<u32> = names.collect();
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        numbers.into_iter().find_map(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let (parent, innermost) = parent_and_innermost(&status)?;
            let is_candidate = innermost == inside && is_in(pid, namespace);
            let maps = is_candidate.then(|| Maps::of(pid, own))?;
            matches!(maps, Maps::Open(_)).then_some((Seen { pid, parent }, maps))
        })
    }
}

/// Returns whether a process is in a namespace, of which the low half is the inode; 0 is one that is not known. The
/// child of a fork, which may be in another one, has its parent's mappings until it begins a stream of its own.
fn is_in(pid: u32, namespace: u64) -> bool {
    let found = fs::metadata(format!("/proc/{pid}/ns/pid")).map(|found| found.ino());
    namespace == 0 || found.is_ok_and(|inode| inode as u32 == namespace as u32)
}

/// Returns the number of the parent, and the process's own in its innermost namespace, from `/proc/PID/status`.
fn parent_and_innermost(status: &str) -> Option<(u32, u32)> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next_back();
    Some((field("PPid:")?.parse().ok()?, field("NSpid:")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_number_is_the_last() {
        let status = "Name:\tNSpid: 7\nPPid:\t12\nNSpid:\t4711\t35\t2\nNSpgid:\t4711\t3\t1\n";
        assert_eq!(parent_and_innermost(status), Some((12, 2)));
        assert_eq!(parent_and_innermost("PPid:\t12\n"), None);
    }

    #[test]
    fn a_process_is_in_its_own_namespace_and_in_no_other() {
        let (own, namespace) = (std::process::id(), heapwright_os::pid_namespace().unwrap());
        assert_eq!([namespace, 0, namespace ^ 1].map(|one| is_in(own, one)), [true, true, false]);
    }
}
