//! The symbols that the library exports and needs.

mod support;

use heapwright_testkit::library::{setting, tool, words};
use support::library;

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

/// The beginnings of names that may be missing.
const WEAK: [&str; 9] = [
    "_IO_list_",
    "_ITM_",
    "__cxa_",
    "__gmon_start__",
    "__libc_single_threaded",
    "_ZSt",
    "__gxx_personality_v0",
    "__register_atfork",
    "pthread_atfork",
];

/// What the library needs of the C library. Some of these may allocate: `pthread_setspecific` in a process with many
/// keys, which is called when the thread has its heap already; `pthread_create`,
/// for `HEAPWRIGHT_PURGE=thread`, which is called without locks; `fwrite`, which `malloc_info` calls, and `dlopen` and
/// `dlsym`, which `operator new` calls when there is no memory, while they hold no lock.
const NEEDED: &str = "
    __errno_location _exit abort close dlopen dlsym environ __environ fcntl flock fstat ftruncate fwrite
    dl_iterate_phdr getrlimit getrusage lseek madvise memcpy memmove memset memcmp bcmp
    mincore mmap mprotect mremap munmap
    open program_invocation_name __progname_full stat stat64 readlink
    pthread_key_create pthread_key_delete pthread_setspecific
    pthread_attr_init pthread_attr_setstacksize pthread_attr_setdetachstate pthread_attr_destroy pthread_create
    nanosleep prctl pread pthread_setcancelstate pthread_sigmask sigfillset clock_gettime strlen syscall
    __stack_chk_guard
    getauxval";

/// What else the library is in front of: blocks of libraries that are loaded with `RTLD_DEEPBIND`.
const LOADING: &str = "dlopen";

#[test]
fn exactly_the_malloc_family_and_the_loader_are_exported() {
    let mut names = words(FAMILY);
    names.extend(words(LOADING));
    assert_eq!(library().exports(), names);
}

#[test]
fn nothing_that_allocates_is_needed() {
    library().assert_needs_only(&words(NEEDED), &WEAK);
}

#[test]
fn only_the_c_library_is_needed() {
    library().assert_needs_only_the_c_library();
}

/// With the lines alone, debuggers take `malloc` for a function without arguments or result.
#[test]
fn there_is_no_debugging_information() {
    let bytes = std::fs::read(library().path()).unwrap();
    assert!(!bytes.windows(11).any(|name| name == b".debug_info"));
}

/// All of it is in memory in every process, because the kernel maps 64 KiB of a file around a page that is needed.
#[test]
fn data_is_short() {
    let sections = tool("readelf", &["--sections", "--wide", library().path().to_str().unwrap()]);
    let fields = |line: &str| line.rsplit(']').next().unwrap_or("").split_whitespace().map(str::to_owned).collect();
    let mut rows =
        sections.lines().map(fields).filter(|row: &Vec<String>| row.first().is_some_and(|name| name == ".data"));
    let data = rows.next().expect("there is data");
    // Name, kind, address, place, length.
    assert!(usize::from_str_radix(&data[4], 16).unwrap() <= 20 << 10, "{data:?}");
}

/// The kernel maps 64 KiB around each page of code that is needed. What small programs run, and their threads and long
/// blocks, lies in two such parts (see the script `layout`).
#[test]
fn what_threads_run_lies_beside_what_small_programs_run() {
    // The code of other processors is longer.
    if cfg!(not(target_arch = "x86_64")) || setting("HEAPWRIGHT_TEST_TOOLS").is_some() {
        return;
    }
    let symbols = tool("nm", &["--defined-only", library().path().to_str().unwrap()]);
    let code = symbols.lines().filter_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
        [address, "t" | "T", name] => Some((usize::from_str_radix(address, 16).unwrap(), name)),
        _ => None,
    });
    let code: Vec<(usize, &str)> = code.collect();
    let first = code.iter().map(|&(address, _)| address).min().unwrap();
    for part in ["malloc", "14place_in_arena", "12RemoteBuffer5flush", "4Word4wait", "14on_thread_exit"] {
        let places: Vec<_> = code.iter().filter(|(_, name)| name.ends_with(part)).map(|(at, _)| at - first).collect();
        assert!(!places.is_empty() && places.iter().all(|&at| at < 128 << 10), "{part} lies at {places:x?}");
    }
}
