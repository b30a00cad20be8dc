//! What the library offers and what it needs.

mod support;

use std::collections::BTreeSet;

use support::{library, tool};

/// The whole malloc family; one name left out would hand glibc's pointers to our `free`.
const FAMILY: &str = "
    malloc calloc realloc free posix_memalign aligned_alloc memalign valloc pvalloc reallocarray cfree
    malloc_usable_size free_sized free_aligned_sized malloc_trim mallinfo mallinfo2 mallopt malloc_stats malloc_info
    __libc_malloc __libc_calloc __libc_realloc __libc_free __libc_cfree __libc_memalign __libc_valloc __libc_pvalloc
    __libc_reallocarray __posix_memalign
    _Znwm _Znam _ZnwmSt11align_val_t _ZnamSt11align_val_t
    _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t
    _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t
    _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t
    _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t";

/// Names that start so are looked for but not needed.
const WEAK: [&str; 5] = ["_ITM_", "__cxa_finalize", "__gmon_start__", "__libc_single_threaded", "_ZSt"];

/// What the library asks of the C library. None of it allocates, but `pthread_setspecific` in a process with many keys, which is called
/// when the thread has its heap already, and `fwrite`, which is called by `malloc_info` while it holds no lock.
const NEEDED: &str = "
    __errno_location __register_atfork _exit abort close environ __environ fcntl flock fstat ftruncate fwrite getcwd getpid getrusage
    madvise memcpy memmove memset memcmp bcmp mincore mmap mprotect mremap munmap open program_invocation_short_name __progname
    pthread_key_create pthread_setspecific clock_gettime strlen syscall write __stack_chk_guard getauxval";

fn names(list: &str) -> BTreeSet<&str> {
    list.split_whitespace().collect()
}

fn symbols(kind: &str) -> Vec<(char, String)> {
    let text = tool("nm", &["-D", kind, library().to_str().unwrap()]);
    text.lines()
        .map(|line| {
            let mut fields = line.split_whitespace().rev();
            let name = fields.next().unwrap().split('@').next().unwrap();
            (fields.next().unwrap().chars().next().unwrap(), name.to_owned())
        })
        .collect()
}

#[test]
fn exactly_the_malloc_family_is_exported() {
    let exported = symbols("--defined-only");
    let exported: BTreeSet<&str> = exported.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(exported, names(FAMILY));
}

#[test]
fn nothing_that_allocates_is_needed() {
    for (kind, name) in symbols("--undefined-only") {
        match kind {
            'w' | 'v' => assert!(WEAK.iter().any(|weak| name.starts_with(weak)), "{name} is referred to weakly"),
            _ => assert!(names(NEEDED).contains(name.as_str()), "{name} is needed"),
        }
    }
}

#[test]
fn only_the_c_library_is_needed() {
    let dynamic = tool("readelf", &["-d", library().to_str().unwrap()]);
    let needed: Vec<&str> = dynamic.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(needed.iter().all(|line| line.contains("[libc.so.6]") || line.contains("[ld-linux")), "{needed:?}");
    assert!(dynamic.contains("[libheapwright.so]"), "a program linked with the library looks for it by its name");
}
