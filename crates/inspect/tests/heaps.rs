//! Pictures of heaps of kinds that are easily misread.

use std::fs;
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
        Subject::start_in(&[], flags, kind)
    }

    /// The same with variables of its environment.
    fn start_in(variables: &[(&str, &str)], flags: &[&str], kind: &str) -> Subject {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("heaps");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/heaps.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-g0", "-w", "-fno-builtin", "-pthread"]).args(flags).arg("-o").arg(&program).arg(source);
        assert!(compiler.status().unwrap().success());
        let mut command = Command::new(program);
        command.arg(kind).envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
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
fn a_long_block_may_be_several_mappings() {
    for meanwhile in [Meanwhile::Runs, Meanwhile::IsStopped] {
        let picture = Subject::start(&[], "split").picture(meanwhile);
        let text = shown::text(&picture);
        let glibc = picture.glibc.as_ref().unwrap();
        assert_eq!(glibc.parameters.unwrap().mmapped_blocks, 9);
        assert!(glibc.own_resident >= 36 << 20, "{text}");
        assert_eq!(glibc.largest.iter().filter(|block| block.bytes == (4 << 20) + 4096).count(), 9, "{text}");
        let verdict = shown::paragraph(&picture);
        assert!(verdict.contains("no setting of malloc") && !verdict.contains("of them in memory"), "{verdict}");
        let own = picture.origins.iter().find(|origin| origin.name == "blocks with mappings of their own").unwrap();
        assert!(own.rss >= 36 << 20 && own.mapped == 9 * ((4 << 20) + 4096), "{text}");
    }
}

#[test]
fn pages_with_other_access_hide_nothing_behind_them() {
    for (kind, number) in [("read only", 0), ("closed", 0), ("read only in thread", 1), ("closed in thread", 1)] {
        let subject = Subject::start(&[], kind);
        for meanwhile in [Meanwhile::Runs, Meanwhile::IsStopped] {
            let picture = subject.picture(meanwhile);
            let text = shown::text(&picture);
            let arena = &picture.glibc.as_ref().unwrap().arenas[number];
            assert_eq!((arena.inconsistencies, arena.unknown), (0, 0), "{text}");
            let is_closed = kind.starts_with("closed");
            // Of 7 pages, those with headers; and the block in front of each.
            let blocks = if is_closed { 19_950..20_000 } else { 20_000..20_010 };
            assert!(blocks.contains(&arena.blocks), "{kind}: {text}");
            assert_eq!((arena.closed > 7 * 3072, arena.closed < 7 * 6144), (is_closed, true), "{text}");
            let verdict = shown::paragraph(&picture);
            assert_eq!(verdict.contains("has taken the access to it"), is_closed, "{verdict}");
            assert_eq!(verdict.contains("Its blocks are at least"), is_closed, "{verdict}");
        }
    }
}

#[test]
fn pages_that_were_closed_before_they_were_touched_hide_nothing() {
    let picture = Subject::start(&[], "guards").picture(Meanwhile::IsStopped);
    let text = shown::text(&picture);
    assert!((10_010..10_060).contains(&picture.glibc.unwrap().arenas[0].blocks), "{text}");
    assert!(!text.contains("in the way") && !text.contains("damaged"), "{text}");
}

/// Of the top of a piece, all that is left may be a header.
#[test]
fn an_arena_in_pieces_is_walked_to_its_end() {
    let picture = Subject::start(&[], "pieces").picture(Meanwhile::IsStopped);
    let text = shown::text(&picture);
    assert!((66_660..66_720).contains(&picture.glibc.unwrap().arenas[0].blocks), "{text}");
}

#[test]
fn the_heaps_of_two_c_libraries_are_added_up_and_this_is_said() {
    for (flags, in_second) in [(&["-static"][..], 0), (&["-DNAMESPACE"], 5_000)] {
        let subject = Subject::start(flags, "two heaps");
        for meanwhile in [Meanwhile::Runs, Meanwhile::IsStopped] {
            let picture = subject.picture(meanwhile);
            let text = shown::text(&picture);
            let glibc = picture.glibc.as_ref().unwrap();
            assert_eq!(glibc.heaps(), 2, "{text}");
            let second = glibc.arenas.iter().find(|arena| arena.heap == 1 && arena.is_main).unwrap();
            assert!(glibc.arenas[0].blocks >= 50_000 && second.blocks >= in_second, "{text}");
            assert!(second.blocks < in_second + 100 && second.inconsistencies == 0, "{text}");
            assert_eq!((second.elsewhere, second.foreign), (0, 0), "{text}");
            assert!(second.top > 0 && second.trim == 0, "{text}");
            assert_eq!(glibc.threads[0].arena, Some(0), "{text}");
            let verdict = shown::paragraph(&picture);
            assert!(verdict.contains("It has 2 copies of the C library"), "{verdict}");
            assert!(verdict.contains("no setting of malloc") && text.contains("main of heap 2"), "{text}");
        }
    }
}

#[test]
fn a_cache_that_contradicts_itself_in_a_stopped_process_may_be_damaged() {
    let subject = Subject::start(&[], "circle");
    let text = shown::paragraph(&subject.picture(Meanwhile::IsStopped));
    assert!(text.contains("contradict themselves (the heap may be damaged)"), "{text}");
    assert!(!text.contains("changed while"), "{text}");
}

/// Huge pages that are reserved while the value lives. It has the number of those that were reserved before.
struct HugePages(usize);

impl HugePages {
    const COUNT: &str = "/proc/sys/vm/nr_hugepages";

    /// Reserves `count` more than there are.
    fn reserve(count: usize) -> Option<HugePages> {
        let read = || fs::read_to_string(HugePages::COUNT).ok()?.trim().parse::<usize>().ok();
        let before = read()?;
        let reserved = HugePages(before);
        fs::write(HugePages::COUNT, (before + count).to_string()).ok()?;
        (read() == Some(before + count)).then_some(reserved)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = fs::write(HugePages::COUNT, self.0.to_string());
    }
}

#[test]
fn arenas_in_reserved_huge_pages_are_walked() {
    let Some(_reserved) = HugePages::reserve(64) else { return eprintln!("skipped: no huge pages can be reserved") };
    let tunable = [("GLIBC_TUNABLES", "glibc.malloc.hugetlb=2")];
    let subject = Subject::start_in(&tunable, &[], "huge");
    for meanwhile in [Meanwhile::Runs, Meanwhile::IsStopped] {
        let picture = subject.picture(meanwhile);
        let text = shown::text(&picture);
        let glibc = picture.glibc.as_ref().unwrap();
        assert!(glibc.arenas.iter().map(|arena| arena.blocks).sum::<u64>() >= 20_000, "{text}");
        assert_eq!(glibc.arenas.iter().map(|arena| arena.inconsistencies).sum::<u64>(), 0, "{text}");
        let own: Vec<_> = glibc.largest.iter().filter(|block| block.bytes == 8 << 20).collect();
        assert!(own.len() == 1 && glibc.own_resident == 8 << 20, "{text}");
        assert!(picture.rss >= 14 << 20, "{text}");
    }
}

#[test]
fn memory_that_the_program_takes_by_sbrk_is_no_damage() {
    let picture = Subject::start(&[], "breaks").picture(Meanwhile::IsStopped);
    let text = shown::paragraph(&picture);
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
        let text = shown::paragraph(&picture);
        let glibc = picture.glibc.unwrap();
        // Each thread has something in its cache at every moment.
        assert!(glibc.arenas.iter().all(|arena| arena.cached.is_none_or(|cached| cached > 0)), "{text}");
        let is_known = glibc.arenas.iter().all(|arena| arena.cached.is_some());
        assert_eq!(text.contains("count as live"), !is_known, "{text}");
    }
    let picture = subject.picture(Meanwhile::IsStopped);
    let text = shown::paragraph(&picture);
    assert!(!text.contains("count as live"), "{text}");
}

#[test]
fn a_process_whose_main_thread_has_ended_is_read() {
    let subject = Subject::start(&[], "without main");
    for meanwhile in [Meanwhile::Runs, Meanwhile::IsStopped] {
        let picture = subject.picture(meanwhile);
        assert!(picture.rss > 0);
        assert!(picture.glibc.unwrap().arenas.iter().map(|arena| arena.blocks).sum::<u64>() >= 1000);
    }
}

#[test]
fn memory_has_the_names_of_what_it_is_for() {
    let names = |picture: &Picture| picture.origins.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    let glibc = names(&Subject::start(&[], "threads").picture(Meanwhile::IsStopped));
    for name in ["main arena (program break)", "other arenas", "stacks", "files"] {
        assert!(glibc.iter().any(|one| one == name), "{name}: {glibc:?}");
    }
    // A malloc of its own that takes memory by sbrk has no arenas.
    let other = names(&Subject::start(&["-DOWN_MALLOC"], "own break").picture(Meanwhile::IsStopped));
    assert!(other.iter().any(|one| one == "program break"), "{other:?}");
    assert!(!other.iter().any(|one| one.contains("arena")), "{other:?}");
}

#[test]
fn names_do_nothing_to_a_terminal() {
    let picture = Subject::start(&[], "named").picture(Meanwhile::IsStopped);
    assert_eq!(picture.program, "\u{fffd}\u{fffd}[31m\u{fffd}x");
    let threads = picture.glibc.unwrap().threads;
    assert_eq!(threads.iter().map(|thread| thread.name.as_str()).collect::<Vec<_>>(), [picture.program]);
}

#[test]
fn the_heap_of_a_forked_child_is_walked_as_a_whole() {
    let subject = Subject::start(&[], "forked");
    let parent = subject.child.id();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    for meanwhile in [Meanwhile::Runs, Meanwhile::IsStopped] {
        let picture = picture_of(children.trim().parse().unwrap(), meanwhile, Wanted::Totals).unwrap();
        let arena = &picture.glibc.as_ref().unwrap().arenas[0];
        assert_eq!((arena.inconsistencies, arena.unknown), (0, 0), "{}", shown::text(&picture));
        assert!((13_000..13_100).contains(&arena.blocks), "{}", shown::text(&picture));
        let sum = arena.live + arena.cached.unwrap() + arena.free;
        assert!(arena.system_bytes.abs_diff(sum) < 4096, "{sum} {}", arena.system_bytes);
    }
}
