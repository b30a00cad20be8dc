//! Whether the process has one thread only, in which case nothing need be atomic.

/// Whether no other thread of this process can be running. `false` when that is not known.
///
/// Sound to act upon until the calling thread itself next starts a thread.
#[inline(always)]
#[must_use]
pub fn is_single_threaded() -> bool {
    match single_threaded_flag() {
        // SAFETY: the address is that of the C library's flag, a byte that lives as long as the process. It is written
        // only by threads that start threads, and this one is not doing that.
        Some(flag) => unsafe { flag.read_volatile() != 0 },
        None => false,
    }
}

/// glibc's `__libc_single_threaded` where the process has it (2.32 and later); stable Rust has no weak references, so the
/// address is read from the global offset table, where it is null when no library defines the name.
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn single_threaded_flag() -> Option<core::ptr::NonNull<u8>> {
    let flag: *mut u8;
    // SAFETY: reads one entry of the global offset table, which does not change once the library is loaded.
    unsafe {
        core::arch::asm!(
            ".weak __libc_single_threaded",
            "mov {flag}, qword ptr [rip + __libc_single_threaded@GOTPCREL]",
            flag = out(reg) flag,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    core::ptr::NonNull::new(flag)
}

/// As on x86-64.
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "aarch64", not(miri)))]
#[inline(always)]
fn single_threaded_flag() -> Option<core::ptr::NonNull<u8>> {
    let flag: *mut u8;
    // SAFETY: reads one entry of the global offset table, which does not change once the library is loaded.
    unsafe {
        core::arch::asm!(
            ".weak __libc_single_threaded",
            "adrp {flag}, :got:__libc_single_threaded",
            "ldr {flag}, [{flag}, :got_lo12:__libc_single_threaded]",
            flag = out(reg) flag,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    core::ptr::NonNull::new(flag)
}

/// Elsewhere every process counts as multi-threaded.
#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
)))]
#[inline(always)]
fn single_threaded_flag() -> Option<core::ptr::NonNull<u8>> {
    None
}
