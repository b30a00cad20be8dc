//! `reallocarray` ends in whichever `realloc` the dynamic linker chose, as glibc's does.
//!
//! A program that is linked with a malloc of its own, or a tool that replaces functions of a running program, may know
//! `malloc`, `calloc`, `realloc` and `free` only. Their blocks are not those of a preloaded library.

/// Exports `reallocarray` from a library that is preloaded. `$refuse` is what it returns by when the product of its
/// arguments exceeds 64 bits: an `extern "C"` function that returns null and sets `ENOMEM`.
#[macro_export]
#[cfg(target_arch = "x86_64")]
macro_rules! export_reallocarray {
    ($refuse:path) => {
        /// Resizes to `count * size` bytes as in POSIX, by the `realloc` that the dynamic linker chose.
        ///
        /// # Safety
        /// As `realloc`.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn reallocarray(_block: *mut u8, _count: usize, _size: usize) -> *mut u8 {
            // The product replaces the second argument.
            core::arch::naked_asm!(
                "mov rax, rdx",
                "mul rsi",
                "jo {refuse}",
                "mov rsi, rax",
                "jmp qword ptr [rip + realloc@GOTPCREL]",
                refuse = sym $refuse,
            )
        }
    };
}

/// Exports `reallocarray` from a library that is preloaded. `$refuse` is what it returns by when the product of its
/// arguments exceeds 64 bits: an `extern "C"` function that returns null and sets `ENOMEM`.
#[macro_export]
#[cfg(target_arch = "aarch64")]
macro_rules! export_reallocarray {
    ($refuse:path) => {
        /// Resizes to `count * size` bytes as in POSIX, by the `realloc` that the dynamic linker chose.
        ///
        /// # Safety
        /// As `realloc`.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn reallocarray(_block: *mut u8, _count: usize, _size: usize) -> *mut u8 {
            // The product replaces the second argument.
            core::arch::naked_asm!(
                "umulh x3, x1, x2",
                "cbnz x3, 2f",
                "mul x1, x1, x2",
                "adrp x16, :got:realloc",
                "ldr x16, [x16, :got_lo12:realloc]",
                "br x16",
                "2:",
                "b {refuse}",
                refuse = sym $refuse,
            )
        }
    };
}
