//! No output of a command loses a file: neither its source, nor a trace, nor what lay there before.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use heapwright_trace::{About, Kind, Writer};
use tempfile::TempDir;

mod common;

/// A trace in which a few blocks live and die.
fn trace(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    let mut writer = Writer::new(fs::File::create(&path).unwrap(), &About::of_program("small")).unwrap();
    for size in 1..200 {
        let block = writer.allocate(Kind::Malloc, size * 16, 16).unwrap();
        if size % 3 == 0 {
            writer.free(block).unwrap();
        }
    }
    writer.finish().unwrap();
    path
}

/// The command in a folder, with words separated by spaces.
fn run(folder: &Path, words: &str) -> Output {
    command(folder, words).output().unwrap()
}

fn command(folder: &Path, words: &str) -> Command {
    let mut command = common::heapwright();
    command.args(words.split(' ')).current_dir(folder);
    command
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// All files of a folder and their contents.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .filter(|entry| entry.path().is_file())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn no_command_replaces_what_it_reads() {
    let folder = TempDir::new().unwrap();
    let t = trace(folder.path(), "t");
    symlink("t", folder.path().join("soft")).unwrap();
    fs::hard_link(&t, folder.path().join("hard")).unwrap();
    fs::write(folder.path().join("f.rep"), "a 0 100\nf 0\n").unwrap();
    run(folder.path(), "sweep t -p first -o s.csv");
    fs::copy(&t, folder.path().join("t.parquet")).unwrap();
    let before = contents(folder.path());
    for name in ["t", "./t", "soft", "hard"] {
        for words in [
            "report t --no-real -o",
            "export --to csv t -o",
            "minimize t --ratio 1.01 -o",
            "import --from csv t -o",
            "compare t --policies-only -p first --json",
            "compare t --policies-only -p first --csv",
            "compare t --policies-only -p first --markdown",
        ] {
            let output = run(folder.path(), &format!("{words} {name}"));
            assert_eq!(output.status.code(), Some(1), "{words} {name}: {}", error(&output));
            assert!(error(&output).contains("is read by this command"), "{words} {name}: {}", error(&output));
            assert!(contents(folder.path()) == before, "{words} {name} changed a file");
        }
    }
    for words in [
        "import f.rep -o f.rep",
        "sweep t.parquet -p first -o t.parquet",
        "sweep t.parquet -p first --resume -o t.parquet",
        "merge s.csv -o s.csv",
    ] {
        let output = run(folder.path(), words);
        assert_eq!(output.status.code(), Some(1), "{words}: {}", error(&output));
        assert!(error(&output).contains("is read by this command"), "{words}: {}", error(&output));
        assert!(contents(folder.path()) == before, "{words} changed a file");
    }
}

#[test]
fn no_command_replaces_its_program_its_libraries_its_rules_or_its_baseline() {
    let folder = TempDir::new().unwrap();
    trace(folder.path(), "t");
    fs::copy("/bin/true", folder.path().join("prog")).unwrap();
    symlink("prog", folder.path().join("soft")).unwrap();
    fs::copy(heapwright_allocators::preload::library(None).unwrap(), folder.path().join("l.so")).unwrap();
    fs::write(folder.path().join("r.txt"), "granule=16\n").unwrap();
    trace(folder.path(), "s.csv.partial");
    let made = run(folder.path(), "compare t --policies-only -p best --json base.json");
    assert!(made.status.success(), "{}", error(&made));
    let before = contents(folder.path());
    for words in [
        "compare --policies-only -p best --json ./prog -- ./prog",
        "compare --policies-only -p best --csv soft -- ./prog",
        "compare --policies-only -p best --markdown prog -- prog",
        "compare t --rounds 1 -p best --allocator x=./l.so --csv l.so",
        "compare t --policies-only --rules r.txt --json r.txt",
        "compare t --policies-only --baseline base.json --json base.json --fail-if heap>1.05x",
        "report --no-real -p best -o ./prog -- ./prog",
        "report --no-real -p best -o ./prog -- soft",
        "report t --rounds 1 -p best --allocator x=./l.so -o l.so",
        "report t --no-real -p first --rules ./r.txt -o r.txt",
        "run -o ./prog -- ./prog",
        "run -o prog -- prog",
        "run --rules r.txt -o r.txt -- true",
        "run --library ./l.so -o l.so -- true",
        "watch --once -o prog -- ./prog",
        "watch --once --rules r.txt -o r.txt -- true",
        "bench malloc --quick --only scattered --allocator x=./l.so --json l.so",
        "bench malloc --quick --only scattered --allocator x=./l.so --chart l.so",
    ] {
        let mut command = command(folder.path(), words);
        let path = std::env::join_paths([folder.path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
        let output = command.env("PATH", path).output().unwrap();
        assert!(error(&output).contains("is read by this command"), "{words}: {}", error(&output));
        assert!(!output.status.success(), "{words}");
        assert!(contents(folder.path()) == before, "{words} changed a file");
    }
    fs::copy(folder.path().join("r.txt"), folder.path().join("r.csv")).unwrap();
    for words in ["sweep t -p first --rules report000,r.csv -o r.csv", "sweep s.csv.partial -p first -o s.csv"] {
        let before = contents(folder.path());
        let output = run(folder.path(), words);
        assert!(error(&output).contains("is read by this command"), "{words}: {}", error(&output));
        assert!(contents(folder.path()) == before, "{words} changed a file");
    }
}

#[test]
fn no_output_of_a_command_replaces_another_of_it() {
    let home = TempDir::new().unwrap();
    let folder = home.path();
    trace(folder, "t.hwt");
    fs::create_dir(folder.join("plots")).unwrap();
    symlink("../kept.html", folder.join("plots/holes.svg")).unwrap();
    let before = contents(folder);
    for (words, expected) in [
        ("report --no-real t.hwt -o plots/heap.svg --svg plots", "may be written over the page"),
        ("report --no-real t.hwt -o kept.html --svg plots", "may be written over the page"),
        ("bench malloc --quick --only phases --json one --chart ./one", "are the same file"),
    ] {
        let output = run(folder, words);
        assert!(!output.status.success() && error(&output).contains(expected), "{words}: {}", error(&output));
        assert_eq!(contents(folder), before, "{words}");
    }
    let output = run(folder, "report --no-real -p best t.hwt -o kept.html --svg others");
    assert!(output.status.success() && folder.join("others/heap.svg").exists(), "{}", error(&output));
}

#[test]
fn a_drop_in_library_that_cannot_be_loaded_is_refused_before_the_work() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("text"), "text").unwrap();
    for words in ["bench malloc --only pair/64", "run -- true"] {
        let output = command(home.path(), words).env("HEAPWRIGHT_LIBRARY", "text").output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        let expected = format!("{}: it is not an ELF shared object", home.path().join("text").display());
        assert!(error(&output).contains(&expected), "{}", error(&output));
    }
}

#[test]
fn a_trace_and_another_file_do_not_replace_each_other() {
    let folder = TempDir::new().unwrap();
    for name in ["t", "other"] {
        trace(folder.path(), name);
    }
    fs::write(folder.path().join("precious.txt"), "precious").unwrap();
    fs::write(folder.path().join("f.rep"), "a 0 100\nf 0\n").unwrap();
    let before = contents(folder.path());
    for (words, said) in [
        ("report t --no-real -o other", "is a trace"),
        ("export --to csv t -o other", "is a trace"),
        ("compare t --policies-only -p first --json other", "is a trace"),
        ("run -o other -- true", "is a trace"),
        ("watch --once -o other -- true", "is a trace"),
        ("bench malloc --quick --json other", "is a trace"),
        ("import f.rep -o precious.txt", "is not a trace"),
        ("minimize t --ratio 1.01 -o precious.txt", "is not a trace"),
        ("compare --policies-only --keep-trace precious.txt -- true", "is not a trace"),
    ] {
        let output = run(folder.path(), words);
        assert!(!output.status.success(), "{words}");
        assert!(error(&output).contains(said), "{words}: {}", error(&output));
        assert!(contents(folder.path()) == before, "{words} changed a file");
    }
    let replaced = run(folder.path(), "import f.rep -o other");
    assert!(replaced.status.success(), "{}", error(&replaced));
    assert_ne!(contents(folder.path()), before);
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_the_work() {
    let folder = TempDir::new().unwrap();
    trace(folder.path(), "t");
    fs::create_dir(folder.path().join("dir")).unwrap();
    let ran = folder.path().join("ran");
    for place in ["no/such/x", "dir"] {
        for words in [
            "report -o PLACE -- touch ran",
            "compare --policies-only --keep-trace PLACE -- touch ran",
            "compare --policies-only --json PLACE -- touch ran",
            "run -o PLACE -- touch ran",
            "watch --once -o PLACE -- touch ran",
            "bench malloc --json PLACE",
            "report t -o PLACE",
            "export --to csv t -o PLACE",
            "minimize t --ratio 1.01 -o PLACE",
            "import t -o PLACE",
        ] {
            let words = words.replace("PLACE", place);
            let start = Instant::now();
            let output = run(folder.path(), &words);
            assert!(!output.status.success() && output.stdout.is_empty(), "{words}");
            assert!(
                error(&output).contains(place) && error(&output).lines().count() == 1,
                "{words}: {}",
                error(&output)
            );
            assert!(!ran.exists(), "{words} ran the program first");
            assert!(start.elapsed() < Duration::from_secs(10), "{words} worked first");
        }
    }
}

#[test]
fn pages_of_names_that_are_not_text_are_apart() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = TempDir::new().unwrap();
    let t = trace(folder.path(), "t");
    for name in [&b"caf\xe9"[..], b"caf\xe8"] {
        let file = |end: &[u8]| PathBuf::from(OsStr::from_bytes(&[name, end].concat()));
        fs::copy(&t, folder.path().join(file(b".hwt"))).unwrap();
        let mut command = common::heapwright();
        command.args(["report", "--no-real", "-p", "first"]).arg(file(b".hwt")).current_dir(folder.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", error(&output));
        assert!(folder.path().join(file(b".html")).exists());
    }
}

#[test]
fn commands_that_read_a_trace_several_times_refuse_a_pipe() {
    let folder = TempDir::new().unwrap();
    let t = trace(folder.path(), "t");
    for words in [
        "compare /dev/stdin --policies-only -p first --json out",
        "report /dev/stdin --no-real -p first -o out",
        "sweep /dev/stdin -p first -o out.csv",
        "replay /dev/stdin",
        "replay /dev/stdin --real -p first",
        "export --to csv /dev/stdin -o out",
        "export --to perfetto /dev/stdin -o out",
        "watch --once /dev/stdin",
        "sites /dev/stdin --by pinned",
    ] {
        let mut cat = Command::new("cat").arg(&t).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let output = command(folder.path(), words).stdin(cat.stdout.take().unwrap()).output().unwrap();
        cat.wait().unwrap();
        assert_eq!(output.status.code(), Some(1), "{words}: {}", error(&output));
        assert!(error(&output).contains("can be read only once"), "{words}: {}", error(&output));
        assert!(error(&output).contains("save it as a file"), "{words}: {}", error(&output));
    }
    let mut cat = Command::new("cat").arg(&t).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let once = command(folder.path(), "replay /dev/stdin -p first").stdin(cat.stdout.take().unwrap()).output().unwrap();
    cat.wait().unwrap();
    assert!(once.status.success(), "{}", error(&once));
    assert_eq!(contents(folder.path()).len(), 1);
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    for words in ["export --to csv pipe", "watch --once pipe"] {
        let output = run(folder.path(), words);
        assert!(error(&output).contains("pipe can be read only once"), "{words}: {}", error(&output));
    }
}

#[test]
fn a_link_stays_and_its_target_keeps_its_mode() {
    let folder = TempDir::new().unwrap();
    trace(folder.path(), "t");
    let [link, target] = ["page.html", "target.html"].map(|name| folder.path().join(name));
    fs::write(&target, "an older page").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("target.html", &link).unwrap();
    let output = run(folder.path(), "report t --no-real -p first -o page.html");
    assert!(output.status.success(), "{}", error(&output));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&target).unwrap().contains("<html"));
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn standard_output_and_pipes_are_written_straight() {
    let folder = TempDir::new().unwrap();
    trace(folder.path(), "t");
    let to_file = run(folder.path(), "export --to csv t -o file.csv");
    assert!(to_file.status.success(), "{}", error(&to_file));
    let expected = fs::read(folder.path().join("file.csv")).unwrap();
    for place in ["-", "/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"] {
        let output = run(folder.path(), &format!("export --to csv t -o {place}"));
        assert!(output.status.success() && output.stdout == expected, "{place}: {}", error(&output));
    }
    // The shell's own file grows; it is not replaced by another. (Nor is /dev/stdout, which is not named here.)
    symlink("/proc/self/fd/1", folder.path().join("stdout")).unwrap();
    let log = fs::File::create(folder.path().join("log")).unwrap();
    for _ in 0..2 {
        let status = command(folder.path(), "export --to csv t -o stdout").stdout(log.try_clone().unwrap()).status();
        assert!(status.unwrap().success());
    }
    assert_eq!(fs::read(folder.path().join("log")).unwrap().len(), 2 * expected.len());
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    let reader =
        Command::new("cat").arg(folder.path().join("pipe")).stdout(std::process::Stdio::piped()).spawn().unwrap();
    assert!(run(folder.path(), "export --to csv t -o pipe").status.success());
    assert_eq!(reader.wait_with_output().unwrap().stdout, expected);
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 5, "no temporary file is left");
}
