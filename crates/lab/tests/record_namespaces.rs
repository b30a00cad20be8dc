//! `heapwright record` and programs in namespaces of process numbers of their own, as containers are.
//!
//! Where namespaces are not permitted, the tests say so and pass.

mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{compiled, heapwright};
use heapwright_trace::{Event, Reader, Totals};

/// The number of blocks that the program requests.
const COUNT: u64 = 100_000;

/// What a trace holds of `inside`.
struct Trace {
    /// Blocks of 77 bytes, and those among them whose site is in `main` of `inside`.
    blocks: [u64; 2],
    pid: String,
    parent: String,
    has_memory: bool,
}

fn read(path: &Path) -> Trace {
    let mut reader = Reader::new(File::open(path).unwrap()).unwrap().with_sites();
    let mut sites = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Allocate { size: 77, .. } = event {
            sites.push(reader.site());
        }
    }
    let is_main =
        |site| reader.site_frames(site).any(|frame| reader.frame_name(frame).unwrap_or(frame).contains("main "));
    let named = sites.iter().flatten().filter(|&&site| is_main(site)).count();
    let about = reader.about();
    let [pid, parent] = ["pid", "parent"].map(|name| about.get(name).unwrap().to_owned());
    let has_memory = Totals::of(about).peak_anonymous.is_some();
    Trace { blocks: [sites.len() as u64, named as u64], pid, parent, has_memory }
}

/// Returns the traces in which there are blocks of `inside`, with what was said.
fn recorded(folder: &Path, command: &[&str]) -> Option<(Vec<Trace>, String)> {
    let is_permitted = Command::new("unshare").args(["-rpf", "--mount-proc", "true"]).output();
    if !is_permitted.is_ok_and(|output| output.status.success()) {
        eprintln!("no namespaces of process numbers are permitted here: nothing is tested");
        return None;
    }
    program(folder);
    let mut recorder = heapwright();
    recorder.args(["record", "--sites=1", "--min-events", "0", "-o", "t.hwt", "--"]).args(command).current_dir(folder);
    let Output { status, stderr, .. } = recorder.output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(0), "{said}");
    Some((traces(folder), said))
}

/// Returns the traces in a folder in which there are blocks of `inside`.
fn traces(folder: &Path) -> Vec<Trace> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let traces = paths.filter(|path| path.extension().is_some_and(|end| end == "hwt")).map(|path| read(&path));
    traces.filter(|trace| trace.blocks[0] > 0).collect()
}

fn program(folder: &Path) -> PathBuf {
    compiled(folder, "inside", include_str!("programs/inside.c"), &["-O1", "-g", "-w", "-fno-builtin"])
}

/// Its number is another one for the recorder, which another process has there, or none.
#[test]
fn a_program_in_a_namespace_of_its_own_is_recorded_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let twice = "./inside 100000; ./inside 100000";
    let command = ["unshare", "-rpf", "--mount-proc", "sh", "-c", twice];
    let Some((traces, said)) = recorded(folder.path(), &command) else { return };
    assert_eq!(traces.iter().map(|trace| trace.blocks).collect::<Vec<_>>(), [[COUNT; 2]; 2], "{said}");
    assert!(traces.iter().all(|trace| trace.has_memory), "the process is found, and its memory sampled: {said}");
    assert!(traces.iter().all(|trace| trace.pid.parse::<u32>().unwrap() > 3), "as the recorder numbers it");
    assert_eq!(traces[0].parent, traces[1].parent);
    assert!(!said.contains("still running"), "{said}");
}

#[test]
fn programs_with_one_number_in_several_namespaces_have_a_trace_each() {
    let folder = tempfile::tempdir().unwrap();
    let one = "unshare -rpf --mount-proc ./inside 100000";
    let Some((traces, said)) = recorded(folder.path(), &["sh", "-c", &format!("{one} & {one} & {one} & wait")]) else {
        return;
    };
    assert_eq!(traces.iter().map(|trace| trace.blocks).collect::<Vec<_>>(), [[COUNT; 2]; 3], "{said}");
}

/// Then its memory cannot be read, and its calls are recorded all the same.
#[test]
fn a_program_that_is_not_seen_is_recorded_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path());
    let without_proc = "mount -t tmpfs none /proc || exit 77; \"$@\"; echo code $?";
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", without_proc, "sh"]).arg(heapwright().get_program()).current_dir(folder.path());
    command.args(["record", "--sites=1", "--min-events", "0", "-o", "t.hwt", "--", "unshare", "-pf", "--mount-proc"]);
    let Ok(output) = command.args(["./inside", "100000"]).output() else { return };
    let [printed, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    if output.status.code() != Some(0) || said.contains("unshare failed") {
        eprintln!("passed over: /proc cannot be replaced here: {said}");
        return;
    }
    assert_eq!(printed, "code 0\n", "{said}");
    let traces = traces(folder.path());
    assert_eq!(traces.iter().map(|trace| trace.blocks).collect::<Vec<_>>(), [[COUNT; 2]], "{said}");
    assert!(said.contains("not seen from here") && !said.contains("still running"), "{said}");
}

/// A process that ends without a word, or runs another program, is over here too.
#[test]
fn the_end_of_a_program_in_another_namespace_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let ends = "./inside 25000 begun & until [ -e begun ]; do sleep 0.01; done; kill -9 $!; exec ./inside 100000";
    let command = ["unshare", "-rpf", "--mount-proc", "sh", "-c", ends];
    let Some((mut traces, said)) = recorded(folder.path(), &command) else { return };
    traces.sort_by_key(|trace| trace.blocks[0]);
    assert_eq!((traces.len(), traces[1].blocks), (2, [COUNT; 2]), "{said}");
    assert!((1000..25_000).contains(&traces[0].blocks[0]), "{said}");
    assert!(!said.contains("still running"), "{said}");
}

/// It does not know its namespace, so that its process is not known to be the one that another program began.
#[test]
fn a_program_without_proc_has_its_name_and_is_not_taken_for_unrecorded() {
    let folder = tempfile::tempdir().unwrap();
    let without_proc = "mount -t tmpfs none /proc && exec ./inside 100000";
    let Some((traces, said)) = recorded(folder.path(), &["unshare", "-rm", "sh", "-c", without_proc]) else { return };
    assert_eq!(traces.iter().map(|trace| trace.blocks[0]).collect::<Vec<_>>(), [COUNT], "{said}");
    assert!(said.lines().any(|line| line.contains(".hwt") && line.contains(" inside ")), "{said}");
    assert!(!said.contains("nothing was recorded"), "{said}");
}
