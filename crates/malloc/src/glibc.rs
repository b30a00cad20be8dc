//! The names of glibc only: its own second names of the family, and what can be asked and told about the heap.

use heapwright_process as heap;

macro_rules! second_names {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? => $function:ident;)*) => { $(
        #[doc = concat!("Another name of `", stringify!($function), "`.")]
        ///
        /// # Safety
        /// As that one's.
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller's promise.
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

/// Gives every whole page that nothing needs back to the system; 1 if there was any. What to keep at the top is not heeded.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_keep: usize) -> i32 {
    i32::from(heap::trim())
}

/// Nothing that glibc lets one tune exists here: 0, "not done", whatever is asked.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(_parameter: i32, _value: i32) -> i32 {
    0
}

/// Prints the statistics on standard error.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    heap::print_statistics();
}

/// Writes the heap in figures to a stream, as XML; 0, or -1 and `errno`. `options` are for the future: 0.
///
/// # Safety
/// The stream is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: i32, stream: *mut libc::FILE) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { heap::write_information(options, stream.cast()) }
}

/// The heap in figures; what does not exist here is 0. Fast blocks are those in lists, mapped regions the blocks of the policy `mapped`.
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

/// As `mallinfo2`, in fields that are too narrow: a figure that does not fit is the largest that does.
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
