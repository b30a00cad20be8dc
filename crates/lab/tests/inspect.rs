//! `heapwright inspect` as it is used: watched, interrupted, cut off, and of processes under this project's malloc.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Deserializer, Value};
use tempfile::TempDir;

mod common;

/// Allocates, prints "ready", and then goes on to allocate, or prints what its malloc reports and is quiet.
const SUBJECT: &str = r#"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **arguments) {
    static char output[4096];
    setvbuf(stdout, output, _IOFBF, sizeof output);
    static char *blocks[10000];
    for (int index = 0; index < 10000; index++) memset(blocks[index] = malloc(100 + index % 900), 1, 100);
    for (int index = 0; index < 10000; index += 2) free(blocks[index]);
    void *own = malloc(40 << 20);
    memset(own, 1, 1 << 20);
    puts("ready"), fflush(stdout);
    if (count > 1) {
        struct mallinfo2 all = mallinfo2();
        printf("%zu %zu %zu\n", all.uordblks, all.hblks, all.hblkhd), fflush(stdout);
        pause();
    }
    for (;;) {
        for (int index = 0; index < 20; index++) memset(malloc(500), 1, 500);
        usleep(20000);
    }
    return own == NULL;
}
"#;

struct Subject {
    child: Child,
    out: BufReader<ChildStdout>,
    _folder: TempDir,
}

impl Subject {
    fn start(runner: &[&str]) -> Subject {
        Subject::start_with(runner, &[])
    }

    fn start_with(runner: &[&str], arguments: &[&str]) -> Subject {
        Subject::of(SUBJECT, runner, arguments)
    }

    fn of(source: &str, runner: &[&str], arguments: &[&str]) -> Subject {
        let folder = TempDir::new().unwrap();
        let program = common::compiled(folder.path(), "subject", source, &["-O1", "-w", "-fno-builtin"]);
        let mut command = match runner {
            [] => Command::new(&program),
            words => {
                let mut command = common::heapwright();
                command.args(words).arg("--").arg(&program);
                command
            }
        };
        let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut subject = Subject { child, out, _folder: folder };
        assert_eq!(subject.line(), "ready\n");
        subject
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    /// The process: `heapwright run` becomes the program, or is its parent.
    fn pid(&self) -> u32 {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.child.id())).unwrap_or_default();
        children.split_ascii_whitespace().next().map_or(self.child.id(), |child| child.parse().unwrap())
    }

    fn end(&self) {
        // SAFETY: kill has no preconditions; the process is one that this test has started.
        assert_eq!(unsafe { libc::kill(self.pid() as i32, libc::SIGKILL) }, 0);
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.end();
        let _ = self.child.wait();
    }
}

fn inspect(options: &[&str], pid: u32) -> Command {
    let mut command = common::heapwright();
    command.arg("inspect").args(options).arg(pid.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn state(pid: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

/// Returns how often a process has slept.
fn turns(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let turns = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    turns.trim().parse().unwrap()
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_cannot_be_read_is_a_failure() {
    for (pid, reason) in [(0x3fff_fff0, "there is no process 1073741808"), (0, "there is no process 0")] {
        let output = inspect(&[], pid).output().unwrap();
        assert_eq!((output.status.code(), text(&output)), (Some(1), format!("heapwright: {reason}\n")));
    }
    let output = inspect(&["--watch=0"], std::process::id()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}

#[test]
fn a_proc_that_is_not_there_is_the_reason() {
    /// The output of words of a command line where /proc is empty; `None` where nothing can be mounted.
    fn without_proc(words: &[&str]) -> Option<Output> {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", "mount -t tmpfs none /proc || exit 77; \"$@\"; echo code $?", "sh"]);
        let output = command.arg(common::heapwright().get_program()).args(words).output().ok()?;
        if [Some(1), Some(77)].contains(&output.status.code()) {
            eprintln!("passed over: nothing can be mounted here: {}", text(&output));
            return None;
        }
        Some(output)
    }
    let subject = Subject::start(&[]);
    let pid = &subject.pid().to_string();
    let why = "processes are read by /proc, and it is not mounted here: `mount -t proc proc /proc`\n";
    for (words, what) in [
        (&["inspect", pid][..], String::new()),
        (&["watch", "--once", "--pid", pid], format!("process {pid} cannot be watched: ")),
        (&["sites", "--every", "1", "--", "cat", "/dev/null"], "all stacks of cat lead nowhere: ".to_owned()),
    ] {
        let Some(output) = without_proc(words) else { return };
        assert_eq!(text(&output), format!("code 1\nheapwright: {what}{why}"), "{words:?}");
    }
    // A program leaves the last state of its heap.
    let Some(output) = without_proc(&["watch", "--once", "--", "sleep", "0.1"]) else { return };
    assert!(text(&output).contains("live bytes"), "{}", text(&output));
}

/// Root in a container does not get the advice to become root.
#[test]
fn root_without_the_capability_gets_other_advice() {
    let subject = Subject::start(&[]);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_ptrace"]).arg(common::heapwright().get_program());
    let output = command.args(["inspect", &subject.pid().to_string()]).output();
    // SAFETY: the call has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    let Some(output) = output.ok().filter(|output| is_root && output.status.code() != Some(127)) else {
        return eprintln!("passed over: no capability can be dropped here");
    };
    let said = text(&output);
    // Where the test does not have the capability either, the process can be read.
    assert!(output.status.success() || said.contains("root, too, needs CAP_SYS_PTRACE"), "{said}");
}

/// Whenever the command ends, and by whatever signal, the process goes on.
#[test]
fn an_interrupted_command_leaves_the_process_running() {
    let subject = Subject::start(&[]);
    let pid = subject.pid();
    for (number, signal) in [libc::SIGINT, libc::SIGKILL, libc::SIGTERM].into_iter().cycle().take(12).enumerate() {
        let mut command = inspect(&["--stop", "--watch=0.001"], pid);
        // Programs in the background of a script ignore it.
        // SAFETY: between fork and exec only signal is called, which is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(100 + 17 * number as u64));
        // SAFETY: kill has no preconditions, and the child has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        assert_eq!(wait(&mut child).signal(), Some(signal), "shells show 128 and its number");
        let before = turns(pid);
        sleep(Duration::from_millis(100));
        assert!(turns(pid) > before && !matches!(state(pid), 'T' | 't'), "it is stopped");
    }
}

#[test]
fn watching_ends_with_the_process() {
    for options in [&["--watch=0.2"][..], &["--watch=3600"], &["--stop", "--watch=0.2"], &["--json", "--watch=0.2"]] {
        let subject = Subject::start(&[]);
        let mut child = inspect(options, subject.pid()).spawn().unwrap();
        // The first picture.
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut shown = String::new();
        out.read_line(&mut shown).unwrap();
        subject.end();
        // Its parent does not wait for it, and it stays listed.
        out.read_to_string(&mut shown).unwrap();
        assert_eq!(wait(&mut child).code(), Some(0), "{options:?}");
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, format!("heapwright: process {} has ended\n", subject.pid()), "{options:?}");
        if options.contains(&"--json") {
            let pictures: Result<Vec<Value>, _> = Deserializer::from_str(&shown).into_iter().collect();
            assert!(!pictures.unwrap().is_empty(), "{shown}");
        }
        let output = inspect(options, subject.pid()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains("has ended"), "{}", text(&output));
    }
}

#[test]
fn a_reader_that_ends_early_ends_the_command() {
    let subject = Subject::start(&[]);
    for options in [&[][..], &["--watch=0.05"], &["--json", "--watch=0.05"], &["--stop", "--watch=0.05"]] {
        let mut child = inspect(options, subject.pid()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        drop(out);
        let status = wait(&mut child);
        let is_complete = options.is_empty() && status.success();
        assert!(is_complete || status.signal() == Some(libc::SIGPIPE), "{options:?}: {status}");
        assert!(!matches!(state(subject.pid()), 'T' | 't'), "it is stopped");
    }
}

#[test]
fn output_fits_a_narrow_terminal() {
    let subject = Subject::start(&[]);
    for options in [&[][..], &["--stop"], &["--peek"]] {
        let output = inspect(options, subject.pid()).env("COLUMNS", "40").output().unwrap();
        let text = text(&output);
        // A table has at least two columns in each of its parts, whatever their names are.
        let (lead, tables) = text.split_once("\n\n").unwrap();
        let longest = |text: &str| text.lines().map(|line| line.chars().count()).max();
        assert!(output.status.success() && longest(lead) <= Some(40) && longest(tables) <= Some(80), "{text}");
    }
    let mut child = inspect(&["--watch=0.1"], subject.pid()).env("COLUMNS", "40").spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines.take(30) {
        let line = line.unwrap();
        assert!(line.chars().count() <= 40, "{line}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

fn picture(options: &[&str], pid: u32) -> Value {
    let output = inspect(options, pid).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["results"][0].clone()
}

#[test]
fn a_heap_of_this_project_is_shown_exactly() {
    // Which figure of mallinfo2 has the blocks: `uordblks`, or that of blocks with mappings of their own.
    for (policy, place) in [(None, 0), (Some("first"), 0), (Some("mapped"), 2)] {
        let runner: Vec<&str> = ["run"].into_iter().chain(policy.iter().flat_map(|policy| ["-p", policy])).collect();
        let mut subject = Subject::start_with(&runner, &["quiet"]);
        let line = subject.line();
        let told: Vec<u64> = line.split_ascii_whitespace().map(|word| word.parse().unwrap()).collect();
        let pid = subject.pid();
        let heap = picture(&["--json", "--stop"], pid)["heapwright"].clone();
        let case = format!("{policy:?}, {told:?}: {heap:#}");
        assert_eq!((heap["policy"].as_str(), heap["sharp"].as_bool()), (Some(policy.unwrap_or("cached")), Some(true)));
        let (blocks, live) = (heap["blocks"].as_u64().unwrap(), heap["live"].as_u64().unwrap());
        assert_eq!(live, told[place], "{case}");
        // 5,000 of 10,000 blocks, a long one, and some of the C library.
        assert!((5001..5050).contains(&blocks), "{case}");
        let shown = inspect(&["--stop"], pid).output().unwrap();
        let name = format!("policy {}.", policy.unwrap_or("cached"));
        assert!(text(&shown).replace('\n', " ").contains(&name), "{}", text(&shown));
        assert!(text(&shown).contains("malloc_trim(0), now"), "{}", text(&shown));
    }
}

/// Of a block of 40 MiB the program has touched 1 MiB; of 5,000 holes between blocks it has touched every page.
#[test]
fn what_of_a_heap_of_this_project_is_in_memory_is_shown() {
    for (policy, bound) in [("cached", "about"), ("first", "at most")] {
        let subject = Subject::start_with(&["run", "-p", policy], &["quiet"]);
        let output = inspect(&["--stop"], subject.pid()).output().unwrap();
        let shown = text(&output);
        let verdict = shown.split_once("\n\n").unwrap().0.replace('\n', " ");
        assert!(verdict.contains("of them in memory"), "{shown}");
        assert!(verdict.contains(&format!("would give back {bound} ")), "{shown}");
        let picture = picture(&["--json", "--stop"], subject.pid());
        let heap = &picture["heapwright"];
        let figure = |name: &str| heap[name].as_u64().unwrap();
        let mapped = picture["heapwright_mapped_resident"].as_u64().unwrap_or(0);
        let touched = figure("resident_live") + mapped;
        assert!((3 << 20..8 << 20).contains(&touched), "{picture:#}");
        assert!(figure("resident_live") <= figure("resident"), "{picture:#}");
        if policy == "first" {
            assert!(figure("resident_holes") > figure("hole_bytes") * 9 / 10, "{picture:#}");
            assert!(figure("whole_pages_of_holes") < figure("resident_holes") / 2, "{picture:#}");
        }
        let row = |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap();
        let words = |name: &str| row(name).split("  ").filter(|word| !word.is_empty()).count();
        assert_eq!((words("all "), words("blocks ")), (4, 4), "{shown}");
    }
}

/// Allocates blocks that cross pages and touches them, frees every second, and allocates what it never touches. Without
/// huge pages: where the system is quick to give one, the end of the last one is in memory and belongs to that block.
const CROSSING: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void) {
    static char *blocks[20000];
    if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)) return 1;
    for (int index = 0; index < 20000; index++) memset(blocks[index] = malloc(3072), 1, 3072);
    for (int index = 0; index < 20000; index += 2) free(blocks[index]);
    char *volatile untouched = malloc(31 << 20);
    puts("ready"), fflush(stdout);
    pause();
}
"#;

#[test]
fn a_block_that_crosses_pages_is_in_memory_once() {
    for policy in ["cached", "first"] {
        let subject = Subject::of(CROSSING, &["run", "-p", policy], &[]);
        let picture = picture(&["--json", "--stop"], subject.pid());
        let heap = &picture["heapwright"];
        let live = heap["resident_live"].as_u64().unwrap();
        let blocks = 10_000 * 3072;
        assert!((blocks..blocks + (64 << 10)).contains(&live), "{policy}: {heap:#}");
    }
}

#[test]
fn blocks_that_cannot_be_looked_into_are_named() {
    const WHY: &str = "--peek looks into those of glibc's malloc only";
    for runner in [&["run"][..], &["run", "-p", "first"], &[]] {
        let subject = Subject::start_with(runner, &["quiet"]);
        let shown = text(&inspect(&["--stop", "--peek"], subject.pid()).output().unwrap()).replace('\n', " ");
        let picture = picture(&["--json", "--stop", "--peek"], subject.pid());
        let is_glibcs = runner.is_empty();
        assert_eq!(shown.contains(WHY), !is_glibcs, "{shown}");
        assert_eq!(shown.contains("contents of blocks"), is_glibcs, "{shown}");
        let reason = picture["contents_unread"].as_str().unwrap_or_default();
        assert_eq!((picture["contents"].is_null(), reason.contains(WHY)), (!is_glibcs, !is_glibcs), "{picture:#}");
        let shown = text(&inspect(&["--stop"], subject.pid()).output().unwrap()).replace('\n', " ");
        assert!(!shown.contains("--peek"), "{shown}");
    }
}

/// It is recognised by what is in its memory.
#[test]
fn a_heap_of_this_project_is_shown_where_the_library_has_another_name() {
    let first = Subject::start_with(&["run"], &["quiet"]);
    let maps = fs::read_to_string(format!("/proc/{}/maps", first.pid())).unwrap();
    let library = maps.split_ascii_whitespace().find(|word| word.contains("/libheapwright")).unwrap();
    let folder = TempDir::new().unwrap();
    let copy = folder.path().join("lib.so");
    fs::copy(library, &copy).unwrap();
    let second = Subject::start_with(&["run", "--library", copy.to_str().unwrap()], &["quiet"]);
    let picture = picture(&["--json", "--stop"], second.pid());
    assert_eq!(picture["heapwright"]["policy"].as_str(), Some("cached"), "{picture:#}");
    assert_eq!(picture["allocator"].as_str(), Some("Heapwright"), "{picture:#}");
}

#[test]
fn what_cannot_be_known_is_not_a_figure() {
    let subject = Subject::start(&["run"]);
    let mut watched = inspect(&["--watch=0.1", "--json"], subject.pid()).spawn().unwrap();
    let pictures = Deserializer::from_reader(watched.stdout.take().unwrap()).into_iter::<Value>();
    let growth = pictures.skip(1).map(|picture| picture.unwrap()["results"][0]["growth"].clone()).next().unwrap();
    watched.kill().unwrap();
    watched.wait().unwrap();
    assert!(growth["kept"].is_null() && growth["sizes"].is_object(), "{growth}");
    let mut hardened = common::heapwright();
    drop(subject);
    hardened.arg("run").env("HEAPWRIGHT_HARDEN", "1").args(["--", "sh", "-c", "kill -STOP $$"]);
    let mut hardened = hardened.stderr(Stdio::null()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", hardened.id());
    let child = || fs::read_to_string(&children).ok()?.split_ascii_whitespace().next()?.parse::<u32>().ok();
    let start = Instant::now();
    while child().is_none_or(|child| state(child) != 'T') {
        assert!(start.elapsed() < Duration::from_secs(60));
        sleep(Duration::from_millis(10));
    }
    let shown = text(&inspect(&[], child().unwrap()).output().unwrap()).replace('\n', " ");
    assert!(shown.contains("What malloc_trim(0) would give back is not known"), "{shown}");
    // SAFETY: kill has no preconditions; the process is one that this test has started.
    unsafe { libc::kill(child().unwrap() as i32, libc::SIGKILL) };
    let _ = wait(&mut hardened);
}

/// The main arena goes on in mappings when something is in the way of the program break. Its pieces are found where
/// they adjoin.
#[test]
fn an_arena_outside_the_program_break_is_not_denied() {
    const BLOCKED: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>
    int main(int count, char **arguments) {
        unsigned long break_at = (unsigned long)sbrk(0);
        void *in_the_way = (void *)((break_at + (1 << 20)) / 4096 * 4096);
        mmap(in_the_way, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        for (int index = 0; index < 20000; index++) {
            memset(malloc(500), 1, 500);
            if (count > 1 && index % 100 == 0)
                memset(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 4096);
        }
        puts("ready"), fflush(stdout);
        pause();
    }
    "#;
    let folder = TempDir::new().unwrap();
    let program = common::compiled(folder.path(), "blocked", BLOCKED, &["-O1", "-w", "-fno-builtin"]);
    let look = |arguments: &[&str]| {
        let mut child = Command::new(&program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let arena = picture(&["--json"], child.id())["glibc"]["arenas"][0].clone();
        let shown = text(&inspect(&[], child.id()).output().unwrap()).replace('\n', " ");
        child.kill().unwrap();
        child.wait().unwrap();
        (arena, shown)
    };
    let (arena, shown) = look(&[]);
    let figures = ["elsewhere", "inconsistencies", "foreign"].map(|name| arena[name].as_u64().unwrap());
    assert_eq!(figures, [0; 3], "{arena:#}");
    assert!((20_000..20_010).contains(&arena["blocks"].as_u64().unwrap()), "{arena:#}");
    assert!(shown.contains("no setting of malloc") && !shown.contains("at least"), "{shown}");
    let (arena, shown) = look(&["mappings between"]);
    let elsewhere = arena["elsewhere"].as_u64().unwrap();
    assert!(elsewhere > 8 << 20, "{elsewhere}");
    assert!(shown.contains("of the main arena are not looked into") && !shown.contains("is not malloc's"), "{shown}");
}

/// A recorded program runs under glibc's malloc, though a library of this project is loaded.
#[test]
fn a_recorded_program_is_one_of_glibc() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("t.hwt");
    let subject = Subject::start(&["record", "-o", trace.to_str().unwrap()]);
    let picture = picture(&["--json", "--stop"], subject.pid());
    assert_eq!(picture["allocator"].as_str(), Some("glibc"), "{picture:#}");
    assert!(picture["heapwright"].is_null() && picture["unread"].is_null());
}

#[test]
fn growth_under_this_project_and_others_is_shown() {
    let subject = Subject::start(&["run"]);
    let mut child = inspect(&["--json", "--watch=0.2"], subject.pid()).spawn().unwrap();
    let out = child.stdout.take().unwrap();
    // At first the blocks come from the thread's cache, where they count as before. The machine may be slow.
    let pictures = Deserializer::from_reader(out).into_iter::<Value>().take(100).map(Result::unwrap);
    let growths =
        pictures.map(|picture| picture["results"][0]["growth"]["sizes"]["512"]["blocks"].as_i64().unwrap_or(0));
    let mut sums = growths.scan(0, |sum, growth| {
        *sum += growth;
        Some(*sum)
    });
    assert!(sums.any(|sum| sum >= 100), "the program has allocated without end");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(Path::new(&format!("/proc/{}", subject.pid())).exists());
}

/// Threads keep freed long blocks for their next requests.
#[test]
fn what_threads_keep_is_not_the_program_s() {
    const KEEPING: &str = r#"
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_barrier_t done;
static void *keep(void *nothing) {
    void *blocks[16];
    for (int index = 0; index < 16; index++) memset(blocks[index] = malloc(60000), 1, 60000);
    for (int index = 0; index < 16; index++) free(blocks[index]);
    pthread_barrier_wait(&done);
    pause();
    return nothing;
}
int main(void) {
    pthread_t made;
    pthread_barrier_init(&done, NULL, 9);
    for (int index = 0; index < 8; index++) pthread_create(&made, NULL, keep, NULL);
    pthread_barrier_wait(&done);
    struct mallinfo2 all = mallinfo2();
    printf("ready\n%zu\n", all.uordblks), fflush(stdout);
    pause();
}
"#;
    let mut subject = Subject::of(KEEPING, &["run"], &[]);
    let told: u64 = subject.line().trim().parse().unwrap();
    let heap = picture(&["--json", "--stop"], subject.pid())["heapwright"].clone();
    let [live, cached] = ["live", "cached"].map(|name| heap[name].as_u64().unwrap());
    // Thread blocks of the C library, and the buffer of its output.
    assert!(told < 100_000 && live < 100_000, "{told}: {heap:#}");
    assert!(cached > 1_000_000, "{heap:#}");
}
