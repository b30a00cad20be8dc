//! What the library offers and what it needs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What allocates or frees, and what asks about one block. Whatever else asks about the heap stays glibc's.
const FAMILY: &str = "
    malloc calloc realloc free posix_memalign aligned_alloc memalign valloc pvalloc reallocarray cfree
    free_sized free_aligned_sized malloc_usable_size";

/// Names that start so are looked for but not needed.
const WEAK: [&str; 4] = ["_ITM_", "__cxa_finalize", "__gmon_start__", "__libc_single_threaded"];

/// What the library asks of the C library; beside the real functions, none of it allocates.
const NEEDED: &str = "
    __libc_malloc __libc_calloc __libc_realloc __libc_memalign __libc_free __curbrk dladdr dlsym
    __errno_location __register_atfork __xpg_strerror_r abort pthread_setcancelstate pthread_sigmask sigfillset secure_getenv
    close environ fallocate fchmod fcntl fstat fstat64 ftruncate ftruncate64 getpid getppid getrlimit linkat mmap munmap nanosleep
    madvise open openat pread pread64 process_vm_readv pwrite pwrite64 read syscall sysconf unlink
    unlinkat write memcpy memmove memset memcmp bcmp strlen __stack_chk_guard getauxval";

fn names(list: &str) -> BTreeSet<&str> {
    list.split_whitespace().collect()
}

/// The library under test, built once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("library");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--package", "heapwright-record", "--profile", "preload", "--target-dir"])
            .arg(&target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_remove("RUSTC_WORKSPACE_WRAPPER")
            .status()
            .expect("cargo runs");
        assert!(built.success(), "the library does not build");
        target.join("preload/libheapwright_record.so")
    })
}

fn tool(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(name).args(arguments).arg(library()).output().expect("binutils are installed");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("tools print text")
}

fn symbols(kind: &str) -> Vec<(char, String)> {
    let text = tool("nm", &["-D", kind]);
    text.lines()
        .map(|line| {
            let mut fields = line.split_whitespace().rev();
            let name = fields.next().unwrap().split('@').next().unwrap();
            (fields.next().unwrap().chars().next().unwrap(), name.to_owned())
        })
        .collect()
}

#[test]
fn exactly_what_allocates_and_frees_is_exported() {
    let exported = symbols("--defined-only");
    let exported: BTreeSet<&str> = exported.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(exported, names(FAMILY));
}

#[test]
fn nothing_that_allocates_behind_ones_back_is_needed() {
    for (kind, name) in symbols("--undefined-only") {
        match kind {
            'w' | 'v' => assert!(WEAK.iter().any(|weak| name.starts_with(weak)), "{name} is referred to weakly"),
            _ => assert!(names(NEEDED).contains(name.as_str()), "{name} is needed"),
        }
    }
}

#[test]
fn only_the_c_library_is_needed() {
    let dynamic = tool("readelf", &["-d"]);
    let needed: Vec<&str> = dynamic.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(needed.iter().all(|line| line.contains("[libc.so.6]") || line.contains("[ld-linux")), "{needed:?}");
    assert!(dynamic.contains("[libheapwright_record.so]"));
}
