//! `heapwright record --sites` and libraries that a program loads in turn.

mod common;

use std::fs::File;
use std::path::Path;
use std::process::Command;

use common::{compiled, heapwright};
use heapwright_trace::{Event, Reader};

/// Returns the innermost frames of the requests of `size` bytes, each with its number.
fn callers(trace: &Path, size: u64) -> Vec<(String, usize)> {
    let mut reader = Reader::new(File::open(trace).unwrap()).unwrap().with_sites();
    let mut sites = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if matches!(event, Event::Allocate { size: found, .. } if found == size) {
            sites.push(reader.site());
        }
    }
    let innermost = |site| reader.site_frames(site).next().unwrap_or_default();
    let name = |site: Option<_>| site.map_or("", innermost).to_owned();
    let mut names: Vec<String> = sites.into_iter().map(name).collect();
    names.sort();
    names.chunk_by(|one, other| one == other).map(|all| (all[0].clone(), all.len())).collect()
}

/// Compiles two libraries, whose function requests 1,001 and 3,001 bytes, and a program for them. Returns the command
/// that records it, without the name of the trace.
fn recording_of(source: &str, folder: &Path) -> Command {
    let library = |name: &str, size: &str| {
        let source = format!(
            "#include <stdlib.h>\nvoid *request(void) {{ void *block = malloc({size}); \
             __asm__ volatile(\"\"); return block; }}"
        );
        compiled(folder, name, &source, &["-shared", "-fPIC", "-O1", "-w", "-fno-builtin"])
    };
    let libraries = [library("one.so", "1001"), library("other.so", "3001")];
    let program = compiled(folder, "program", source, &["-O1", "-w", "-ldl"]);
    let mut command = heapwright();
    command.args(["record", "--sites=1", "--min-events", "0", "-o"]).arg(folder.join("t.hwt")).arg("--");
    command.arg(program).args(libraries);
    command
}

/// The second is mapped where the first was.
#[test]
fn a_library_at_the_place_of_another_is_known_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = recording_of(include_str!("programs/unloading.c"), folder.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]), "{said}");
    for (size, name) in [(1001, "one.so"), (3001, "other.so")] {
        let callers = callers(&folder.path().join("t.hwt"), size);
        assert!(callers.len() == 1 && callers[0].1 == 500 && callers[0].0.contains(name), "{callers:?}\n{said}");
    }
    assert!(!said.contains("chosen for their sites"), "{said}");
}

/// The recorder is behind: when it reads the calls of the first, the second is mapped there.
#[test]
fn a_library_that_is_gone_when_its_calls_are_read_is_not_taken_for_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let output = recording_of(include_str!("programs/unread.c"), folder.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]), "{said}");
    let [one, other] = [1001, 3001].map(|size| callers(&folder.path().join("t.hwt"), size));
    assert!(!one[0].0.contains(".so") && one[0].1 == 10, "{one:?}\n{said}");
    assert!(other.len() == 1 && other[0].0.contains("other.so"), "{other:?}\n{said}");
    assert!(said.contains("have a stack that leads nowhere"), "{said}");
}
