//! What is needed of the C++ library, which the library is not linked with: programs in C have none.
//!
//! The names are referred to weakly, so that the dynamic linker fills the table in when the program starts. A program
//! in C that loads a plugin in C++ has the C++ library later, often where names are not found from here (`RTLD_LOCAL`);
//! then the table is filled in before the first exception.

use core::arch::global_asm;
use core::ffi::{CStr, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The functions, in the order of [`NAMES`]; null where there is no C++ library.
#[repr(C)]
struct Functions {
    /// Decides which frames catch an exception. The unwinder reads this field, see `derived`.
    personality: AtomicPtr<c_void>,
    get_new_handler: AtomicPtr<c_void>,
    throw_bad_alloc: AtomicPtr<c_void>,
    begin_catch: AtomicPtr<c_void>,
    end_catch: AtomicPtr<c_void>,
}

const NAMES: [&CStr; 5] = [
    c"__gxx_personality_v0",
    c"_ZSt15get_new_handlerv",
    c"_ZSt17__throw_bad_allocv",
    c"__cxa_begin_catch",
    c"__cxa_end_catch",
];

global_asm!(
    ".weak __gxx_personality_v0",
    ".weak _ZSt15get_new_handlerv",
    ".weak _ZSt17__throw_bad_allocv",
    ".weak __cxa_begin_catch",
    ".weak __cxa_end_catch",
    ".hidden heapwright_cplusplus",
    ".globl heapwright_cplusplus",
    ".pushsection .data.heapwright_cplusplus, \"aw\"",
    ".balign 8",
    "heapwright_cplusplus:",
    ".quad __gxx_personality_v0",
    ".quad _ZSt15get_new_handlerv",
    ".quad _ZSt17__throw_bad_allocv",
    ".quad __cxa_begin_catch",
    ".quad __cxa_end_catch",
    ".popsection",
);

unsafe extern "C" {
    static heapwright_cplusplus: Functions;
}

/// The libraries that have these names: GNU's and LLVM's.
const LIBRARIES: [&CStr; 2] = [c"libstdc++.so.6", c"libc++.so.1"];

fn functions() -> &'static Functions {
    // SAFETY: the assembly above defines the table, whose five words are atomic; the only ones that read it otherwise
    // are the unwinder and the assembly in `derived`.
    unsafe { &heapwright_cplusplus }
}

impl Functions {
    fn all(&self) -> [&AtomicPtr<c_void>; NAMES.len()] {
        [&self.personality, &self.get_new_handler, &self.throw_bad_alloc, &self.begin_catch, &self.end_catch]
    }

    /// Looks for the C++ library among the loaded libraries, unless it is known. A library that is found stays loaded.
    #[cold]
    fn find(&self) {
        let is_missing = |place: &&AtomicPtr<c_void>| place.load(Ordering::Acquire).is_null();
        if !self.all().iter().any(is_missing) {
            return;
        }
        for library in LIBRARIES {
            // SAFETY: the name is a string of C; with this flag nothing is loaded.
            let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            if handle.is_null() {
                continue;
            }
            // SAFETY: the handle is of an open library, and the names are strings of C.
            let found = NAMES.map(|name| unsafe { libc::dlsym(handle, name.as_ptr()) });
            if found.iter().all(|function| !function.is_null()) {
                self.all().iter().zip(found).for_each(|(place, function)| place.store(function, Ordering::Release));
                return;
            }
        }
    }
}

/// A function of C++ that takes and returns nothing.
type Action = extern "C" fn();

/// Returns the program's new-handler, if it has one, after an allocation failed.
pub(super) extern "C" fn next_handler() -> Option<Action> {
    let functions = functions();
    functions.find();
    let get_new_handler = functions.get_new_handler.load(Ordering::Acquire);
    if get_new_handler.is_null() {
        return None;
    }
    // SAFETY: the address is that of `std::get_new_handler`, which has this type; a null result is `None`.
    unsafe { transmute::<*mut c_void, extern "C" fn() -> Option<Action>>(get_new_handler)() }
}

/// Returns the function that throws `std::bad_alloc`.
pub(super) extern "C" fn thrower() -> Action {
    let throw_bad_alloc = functions().throw_bad_alloc.load(Ordering::Acquire);
    if throw_bad_alloc.is_null() {
        return give_up;
    }
    // SAFETY: the address is that of `std::__throw_bad_alloc`, which has this type.
    unsafe { transmute::<*mut c_void, Action>(throw_bad_alloc) }
}

/// Aborts when there is no C++ library to throw with.
extern "C" fn give_up() {
    heapwright_os::Output::standard_error().write(
        b"heapwright: out of memory in operator new, and the program has no C++ library to throw bad_alloc with\n",
    );
    heapwright_os::abort()
}
