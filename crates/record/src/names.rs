//! The exported names. Functions that inspect the heap stay glibc's, except `malloc_usable_size`: in a program that is
//! linked with another malloc, that name would lead to the other malloc.

use heapwright_os::export_reallocarray;

use crate::calls;

macro_rules! names {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? => $function:ident($($passed:ident),*);)*) => { $(
        #[doc = concat!("`", stringify!($name), "`, recorded.")]
        ///
        /// # Safety
        /// As the C library's manual says.
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, reason = "some of the functions of `calls` are safe")]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: callers follow the C library's manual, which requires what the functions of `calls` require.
            unsafe { calls::$function($($passed),*) }
        }
    )* };
}

names! {
    malloc(size: usize) -> *mut u8 => allocate(size);
    calloc(count: usize, size: usize) -> *mut u8 => allocate_zeroed(count, size);
    realloc(block: *mut u8, size: usize) -> *mut u8 => reallocate(block, size);
    free(block: *mut u8) => free(block);
    cfree(block: *mut u8) => free(block);
    free_sized(block: *mut u8, _size: usize) => free(block);
    free_aligned_sized(block: *mut u8, _align: usize, _size: usize) => free(block);
    posix_memalign(place: *mut *mut u8, align: usize, size: usize) -> i32 => allocate_into(place, align, size);
    aligned_alloc(align: usize, size: usize) -> *mut u8 => allocate_aligned_in_c(align, size);
    memalign(align: usize, size: usize) -> *mut u8 => allocate_aligned(align, size);
    valloc(size: usize) -> *mut u8 => allocate_pages(size);
    pvalloc(size: usize) -> *mut u8 => allocate_whole_pages(size);
    malloc_usable_size(block: *mut u8) -> usize => usable_size(block);
}

export_reallocarray!(calls::refuse);
