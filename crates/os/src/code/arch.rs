//! What depends on the processor: registers, its counter of time, thread-local storage. All assembly of Heapwright is
//! here, but for the sections that define thread-local words (see [`thread_slot`](crate::thread_slot)) and a jump (see
//! [`loading`](crate::loading)).

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
#[path = "arch/x86_64.rs"]
mod machine;
#[cfg(all(target_os = "linux", target_arch = "aarch64", not(miri)))]
#[path = "arch/aarch64.rs"]
mod machine;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
#[path = "arch/other.rs"]
mod machine;

pub(crate) use machine::{
    counter, registers, single_threaded_flag, thread_pointer, wait_for_instructions, weak_address,
};
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
pub use machine::{load_thread_word, load_thread_word_again, store_thread_word};
pub use machine::{prefetch, prefetch_to_write};

/// The registers of a thread from which an unwinder starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The instruction pointer.
    pub instruction: u64,
    /// The stack pointer: the stack lies at it and above.
    pub stack: u64,
    /// The frame pointer, whatever the register holds.
    pub frame: u64,
    /// The link register, which holds the return address, on processors that have one; else 0.
    pub link: u64,
}

#[cfg(test)]
mod tests {
    use core::ptr::{null, without_provenance};

    use super::*;

    #[test]
    fn hints_neither_fault_nor_write() {
        static CONSTANT: u64 = 7;
        for address in [null(), without_provenance(usize::MAX), (&raw const CONSTANT).cast()] {
            prefetch(address);
            prefetch_to_write(address);
        }
        assert_eq!(CONSTANT, 7);
    }
}
