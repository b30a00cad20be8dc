//! The `new` operators that throw. When there is no memory, they call the program's new-handler until there is, or
//! throw `std::bad_alloc`. Both may unwind, which must not happen through a Rust frame; therefore these functions are
//! written in assembly.
//!
//! The C++ library's `std::get_new_handler` and `std::__throw_bad_alloc` are referred to weakly: a C program has
//! neither.

use core::arch::naked_asm;

use heapwright_process as heap;

extern "C" fn allocate(size: usize) -> *mut u8 {
    heap::allocate(size)
}

extern "C" fn allocate_aligned(size: usize, align: usize) -> *mut u8 {
    heap::allocate_aligned(align, size)
}

/// Aborts when there is no C++ library to throw with.
extern "C" fn give_up() -> ! {
    heapwright_os::Output::standard_error().write(
        b"heapwright: out of memory in operator new, and the program has no C++ library to throw bad_alloc with\n",
    );
    heapwright_os::abort()
}

/// An operator that tries once, keeping its arguments, and leaves the rest to [`retry`].
macro_rules! throwing {
    ($($name:ident($($argument:ident),*) => $attempt:ident, $align:literal;)*) => { $(
        /// An operator `new` that throws.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(non_snake_case)]
        pub extern "C" fn $name($($argument: usize),*) -> *mut u8 {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                ".cfi_startproc",
                "sub rsp, 24",
                ".cfi_adjust_cfa_offset 24",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "call {attempt}",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "test rax, rax",
                "je 2f",
                "ret",
                "2:",
                $align,
                "jmp {retry}",
                ".cfi_endproc",
                attempt = sym $attempt,
                retry = sym retry,
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-32]!",
                ".cfi_def_cfa_offset 32",
                ".cfi_offset x29, -32",
                ".cfi_offset x30, -24",
                "stp x0, x1, [sp, #16]",
                "bl {attempt}",
                "mov x2, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x29, x30, [sp], #32",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "cbz x2, 2f",
                "mov x0, x2",
                "ret",
                "2:",
                $align,
                "b {retry}",
                ".cfi_endproc",
                attempt = sym $attempt,
                retry = sym retry,
            );
        }
    )* };
}

#[cfg(target_arch = "x86_64")]
throwing! {
    _Znwm(_size) => allocate, "mov esi, 16";
    _Znam(_size) => allocate, "mov esi, 16";
    _ZnwmSt11align_val_t(_size, _align) => allocate_aligned, "";
    _ZnamSt11align_val_t(_size, _align) => allocate_aligned, "";
}

#[cfg(target_arch = "aarch64")]
throwing! {
    _Znwm(_size) => allocate, "mov x1, #16";
    _Znam(_size) => allocate, "mov x1, #16";
    _ZnwmSt11align_val_t(_size, _align) => allocate_aligned, "";
    _ZnamSt11align_val_t(_size, _align) => allocate_aligned, "";
}

/// Calls the new-handler and retries while there is a handler; then throws.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn retry(_size: usize, _align: usize) -> *mut u8 {
    naked_asm!(
        ".weak _ZSt15get_new_handlerv",
        ".weak _ZSt17__throw_bad_allocv",
        ".cfi_startproc",
        "sub rsp, 24",
        ".cfi_adjust_cfa_offset 24",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "2:",
        "mov rax, [rip + _ZSt15get_new_handlerv@GOTPCREL]",
        "test rax, rax",
        "je 3f",
        "call rax",
        "test rax, rax",
        "je 3f",
        "call rax",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "call {attempt}",
        "test rax, rax",
        "je 2b",
        "add rsp, 24",
        ".cfi_remember_state",
        ".cfi_adjust_cfa_offset -24",
        "ret",
        "3:",
        ".cfi_restore_state",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "mov rax, [rip + _ZSt17__throw_bad_allocv@GOTPCREL]",
        "test rax, rax",
        "je 4f",
        "jmp rax",
        "4:",
        "jmp {give_up}",
        ".cfi_endproc",
        attempt = sym allocate_aligned,
        give_up = sym give_up,
    )
}

/// The same on AArch64 as on x86-64.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn retry(_size: usize, _align: usize) -> *mut u8 {
    naked_asm!(
        ".weak _ZSt15get_new_handlerv",
        ".weak _ZSt17__throw_bad_allocv",
        ".cfi_startproc",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "stp x0, x1, [sp, #16]",
        "2:",
        "adrp x0, :got:_ZSt15get_new_handlerv",
        "ldr x0, [x0, :got_lo12:_ZSt15get_new_handlerv]",
        "cbz x0, 3f",
        "blr x0",
        "cbz x0, 3f",
        "blr x0",
        "ldp x0, x1, [sp, #16]",
        "bl {attempt}",
        "cbz x0, 2b",
        "ldp x29, x30, [sp], #32",
        ".cfi_remember_state",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        "3:",
        ".cfi_restore_state",
        "ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "adrp x16, :got:_ZSt17__throw_bad_allocv",
        "ldr x16, [x16, :got_lo12:_ZSt17__throw_bad_allocv]",
        "cbz x16, 4f",
        "br x16",
        "4:",
        "b {give_up}",
        ".cfi_endproc",
        attempt = sym allocate_aligned,
        give_up = sym give_up,
    )
}
