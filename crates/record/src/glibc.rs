//! The malloc family of glibc, by names that few other libraries interpose.

use core::ffi::c_void;
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use heapwright_os::{are_in_one_object, next_symbol, operator_new};

unsafe extern "C" {
    /// glibc's copy of the program break.
    #[link_name = "__curbrk"]
    pub(crate) static BREAK: AtomicPtr<u8>;

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

/// Not determined yet.
const UNKNOWN: u8 = 0;
const GLIBC: u8 = 1;
const INTERPOSED: u8 = 2;

static OWNER: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether the functions above are glibc's own, so that blocks have glibc's layout.
#[inline(always)]
pub(crate) fn is_its_own() -> bool {
    match OWNER.load(Ordering::Relaxed) {
        GLIBC => true,
        UNKNOWN => detect(),
        _ => false,
    }
}

/// Whether they were determined to be glibc's own. Costs one comparison.
#[inline(always)]
pub(crate) fn is_known_as_its_own() -> bool {
    OWNER.load(Ordering::Relaxed) == GLIBC
}

#[cold]
#[inline(never)]
fn detect() -> bool {
    let is_its_own = are_in_one_object(malloc as *const c_void, (&raw const BREAK).cast());
    OWNER.store(if is_its_own { GLIBC } else { INTERPOSED }, Ordering::Relaxed);
    is_its_own
}

/// See [`misses_operators`].
static MISSES_OPERATORS: AtomicBool = AtomicBool::new(false);

/// Determines [`misses_operators`], once for the program and the children that it forks. Called without the lock of the
/// recording: the linker takes one of its own, and frees the text of its last error. That text is the program's, which
/// is not past its beginning here, as a rule, and has none.
pub(crate) fn look_for_operators() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    if !IS_DONE.swap(true, Ordering::Relaxed) {
        MISSES_OPERATORS.store(are_in_one_object(operator_new(), next_symbol(c"malloc")), Ordering::Relaxed);
    }
}

/// Whether `operator new` of C++ is of the library whose malloc the program would call without the recorder, as with
/// tcmalloc, jemalloc and mimalloc. It does not call the functions of the recorder then.
pub(crate) fn misses_operators() -> bool {
    MISSES_OPERATORS.load(Ordering::Relaxed)
}

/// The type of `memalign` and `aligned_alloc`.
pub(crate) type Aligned = extern "C" fn(align: usize, size: usize) -> *mut u8;

/// Returns the `aligned_alloc` that the program would call without the recorder: they differ in the alignments that
/// they refuse. `None` where it is not of the malloc that has the functions above, which frees its blocks.
pub(crate) fn aligned_alloc() -> Option<Aligned> {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let mut found = FOUND.load(Ordering::Relaxed);
    if found.is_null() {
        let next = next_symbol(c"aligned_alloc");
        let is_of_the_same = !next.is_null() && are_in_one_object(next, memalign as *const c_void);
        found = if is_of_the_same { next } else { (&raw const FOUND).cast_mut().cast() };
        FOUND.store(found, Ordering::Relaxed);
    }
    let is_one = !core::ptr::eq(found, (&raw const FOUND).cast());
    // SAFETY: every malloc that has this function has it with this signature.
    is_one.then(|| unsafe { transmute::<*mut c_void, Aligned>(found) })
}

/// Returns the usable size of a block of another malloc, which interposes glibc's, by that malloc; 0 when it has no
/// such function.
///
/// # Safety
/// That malloc has allocated the block, or the block is null.
#[cold]
pub(crate) unsafe fn usable_size_elsewhere(block: *mut u8) -> usize {
    let function = next_symbol(c"malloc_usable_size");
    if function.is_null() {
        return 0;
    }
    // SAFETY: every C library and malloc that has this function has it with this signature. The block is null or that
    // malloc's, as this function requires.
    unsafe { transmute::<*mut c_void, unsafe extern "C" fn(*mut u8) -> usize>(function)(block) }
}
