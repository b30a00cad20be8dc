//! The symbols that the library exports and needs.

use std::sync::OnceLock;

use heapwright_testkit::library::{Library, words};

/// The functions that allocate or free, and the one that asks about a block. Those that ask about the heap stay
/// glibc's.
const FAMILY: &str = "
    malloc calloc realloc free posix_memalign aligned_alloc memalign valloc pvalloc reallocarray cfree
    free_sized free_aligned_sized malloc_usable_size";

/// The functions by which a program marks what is recorded of it.
const MARKS: &str = "heapwright_record_begin heapwright_record_end";

/// The beginnings of names that may be missing. Of `operator new` (`_Znwm`) the address alone is read.
const WEAK: [&str; 8] = [
    "_IO_list_",
    "_ITM_",
    "_Znwm",
    "__cxa_finalize",
    "__gmon_start__",
    "__libc_single_threaded",
    "__register_atfork",
    "pthread_atfork",
];

/// What the library needs of the C library. Only the real functions of the malloc family allocate.
const NEEDED: &str = "
    __libc_malloc __libc_calloc __libc_realloc __libc_memalign __libc_free __curbrk dl_iterate_phdr dlsym
    __errno_location abort pthread_setcancelstate pthread_sigmask sigfillset
    secure_getenv close environ fallocate fchmod fcntl fstat fstat64 fstatfs ftruncate ftruncate64 getpid getppid
    getrlimit linkat mmap mprotect munmap nanosleep madvise mincore open openat pread pread64 process_vm_readv pwrite
    pwrite64 read syscall sysconf unlink unlinkat write memcpy memmove memset memcmp bcmp strlen __stack_chk_guard
    getauxval clock_gettime clock_getcpuclockid getrusage lseek prctl stat stat64 ioctl readlink
    program_invocation_name __progname_full";

/// The library under test, built once.
fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| Library::build("heapwright-record", "libheapwright_record.so", env!("CARGO_TARGET_TMPDIR")))
}

#[test]
fn exactly_what_allocates_and_frees_and_marks_is_exported() {
    let mut names = words(FAMILY);
    names.extend(words("dlopen dlclose"));
    names.extend(words(MARKS));
    assert_eq!(library().exports(), names);
}

#[test]
fn no_function_that_allocates_is_needed() {
    library().assert_needs_only(&words(NEEDED), &WEAK);
}

#[test]
fn only_the_c_library_is_needed() {
    library().assert_needs_only_the_c_library();
}
