//! Libraries that the program unloads: the next one may come to their addresses, and its requests are not theirs.

use core::ffi::{c_int, c_void};
use core::mem::{size_of, transmute};
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use heapwright_os::{each_code, map, next_symbol, unmap};

use crate::detail;
use crate::state;

/// The next `dlclose` in the linker's search order.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// How long a call of `dlclose` waits at most, in milliseconds: the collector reads every ten.
const PATIENCE: u32 = 40;

/// How long all of them wait at most, in milliseconds.
const WHOLE_PATIENCE: u32 = 2000;

/// For how many milliseconds they have waited.
static WAITED: AtomicU32 = AtomicU32::new(0);

/// Waits until the collector has read the calls of the libraries that are to be unloaded: it looks in the system's list
/// for what is mapped at their addresses.
fn await_collector() {
    let left = WHOLE_PATIENCE.saturating_sub(WAITED.load(Ordering::Relaxed));
    WAITED.fetch_add(state::await_collector(PATIENCE.min(left)), Ordering::Relaxed);
}

/// Unloads a library as `dlclose` does, and records where there is no code any more.
///
/// # Safety
/// As `dlclose`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(library: *mut c_void) -> c_int {
    let code = if detail::records_stacks() && state::is_on() {
        await_collector();
        Code::loaded()
    } else {
        None
    };
    // SAFETY: as this function requires.
    let result = unsafe { close(library) };
    if let Some(mut code) = code {
        code.retain_unloaded();
        code.parts().iter().filter(|part| !part.is_empty()).for_each(state::add_unmapped);
    }
    result
}

/// # Safety
/// As `dlclose`.
unsafe fn close(library: *mut c_void) -> c_int {
    let mut next = NEXT.load(Ordering::Relaxed);
    if next.is_null() {
        next = next_symbol(c"dlclose");
        NEXT.store(next, Ordering::Relaxed);
    }
    if next.is_null() {
        return -1;
    }
    // SAFETY: every C library that has this function has it with this signature; else as this function requires.
    unsafe { transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(next)(library) }
}

/// Where the program and its libraries have code, in pages of its own.
struct Code {
    first: NonNull<Range<usize>>,
    count: usize,
}

impl Code {
    /// The length of its pages. More libraries than fit there are not watched.
    const LENGTH: usize = 64 << 10;

    /// Returns the code that is loaded; `None` when there is no memory for the list.
    fn loaded() -> Option<Code> {
        let mut code = Code { first: map(Code::LENGTH).ok()?.cast(), count: 0 };
        each_code(&mut |part| code.add(part));
        Some(code)
    }

    fn add(&mut self, part: Range<usize>) {
        if self.count < Code::LENGTH / size_of::<Range<usize>>() {
            // SAFETY: the place lies within the pages, and is aligned in them.
            unsafe { self.first.add(self.count).write(part) };
            self.count += 1;
        }
    }

    fn parts(&mut self) -> &mut [Range<usize>] {
        // SAFETY: these parts were written, and the borrow lives no longer than the pages.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr(), self.count) }
    }

    /// Makes every part empty that is loaded now. The linker keeps its libraries in their order.
    fn retain_unloaded(&mut self) {
        let parts = self.parts();
        let mut at = 0;
        each_code(&mut |part| {
            let found = (at..parts.len()).chain(0..at).find(|&index| parts[index] == part);
            if let Some(found) = found {
                parts[found] = 0..0;
                at = found + 1;
            }
        });
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the pages are this value's, and not used afterwards. Pages that cannot be unmapped leak.
        let _ = unsafe { unmap(self.first.cast(), Code::LENGTH) };
    }
}
