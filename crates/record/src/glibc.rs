//! The malloc family of glibc, by the names that no other library puts itself in front of.

unsafe extern "C" {
    #[link_name = "__libc_malloc"]
    pub(crate) safe fn malloc(size: usize) -> *mut u8;
    #[link_name = "__libc_calloc"]
    pub(crate) safe fn calloc(count: usize, size: usize) -> *mut u8;
    #[link_name = "__libc_memalign"]
    pub(crate) safe fn memalign(align: usize, size: usize) -> *mut u8;
    #[link_name = "__libc_realloc"]
    pub(crate) fn realloc(block: *mut u8, size: usize) -> *mut u8;
    #[link_name = "__libc_free"]
    pub(crate) fn free(block: *mut u8);
}
