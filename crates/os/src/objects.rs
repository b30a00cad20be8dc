//! The program and the libraries that a process consists of, as the dynamic linker knows them.

use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;

/// Whether two addresses lie in the same of them. `false` also where the linker knows nothing of an address.
#[must_use]
pub fn are_in_one_object(one: *const c_void, other: *const c_void) -> bool {
    base_of(one).is_some_and(|base| base_of(other) == Some(base))
}

/// Where the object begins that an address lies in.
fn base_of(address: *const c_void) -> Option<usize> {
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the linker compares the address, and fills in what it found unless it returns 0.
    unsafe { (libc::dladdr(address, found.as_mut_ptr()) != 0).then(|| found.assume_init().dli_fbase.addr()) }
}

/// The function or variable of this name in the objects that come after the caller's own in the order of search; null when there is
/// none.
#[inline(always)]
#[must_use]
pub fn next_symbol(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_library_lie_in_one_object() {
        let (getpid, getppid) = (libc::getpid as *const c_void, libc::getppid as *const c_void);
        assert!(are_in_one_object(getpid, getppid));
        assert!(!are_in_one_object(getpid, base_of as *const c_void));
        assert!(!are_in_one_object(core::ptr::null(), core::ptr::null()));
    }

    #[test]
    fn a_symbol_is_found_by_its_name() {
        assert!(!next_symbol(c"getpid").is_null());
        assert!(next_symbol(c"no such function").is_null());
    }
}
