//! The names of programs that call themselves something else: by a title, by `exec -a`, by a link.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{compiled, heapwright};
use heapwright_trace::{About, Reader};
use tempfile::TempDir;

/// An argument of the program `title`, which makes room for its title.
const ARGUMENT: &str = "an-argument-that-is-longer-than-the-title-which-is-written-over-it";

fn title(folder: &TempDir) -> PathBuf {
    compiled(folder.path(), "title", include_str!("programs/title.c"), &["-O1", "-w", "-fno-builtin"])
}

/// Records a command of the shell, in which `$0` is `program`, with all its processes.
fn record(folder: &TempDir, options: &[&str], script: &str, program: &Path) -> Output {
    let trace = folder.path().join("t.hwt");
    let mut command = heapwright();
    command.args(["record", "--min-events", "0"]).args(options).arg("-o").arg(trace);
    let output = command.args(["--", "bash", "-c", script]).arg(program).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the traces of a folder say of their processes, by the names of the files.
fn traces(folder: &Path) -> BTreeMap<PathBuf, About> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let traces = paths.filter(|path| path.extension().is_some_and(|extension| extension == "hwt"));
    traces.map(|path| (path.clone(), Reader::new(File::open(path).unwrap()).unwrap().about().clone())).collect()
}

fn program_of(about: &About) -> &str {
    about.get("program").unwrap_or_default()
}

fn programs(folder: &TempDir) -> Vec<String> {
    traces(folder.path()).values().map(|about| program_of(about).to_owned()).collect()
}

#[test]
fn a_title_is_neither_the_name_nor_the_arguments_of_a_child() {
    let folder = tempfile::tempdir().unwrap();
    let program = title(&folder);
    let output = record(&folder, &[], &format!("exec \"$0\" {ARGUMENT}"), &program);
    assert!(!said(&output).contains("worker"), "{}", said(&output));
    let abouts = traces(folder.path());
    let of_title: Vec<&About> = abouts.values().filter(|about| program_of(about) == "title").collect();
    assert_eq!(of_title.len(), 2, "{abouts:?}");
    assert!(of_title.iter().all(|about| about.get("arguments") == Some(ARGUMENT)), "{abouts:?}");
}

#[test]
fn a_title_is_not_in_redacted_traces() {
    let folder = tempfile::tempdir().unwrap();
    let program = title(&folder);
    let output = record(&folder, &["--redact"], &format!("exec \"$0\" {ARGUMENT}"), &program);
    assert!(!said(&output).contains("s3cret"), "{}", said(&output));
    for path in traces(folder.path()).keys() {
        let bytes = fs::read(path).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"s3cret"), "{}", path.display());
    }
}

#[test]
fn the_name_is_that_of_the_file_whatever_the_first_argument_is() {
    for called in ["other", "''", "/usr/bin/other"] {
        let folder = tempfile::tempdir().unwrap();
        let program = title(&folder);
        let options = ["--only", "title"];
        let output = record(&folder, &options, &format!("exec -a {called} \"$0\" {ARGUMENT}"), &program);
        assert_eq!(programs(&folder), ["title"; 2], "{called}: {}", said(&output));
        assert!(!said(&output).contains("went on as"), "{called}: {}", said(&output));
    }
}

/// The command has seen the stream of the shell, and passed it over, at most one look at the streams before that of the
/// next program has its name. It looks every 10 ms.
#[test]
fn a_program_is_recorded_though_its_process_ran_one_before_that_is_not() {
    for milliseconds in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("sleep 0.0{milliseconds:02}; exec \"$0\" {ARGUMENT}");
        let output = record(&folder, &["--only", "title"], &script, &title(&folder));
        assert_eq!(programs(&folder), ["title"; 2], "after {milliseconds} ms: {}", said(&output));
    }
}

#[test]
fn a_program_has_the_name_of_the_link_by_which_it_is_executed() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("one-of-many");
    symlink(title(&folder), &link).unwrap();
    let output = record(&folder, &["--only", "one-of-many"], &format!("exec \"$0\" {ARGUMENT}"), &link);
    assert_eq!(programs(&folder), ["one-of-many"; 2], "{}", said(&output));
}

#[test]
fn a_deleted_program_has_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let program = title(&folder);
    // The descriptor leads to the file, and its path to none.
    let script = format!("exec 9< \"$0\"; rm \"$0\"; exec /proc/self/fd/9 {ARGUMENT}");
    let output = record(&folder, &[], &script, &program);
    assert_eq!(programs(&folder).iter().filter(|&name| name == "title").count(), 2, "{}", said(&output));
}

#[test]
fn a_script_has_the_name_of_its_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let interpreter = folder.path().join("interpreter");
    symlink(title(&folder), &interpreter).unwrap();
    let script = folder.path().join("script");
    fs::write(&script, format!("#!{}\n", interpreter.display())).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let output = record(&folder, &[], &format!("exec \"$0\" {ARGUMENT}"), &script);
    let programs = programs(&folder);
    assert_eq!(programs.iter().filter(|&name| name == "interpreter").count(), 2, "{}", said(&output));
    assert!(!said(&output).contains("went on as"), "{}", said(&output));
}

#[test]
fn statistics_have_the_name_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let program = title(&folder);
    let output = heapwright().args(["run", "-p", "best", "--"]).arg(&program).arg(ARGUMENT).output().unwrap();
    let said = said(&output);
    assert!(output.status.success() && said.contains("title"), "{said}");
    assert!(!said.contains("worker") && !said.contains("s3cret"), "{said}");
}
