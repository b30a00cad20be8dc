//! Programs under the limit of a control group.

mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{code, compile, is_emulated, library};

/// The directories of hierarchies, and the files that contain limits there.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// A control group with a limit, removed when dropped.
struct Group(PathBuf);

impl Group {
    /// Makes a group; `None` where that cannot be, or where there is swap.
    fn with_limit(bytes: u64) -> Option<Group> {
        if is_emulated() || fs::read_to_string("/proc/swaps").ok()?.lines().count() > 1 {
            return None;
        }
        HIERARCHIES.iter().find_map(|&(hierarchy, limit)| {
            let directory = Path::new(hierarchy).join(format!("heapwright-test-{}", std::process::id()));
            fs::create_dir(&directory).ok()?;
            let group = Group(directory);
            fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Four threads have 160 MB free, of which they would keep more than half; the first needs 60 MB of the 130 that are
/// allowed.
#[test]
fn a_program_uses_what_its_threads_retain_before_it_is_killed() {
    let Some(group) = Group::with_limit(130 << 20) else {
        // The test harness hides what is printed by macros only.
        let _ = writeln!(std::io::stderr(), "limits: skipped: no control group can be made, or there is swap");
        return;
    };
    let script = "echo $$ > \"$1\" && shift && exec env \"$@\"";
    let output = Command::new("timeout")
        .args(["60", "sh", "-c", script, "sh"])
        .arg(group.0.join("cgroup.procs"))
        .arg(format!("LD_PRELOAD={}", library().path().display()))
        .arg(compile("retained.c", &[]))
        .arg("60")
        .output()
        .unwrap();
    assert_eq!((code(&output), &*output.stdout), (0, &b"retained\n"[..]), "{output:?}");
}
