//! Names that only glibc has: its second names of the family, and queries and settings of the heap.

use heapwright_process as heap;

macro_rules! second_names {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? => $function:ident;)*) => { $(
        #[doc = concat!("Another name of `", stringify!($function), "`.")]
        ///
        /// # Safety
        /// The same as for that function: blocks are null or live, and after a free or a successful resize the program
        /// does not use the old block.
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the program keeps the contract of the C function: it does not use a block after its free or
            // successful resize.
            unsafe { heap::$function($($argument),*) }
        }
    )* };
}

second_names! {
    __libc_malloc(size: usize) -> *mut u8 => allocate;
    __libc_calloc(count: usize, size: usize) -> *mut u8 => allocate_zeroed;
    __libc_realloc(block: *mut u8, size: usize) -> *mut u8 => reallocate;
    __libc_free(block: *mut u8) => free;
    __libc_cfree(block: *mut u8) => free;
    __libc_memalign(align: usize, size: usize) -> *mut u8 => allocate_aligned_loosely;
    __libc_valloc(size: usize) -> *mut u8 => allocate_pages;
    __libc_pvalloc(size: usize) -> *mut u8 => allocate_whole_pages;
    __libc_reallocarray(block: *mut u8, count: usize, size: usize) -> *mut u8 => reallocate_array;
    __posix_memalign(place: *mut *mut u8, align: usize, size: usize) -> i32 => allocate_into;
}

/// Purges every whole free page; returns 1 if there was any. The amount to retain at the top is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_keep: usize) -> i32 {
    i32::from(heap::trim())
}

/// Returns 1 ("done") for glibc's parameters, with a value that glibc accepts, and 0 for others. They have no effect:
/// each is about a threshold, a limit of arenas or a check that does not exist here, or (`M_PERTURB`) about contents of
/// blocks, which are unspecified.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(parameter: i32, value: i32) -> i32 {
    const MXFAST: i32 = 1;
    const TRIM_THRESHOLD: i32 = -1;
    const TOP_PAD: i32 = -2;
    const MMAP_THRESHOLD: i32 = -3;
    const MMAP_MAX: i32 = -4;
    const CHECK_ACTION: i32 = -5;
    const PERTURB: i32 = -6;
    const ARENA_TEST: i32 = -7;
    const ARENA_MAX: i32 = -8;
    i32::from(match parameter {
        MXFAST => (0..=160).contains(&value),
        MMAP_THRESHOLD | TRIM_THRESHOLD | TOP_PAD | MMAP_MAX | CHECK_ACTION | PERTURB | ARENA_TEST | ARENA_MAX => true,
        _ => false,
    })
}

/// Prints the statistics on standard error.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    heap::print_statistics();
}

/// Writes a description of the heap to a stream, as XML; returns 0, or -1 with `errno` set. `options` must be 0: for
/// others `EINVAL` is returned, as by glibc.
///
/// # Safety
/// `stream` is null or an open `FILE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: i32, stream: *mut libc::FILE) -> i32 {
    // SAFETY: the program passes an open stream or null, as `malloc_info` requires.
    unsafe { heap::write_information(options, stream.cast()) }
}

/// Returns a summary of the heap; fields without an equivalent are 0. Fast blocks are those in thread caches, mapped
/// regions the blocks of the policy `mapped`.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> libc::mallinfo2 {
    let summary = heap::summary();
    libc::mallinfo2 {
        arena: summary.heap(),
        ordblks: summary.free.count,
        smblks: summary.listed.count,
        hblks: summary.mapped.count,
        hblkhd: summary.mapped.bytes,
        usmblks: 0,
        fsmblks: summary.listed.bytes,
        uordblks: summary.used.bytes,
        fordblks: summary.free.bytes + summary.listed.bytes,
        keepcost: summary.tail,
    }
}

/// Returns the same as `mallinfo2` in narrower fields: a figure that does not fit is replaced by the largest that does.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> libc::mallinfo {
    let narrow = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
    let wide = mallinfo2();
    libc::mallinfo {
        arena: narrow(wide.arena),
        ordblks: narrow(wide.ordblks),
        smblks: narrow(wide.smblks),
        hblks: narrow(wide.hblks),
        hblkhd: narrow(wide.hblkhd),
        usmblks: narrow(wide.usmblks),
        fsmblks: narrow(wide.fsmblks),
        uordblks: narrow(wide.uordblks),
        fordblks: narrow(wide.fordblks),
        keepcost: narrow(wide.keepcost),
    }
}
