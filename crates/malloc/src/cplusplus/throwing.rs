//! The basic operators `new`. When there is no memory, they call the program's new-handler and try again, until there
//! is memory or no handler; then they throw `std::bad_alloc`. Handlers throw as well, which must not unwind through a
//! Rust frame; therefore what calls them is written in assembly.

use core::arch::naked_asm;

use heapwright_process as heap;

use super::runtime::{next_handler, thrower};

/// `operator new(size_t)`. The calls in the last lines of the functions here are jumps (a test checks that), so that no
/// frame of Rust is left when a handler throws.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn _Znwm(size: usize) -> *mut u8 {
    match heap::take(size) {
        Some(block) => block.as_ptr(),
        None => allocate_or_throw(size, heap::ANY),
    }
}

/// `operator new(size_t, align_val_t)`.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn _ZnwmSt11align_val_t(size: usize, align: usize) -> *mut u8 {
    allocate_or_throw(size, align)
}

/// Allocates, or returns null. Even nothing gets a block of its own, whatever the rules say of `malloc`.
extern "C" fn attempt(size: usize, align: usize) -> *mut u8 {
    heap::allocate_aligned(align, size.max(1))
}

/// Allocates; as long as that fails, calls the new-handler; without one, throws.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn allocate_or_throw(_size: usize, _align: usize) -> *mut u8 {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 24",
        ".cfi_adjust_cfa_offset 24",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "2:",
        "call {attempt}",
        "test rax, rax",
        "je 3f",
        "add rsp, 24",
        ".cfi_remember_state",
        ".cfi_adjust_cfa_offset -24",
        "ret",
        ".cfi_restore_state",
        "3:",
        "call {next_handler}",
        "test rax, rax",
        "je 4f",
        "call rax",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "jmp 2b",
        "4:",
        "call {thrower}",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "jmp rax",
        ".cfi_endproc",
        attempt = sym attempt,
        next_handler = sym next_handler,
        thrower = sym thrower,
    )
}

/// The same on AArch64 as on x86-64.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn allocate_or_throw(_size: usize, _align: usize) -> *mut u8 {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "stp x0, x1, [sp, #16]",
        "2:",
        "bl {attempt}",
        "cbz x0, 3f",
        "ldp x29, x30, [sp], #32",
        ".cfi_remember_state",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_restore_state",
        "3:",
        "bl {next_handler}",
        "cbz x0, 4f",
        "blr x0",
        "ldp x0, x1, [sp, #16]",
        "b 2b",
        "4:",
        "bl {thrower}",
        "ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "br x0",
        ".cfi_endproc",
        attempt = sym attempt,
        next_handler = sym next_handler,
        thrower = sym thrower,
    )
}
