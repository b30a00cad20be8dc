//! What a thread has of its own: a number, in the order in which threads ask, and a word for whoever needs one.

use core::sync::atomic::{AtomicU32, Ordering};

/// The number of the calling thread: 0 for the first that asks, then 1, and so on; after 2³² - 1 threads they repeat.
///
/// A thread that starts where another has ended gets a number of its own. The child of a `fork` goes on counting from
/// where its parent was. Costs two loads once the thread has its number; nothing is allocated.
#[inline(always)]
#[must_use]
pub fn thread_number() -> u32 {
    match word::get() {
        0 => give_number(),
        number => number - 1,
    }
}

#[cold]
#[inline(never)]
fn give_number() -> u32 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let number = GIVEN.fetch_add(1, Ordering::Relaxed);
    word::set(number.wrapping_add(1));
    number
}

/// A word of the calling thread's own, 0 when it starts, for whatever a library wants to keep there: there is one, and it is the
/// caller's affair that nobody else uses it. Where the platform has no such word, it is always 0.
#[inline(always)]
#[must_use]
pub fn thread_word() -> usize {
    word::get_spare()
}

/// Sets the word that [`thread_word`] returns.
#[inline(always)]
pub fn set_thread_word(value: usize) {
    word::set_spare(value);
}

/// Two words of each thread's own, 0 when the thread starts. In the static block of thread-local storage: `thread_local!`
/// calls `__tls_get_addr` in a library, which may allocate.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod word {
    core::arch::global_asm!(
        ".pushsection .tbss.heapwright_thread_number, \"awT\", %nobits",
        ".globl heapwright_thread_number",
        ".hidden heapwright_thread_number",
        ".type heapwright_thread_number, %object",
        ".size heapwright_thread_number, 16",
        ".p2align 3",
        "heapwright_thread_number:",
        ".zero 16",
        ".popsection",
    );

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn place() -> *mut u32 {
        let place: *mut u32;
        // SAFETY: reads the word's distance from the thread pointer, and the thread pointer, which stands in its own block; neither
        // changes while the thread lives.
        unsafe {
            core::arch::asm!(
                "mov {place}, qword ptr [rip + heapwright_thread_number@GOTTPOFF]",
                "add {place}, qword ptr fs:[0]",
                place = out(reg) place,
                options(pure, nomem, nostack)
            );
        }
        place
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    fn place() -> *mut u32 {
        let place: *mut u32;
        // SAFETY: reads the word's distance from the thread pointer, and the thread pointer, which do not change while the
        // thread lives.
        unsafe {
            core::arch::asm!(
                "mrs {thread}, tpidr_el0",
                "adrp {place}, :gottprel:heapwright_thread_number",
                "ldr {place}, [{place}, :gottprel_lo12:heapwright_thread_number]",
                "add {place}, {place}, {thread}",
                place = out(reg) place,
                thread = out(reg) _,
                options(pure, nomem, nostack)
            );
        }
        place
    }

    #[inline(always)]
    pub(super) fn get() -> u32 {
        // SAFETY: the word is this thread's own.
        unsafe { place().read() }
    }

    #[inline(always)]
    pub(super) fn set(number: u32) {
        // SAFETY: the word is this thread's own.
        unsafe { place().write(number) }
    }

    #[inline(always)]
    pub(super) fn get_spare() -> usize {
        // SAFETY: the second word is this thread's own too; a signal handler may change it between any two instructions.
        unsafe { place().cast::<usize>().add(1).read_volatile() }
    }

    #[inline(always)]
    pub(super) fn set_spare(value: usize) {
        // SAFETY: as above.
        unsafe { place().cast::<usize>().add(1).write_volatile(value) }
    }
}

/// Elsewhere the system's number of the thread stands in, at the cost of a system call.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
mod word {
    pub(super) fn get() -> u32 {
        // SAFETY: no preconditions.
        unsafe { libc::syscall(libc::SYS_gettid) as u32 }
    }

    /// Never needed: no thread has the number 0.
    pub(super) fn set(_number: u32) {}

    pub(super) fn get_spare() -> usize {
        0
    }

    pub(super) fn set_spare(_value: usize) {}
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::vec::Vec;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "there is no such word")]
    fn every_thread_has_a_word_that_is_0_at_first() {
        let both = |value| {
            let before = thread_word();
            set_thread_word(value);
            (before, thread_word())
        };
        assert_eq!(both(7), (0, 7));
        assert_eq!(thread::spawn(move || both(8)).join().unwrap(), (0, 8));
        assert_eq!(both(0), (7, 0));
    }

    #[test]
    fn every_thread_has_its_number_and_keeps_it() {
        let both = || (thread_number(), thread_number());
        let mut numbers: Vec<(u32, u32)> = (0..3)
            .map(|_| thread::spawn(both).join().unwrap())
            .chain((0..3).map(|_| thread::spawn(both)).collect::<Vec<_>>().into_iter().map(|one| one.join().unwrap()))
            .chain([both()])
            .collect();
        assert!(numbers.iter().all(|(first, second)| first == second), "{numbers:?}");
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 7);
    }
}
