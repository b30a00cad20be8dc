//! Core files: of live processes, truncated, and damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use heapwright_inspect::picture::Picture;
use heapwright_inspect::{Wanted, core_file::Core, picture_of_core, shown};

/// A folder with a core file of a program that has printed what glibc says of its heap.
struct Made {
    folder: tempfile::TempDir,
    /// System bytes, used bytes, free bytes and bytes of own mappings.
    total: Vec<u64>,
}

impl Made {
    fn core(&self) -> PathBuf {
        self.folder.path().join("core")
    }
}

/// Compiles a program of this folder as `subject`; returns the folder that contains it.
fn compile(compiler: &str, source: &str, arguments: &[&str]) -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    let mut compile = Command::new(compiler);
    compile.args(["-O1", "-w", "-pthread", "-o"]).arg(folder.path().join("subject")).arg(source).args(arguments);
    compile.status().is_ok_and(|status| status.success()).then_some(folder)
}

/// Runs `command`, which ends with a core file, in `folder`.
fn dump(folder: &tempfile::TempDir, command: &str) -> Option<Output> {
    let command = format!("ulimit -c unlimited; exec {command}");
    Command::new("sh").args(["-c", &command]).current_dir(folder.path()).output().ok()
}

/// Compiles the test program by `compiler` and has `run` end it with a core file; `None` when no core can be had.
fn make(compiler: &str, arguments: &[&str], runner: &[&str]) -> Option<Made> {
    let folder = compile(compiler, "subject.c", arguments)?;
    let output = dump(&folder, &format!("{} ./subject 2 3000000 abort", runner.join(" ")))?;
    let text = String::from_utf8(output.stdout).unwrap();
    let total = text.lines().next()?.split(' ').map(|word| word.trim().parse().unwrap()).collect();
    // The emulator writes a core file of the program, and then has one of itself written.
    let found = core_in(&folder, if runner.is_empty() { "core" } else { "qemu_" })?;
    fs::rename(found, folder.path().join("core")).unwrap();
    Some(Made { folder, total })
}

/// Returns the core file in `folder`, whose name begins with `start`.
fn core_in(folder: &tempfile::TempDir, start: &str) -> Option<PathBuf> {
    let is_core = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(start);
    fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).find(is_core)
}

/// A core file that the kernel wrote. Where the system collects them elsewhere there is none.
static NATIVE: LazyLock<Option<Made>> = LazyLock::new(|| make("cc", &[], &[]));

fn assert_is_what_malloc_reported(picture: &Picture, total: &[u64]) {
    let glibc = picture.glibc.as_ref().expect("arenas are found");
    let sum =
        |figure: fn(&heapwright_inspect::picture::ArenaPicture) -> u64| glibc.arenas.iter().map(figure).sum::<u64>();
    assert_eq!(sum(|arena| arena.inconsistencies), 0, "{picture:#?}");
    assert_eq!(sum(|arena| arena.system_bytes), total[0], "{picture:#?}");
    assert_eq!(sum(|arena| arena.used), total[1], "{picture:#?}");
    assert_eq!(sum(|arena| arena.free), total[2], "{picture:#?}");
    assert_eq!(glibc.parameters.unwrap().mmapped_bytes, total[3], "{picture:#?}");
    assert_eq!(glibc.arenas.len(), 2);
    assert_eq!(picture.program, "subject");
}

#[test]
fn a_core_file_is_what_the_process_was() {
    let Some(made) = NATIVE.as_ref() else { return eprintln!("skipped: this system writes no core files here") };
    let picture = picture_of_core(&made.core(), Wanted::Contents).unwrap();
    assert_is_what_malloc_reported(&picture, &made.total);
    let names: Vec<&str> = picture.origins.iter().map(|one| one.name.as_str()).collect();
    assert!(names.contains(&"main arena (program break)") && names.contains(&"other arenas"), "{names:?}");
    let glibc = picture.glibc.unwrap();
    assert_eq!(glibc.threads.len(), 2);
    assert!(
        glibc.threads.iter().all(|thread| thread.arena.is_some() && thread.cached > Some(0)),
        "{:?}",
        glibc.threads
    );
}

#[test]
fn a_long_block_of_a_core_file_may_be_several_mappings() {
    let folder = compile("cc", "heaps.c", &[]).unwrap();
    dump(&folder, "./subject 'split and abort'").unwrap();
    let Some(core) = core_in(&folder, "core") else { return eprintln!("skipped: this system writes no core files") };
    let glibc = picture_of_core(&core, Wanted::Totals).unwrap().glibc.unwrap();
    assert_eq!(glibc.largest.iter().filter(|block| block.bytes == (4 << 20) + 4096).count(), 9);
    // What was not to be dumped is not there.
    assert!(glibc.own_resident >= 24 << 20, "{}", glibc.own_resident);
}

#[test]
fn a_core_file_of_aarch64_is_what_the_process_was() {
    let made = make("aarch64-linux-gnu-gcc", &["-static"], &["qemu-aarch64"]);
    let Some(made) = made else { return eprintln!("skipped: no cross compiler, no emulator, or no core files") };
    let picture = picture_of_core(&made.core(), Wanted::Contents).unwrap();
    assert_is_what_malloc_reported(&picture, &made.total);
}

#[test]
fn a_truncated_core_file_is_read_as_far_as_it_goes_or_refused() {
    let Some(made) = NATIVE.as_ref() else { return eprintln!("skipped: this system writes no core files here") };
    let bytes = fs::read(made.core()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core");
    let error = |length: usize| {
        fs::write(&path, &bytes[..length]).unwrap();
        format!("{:#}", picture_of_core(&path, Wanted::Contents).err().unwrap())
    };
    assert!(error(0).ends_with("no core file: it is shorter than the header of one"));
    assert!(error(63).ends_with("no core file: it is shorter than the header of one"));
    assert!(error(100).contains("truncated: it has no table of segments"));
    for part in 1..20 {
        fs::write(&path, &bytes[..bytes.len() / 20 * part]).unwrap();
        if let Ok(picture) = picture_of_core(&path, Wanted::Contents) {
            assert!(picture.missing > 0);
            // What is missing may be any part of the heap.
            let text = shown::paragraph(&picture);
            assert!(text.contains("are missing") && !text.contains("Most of it"), "{text}");
        }
    }
}

#[test]
fn other_files_are_refused_with_the_reason() {
    let reason = |path: &str| format!("{:#}", picture_of_core(Path::new(path), Wanted::Contents).err().unwrap());
    assert_eq!(reason("/proc/self/exe"), "/proc/self/exe: no core file: it is a program or a library");
    assert!(reason("/etc/passwd").ends_with("no core file: it does not begin as ELF files do"));
    assert!(reason("/nowhere/core").starts_with("cannot read /nowhere/core"));
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [pipe.as_path(), folder.path()] {
        let reason = format!("{:#}", picture_of_core(path, Wanted::Totals).err().unwrap());
        assert!(reason.contains("not a plain file"), "{reason}");
    }
}

/// `HEAPWRIGHT_INSPECT_TRIES` sets the number of files.
#[test]
fn damaged_core_files_are_read_without_a_crash_or_a_hang() {
    let Some(made) = NATIVE.as_ref() else { return eprintln!("skipped: this system writes no core files here") };
    let tries = std::env::var("HEAPWRIGHT_INSPECT_TRIES").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let bytes = fs::read(made.core()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core");
    let mut random = fastrand::Rng::with_seed(17);
    let mut refused = 0;
    for _ in 0..tries {
        // Headers and notes are at the start.
        let mut head = bytes[..bytes.len().min(32 << 10)].to_vec();
        for _ in 0..1 << random.u32(0..6) {
            let at = random.usize(0..head.len());
            head[at] = random.u8(..);
        }
        let mut damaged = bytes.clone();
        damaged[..head.len()].copy_from_slice(&head);
        fs::write(&path, &damaged).unwrap();
        refused += u32::from(Core::open(&path).is_err());
        let _ = picture_of_core(&path, Wanted::Contents);
    }
    assert!(refused < tries);
}
