//! The recorder, for `LD_PRELOAD`: every call of the malloc family goes to glibc's malloc as it would without, and is told
//! to the collector (`heapwright record`) by the process's stream. The environment variable `HEAPWRIGHT_RECORD` names the
//! directory for streams; without it nothing is recorded.
//!
//! Nothing here allocates, changes `errno` or is a point of cancellation beyond what glibc's malloc does itself. Recording
//! may end (no space, no collector); the program goes on.
//!
//! From the bottom up: `glibc` (the real functions), `system` (what they have from the system), `detail` (times and stacks), `state` (the process's stream), `calls` (the family, recorded), `names` (the same,
//! exported).
#![no_builtins]
#![cfg_attr(panic = "abort", no_std)]

mod calls;
mod detail;
mod glibc;
mod names;
mod state;
mod system;

/// Begins to record when the library is loaded, so that a process that never allocates is heard of too.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = state::start;

/// Tells what is left to tell when the program ends of its own accord.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = state::end;

#[cfg(panic = "abort")]
#[panic_handler]
fn abort_on_panic(_: &core::panic::PanicInfo<'_>) -> ! {
    heapwright_os::Output::standard_error().write(b"heapwright: internal error of the recorder, please report it\n");
    heapwright_os::abort()
}
