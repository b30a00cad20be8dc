//! The recorder, for `LD_PRELOAD`: it passes every call of the malloc family on to glibc's malloc, and adds it to the
//! process's stream, which the collector (`heapwright record`) reads. The environment variable `HEAPWRIGHT_RECORD` is
//! the directory for streams; without it no calls are recorded.
//!
//! The recorder does not allocate, does not change `errno` and has no cancellation points, apart from what glibc's
//! malloc does itself. When the recording ends (no space, no collector), the program continues.
//!
//! From the bottom up: `glibc` (the real functions), `system` (the bytes that they have from the system), `python`
//! (the frames of its interpreter), `marked` (the blocks to which a program limits it), `detail` (times and stacks),
//! `rest` (whether a thread writes), `timing` (how long calls take), `directory` (where streams are), `usage` (memory,
//! faults, processor time), `state` (the process's stream), `residency` (what is touched of long blocks), `calls` (the
//! family, recorded), `names` (the same, exported), `marks` (how a program marks blocks), `life` (load and exit).
#![no_builtins]
#![cfg_attr(panic = "abort", no_std)]

mod calls;
mod detail;
mod directory;
mod glibc;
mod life;
mod marked;
mod marks;
mod names;
mod python;
mod residency;
mod rest;
mod state;
mod system;
mod timing;
mod unloading;
mod usage;

heapwright_os::export_dlopen!();

/// Starts recording when the library is loaded, so that a process that never allocates has a stream too.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = life::start;

/// Completes the stream when the program exits.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = life::end;

#[cfg(panic = "abort")]
#[panic_handler]
fn abort_on_panic(_: &core::panic::PanicInfo<'_>) -> ! {
    heapwright_os::Output::standard_error().write(b"heapwright: internal error of the recorder, please report it\n");
    heapwright_os::abort()
}
