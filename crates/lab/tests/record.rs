//! `heapwright record` writes down what a program asks of its heap, whatever becomes of the program.

mod common;

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{compiled, heapwright};
use heapwright_trace::{About, Event, Kind, Reader};
use tempfile::TempDir;

/// The program that calls the whole family.
fn family(folder: &Path) -> PathBuf {
    compiled(folder, "family", include_str!("programs/family.c"), &["-O1", "-w", "-fno-builtin", "-pthread"])
}

fn record(trace: &Path) -> Command {
    let mut command = heapwright();
    command.args(["record", "--min-events", "0", "-o"]).arg(trace).arg("--");
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a trace holds, every event of it checked: no block goes that is not there.
struct Trace {
    about: About,
    about_at_the_end: About,
    /// The size of every block that appeared, and how it did.
    blocks: Vec<(u64, Option<Kind>, u64)>,
    live: HashMap<u64, u64>,
    threads: BTreeSet<u64>,
    frees: u64,
    failed: u64,
    finished: bool,
}

impl Trace {
    fn at(path: &Path) -> Trace {
        let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
        let (blocks, live) = (Vec::new(), HashMap::new());
        let about = reader.about().clone();
        let about_at_the_end = About::default();
        let mut trace = Trace {
            about,
            about_at_the_end,
            blocks,
            live,
            threads: BTreeSet::new(),
            frees: 0,
            failed: 0,
            finished: false,
        };
        while let Some(event) = reader.next_event().unwrap() {
            trace.take(event);
        }
        trace.finished = reader.is_finished();
        trace.about_at_the_end = reader.about().clone();
        trace
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Allocate { block, kind, size, align } => self.appear(block, size, Some(kind), align),
            Event::Resize { block, becomes, size } => {
                assert!(self.live.remove(&block).is_some(), "block {block} is resized but not there");
                self.appear(becomes, size, None, 16);
            }
            Event::Free { block } => {
                assert!(self.live.remove(&block).is_some(), "block {block} is freed but not there");
                self.frees += 1;
            }
            Event::Failed { .. } => self.failed += 1,
            Event::Thread { thread } => {
                self.threads.insert(thread);
            }
        }
    }

    fn appear(&mut self, block: u64, size: u64, kind: Option<Kind>, align: u64) {
        assert_eq!(block, self.blocks.len() as u64);
        self.blocks.push((size, kind, align));
        assert!(self.live.insert(block, size).is_none());
    }

    fn count(&self, size: u64) -> usize {
        self.blocks.iter().filter(|block| block.0 == size).count()
    }
}

/// The traces in a folder beside the program's own, complete or not.
fn others(folder: &TempDir) -> Vec<Trace> {
    let paths = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let is_trace = |path: &PathBuf| [".hwt", ".hwt.partial"].iter().any(|end| path.to_str().unwrap().ends_with(end));
    let mut paths: Vec<_> = paths.filter(is_trace).collect();
    paths.retain(|path| path.file_name().unwrap() != "t.hwt");
    paths.iter().map(|path| Trace::at(path)).collect()
}

/// Records `family WHAT`, which must succeed without a word, and reads its trace.
fn recorded(folder: &TempDir, what: &str) -> (Trace, String) {
    let trace = folder.path().join("t.hwt");
    let output = record(&trace).arg(family(folder.path())).arg(what).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    (Trace::at(&trace), stderr(&output))
}

#[test]
fn the_whole_family_is_recorded_as_it_was_called() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, said) = recorded(&folder, "all");
    let kinds =
        |size| trace.blocks.iter().filter(|block| block.0 == size).map(|block| (block.1, block.2)).collect::<Vec<_>>();
    assert_eq!(kinds(1001), [(Some(Kind::Malloc), 16), (Some(Kind::Calloc), 16)]);
    assert_eq!(kinds(100_000), [(None, 16)]);
    assert_eq!(kinds(3000), [(None, 16)]);
    assert_eq!(kinds(100), [(Some(Kind::Aligned), 4096)]);
    assert_eq!(kinds(128), [(Some(Kind::Aligned), 64)]);
    assert_eq!(kinds(4096), [(Some(Kind::Aligned), 4096)]);
    assert_eq!(kinds(10), [(Some(Kind::Malloc), 16), (Some(Kind::Aligned), 256), (Some(Kind::Aligned), 4096)]);
    assert!(trace.live.is_empty() && trace.finished);
    assert_eq!(trace.threads, BTreeSet::new(), "a trace begins in thread 0");
    assert!(said.contains("refused memory 5 times"), "{said}");
    assert_eq!(trace.failed, 5);
    assert!(!said.contains("allocation was not recorded"), "{said}");
}

#[test]
fn a_trace_describes_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, _) = recorded(&folder, "all");
    let about = |name| trace.about.get(name).unwrap_or_else(|| panic!("{name} is there"));
    assert_eq!((about("program"), about("arguments")), ("family", "all"));
    assert!(about("pid").parse::<u32>().unwrap() != about("parent").parse::<u32>().unwrap());
    assert!(about("date").starts_with("20") && about("date").ends_with('Z'));
    assert!(about("machine").starts_with("linux ") && about("recorder").starts_with("heapwright "));
}

#[test]
fn threads_are_distinguished_and_their_blocks_are_consistent() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, said) = recorded(&folder, "threads");
    assert_eq!(trace.threads, (0..9).collect(), "the first thread and eight more");
    assert!(trace.blocks.len() > 8 * 20_000);
    assert!(!said.contains("other means") && !said.contains("allocation was not recorded"), "{said}");
    assert!(trace.live.len() < 10, "only what the C library keeps is left: {:?}", trace.live);
}

#[test]
fn short_lived_threads_are_all_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, said) = recorded(&folder, "short");
    // A thread's calls, its destructor's, and what the first thread frees.
    assert_eq!((trace.count(24), trace.count(72), trace.count(96)), (5000, 5000, 5000));
    assert_eq!(trace.threads.len(), 5001);
    assert!(!said.contains("other means") && !said.contains("allocation was not recorded"), "{said}");
}

#[test]
fn more_threads_than_buffers_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, said) = recorded(&folder, "many");
    assert_eq!((trace.count(48), trace.threads.len()), (2200, 1101));
    assert!(!said.contains("other means") && !said.contains("allocation was not recorded"), "{said}");
}

#[test]
fn calls_in_a_signal_handler_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, _) = recorded(&folder, "signals");
    assert!(trace.count(112) >= 500 && trace.finished);
    assert!(trace.failed > 1000);
}

#[test]
fn a_child_that_shares_its_parents_memory_writes_to_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, _) = recorded(&folder, "vfork");
    assert_eq!((trace.count(6001), trace.count(6002)), (1, 1));
}

#[test]
fn memory_from_the_system_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.hwt");
    let output = record(&trace).arg(family(folder.path())).arg("system").output().unwrap();
    let grown: u64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    let about = Trace::at(&trace).about_at_the_end;
    let peak: u64 = about.get("glibc peak system bytes").expect("it is told").parse().unwrap();
    let least = grown + (20 << 20);
    assert!((least..least + (1 << 20)).contains(&peak), "{peak} bytes, and {grown} by the break since main began");
    // With a second arena there is no telling.
    let (trace, _) = recorded(&folder, "threads");
    assert_eq!(trace.about_at_the_end.get("glibc peak system bytes"), None);
}

#[test]
fn times_are_recorded_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.hwt");
    let started = std::time::Instant::now();
    let output = heapwright()
        .args(["record", "--times", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(family(folder.path()))
        .arg("threads")
        .output();
    let output = output.unwrap();
    let elapsed = started.elapsed().as_nanos() as u64;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut reader = Reader::new(File::open(&trace).unwrap()).unwrap().with_times();
    let mut times = Vec::new();
    while reader.next_event().unwrap().is_some() {
        times.push(reader.time().expect("every event has its time"));
    }
    assert!(times.is_sorted() && times.len() > 100_000);
    let (first, last) = (times[0], times[times.len() - 1]);
    assert!(first < last && last < elapsed, "{first} {last} {elapsed}");
    times.dedup();
    assert!(times.len() > 50_000, "{} different times", times.len());
    // Without being asked, nothing is told.
    let _ = recorded(&folder, "all");
    let mut reader = Reader::new(File::open(&trace).unwrap()).unwrap().with_times();
    assert!(reader.next_event().unwrap().is_some() && reader.time().is_none());
}

#[test]
fn a_forked_child_has_a_trace_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, said) = recorded(&folder, "fork");
    let others = others(&folder);
    assert_eq!(others.len(), 1);
    assert_eq!((trace.count(77), trace.count(5001), trace.count(5002)), (1, 0, 20));
    assert_eq!((others[0].count(77), others[0].count(5001), others[0].count(5002)), (0, 10, 0));
    assert_eq!(others[0].about.get("parent"), trace.about.get("pid"));
    assert!(said.contains("1 forked process freed or resized 1 of their parents' blocks"), "{said}");
}

#[test]
fn forked_children_are_recorded_whatever_becomes_of_the_environment() {
    for change in ["clearenv", "environ", "setenv"] {
        let folder = tempfile::tempdir().unwrap();
        let (trace, _) = recorded(&folder, change);
        let mut others = others(&folder);
        others.sort_by_key(|other| other.count(5004));
        let counts: Vec<_> = others.iter().map(|other| (other.count(5003), other.count(5004))).collect();
        assert_eq!((trace.count(78), &counts[..]), (1, &[(10, 0), (0, 10)][..]), "{change}");
        assert_eq!(others[0].about.get("parent"), trace.about.get("pid"));
        assert_eq!(others[1].about.get("parent"), others[0].about.get("pid"));
    }
}

#[test]
fn the_program_is_what_its_process_runs_last() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, _) = recorded(&folder, "exec");
    let others = others(&folder);
    assert_eq!((trace.about.get("arguments"), trace.count(1001)), (Some("all"), 2));
    assert_eq!(others.len(), 1);
    assert_eq!((others[0].about.get("arguments"), others[0].count(33)), (Some("exec"), 1));
    assert_eq!(others[0].about.get("pid"), trace.about.get("pid"));
}

#[test]
fn programs_that_were_all_over_when_they_were_found_are_all_recorded() {
    for _ in 0..6 {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("t.hwt");
        // The recorder stands still from before the process runs its second program until after its last.
        let script = "(sleep 0.4; kill -CONT $PPID) >/dev/null & kill -STOP $PPID; exec \"$0\" exec";
        let output = record(&trace).args(["sh", "-c", script]).arg(family(folder.path())).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(!stderr(&output).contains("is not recorded"), "{}", stderr(&output));
        let all: Vec<Trace> = others(&folder).into_iter().chain([Trace::at(&trace)]).collect();
        assert!(all.iter().any(|one| one.about.get("arguments") == Some("exec")), "{}", stderr(&output));
        assert!(all.iter().any(|one| one.about.get("arguments") == Some("all")), "{}", stderr(&output));
    }
}

#[test]
fn other_processes_can_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.hwt");
    let script = format!("{} all; {} all; exit 5", family(folder.path()).display(), family(folder.path()).display());
    let output =
        heapwright().args(["record", "--main-only", "-o"]).arg(&trace).args(["--", "sh", "-c", &script]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert_eq!(others(&folder).len(), 0);
    assert_eq!(Trace::at(&trace).about.get("program"), Some("sh"));
}

#[test]
fn other_processes_with_few_calls_leave_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let family = family(folder.path());
    let script = format!("{0} all; {0} threads; true", family.display());
    let output =
        heapwright().args(["record", "-o"]).arg(folder.path().join("t.hwt")).args(["sh", "-c", &script]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let others = others(&folder);
    assert_eq!(others.len(), 1);
    assert_eq!(others[0].about.get("arguments"), Some("threads"));
    let said = stderr(&output);
    assert!(said.contains("1 more process made few calls; --min-events 0 keeps its trace"), "{said}");
    assert!(said.contains("most by far was called by family: see "), "{said}");
    // A program that makes no call itself.
    let only = "#include <unistd.h>\n#include <sys/wait.h>\nint main(int count, char **arguments) {\n\
                if (!vfork()) { execv(arguments[1], arguments + 1); _exit(9); }\nreturn wait(0) < 0; }\n";
    let starter = compiled(folder.path(), "starter", only, &[]);
    let output = record(&folder.path().join("only.hwt")).arg(starter).arg(&family).arg("all").output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("the program itself has no trace; of the others, family called most: see "), "{said}");
}

#[test]
fn programs_can_be_chosen_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let family = family(folder.path());
    let script = format!("ls / >/dev/null; {0} all; exit 5", family.display());
    let record = |name: &str| {
        let trace = folder.path().join("t.hwt");
        let mut command = heapwright();
        command.args(["record", "--only", name, "-o"]).arg(trace).args(["sh", "-c", &script]);
        command.output().unwrap()
    };
    let output = record("family");
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert_eq!(others(&folder).len(), 1);
    assert_eq!(others(&folder)[0].about.get("program"), Some("family"));
    let output = record("no-such-program");
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("no recordable process ran no-such-program"), "{}", stderr(&output));
}

#[test]
fn a_kill_loses_nothing_that_was_called_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.hwt");
    let output = record(&trace).arg(family(folder.path())).arg("kill").output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{}", stderr(&output));
    let trace = Trace::at(&trace);
    assert_eq!((trace.count(40), trace.count(41)), (12_345, 1));
    assert!(trace.finished);
}

#[test]
fn a_kill_amid_many_threads_leaves_a_sound_trace() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.hwt");
    let output = record(&trace).arg(family(folder.path())).arg("killed").output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(!said.contains("other means") && !said.contains("missing"), "{said}");
    let trace = Trace::at(&trace);
    assert!(trace.blocks.len() > 10_000 && trace.threads.len() >= 8 && trace.finished);
    assert!(trace.live.len() < 200, "a thread's block and the slots: {}", trace.live.len());
}

#[test]
fn a_program_that_is_killed_from_outside_leaves_a_sound_trace() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.hwt");
    let mut command = record(&trace);
    command.arg(family(folder.path())).arg("forever").stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "going\n");
    // SAFETY: kill has no preconditions, and the child has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    let trace = Trace::at(&trace);
    assert!(trace.blocks.len() > 1_000_000 && trace.live.len() <= 1 && trace.finished);
}

/// The time is that of all calls, most of which are not known.
#[test]
fn a_recording_that_ended_early_gives_no_share_of_the_calls() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\nint main(int count, char **words) { for (int i = 0; i < atoi(words[1]); i++) {\n\
        void *volatile block = malloc(24); free(block); } }";
    let program = common::compiled(folder.path(), "pairs", source, &["-O1"]);
    let share = |limit: &str, pairs: u32| {
        let script = format!("{limit}exec {} {pairs}", program.display());
        let output = record(&folder.path().join("t.hwt")).args(["bash", "-c", &script]).output().unwrap();
        let said = stderr(&output);
        assert_eq!(said.contains("ended before it did"), !limit.is_empty(), "{said}");
        said.contains("of it in malloc and free")
    };
    assert!(share("", 1_000_000) && !share("ulimit -f 256; ", 20_000_000));
}

#[test]
fn when_space_runs_out_the_recording_ends_and_the_program_continues() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.hwt");
    let script = format!("ulimit -f 256; {} crowd; echo code $?", family(folder.path()).display());
    let output = record(&trace).args(["bash", "-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "code 0\n");
    let said = stderr(&output);
    assert!(said.contains("ended before it did") && said.contains("calls are missing"), "{said}");
    let cut: Vec<_> = others(&folder).into_iter().filter(|one| one.about.get("program") == Some("family")).collect();
    assert_eq!(cut.len(), 1, "{said}");
    assert!(cut[0].blocks.len() > 1000 && cut[0].finished);
}

#[test]
fn a_full_file_system_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.hwt");
    let mut command = record(&trace);
    command.arg(family(folder.path())).arg("threads");
    let limit = libc::rlimit { rlim_cur: 50 << 10, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: setting a limit is all that is done between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
            Ok(())
        });
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(stderr(&output).contains("calls are missing: longer than the limit"), "{}", stderr(&output));
    assert_eq!((Trace::at(&folder.path().join("t.hwt.partial")).blocks.len(), trace.exists()), (0, false));
}

#[test]
fn a_trace_that_cannot_be_written_does_not_stop_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.hwt");
    let script = format!("echo ready; read line; {} threads; echo code $?", family(folder.path()).display());
    let mut command = record(&trace);
    command.args(["sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("ready"));
    let limit = libc::rlimit { rlim_cur: 1000, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is only read, and the child has not been waited for.
    let limited = unsafe { libc::prlimit(child.id() as i32, libc::RLIMIT_FSIZE, &limit, std::ptr::null_mut()) };
    assert_eq!(limited, 0);
    drop(child.stdin.take());
    assert_eq!(said.next().as_deref(), Some("code 0"));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("is not complete: cannot write"), "{}", stderr(&output));
}

#[test]
fn a_recorder_that_is_killed_leaves_the_program_alone() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        format!("echo $HEAPWRIGHT_RECORD; read line; {} threads; echo code $?", family(folder.path()).display());
    let mut command = record(&folder.path().join("t.hwt"));
    command.args(["sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let room = PathBuf::from(said.next().unwrap());
    let input = child.stdin.take();
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    drop(input);
    assert_eq!(said.next().as_deref(), Some("code 0"));
    // The next recording removes it; one of another test may do so at this moment.
    let _ = fs::remove_dir_all(&room);
}

#[test]
fn a_limit_on_files_is_the_only_reason_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.hwt");
    // The recorder's library is written by the first recording, which has no limit.
    assert!(record(&trace).arg("ls").output().unwrap().status.success());
    fs::remove_file(&trace).unwrap();
    let script = "ulimit -f 4; exec \"$0\" record -o \"$1\" -- ls";
    let mut limited = Command::new("bash");
    let output = limited.args(["-c", script]).arg(heapwright().get_program()).arg(&trace).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("raise `ulimit -f`") && !said.contains("LD_PRELOAD"), "{said}");
}

#[test]
fn a_static_program_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(
        folder.path(),
        "static",
        "#include <stdlib.h>\nint main(void) { free(malloc(9)); return 3; }",
        &["-static"],
    );
    let trace = folder.path().join("t.hwt");
    let output = record(&trace).arg(program).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("nothing was recorded") && stderr(&output).contains("statically linked"));
    assert!(!trace.exists());
}

#[test]
fn a_program_without_calls_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "idle", "int main(void) { return 3; }", &[]);
    let trace = folder.path().join("t.hwt");
    for (options, why) in [
        (&[][..], "made no malloc-family call, or"),
        (&["--sites=1"], "made no malloc-family call, or"),
        (&["--marked"], "made no malloc-family call in a block that it marked"),
        (&["--marked", "--sites=1"], "made no malloc-family call in a block that it marked"),
    ] {
        let mut record = heapwright();
        record.arg("record").args(options).arg("-o").arg(&trace).arg("--").arg(&program);
        let output = record.output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{options:?}");
        assert!(stderr(&output).contains(why), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("(it ended with exit status: 3)"), "{options:?}: {}", stderr(&output));
        assert!(!trace.exists() && others(&folder).is_empty(), "{options:?}");
    }
    // A process that then runs it leaves the trace of what it ran before.
    let output = record(&trace).args(["sh", "-c", "exec \"$0\""]).arg(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("went on as idle, of which nothing was recorded: it made no malloc-family call, or"),
        "{said}"
    );
    let plain = Trace::at(&trace);
    let mut with_sites = heapwright();
    with_sites.args(["record", "--sites=1", "-o"]).arg(&trace).args(["--", "sh", "-c", "exec \"$0\""]).arg(&program);
    assert_eq!(with_sites.output().unwrap().status.code(), Some(3));
    let with_sites = Trace::at(&trace);
    assert_eq!((plain.about.get("program"), with_sites.about.get("program")), (Some("sh"), Some("sh")));
}

#[test]
fn a_program_that_is_not_recorded_is_reported_where_another_goes_on_as_it() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.hwt");
    for program in [&["env", "-i", "sh", "-c", "exit 3"][..], &["sh", "-c", "exec env -i sh -c 'exit 3'"]] {
        let output = record(&trace).args(program).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        let said = stderr(&output);
        let expected = "went on as sh, of which nothing was recorded: it was probably started without LD_PRELOAD";
        assert!(said.contains(expected), "{program:?}: {said}");
    }
    // By its name the next program is the same one.
    let source = r#"
        #include <stdlib.h>
        #include <time.h>
        #include <unistd.h>
        void *volatile kept;
        int main(int count, char **words) {
            kept = malloc(100);
            char *again[] = {words[0], "again", 0}, *variables[] = {"PATH=/bin", 0};
            if (count < 2) execve(words[0], again, variables);
            struct timespec pause = {0, 300000000};
            nanosleep(&pause, 0);
            return 0;
        }"#;
    let itself = common::compiled(folder.path(), "itself", source, &["-w", "-fno-builtin"]);
    let output = record(&trace).arg(&itself).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let expected = "went on as itself, of which nothing was recorded: it was probably started without LD_PRELOAD";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    let mut only = heapwright();
    only.args(["record", "--min-events", "0", "--only", "sh", "-o"]).arg(&trace).args(["--", "sh", "-c", "exec ls"]);
    let output = only.output().unwrap();
    assert!(output.status.success() && !stderr(&output).contains("went on as"), "{}", stderr(&output));
    // Programs that end without their exit handlers, or have the names of their scripts, are what they were.
    let script = folder.path().join("a script with a long name");
    common::place_program(&script, b"#!/bin/sh -e\n:\n");
    let script = script.to_str().unwrap();
    for program in [&["sh", "-c", ":"][..], &["sh", "-c", "exec sh -c :"], &[script], &["sh", "-c", "kill -9 $$"]] {
        let output = record(&trace).args(program).output().unwrap();
        assert!(!stderr(&output).contains("went on as"), "{program:?}: {}", stderr(&output));
    }
}

#[test]
fn a_program_that_a_signal_ends_before_its_first_call_is_reported_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <signal.h>\nint main(void) { return raise(SIGKILL); }";
    let program = compiled(folder.path(), "shot", source, &[]);
    let output = record(&folder.path().join("t.hwt")).arg(program).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let said = stderr(&output);
    assert!(said.contains("shot was ended by signal 9 (SIGKILL) before its first call"), "{said}");
    assert!(!said.contains("LD_PRELOAD"), "{said}");
}

#[test]
fn real_programs_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    for (program, least) in [(&["ls", "/"][..], 50), (&["python3", "-c", "print(sum(range(10)))"], 1000)] {
        let path = folder.path().join("t.hwt");
        let output = record(&path).args(program).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let trace = Trace::at(&path);
        assert!(trace.blocks.len() > least, "{program:?}: {}", trace.blocks.len());
        assert!(trace.about.get("program").unwrap().starts_with(program[0]), "{program:?}");
    }
}

#[test]
fn nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (_, said) = recorded(&folder, "fork");
    let names: BTreeSet<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "source, program, two traces: {names:?} {said}");
}

#[test]
fn unrunnable_programs_and_unwritable_traces_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.hwt");
    let output = record(&trace).arg("no-such-program-anywhere").output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(!trace.exists());
    let output = record(Path::new("/nowhere/t.hwt")).args(["echo", "started"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
}

#[test]
fn a_malloc_in_front_of_glibcs_is_recorded_and_asked_how_long_its_blocks_are() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O1", "-fno-builtin"];
    let other = include_str!("programs/other_malloc.c");
    let other = compiled(folder.path(), "other.so", other, &[&flags[..], &["-shared", "-fPIC", "-w"]].concat());
    let source = "#include <malloc.h>\n#include <stdlib.h>\nint main(void) {\n  void *block = realloc(malloc(700), 701);\n\
        int length = malloc_usable_size(block);\n  free(block);\n  return length != 65536; }";
    let program = compiled(folder.path(), "asks", source, &flags);
    let path = folder.path().join("t.hwt");
    let output = record(&path).arg(program).env("LD_PRELOAD", &other).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let trace = Trace::at(&path);
    assert_eq!((trace.count(700), trace.count(701), trace.finished), (1, 1, true));
    assert_eq!(trace.about_at_the_end.get("glibc peak system bytes"), None);
}

#[test]
fn objects_hidden_by_pythons_allocator_are_reported() {
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let Some(python) = python.ok().filter(|output| output.status.success()) else { return };
    let python = String::from_utf8(python.stdout).unwrap().trim().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("python.hwt");
    // The collector looks at the process before it begins the trace. The first recording leaves no `.partial`.
    let script = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)";
    let program = ["-c", script, folder.path().join("python.hwt.partial").to_str().unwrap()].map(str::to_owned);
    let hidden = record(&trace).arg(&python).args(&program).env_remove("PYTHONMALLOC").output().unwrap();
    assert!(stderr(&hidden).contains("set PYTHONMALLOC=malloc to record them"), "{}", stderr(&hidden));
    let shown = record(&trace).arg(&python).args(&program).env("PYTHONMALLOC", "malloc").output().unwrap();
    assert!(!stderr(&shown).contains("PYTHONMALLOC"), "{}", stderr(&shown));
}

/// Memory that is asked for and not touched, as sparse tables and generous buffers are.
const SPARSE: &str = r#"
#include <stdlib.h>
#include <string.h>
int main(void) {
    char *volatile sparse = calloc(1, 64 << 20), *volatile half = malloc(16 << 20), *volatile left = malloc(32 << 20);
    memset(half, 1, 8 << 20);
    *left = *sparse = 1;
    half = realloc(half, 24 << 20);
    char sum = half[1] + sparse[5];
    free(sparse);
    free(half);
    return sum == 1 ? 0 : 1;
}
"#;

#[test]
fn pages_that_the_program_did_not_touch_are_not_touched_by_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "sparse", SPARSE, &["-O0"]);
    let trace = folder.path().join("sparse.hwt");
    let output = record(&trace).arg(program).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let touched = Reader::new(File::open(&trace).unwrap()).unwrap().touched_pages().unwrap();
    let mut pages: Vec<u64> = touched.into_values().collect();
    pages.sort_unstable();
    // The first page of a long block lies half before it, with the allocator's own words, and does not count.
    let is_near = |found: u64, expected: u64| found.abs_diff(expected) <= 2;
    assert!(is_near(pages[0], 0) && is_near(pages[1], 0), "{pages:?}");
    assert!(pages[2..].iter().all(|&pages| is_near(pages, 2048)), "{pages:?}");
    let replayed = heapwright().args(["replay", "--real", "--json", "-p", "best"]).arg(&trace).output().unwrap();
    let results: serde_json::Value = serde_json::from_slice(&replayed.stdout).unwrap();
    let system = results["results"].as_array().unwrap().iter().find(|row| row["allocator"] == "system").unwrap();
    let peak = system["peak_rss"].as_u64().unwrap();
    assert!((8 << 20..13 << 20).contains(&peak), "{peak} of 8 MiB that were touched, and 112 that were not");
}
