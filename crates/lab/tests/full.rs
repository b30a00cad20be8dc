//! A full disk and a reader that ends early: messages and exit codes, never a panic.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use heapwright_trace::{About, Kind, Writer};
use tempfile::TempDir;

mod common;

/// Commands that print, by their words.
const COMMANDS: [&str; 32] = [
    "--help",
    "--version",
    "help compare",
    "completions bash",
    "replay t -p first",
    "replay t -p first --json",
    "replay t --real -p first",
    "compare t --policies-only",
    "compare --policies-only -p first -- sort /dev/null",
    "sites -- sort /dev/null",
    "compare t --policies-only --json",
    "compare t --policies-only --csv -",
    "compare t --policies-only --markdown -",
    "fit t -p first",
    "fit t -p first --json",
    "minimize t --region 4096 -o small.hwt",
    "sweep t -p first -o s.csv",
    "merge old.csv -o merged.csv",
    "import f.rep -o f.hwt",
    "export --to csv t",
    "export --to pprof sites",
    "export --to perfetto t",
    "sites sites",
    "sites sites --folded",
    "sites sites --tree",
    "diff sites sites",
    "diff sites sites -o -",
    "report t -p first --no-real -o page.html",
    "watch --once t",
    "bench malloc --list",
    "shm list --json",
    "reproduce 003 --no-times",
];

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    let file = File::create(folder.path().join("t")).unwrap();
    let mut writer = Writer::new(file, &About::of_program("small")).unwrap();
    for size in 1..20_000 {
        let block = writer.allocate(Kind::Malloc, size % 500, 16).unwrap();
        if size % 3 == 0 {
            writer.free(block).unwrap();
        }
    }
    writer.finish().unwrap();
    fs::write(folder.path().join("f.rep"), "a 0 100\nf 0\n").unwrap();
    common::trace_with_sites(&folder.path().join("sites"), "small");
    assert!(command(folder.path(), "sweep t -p first -o old.csv").output().unwrap().status.success());
    folder
}

fn command(folder: &Path, words: &str) -> Command {
    let mut command = common::heapwright();
    command.args(words.split(' ')).current_dir(folder);
    command
}

#[test]
fn a_full_disk_is_one_line_and_a_failure() {
    for words in COMMANDS {
        let folder = folder();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command(folder.path(), words).stdout(full).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {} {error}", output.status);
        let lines: Vec<&str> = error.lines().filter(|line| line.contains("cannot be written")).collect();
        assert_eq!(lines.len(), 1, "{words}: {error}");
        assert!(lines[0].starts_with("heapwright: "), "{words}: {error}");
        assert_eq!(error.matches("No space left").count(), 1, "{words}: {error}");
        assert!(!error.contains("panicked"), "{words}: {error}");
    }
}

/// Rust's runtime would open `/dev/null` in its place.
#[test]
fn an_output_that_is_closed_is_one_line_and_a_failure() {
    for words in COMMANDS {
        let output = without_output(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {} {error}", output.status);
        let said = "heapwright: standard output cannot be written: it is closed";
        assert_eq!(error.lines().filter(|line| *line == said).count(), 1, "{words}: {error}");
        assert_eq!(error.matches("cannot be written").count(), 1, "{words}: {error}");
    }
    for (words, code) in [("record -o s.hwt -- sort /dev/null", 0), ("run -- true", 0), ("replay none", 1)] {
        let output = without_output(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words}: {} {error}", output.status);
        assert!(!error.contains("standard output"), "{words}: {error}");
    }
    // The program has what it would have without this command.
    let output = without_output("run -- echo lost");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What a command does that is started without a standard output.
fn without_output(words: &str) -> Output {
    let folder = folder();
    let heapwright = common::heapwright().get_program().to_owned();
    let script = format!("exec \"$0\" {words} >&-");
    Command::new("sh").args(["-c", &script]).arg(heapwright).current_dir(&folder).output().unwrap()
}

#[test]
fn a_reader_that_ends_early_ends_the_command_quietly() {
    const SIGPIPE: i32 = 13;
    for words in COMMANDS {
        let folder = folder();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let temporary = TempDir::new().unwrap();
        let output = command(folder.path(), words).env("TMPDIR", temporary.path()).stdout(writer).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(SIGPIPE), "{words}: {} {error}", output.status);
        assert!(!error.contains("panicked") && !error.contains("pipe"), "{words}: {error}");
        let mut left = fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        // The libraries that the command carries stay, for the next time, in a folder of the user's number.
        let is_of_user = |name: &str| name.strip_prefix("heapwright-").is_some_and(|user| user.parse::<u32>().is_ok());
        assert_eq!(left.find(|name| !is_of_user(name)), None, "{words}: temporary files stay behind");
    }
}

/// The signal for this ends the command where it is not handled, and the shell sees that.
#[test]
fn a_limit_on_files_is_a_failure_and_leaves_no_file() {
    for words in ["report t -p first --no-real -o page.html", "export --to csv t -o t.csv"] {
        let folder = folder();
        let before = fs::read_dir(&folder).unwrap().count();
        let heapwright = common::heapwright().get_program().to_owned();
        let script = format!("ulimit -f 8; exec \"$0\" {words}");
        let output = Command::new("sh").args(["-c", &script]).arg(heapwright).current_dir(&folder).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {} {error}", output.status);
        assert!(error.contains("cannot be written") && error.contains("File too large"), "{words}: {error}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), before, "{words}");
    }
}

/// What this command does with its own writes is nothing to the programs that it starts.
#[test]
fn a_program_ends_with_its_reader_as_ever() {
    let folder = folder();
    let script = "yes | head -c 10 > /dev/null; test ${PIPESTATUS[0]} = 141";
    for words in ["run -p first --", "record -o yes.hwt --"] {
        let output = command(folder.path(), words).args(["bash", "-c", script]).output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn messages_that_cannot_be_written_change_nothing() {
    let folder = folder();
    for (words, code) in [("replay t -p first", 0), ("replay none", 1), ("replay", 2), ("export --to rep t", 0)] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let status = command(folder.path(), words).stdout(Stdio::null()).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(code), "{words}: {status}");
    }
}

#[test]
fn a_file_on_a_full_disk_is_a_failure_too() {
    for words in [
        "export --to csv t -o /dev/full",
        "report t -p first --no-real -o /dev/full",
        "compare t --policies-only --json /dev/full",
        "compare t --policies-only --csv /dev/full",
        "compare t --policies-only --markdown /dev/full",
        "compare --policies-only -p first --keep-trace /dev/full -- sort /dev/null",
        "import f.rep -o /dev/full",
        "minimize t --region 4096 -o /dev/full",
        "export --to perfetto t -o /dev/full",
        "export --to pprof sites -o /dev/full",
        "diff sites sites -o /dev/full",
    ] {
        let folder = folder();
        let output = command(folder.path(), words).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {error}");
        let lines: Vec<&str> = error.lines().filter(|line| line.contains("No space left")).collect();
        assert_eq!(lines.len(), 1, "{words}: {error}");
        assert!(lines[0].starts_with("heapwright: ") && lines[0].contains("/dev/full"), "{words}: {error}");
        assert_eq!(error.matches("No space left").count(), 1, "{words}: {error}");
    }
    let folder = folder();
    for (words, code) in [("run -o /dev/full -- true", 125), ("run -- true", 125)] {
        let mut command = command(folder.path(), words);
        if words == "run -- true" {
            command.stderr(File::options().write(true).open("/dev/full").unwrap());
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_heap_that_was_seen_is_not_called_missing() {
    for words in ["watch --once -- sleep 0.1", "watch --once --json -- sleep 0.1"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command(folder().path(), words).stdout(full).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{words}: {error}");
        assert!(error.starts_with("heapwright: standard output cannot be written: No space left"), "{words}: {error}");
    }
}

#[test]
fn the_first_lines_are_enough_for_a_reader() {
    let folder = folder();
    let mut child =
        command(folder.path(), "export --to csv t").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut line).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(13));
    assert!(output.stderr.is_empty());
}
