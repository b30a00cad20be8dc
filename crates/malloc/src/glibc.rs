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

/// Gives every whole page in a hole back to the system; 1 if there was any. What to keep at the top is not heeded.
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

/// The heap in figures; what does not exist here is 0.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> libc::mallinfo2 {
    let summary = heap::summary();
    libc::mallinfo2 {
        arena: summary.heap,
        ordblks: summary.holes,
        smblks: 0,
        hblks: 0,
        hblkhd: 0,
        usmblks: 0,
        fsmblks: 0,
        uordblks: summary.used,
        fordblks: summary.free,
        keepcost: 0,
    }
}

/// As `mallinfo2`, in fields that are too narrow: a figure that does not fit is the largest that does.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> libc::mallinfo {
    let narrow = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
    let summary = heap::summary();
    libc::mallinfo {
        arena: narrow(summary.heap),
        ordblks: narrow(summary.holes),
        smblks: 0,
        hblks: 0,
        hblkhd: 0,
        usmblks: 0,
        fsmblks: 0,
        uordblks: narrow(summary.used),
        fordblks: narrow(summary.free),
        keepcost: 0,
    }
}
