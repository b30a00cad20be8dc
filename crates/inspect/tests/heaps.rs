//! Pictures of heaps of kinds that are easily misread.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use heapwright_inspect::picture::Picture;
use heapwright_inspect::{Meanwhile, Wanted, picture_of, shown};

struct Subject {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Subject {
    /// Compiles the program with `flags` and starts it as a heap of this `kind`.
    fn start(flags: &[&str], kind: &str) -> Subject {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("heaps");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/heaps.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-g0", "-w", "-fno-builtin", "-pthread"]).args(flags).arg("-o").arg(&program).arg(source);
        assert!(compiler.status().unwrap().success());
        let mut child = Command::new(program).arg(kind).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Subject { child, _folder: folder }
    }

    fn picture(&self, meanwhile: Meanwhile) -> Picture {
        picture_of(self.child.id(), meanwhile, Wanted::Totals).unwrap()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn blocks_that_were_never_touched_are_not_counted_as_memory() {
    let picture = Subject::start(&[], "untouched").picture(Meanwhile::IsStopped);
    let text = shown::paragraph(&picture);
    assert!(text.contains("Its blocks are 1.01 GiB"), "{text}");
    assert!(!text.contains("no setting of malloc"), "{text}");
    // Of 51 MB, an eighth is out.
    assert!(text.contains("MiB of them in memory. malloc has"), "{text}");
    assert!(text.contains("blocks must be freed before it can be given back"), "{text}");
}

#[test]
fn memory_that_the_program_takes_by_sbrk_is_no_damage() {
    let picture = Subject::start(&[], "breaks").picture(Meanwhile::IsStopped);
    let text = shown::text(&picture);
    assert!(!text.contains("damaged"), "{text}");
    assert!(text.contains("1.29 MiB between the blocks are the program's own"), "{text}");
    assert!(picture.glibc.unwrap().arenas[0].blocks >= 9000, "{text}");
}

#[test]
fn the_empty_heap_beside_another_malloc_is_no_heap() {
    let picture = Subject::start(&["-DOWN_MALLOC"], "asked").picture(Meanwhile::IsStopped);
    let text = shown::text(&picture);
    assert!(!text.contains("damaged") && !text.contains("other arenas"), "{text}");
    assert!(picture.glibc.is_none(), "{text}");
}

#[test]
fn threads_with_much_storage_have_arenas_and_caches() {
    let picture = Subject::start(&["-DTLS=40000"], "threads").picture(Meanwhile::IsStopped);
    let threads = picture.glibc.unwrap().threads;
    assert_eq!(threads.len(), 4);
    assert!(threads.iter().all(|thread| thread.arena.is_some() && thread.cached > Some(0)), "{threads:?}");
}

#[test]
fn caches_that_change_while_they_are_read_are_not_known() {
    let subject = Subject::start(&[], "churn");
    for _ in 0..20 {
        let picture = subject.picture(Meanwhile::Runs);
        let text = shown::text(&picture);
        let glibc = picture.glibc.unwrap();
        // Each thread has something in its cache at every moment.
        assert!(glibc.arenas.iter().all(|arena| arena.cached.is_none_or(|cached| cached > 0)), "{text}");
        let is_known = glibc.arenas.iter().all(|arena| arena.cached.is_some());
        assert_eq!(text.contains("count as live"), !is_known, "{text}");
    }
    let picture = subject.picture(Meanwhile::IsStopped);
    assert!(!shown::text(&picture).contains("count as live"), "{}", shown::text(&picture));
}
