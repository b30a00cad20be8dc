//! Thread-local data: a number of the thread, and two spare words.

use core::sync::atomic::{AtomicU32, Ordering};

/// Returns the number of the calling thread: 0 for the first that calls this, then 1, and so on. Numbers repeat after
/// 2³² - 1 threads.
///
/// A thread that starts after another has ended gets a new number. The child of a `fork` continues its parent's
/// numbers. Costs two loads once the thread has its number; never allocates.
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

/// Returns the first spare word of the calling thread, 0 when the thread starts. There is one such word per thread: a
/// library that uses it must be the only user. Always 0 on platforms without such a word.
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

/// Returns the second spare word of the calling thread. See [`thread_word`].
#[inline(always)]
#[must_use]
pub fn second_thread_word() -> usize {
    word::get_second()
}

/// Sets the word that [`second_thread_word`] returns.
#[inline(always)]
pub fn set_second_thread_word(value: usize) {
    word::set_second(value);
}

/// Three thread-local words, 0 when the thread starts. In the static block of thread-local storage: `thread_local!`
/// calls `__tls_get_addr` in a library, which may allocate.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod word {
    use core::ptr::without_provenance;

    use crate::code::arch::{load_thread_word, load_thread_word_again, store_thread_word};
    use crate::thread_word_distance;

    core::arch::global_asm!(
        ".pushsection .tbss.heapwright_thread_number, \"awT\", %nobits",
        ".globl heapwright_thread_number",
        ".hidden heapwright_thread_number",
        ".type heapwright_thread_number, %object",
        ".size heapwright_thread_number, 8",
        ".globl heapwright_thread_word",
        ".hidden heapwright_thread_word",
        ".type heapwright_thread_word, %object",
        ".size heapwright_thread_word, 8",
        ".p2align 3",
        "heapwright_thread_number:",
        ".zero 8",
        "heapwright_thread_word:",
        ".zero 8",
        ".popsection",
        // A section of its own: most libraries do not use the second word, and the linker leaves it out of them.
        ".pushsection .tbss.heapwright_second_thread_word, \"awT\", %nobits",
        ".globl heapwright_second_thread_word",
        ".hidden heapwright_second_thread_word",
        ".type heapwright_second_thread_word, %object",
        ".size heapwright_second_thread_word, 8",
        ".p2align 3",
        "heapwright_second_thread_word:",
        ".zero 8",
        ".popsection",
    );

    #[inline(always)]
    pub(super) fn get() -> u32 {
        let distance = thread_word_distance!("heapwright_thread_number");
        // SAFETY: the distance is that of the first word defined above.
        unsafe { load_thread_word(distance).addr() as u32 }
    }

    #[inline(always)]
    pub(super) fn set(number: u32) {
        let distance = thread_word_distance!("heapwright_thread_number");
        // SAFETY: the distance is that of the first word defined above.
        unsafe { store_thread_word(distance, without_provenance(number as usize)) }
    }

    #[inline(always)]
    pub(super) fn get_spare() -> usize {
        let distance = thread_word_distance!("heapwright_thread_word");
        // SAFETY: the distance is that of the second word defined above.
        unsafe { load_thread_word_again(distance).addr() }
    }

    #[inline(always)]
    pub(super) fn set_spare(value: usize) {
        let distance = thread_word_distance!("heapwright_thread_word");
        // SAFETY: the distance is that of the second word defined above.
        unsafe { store_thread_word(distance, without_provenance(value)) }
    }

    #[inline(always)]
    pub(super) fn get_second() -> usize {
        let distance = thread_word_distance!("heapwright_second_thread_word");
        // SAFETY: the distance is that of the third word defined above.
        unsafe { load_thread_word_again(distance).addr() }
    }

    #[inline(always)]
    pub(super) fn set_second(value: usize) {
        let distance = thread_word_distance!("heapwright_second_thread_word");
        // SAFETY: the distance is that of the third word defined above.
        unsafe { store_thread_word(distance, without_provenance(value)) }
    }
}

/// On other platforms the system's number of the thread is used, at the cost of a system call.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
mod word {
    pub(super) fn get() -> u32 {
        // SAFETY: the call has no preconditions.
        unsafe { libc::syscall(libc::SYS_gettid) as u32 }
    }

    /// Never called: no thread has the number 0.
    pub(super) fn set(_number: u32) {}

    pub(super) fn get_spare() -> usize {
        0
    }

    pub(super) fn set_spare(_value: usize) {}

    pub(super) fn get_second() -> usize {
        0
    }

    pub(super) fn set_second(_value: usize) {}
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::vec::Vec;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "there is no such word")]
    fn every_thread_has_two_words_that_are_0_at_first() {
        let words = || (thread_word(), second_thread_word());
        let set = move |(first, second)| {
            let before = words();
            set_thread_word(first);
            set_second_thread_word(second);
            (before, words())
        };
        assert_eq!(set((7, 8)), ((0, 0), (7, 8)));
        assert_eq!(thread::spawn(move || set((9, 10))).join().unwrap(), ((0, 0), (9, 10)));
        assert_eq!(set((0, 0)), ((7, 8), (0, 0)));
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
