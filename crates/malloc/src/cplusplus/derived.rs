//! The operators that by default only call another one, with the same first arguments: array forms, and those that
//! return null instead of throwing, which catch what the throwing form throws.
//!
//! The other operator is the one that the dynamic linker chose. The assembly reads its address from the global offset
//! table: a plain call of a function in this library would be bound to that one.

use core::arch::naked_asm;

/// Jumps to the function of this name that the dynamic linker chose, in a naked function.
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($name:literal) => {
        naked_asm!(concat!("jmp qword ptr [rip + ", $name, "@GOTPCREL]"))
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    ($name:literal) => {
        naked_asm!(concat!("adrp x16, :got:", $name), concat!("ldr x16, [x16, :got_lo12:", $name, "]"), "br x16",)
    };
}

pub(super) use jump;

macro_rules! derived {
    ($($name:ident => $called:literal;)*) => { $(
        #[doc = concat!("Calls `", $called, "`.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(non_snake_case)]
        pub extern "C" fn $name() {
            jump!($called);
        }
    )* };
}

derived! {
    _Znam => "_Znwm";
    _ZnamSt11align_val_t => "_ZnwmSt11align_val_t";
    _ZdaPv => "_ZdlPv";
    _ZdaPvSt11align_val_t => "_ZdlPvSt11align_val_t";
    _ZdlPvRKSt9nothrow_t => "_ZdlPv";
    _ZdaPvRKSt9nothrow_t => "_ZdaPv";
    _ZdlPvSt11align_val_tRKSt9nothrow_t => "_ZdlPvSt11align_val_t";
    _ZdaPvSt11align_val_tRKSt9nothrow_t => "_ZdaPvSt11align_val_t";
}

/// An operator that returns null where `$called` throws. The third argument of [`catch`] is that operator.
macro_rules! nothrow {
    ($($name:ident => $called:literal;)*) => { $(
        #[doc = concat!("Calls `", $called, "`; returns null when that throws.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(non_snake_case)]
        pub extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                concat!("mov rdx, qword ptr [rip + ", $called, "@GOTPCREL]"),
                "jmp {catch}",
                catch = sym catch,
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                concat!("adrp x2, :got:", $called),
                concat!("ldr x2, [x2, :got_lo12:", $called, "]"),
                "b {catch}",
                catch = sym catch,
            );
        }
    )* };
}

nothrow! {
    _ZnwmRKSt9nothrow_t => "_Znwm";
    _ZnamRKSt9nothrow_t => "_Znam";
    _ZnwmSt11align_val_tRKSt9nothrow_t => "_ZnwmSt11align_val_t";
    _ZnamSt11align_val_tRKSt9nothrow_t => "_ZnamSt11align_val_t";
}

/// The table by which the personality of C++ finds that `catch` catches everything, as `catch (...)` does. Exceptions
/// elsewhere (from `__cxa_end_catch`) end the process.
macro_rules! catch_table {
    () => {
        r#"
        .pushsection .gcc_except_table.heapwright, "a"
        .balign 4
    .Lheapwright_catch_table:
        .byte 0xff
        .byte 0x9b
        .uleb128 .Lheapwright_catch_types - .Lheapwright_catch_sites
    .Lheapwright_catch_sites:
        .byte 0x01
        .uleb128 .Lheapwright_catch_actions - .Lheapwright_catch_first
    .Lheapwright_catch_first:
        .uleb128 .Lheapwright_catch_try - .Lheapwright_catch
        .uleb128 .Lheapwright_catch_tried - .Lheapwright_catch_try
        .uleb128 .Lheapwright_catch_pad - .Lheapwright_catch
        .uleb128 1
    .Lheapwright_catch_actions:
        .byte 1
        .byte 0
        .balign 4
        .long 0
    .Lheapwright_catch_types:
        .popsection
        "#
    };
}

/// Calls the third argument with the first two; returns null when that throws. The personality is read from the table
/// of `runtime`: without a C++ library it is null, and the frame catches nothing.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[allow(named_asm_labels, reason = "Rust 1.88 has the lint for naked functions, which are never copied, as well")]
extern "C" fn catch() {
    naked_asm!(
        catch_table!(),
        ".Lheapwright_catch:",
        ".cfi_startproc",
        ".cfi_personality 0x9b, heapwright_cplusplus",
        ".cfi_lsda 0x1b, .Lheapwright_catch_table",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        ".Lheapwright_catch_try:",
        "call rdx",
        ".Lheapwright_catch_tried:",
        "add rsp, 8",
        ".cfi_remember_state",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_restore_state",
        ".Lheapwright_catch_pad:",
        "mov rdi, rax",
        "call [rip + heapwright_cplusplus + 24]",
        "call [rip + heapwright_cplusplus + 32]",
        "xor eax, eax",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
    )
}

/// The same on AArch64 as on x86-64.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[allow(named_asm_labels, reason = "Rust 1.88 has the lint for naked functions, which are never copied, as well")]
extern "C" fn catch() {
    naked_asm!(
        catch_table!(),
        ".Lheapwright_catch:",
        ".cfi_startproc",
        ".cfi_personality 0x9b, heapwright_cplusplus",
        ".cfi_lsda 0x1b, .Lheapwright_catch_table",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        ".Lheapwright_catch_try:",
        "blr x2",
        ".Lheapwright_catch_tried:",
        "ldp x29, x30, [sp], #16",
        ".cfi_remember_state",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_restore_state",
        ".Lheapwright_catch_pad:",
        "adrp x9, heapwright_cplusplus + 24",
        "ldr x9, [x9, :lo12:heapwright_cplusplus + 24]",
        "blr x9",
        "adrp x9, heapwright_cplusplus + 32",
        "ldr x9, [x9, :lo12:heapwright_cplusplus + 32]",
        "blr x9",
        "mov x0, xzr",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
    )
}
