//! The objects (program and shared libraries) of a process, by the dynamic linker.

use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::without_provenance;

use crate::code::arch::weak_address;

/// A program or shared library that the dynamic linker has loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<'o> {
    /// The address at which it is loaded.
    pub base: usize,
    /// The path that the linker has loaded it from; of the program, the name that it was started by.
    pub path: &'o CStr,
}

/// Calls `read` with the object that contains an address, and returns its result; `None` when no object contains it.
/// The object must not be unloaded meanwhile.
///
/// ```
/// use heapwright_os::{object_at, page_size};
/// let path = object_at(page_size as *const () as usize, |object| object.path.to_owned());
/// assert!(path.is_some_and(|path| !path.is_empty()));
/// ```
pub fn object_at<R>(address: usize, read: impl FnOnce(Object<'_>) -> R) -> Option<R> {
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the linker only compares the address, and fills in the result unless it returns 0.
    let found =
        unsafe { (libc::dladdr(without_provenance(address), found.as_mut_ptr()) != 0).then(|| found.assume_init()) }?;
    let path = if found.dli_fname.is_null() {
        c""
    } else {
        // SAFETY: the name is a string of the linker's that ends with a zero and lives until the object is unloaded.
        unsafe { CStr::from_ptr(found.dli_fname) }
    };
    Some(read(Object { base: found.dli_fbase.addr(), path }))
}

/// Whether two addresses lie in the same object. `false` when an address lies in none.
///
/// Time: proportional to the number of objects. ([`object_at`] also looks at all symbols of its object.)
#[must_use]
pub fn are_in_one_object(one: *const c_void, other: *const c_void) -> bool {
    let mut pair = Pair { addresses: [one.addr(), other.addr()], are_in_one: false };
    // SAFETY: the function has the type that is called, and is passed this pair, which lives longer than the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut pair).cast()) };
    pair.are_in_one
}

/// Calls `visit` with the addresses of each part of an object that has code.
pub fn each_code(mut visit: &mut dyn FnMut(Range<usize>)) {
    // SAFETY: the function has the type that is called, and is passed this closure, which lives longer than the call.
    unsafe { libc::dl_iterate_phdr(Some(pass_code), (&raw mut visit).cast()) };
}

/// Passes the parts of an object that have code to `visit`; returns 0, so that the next object follows.
///
/// # Safety
/// `object` describes an object, and `visit` is the closure of [`each_code`].
unsafe extern "C" fn pass_code(object: *mut libc::dl_phdr_info, _: usize, visit: *mut c_void) -> i32 {
    // SAFETY: as this function requires.
    let ((base, headers), visit) = unsafe { (parts(object), &mut *visit.cast::<&mut dyn FnMut(Range<usize>)>()) };
    for part in headers.iter().filter(|part| part.p_type == libc::PT_LOAD && part.p_flags & libc::PF_X != 0) {
        let start = base.wrapping_add(part.p_vaddr as usize);
        visit(start..start.wrapping_add(part.p_memsz as usize));
    }
    0
}

/// Returns the base of an object, and its parts.
///
/// # Safety
/// `object` describes an object that is not unloaded meanwhile.
unsafe fn parts<'o>(object: *const libc::dl_phdr_info) -> (usize, &'o [libc::Elf64_Phdr]) {
    // SAFETY: as this function requires; the linker's description has that many headers.
    unsafe {
        let libc::dl_phdr_info { dlpi_addr: base, dlpi_phdr: first, dlpi_phnum: count, .. } = *object;
        let headers = if first.is_null() { &[] } else { core::slice::from_raw_parts(first, usize::from(count)) };
        (base as usize, headers)
    }
}

/// Two addresses, and whether one object contains both.
struct Pair {
    addresses: [usize; 2],
    are_in_one: bool,
}

/// Compares both addresses of a pair with an object; returns 0 when neither lies in it, so that the search goes on.
///
/// # Safety
/// `object` describes an object, and `pair` is a [`Pair`] that is not used elsewhere meanwhile.
unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _: usize, pair: *mut c_void) -> i32 {
    // SAFETY: as this function requires.
    let ((base, headers), pair) = unsafe { (parts(object), &mut *pair.cast::<Pair>()) };
    let has = |address: usize| {
        headers.iter().any(|header| {
            let start = base.wrapping_add(header.p_vaddr as usize);
            header.p_type == libc::PT_LOAD && address.wrapping_sub(start) < header.p_memsz as usize
        })
    };
    let [one, other] = pair.addresses.map(has);
    pair.are_in_one = one && other;
    i32::from(one || other)
}

/// Returns the address of the function or variable of this name in the objects after the caller's own in the linker's
/// search order; null when there is none.
#[inline(always)]
#[must_use]
pub fn next_symbol(name: &CStr) -> *mut c_void {
    // SAFETY: a `CStr` ends with a zero.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Returns the address of the `operator new` of C++ that the program calls; null when neither it nor a library that it
/// was started with has one.
#[must_use]
pub fn operator_new() -> *const c_void {
    weak_address!("_Znwm").cast()
}

/// Returns the address of the function or variable of this name in the linker's search order; null when there is none.
#[must_use]
pub fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: a `CStr` ends with a zero.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_library_lie_in_one_object() {
        let (getpid, getppid) = (libc::getpid as *const c_void, libc::getppid as *const c_void);
        assert!(are_in_one_object(getpid, getppid));
        assert!(!are_in_one_object(getpid, are_in_one_object as *const c_void));
        assert!(!are_in_one_object(core::ptr::null(), core::ptr::null()));
    }

    #[test]
    fn functions_lie_in_the_code_of_objects() {
        let functions = [libc::getpid as *const c_void, functions_lie_in_the_code_of_objects as *const c_void];
        let mut found = [0; 2];
        each_code(&mut |part| {
            found.iter_mut().zip(functions).for_each(|(count, at)| *count += u32::from(part.contains(&at.addr())));
        });
        assert_eq!(found, [1, 1]);
    }

    #[test]
    fn a_symbol_is_found_by_its_name() {
        assert!(!next_symbol(c"getpid").is_null());
        assert!(next_symbol(c"no such function").is_null());
    }
}
