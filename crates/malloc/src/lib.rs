//! The exported names of the malloc family, for `LD_PRELOAD` and linking. `heapwright-process` implements them.
//!
//! Build it with `cargo build -p heapwright-malloc --profile preload`; the result is `target/preload/libheapwright.so`.
//!
//! No code here or below calls one of these names: the compiler treats `malloc` specially and would replace such calls
//! by others. Built with another profile (by a test or a lint of the whole workspace) the library is of no use.
#![no_builtins]
#![cfg_attr(panic = "abort", no_std)]

mod c;
mod cplusplus;
mod glibc;

use heapwright_os::{export_dlopen, find_next_dlopen};
use heapwright_process::{finish, start};

export_dlopen!();

/// Runs `start`, and the look-up of the program's operators, when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = {
    extern "C" fn run() {
        cplusplus::look_up_forms();
        find_next_dlopen();
        start();
    }
    run
};

/// Runs `finish` when the process exits.
#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH: extern "C" fn() = {
    extern "C" fn run() {
        finish();
    }
    run
};

#[cfg(panic = "abort")]
#[panic_handler]
fn abort_on_panic(_: &core::panic::PanicInfo<'_>) -> ! {
    heapwright_os::Output::standard_error().write(b"heapwright: internal error, please report it\n");
    heapwright_os::abort()
}
