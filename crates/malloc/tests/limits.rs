//! Programs under the limit of a control group.

mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

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
            static MADE: AtomicU32 = AtomicU32::new(0);
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let name = format!("heapwright-test-{}-{number}", std::process::id());
            let directory = Path::new(hierarchy).join(name);
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
    let Some(output) = run_within(130 << 20, &compile("retained.c", &[]), &["60"]) else { return };
    assert_eq!((code(&output), &*output.stdout), (0, &b"retained\n"[..]), "{output:?}");
}

/// 100 MiB are live at most. What earlier phases have left is of no use for the blocks of the last one, which have
/// mappings of their own, or for longer ones.
#[test]
fn a_program_of_phases_is_not_killed_for_what_earlier_ones_left() {
    let program = compile("phases.c", &[]);
    let phases: [&[&str]; 7] = [
        &["300000", "2000000", "52428800"],
        &["1500", "300000", "52428800"],
        &["20000", "50000", "52428800"],
        &["300000", "2000000", "104857600"],
        &["300000", "2000000", "grow"],
        &["300000", "2000000", "step"],
        &["300000", "20000", "2000000", "500", "9000000", "40000", "30000000"],
    ];
    for limit in [140, 160, 180] {
        for sizes in phases {
            let arguments = [&["100"][..], sizes].concat();
            let Some(output) = run_within(limit << 20, &program, &arguments) else { return };
            assert_eq!((code(&output), &*output.stdout), (0, &b"phases: ok\n"[..]), "{limit} {sizes:?} {output:?}");
        }
    }
}

/// Runs a program with the library in a control group with a limit in bytes; `None` where that cannot be.
fn run_within(limit: u64, program: &Path, arguments: &[&str]) -> Option<Output> {
    let Some(group) = Group::with_limit(limit) else {
        // The test harness hides what is printed by macros only.
        let _ = writeln!(std::io::stderr(), "limits: skipped: no control group can be made, or there is swap");
        return None;
    };
    let script = "echo $$ > \"$1\" && shift && exec env \"$@\"";
    let output = Command::new("timeout")
        .args(["60", "sh", "-c", script, "sh"])
        .arg(group.0.join("cgroup.procs"))
        .arg(format!("LD_PRELOAD={}", library().path().display()))
        .arg(program)
        .args(arguments)
        .output();
    Some(output.unwrap())
}
