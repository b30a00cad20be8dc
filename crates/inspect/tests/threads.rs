//! The arena and the cache of each thread, compared with what the threads keep.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use heapwright_inspect::{Meanwhile, Wanted, picture_of};

/// Threads of the program, the first one among them.
const THREADS: usize = 4;

#[test]
fn each_thread_is_shown_with_the_arena_that_has_its_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("threads");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/threads.c");
    assert!(Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status().unwrap().success());
    for argument in ["stay", "leave"] {
        let mut child = Command::new(&program).arg(argument).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(THREADS);
        let kept: Vec<(u32, u64)> = lines
            .map(|line| {
                let line = line.unwrap();
                let (id, bytes) = line.split_once(' ').unwrap();
                (id.parse().unwrap(), bytes.parse().unwrap())
            })
            .collect();
        sleep(Duration::from_millis(200));
        let pictures = [Meanwhile::Runs, Meanwhile::IsStopped]
            .map(|meanwhile| picture_of(child.id(), meanwhile, Wanted::Totals).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        for picture in pictures {
            let glibc = picture.glibc.unwrap();
            for &(id, bytes) in &kept {
                let case = format!("{argument}: thread {id} keeps {bytes}: {:#?} {:#?}", glibc.threads, glibc.arenas);
                let thread = glibc.threads.iter().find(|thread| thread.id == id).unwrap();
                let has_left = argument == "leave" && id == child.id();
                let Some(arena) = thread.arena else {
                    assert!(has_left, "{case}");
                    continue;
                };
                // Chunks are longer than blocks by 8 bytes and round up to 16; nothing else of length is kept.
                let live = glibc.arenas[arena].live;
                assert!((bytes..bytes + bytes / 8).contains(&live), "{live} {case}");
                assert!(has_left || thread.cached_blocks == Some(2), "{case}");
            }
        }
    }
}
