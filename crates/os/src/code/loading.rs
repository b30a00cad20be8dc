//! Libraries that are loaded while the program runs call the same malloc as the program.
//!
//! `dlopen` with glibc's flag `RTLD_DEEPBIND` looks the names of a library up in its own dependencies first, and so in
//! the C library before any that is preloaded. PHP loads its extensions so. Blocks that the program allocates and such
//! a library frees, or the other way round, would then go to the wrong malloc. So the flag is removed.
//!
//! Without the flag the call goes on to the next `dlopen` as a jump: that function looks at the address that it returns
//! to, which tells whose search path (`RUNPATH`) and name space count.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::code::objects::next_symbol;

/// The next `dlopen` in the linker's search order.
#[doc(hidden)]
pub static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Looks up the next `dlopen`, for a library that has [`export_dlopen`](crate::export_dlopen). To be called when it is
/// loaded; the first call of `dlopen` does it if that comes earlier.
pub extern "C" fn find_next_dlopen() -> *mut c_void {
    extern "C" fn nothing(_: *const c_char, _: c_int) -> *mut c_void {
        null_mut()
    }
    let next = next_symbol(c"dlopen");
    let next = if next.is_null() { nothing as *mut c_void } else { next };
    NEXT.store(next, Ordering::Relaxed);
    next
}

/// Exports a `dlopen` that ignores `RTLD_DEEPBIND`, from a library that is preloaded.
#[macro_export]
#[cfg(target_arch = "x86_64")]
macro_rules! export_dlopen {
    () => {
        /// Loads a library as `dlopen` does, without `RTLD_DEEPBIND`.
        ///
        /// # Safety
        /// As `dlopen`.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn dlopen(_: *const core::ffi::c_char, _: core::ffi::c_int) -> *mut core::ffi::c_void {
            // Both arguments stay in their registers, and the stack is the caller's again before the jump.
            core::arch::naked_asm!(
                "and esi, ~8",
                "mov rax, qword ptr [rip + {next}]",
                "test rax, rax",
                "jnz 2f",
                "push rdi",
                "push rsi",
                "sub rsp, 8",
                "call {find_next}",
                "add rsp, 8",
                "pop rsi",
                "pop rdi",
                "2:",
                "jmp rax",
                next = sym $crate::loading::NEXT,
                find_next = sym $crate::find_next_dlopen,
            )
        }
    };
}

/// Exports a `dlopen` that ignores `RTLD_DEEPBIND`, from a library that is preloaded.
#[macro_export]
#[cfg(target_arch = "aarch64")]
macro_rules! export_dlopen {
    () => {
        /// Loads a library as `dlopen` does, without `RTLD_DEEPBIND`.
        ///
        /// # Safety
        /// As `dlopen`.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn dlopen(_: *const core::ffi::c_char, _: core::ffi::c_int) -> *mut core::ffi::c_void {
            // Both arguments stay in their registers, and the stack is the caller's again before the jump.
            core::arch::naked_asm!(
                "and w1, w1, #0xfffffff7",
                "adrp x16, {next}",
                "ldr x16, [x16, :lo12:{next}]",
                "cbnz x16, 2f",
                "stp x29, x30, [sp, #-32]!",
                "stp x0, x1, [sp, #16]",
                "bl {find_next}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x29, x30, [sp], #32",
                "2:",
                "br x16",
                next = sym $crate::loading::NEXT,
                find_next = sym $crate::find_next_dlopen,
            )
        }
    };
}
