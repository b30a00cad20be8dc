//! AArch64 under Linux. The thread pointer is in the register `tpidr_el0`.

use core::arch::asm;
use core::ptr::NonNull;

use super::Place;

/// The caller's registers. Inlined, so that they are the caller's own.
#[inline(always)]
pub(crate) fn registers() -> Option<Place> {
    let (instruction, stack, frame, link): (u64, u64, u64, u64);
    // SAFETY: only reads registers.
    unsafe {
        asm!(
            "adr {instruction}, .",
            "mov {stack}, sp",
            "mov {frame}, x29",
            "mov {link}, x30",
            instruction = out(reg) instruction,
            stack = out(reg) stack,
            frame = out(reg) frame,
            link = out(reg) link,
            options(nomem, nostack, preserves_flags)
        );
    }
    Some(Place { instruction, stack, frame, link })
}

/// Asks the processor to load the cache line at an address, which may be any. Only a hint.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    // SAFETY: the instruction has no effect but on caches, and does not fault.
    unsafe { asm!("prfm pldl1keep, [{}]", in(reg) address, options(readonly, nostack, preserves_flags)) };
}

/// Asks the processor to load the cache line at an address, which may be any, in order to write to it: other processors
/// give it up. Only a hint.
#[inline(always)]
pub fn prefetch_to_write(address: *const u8) {
    // SAFETY: the instruction has no effect but on caches, and does not fault.
    unsafe { asm!("prfm pstl1keep, [{}]", in(reg) address, options(readonly, nostack, preserves_flags)) };
}

/// The address of the calling thread's control block.
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: only reads a register, which does not change while the thread lives.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack, preserves_flags)) };
    pointer
}

/// The processor's counter of time.
#[inline(always)]
pub(crate) fn counter() -> Option<u64> {
    let count: u64;
    // SAFETY: only reads the counter.
    unsafe { asm!("mrs {count}, cntvct_el0", count = out(reg) count, options(nomem, nostack, preserves_flags)) };
    Some(count)
}

/// Waits until all instructions before have been executed. Orders nothing else.
#[inline(always)]
pub(crate) fn wait_for_instructions() {
    // SAFETY: accesses no memory.
    unsafe { asm!("isb", options(nostack, preserves_flags)) };
}

/// The address of a function or variable with this name in any library that is loaded, null when there is none. Stable
/// Rust has no weak references, so the address is read from the global offset table.
macro_rules! weak_address {
    ($name:literal) => {{
        let address: *const ();
        // SAFETY: reads one entry of the global offset table, which does not change once the library is loaded.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("adrp {address}, :got:", $name),
                concat!("ldr {address}, [{address}, :got_lo12:", $name, "]"),
                address = out(reg) address,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        address
    }};
}
pub(crate) use weak_address;

/// The address of glibc's `__libc_single_threaded` (2.32 and later).
#[cfg(target_env = "gnu")]
#[inline(always)]
pub(crate) fn single_threaded_flag() -> Option<NonNull<u8>> {
    NonNull::new(weak_address!("__libc_single_threaded").cast_mut().cast())
}

/// Other C libraries have no such flag.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn single_threaded_flag() -> Option<NonNull<u8>> {
    None
}

/// The distance of the thread-local word with this symbol from the thread pointer.
#[doc(hidden)]
#[macro_export]
macro_rules! thread_word_distance {
    ($name:literal) => {{
        let distance: usize;
        // SAFETY: reads one entry of the global offset table, which does not change once the library is loaded.
        unsafe {
            core::arch::asm!(
                concat!("adrp {distance}, :gottprel:", $name),
                concat!("ldr {distance}, [{distance}, :gottprel_lo12:", $name, "]"),
                distance = out(reg) distance,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        distance
    }};
}

/// Loads a word of the calling thread. The compiler may merge loads between which nothing is stored.
///
/// # Safety
/// `distance` is that of a thread-local word, see [`thread_word_distance`].
#[inline(always)]
pub unsafe fn load_thread_word(distance: usize) -> *const () {
    let value;
    // SAFETY: the word belongs to the calling thread, as this function requires, and only this thread changes it.
    unsafe {
        asm!(
            "ldr {value}, [{thread}, {distance}]",
            thread = in(reg) thread_pointer(),
            distance = in(reg) distance,
            value = lateout(reg) value,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    value
}

/// Loads a word of the calling thread that a signal handler may change between any two instructions.
///
/// # Safety
/// As for [`load_thread_word`].
#[inline(always)]
pub unsafe fn load_thread_word_again(distance: usize) -> *const () {
    let value;
    // SAFETY: the word belongs to the calling thread, as this function requires.
    unsafe {
        asm!(
            "ldr {value}, [{thread}, {distance}]",
            thread = in(reg) thread_pointer(),
            distance = in(reg) distance,
            value = lateout(reg) value,
            options(readonly, nostack, preserves_flags)
        );
    }
    value
}

/// Stores a word of the calling thread.
///
/// # Safety
/// As for [`load_thread_word`].
#[inline(always)]
pub unsafe fn store_thread_word(distance: usize, value: *const ()) {
    // SAFETY: the word belongs to the calling thread, as this function requires, and has 8 bytes.
    unsafe {
        asm!(
            "str {value}, [{thread}, {distance}]",
            thread = in(reg) thread_pointer(),
            distance = in(reg) distance,
            value = in(reg) value,
            options(nostack, preserves_flags)
        );
    }
}
