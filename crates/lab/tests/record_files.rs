//! `heapwright record` loses no file: neither one that exists, nor what it has recorded so far.

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{compiled, heapwright};
use heapwright_show::number;
use heapwright_trace::Reader;
use tempfile::TempDir;

/// A folder for a recording.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `record -o t.hwt OPTIONS --`.
    fn record(&self, options: &[&str]) -> Command {
        let mut command = heapwright();
        command.arg("record").arg("-o").arg(self.path("t.hwt")).args(options).arg("--");
        command
    }

    /// Records `echo` and returns the trace, as an older one that must not get lost.
    fn older_trace(&self) -> Vec<u8> {
        assert_eq!(self.record(&[]).args(["sh", "-c", ":"]).output().unwrap().status.code(), Some(0));
        fs::read(self.path("t.hwt")).unwrap()
    }

    /// The names of the files there that belong to traces.
    fn traces(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name.contains(".hwt"));
        names.sort();
        names
    }

    /// Waits until the trace in progress has this length; returns its path.
    fn partial(&self, length: u64) -> PathBuf {
        let (path, start) = (self.path("t.hwt.partial"), Instant::now());
        while fs::metadata(&path).map_or(0, |found| found.len()) < length {
            assert!(start.elapsed() < Duration::from_secs(60), "nothing is written");
            thread::sleep(Duration::from_millis(1));
        }
        path
    }

    fn ticking(&self) -> PathBuf {
        compiled(self.folder.path(), "ticking", include_str!("programs/ticking.c"), &["-O1", "-w", "-fno-builtin"])
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a trace holds.
struct Trace {
    events: u64,
    about: heapwright_trace::About,
    sites: Vec<String>,
    is_finished: bool,
}

fn read(file: impl Read + Send) -> Trace {
    let mut reader = Reader::new(file).unwrap().with_times().with_sites();
    let mut sites = Vec::new();
    while reader.next_event().unwrap().is_some() {
        sites.extend(reader.site());
    }
    sites.sort();
    sites.dedup();
    let names = |frame: &str| [frame.to_owned(), reader.frame_name(frame).unwrap_or_default().to_owned()];
    let sites = sites.iter().flat_map(|&site| reader.site_frames(site).flat_map(names).collect::<Vec<_>>()).collect();
    let (events, about) = (reader.events_read(), reader.about().clone());
    Trace { events, about, sites, is_finished: reader.is_finished() }
}

fn read_at(path: &Path) -> Trace {
    read(File::open(path).unwrap())
}

/// Returns the time of the last event in a trace that is being written: it may end within a frame.
fn last_time_so_far(path: &Path) -> Option<u64> {
    let mut reader = Reader::new(File::open(path).unwrap()).unwrap().with_times();
    let mut last_time = None;
    while let Ok(Some(_)) = reader.next_event() {
        last_time = reader.time();
    }
    last_time
}

/// Starts a command and waits for the line `going`.
fn going(mut command: Command) -> (Child, impl Iterator<Item = String>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("going"));
    (child, said)
}

#[test]
fn a_program_that_does_not_start_changes_no_trace() {
    let place = Place::new();
    let older = place.older_trace();
    let without_interpreter = place.path("script");
    common::place_program(&without_interpreter, b"#!/no/such/interpreter\n");
    let programs = [Path::new("typo-that-is-no-program"), place.folder.path(), &without_interpreter];
    for (program, code) in programs.into_iter().zip([127, 126, 127]) {
        let output = place.record(&[]).arg(program).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert_eq!((fs::read(place.path("t.hwt")).unwrap(), place.traces()), (older.clone(), vec!["t.hwt".to_owned()]));
    }
    // What a dead recorder left stays too.
    fs::rename(place.path("t.hwt"), place.path("t.hwt.partial")).unwrap();
    assert_eq!(place.record(&[]).arg("typo-that-is-no-program").output().unwrap().status.code(), Some(127));
    assert_eq!((fs::read(place.path("t.hwt.partial")).unwrap(), place.traces().len()), (older, 1));
    assert_eq!(place.record(&[]).args(["sh", "-c", ":"]).output().unwrap().status.code(), Some(0));
    assert_eq!(place.traces(), ["t.hwt"]);
}

#[test]
fn a_file_that_is_not_a_trace_is_not_replaced() {
    let place = Place::new();
    fs::write(place.path("t.hwt"), "a letter").unwrap();
    let output = place.record(&[]).args(["echo", "started"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0));
    assert!(stderr(&output).contains("t.hwt exists and is not a Heapwright trace"), "{}", stderr(&output));
    assert_eq!((fs::read(place.path("t.hwt")).unwrap(), place.traces().len()), (b"a letter".to_vec(), 1));
    // An empty one, such as mktemp makes, holds nothing that could get lost.
    fs::write(place.path("t.hwt"), "").unwrap();
    assert_eq!(place.record(&[]).args(["sh", "-c", ":"]).output().unwrap().status.code(), Some(0));
    assert!(read_at(&place.path("t.hwt")).is_finished);
}

#[test]
fn links_are_followed_and_modes_are_kept() {
    let place = Place::new();
    fs::create_dir(place.path("data")).unwrap();
    symlink("data/real", place.path("t.hwt")).unwrap();
    place.older_trace();
    fs::set_permissions(place.path("data/real"), fs::Permissions::from_mode(0o640)).unwrap();
    let older = place.older_trace();
    assert!(fs::symlink_metadata(place.path("t.hwt")).unwrap().is_symlink());
    assert_eq!(fs::read(place.path("data/real")).unwrap(), older);
    assert_eq!(fs::metadata(place.path("data/real")).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(place.path("data")).unwrap().count(), 1);
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_program_starts() {
    let place = Place::new();
    let own = place.path("own.txt");
    let cases = [
        (place.path("no/such/folder/t.hwt"), "No such file"),
        (place.folder.path().to_owned(), "it is a directory"),
        (own.clone(), "the program's standard output goes there"),
        (PathBuf::from("/dev/fd/1"), "the program's standard output goes there"),
    ];
    for (output, why) in cases {
        let mut command = heapwright();
        command.args(["record", "-o"]).arg(&output).args(["--", "echo", "started"]);
        let output = command.stdout(File::create(&own).unwrap()).output().unwrap();
        assert_eq!((output.status.code(), fs::read(&own).unwrap().len()), (Some(125), 0), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn a_pipe_receives_the_trace() {
    let place = Place::new();
    let pipe = place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let from = pipe.clone();
    let reader = thread::spawn(move || fs::read(from).unwrap());
    let mut command = heapwright();
    command.args(["record", "-o"]).arg(&pipe).args(["--", "sh", "-c", "ls >/dev/null"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let trace = read(&reader.join().unwrap()[..]);
    assert_eq!((trace.about.get("program"), trace.is_finished), (Some("sh"), true));
    assert!(fs::metadata("/dev/null").is_ok_and(|found| !found.is_file()));
}

#[test]
fn a_device_that_is_full_is_reported_and_the_trace_kept() {
    let output = heapwright().args(["record", "-o", "/dev/full", "--", "sh", "-c", ":"]).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert_eq!(said.matches("No space left on device").count(), 1, "{said}");
    let kept = said.split_whitespace().find(|word| word.ends_with(".hwt.partial")).map(Path::new);
    let kept = kept.unwrap_or_else(|| panic!("it is said where the trace is: {said}"));
    assert!(read_at(kept).is_finished);
    fs::remove_dir_all(kept.parent().unwrap()).unwrap();
}

#[test]
fn a_full_disk_ends_the_trace_and_not_the_program() {
    let place = Place::new();
    let older = place.older_trace();
    let (mut child, mut said) = {
        let mut command = place.record(&["--times"]);
        command.arg(place.ticking()).arg("30");
        going(command)
    };
    let partial = place.partial(10_000);
    let length = || fs::metadata(&partial).map_or(0, |found| found.len());
    // A frame follows its side streams at once.
    thread::sleep(Duration::from_millis(300));
    limit_files(&child, length() + 1000);
    assert_eq!(said.next().as_deref(), Some("done"));
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(125), "{errors}");
    assert_eq!(errors.matches("File too large").count(), 1, "{errors}");
    assert_eq!(fs::read(place.path("t.hwt")).unwrap(), older);
    let partial = read_at(&partial);
    assert!(partial.events > 10_000 && !partial.is_finished, "{}", partial.events);
    assert!(
        errors.contains(&format!("t.hwt.partial keeps the first {} events of ", number::grouped(partial.events))),
        "{errors}"
    );
    assert_eq!(shown_events(&errors), number::grouped(partial.events), "{errors}");
}

/// Sets the longest file that a process may write.
fn limit_files(process: &Child, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is only read, and the child has not been waited for.
    let limited = unsafe { libc::prlimit(process.id() as i32, libc::RLIMIT_FSIZE, &limit, std::ptr::null_mut()) };
    assert_eq!(limited, 0);
}

#[test]
fn a_trace_without_room_for_its_events_says_that_it_has_none() {
    let place = Place::new();
    let (mut child, _said) = {
        let mut command = place.record(&["--times"]);
        command.arg(place.ticking()).arg("30");
        going(command)
    };
    let path = place.path("t.hwt.partial");
    // Its beginning has no events, and is some hundred bytes long.
    while fs::metadata(&path).map_or(0, |found| found.len()) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    limit_files(&child, 1);
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(125), "{errors}");
    let kept = match path.exists().then(|| read_at(&path).events) {
        None => return assert!(!errors.contains("keeps"), "not even its beginning was written: {errors}"),
        Some(0) => "none of ".to_owned(),
        Some(some) => format!("the first {} of ", number::grouped(some)),
    };
    assert!(errors.contains(&format!("t.hwt.partial keeps {kept}")), "{errors}");
    let events = read_at(&path).events;
    assert_eq!(shown_events(&errors), number::grouped(events), "{errors}");
    assert_eq!(errors.contains("every command reads it"), events > 0, "{errors}");
}

/// Returns the events in the table's row of an incomplete trace.
fn shown_events(errors: &str) -> &str {
    let row = errors.lines().find(|line| line.split_whitespace().nth(1) == Some("ticking")).expect(errors);
    row.split_whitespace().nth(2).unwrap()
}

/// Returns a command that mounts a file system in a namespace of its own, runs the recorder's command with the
/// arguments that are added, prints its exit code, and then runs `afterwards` in the shell.
fn where_mounted(place: &Place, mount: &str, afterwards: &str) -> Command {
    let script = format!("mount {mount} || exit 77; \"$@\"; echo code $?; {afterwards}");
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script, "sh"]).current_dir(place.folder.path());
    command.arg(heapwright().get_program());
    command
}

/// Runs such a command; returns the line with the exit code, and what was said. `None` where nothing can be mounted.
fn outcome_where_mounted(command: &mut Command) -> Option<(String, String)> {
    let output = command.output().ok()?;
    if [Some(1), Some(77)].contains(&output.status.code()) {
        eprintln!("passed over: no file system can be mounted here: {}", stderr(&output));
        return None;
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let code = printed.lines().find(|line| line.starts_with("code ")).unwrap_or_default();
    Some((code.to_owned(), stderr(&output)))
}

#[test]
fn a_full_file_system_is_said_once() {
    let place = Place::new();
    fs::create_dir(place.path("small")).unwrap();
    let mut command = where_mounted(&place, "-t tmpfs -o size=40k none small", "cp -r small kept");
    command.args(["record", "--times", "--min-events", "0", "-o", "small/t.hwt", "--"]);
    command.args(["sh", "-c"]).arg(format!("{0} 15; {0} 1; {0} 1", place.ticking().display()));
    let Some((code, said)) = outcome_where_mounted(&mut command) else { return };
    assert_eq!(code, "code 125", "{said}");
    assert_eq!(said.matches("No space left on device").count(), 1, "{said}");
    for entry in fs::read_dir(place.path("kept")).unwrap() {
        let path = entry.unwrap().path();
        assert!(fs::metadata(&path).unwrap().len() > 0, "{}", path.display());
        read_at(&path);
    }
}

#[test]
fn nothing_is_concluded_from_a_recording_of_which_no_call_could_be_written() {
    let place = Place::new();
    fs::create_dir(place.path("small")).unwrap();
    for words in [&["compare", "--policies-only", "-p", "best"][..], &["report", "--no-real", "-p", "best", "-o", "p"]]
    {
        let mut command = where_mounted(&place, "-t tmpfs -o size=16k none small", ":");
        command.env("TMPDIR", place.path("small")).env("XDG_RUNTIME_DIR", place.folder.path());
        command.args(words).arg("--").arg(place.ticking()).arg("15");
        let Some((code, said)) = outcome_where_mounted(&mut command) else { return };
        assert_eq!(code, "code 1", "{words:?}: {said}");
        assert!(said.contains("nothing was recorded of ticking"), "{words:?}: {said}");
        assert!(!place.path("p").exists());
    }
}

/// There is space in memory, but not for this user.
#[test]
fn streams_are_elsewhere_where_memory_cannot_be_written_to() {
    let place = Place::new();
    let mut command = where_mounted(&place, "-t tmpfs -o ro,size=2g none /dev/shm", ":");
    command.args(["record", "--min-events", "0", "-o", "t.hwt", "--", "sh", "-c", ":"]);
    let Some((code, said)) = outcome_where_mounted(&mut command) else { return };
    assert_eq!(code, "code 0", "{said}");
    assert!(read_at(&place.path("t.hwt")).is_finished);
}

#[test]
fn two_recordings_do_not_write_one_file() {
    let place = Place::new();
    let mut command = place.record(&[]);
    command.arg(place.ticking()).arg("20");
    let (mut child, _said) = going(command);
    let output = place.record(&[]).args(["echo", "started"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0), "{}", stderr(&output));
    assert!(stderr(&output).contains("another recording writes"), "{}", stderr(&output));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(read_at(&place.path("t.hwt")).is_finished);
}

#[test]
fn a_recorder_that_is_killed_leaves_what_it_wrote_every_second() {
    let place = Place::new();
    let older = place.older_trace();
    let mut command = place.record(&["--times", "--sites"]);
    // Few calls: they would fill no frame before the end.
    command.arg(place.ticking()).args(["50", "2"]);
    let (mut child, mut said) = going(command);
    let room = room_of(child.id());
    let partial = place.partial(500);
    // At the program's end the file is renamed.
    while last_time_so_far(&partial).is_none_or(|last| last < 2_000_000_000) {
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    let partial = read_at(&partial);
    assert!(partial.events > 1000 && !partial.is_finished && !partial.sites.is_empty(), "{}", partial.events);
    let output = heapwright().arg("replay").arg(place.path("t.hwt.partial")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(said.next().as_deref(), Some("done"), "the program continues");
    assert_eq!(fs::read(place.path("t.hwt")).unwrap(), older);
    // The next recording takes the place.
    assert_eq!(place.record(&[]).args(["sh", "-c", ":"]).output().unwrap().status.code(), Some(0));
    assert_eq!(place.traces(), ["t.hwt"]);
    assert!(!room.exists(), "it removes what the killed one left");
}

/// The directory of streams of a recorder, from the environment of its program.
fn room_of(recorder: u32) -> PathBuf {
    let children = fs::read_to_string(format!("/proc/{recorder}/task/{recorder}/children")).unwrap();
    let environment = fs::read_to_string(format!("/proc/{}/environ", children.trim())).unwrap();
    let room = environment.split('\0').find_map(|variable| variable.strip_prefix("HEAPWRIGHT_RECORD="));
    PathBuf::from(room.unwrap())
}

#[test]
fn an_interrupted_program_leaves_a_complete_trace() {
    let place = Place::new();
    let mut command = place.record(&["--sites"]);
    command.arg(place.ticking()).arg("600").process_group(0);
    let (mut child, _said) = going(command);
    place.partial(2000);
    // SAFETY: kill has no preconditions, and the child has not been waited for: the group is that of the command.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGINT) };
    // A shell makes exit code 130 of it.
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
    let trace = read_at(&place.path("t.hwt"));
    assert!(trace.is_finished && trace.events > 1000);
    assert_eq!(place.traces(), ["t.hwt"]);
}

#[test]
fn an_interruption_after_the_program_keeps_what_was_written() {
    /// The command waits a fifth of a second for a process that outlives the program; a busy machine may miss it.
    const ATTEMPTS: usize = 5;
    for attempt in 1..=ATTEMPTS {
        let place = Place::new();
        let mut command = place.record(&[]);
        let (ticking, partial) = (place.ticking(), place.path("t.hwt.partial"));
        let script = format!("{} 20 & until [ -e {} ]; do :; done; echo going", ticking.display(), partial.display());
        command.args(["sh", "-c", &script]);
        let (mut child, _said) = going(command);
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        while fs::read_to_string(&children).is_ok_and(|children| !children.is_empty()) {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(20));
        // SAFETY: kill has no preconditions, and the child has not been waited for.
        unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
        if child.wait().unwrap().code() == Some(130) {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            assert!(said.contains("interrupted: ") && said.contains("t.hwt.partial"), "{said}");
            assert!(place.traces().contains(&"t.hwt.partial".to_owned()), "{:?}", place.traces());
            place.traces().iter().for_each(|name| drop(read_at(&place.path(name))));
            return;
        }
        assert!(attempt < ATTEMPTS, "the command was never interrupted");
    }
}

#[test]
fn a_trace_keeps_to_its_size() {
    let place = Place::new();
    let mut command = place.record(&["--times", "--sites", "--max-size", "64KiB"]);
    let output = command.arg(place.ticking()).arg("20").output().unwrap();
    let said = stderr(&output);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"going\ndone\n"[..]), "{said}");
    assert!(said.contains("ended before it did: its trace reached 64.0 KiB, the limit (--max-size)"), "{said}");
    assert!(!said.contains("calls are missing"), "{said}");
    let length = fs::metadata(place.path("t.hwt")).unwrap().len();
    assert!((16 << 10..=64 << 10).contains(&length), "{length}");
    let trace = read_at(&place.path("t.hwt"));
    assert!(trace.is_finished && trace.events > 1000);
    assert_eq!(shown_events(&said).replace(',', ""), trace.events.to_string());
    assert!(trace.about.get("incomplete").is_some_and(|why| why.contains("--max-size")));
    assert!(trace.sites.iter().any(|text| text.contains("main ticking.c:") || text.contains("main")));
    let refused = place.record(&["--max-size", "1000"]).args(["echo", "started"]).output().unwrap();
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
}

/// Comparisons end with it.
#[test]
fn a_trace_has_the_command_as_a_shell_reads_it() {
    let place = Place::new();
    let long = "x".repeat(2100);
    for (arguments, command) in [
        (&["-c", "ls; echo 'a b' >/dev/null"][..], Some("sh -c 'ls; echo '\\''a b'\\'' >/dev/null'")),
        (&["-c", "ls", &long], None),
        (&["-c", "ls", "two\nlines"], None),
    ] {
        let output = place.record(&["--min-events=0"]).arg("sh").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(read_at(&place.path("t.hwt")).about.get("command"), command);
    }
}

#[test]
fn what_is_private_is_left_out() {
    let place = Place::new();
    let secret = place.path("secret-folder");
    fs::create_dir(&secret).unwrap();
    let source = include_str!("programs/ticking.c");
    let program = compiled(&secret, "ticking", source, &["-g", "-O1", "-w", "-fno-builtin"]);
    let mut command = place.record(&["--sites=1", "--redact"]);
    command.arg(&program).args(["2", "200", "secret-token"]).env("SECRET", "secret-value");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let trace = read_at(&place.path("t.hwt"));
    assert_eq!((trace.about.get("program"), trace.about.get("arguments")), (Some("ticking"), None));
    assert_eq!(trace.about.get("command"), None);
    let texts = trace.about.iter().map(|(name, text)| format!("{name} {text}")).chain(trace.sites.iter().cloned());
    for text in texts {
        assert!(!text.contains('/') && !text.contains("secret"), "{text}");
    }
    assert!(trace.sites.iter().any(|text| text.starts_with("main ticking.c:")), "{:?}", trace.sites);
    let page = place.path("page.html");
    let report = heapwright().arg("report").arg("--no-real").arg(place.path("t.hwt")).arg("-o").arg(&page).output();
    assert_eq!(report.unwrap().status.code(), Some(0));
    let page = fs::read_to_string(page).unwrap();
    assert!(!page.contains("secret"), "{:?}", page.find("secret"));
}
