//! The calling thread's stack: where it stands, and a copy of what lies on it.

use core::ops::Range;

use crate::foreign::read_foreign;
use crate::mappings::{Mapping, each_mapping};
use crate::process::process_id;

/// Where a thread is: the registers that an unwinder begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The instruction.
    pub instruction: u64,
    /// The stack pointer: the stack lies at it and above.
    pub stack: u64,
    /// The frame pointer, whatever is in it.
    pub frame: u64,
    /// Where the function returns to, on machines that have a register for it; else 0.
    pub link: u64,
}

/// Where the caller is, `None` on machines for which nobody has said how to ask. Inlined: the registers are the caller's own.
#[inline(always)]
#[must_use]
pub fn here() -> Option<Place> {
    registers::read()
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod registers {
    use super::Place;

    #[inline(always)]
    pub(super) fn read() -> Option<Place> {
        let (instruction, stack, frame): (u64, u64, u64);
        // SAFETY: reads registers.
        unsafe {
            core::arch::asm!(
                "lea {instruction}, [rip]",
                "mov {stack}, rsp",
                "mov {frame}, rbp",
                instruction = out(reg) instruction,
                stack = out(reg) stack,
                frame = out(reg) frame,
                options(nomem, nostack, preserves_flags)
            );
        }
        Some(Place { instruction, stack, frame, link: 0 })
    }

    pub(super) fn thread_pointer() -> usize {
        let pointer: usize;
        // SAFETY: the thread pointer stands in its own block and does not change while the thread lives.
        unsafe { core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(pure, nomem, nostack)) };
        pointer
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod registers {
    use super::Place;

    #[inline(always)]
    pub(super) fn read() -> Option<Place> {
        let (instruction, stack, frame, link): (u64, u64, u64, u64);
        // SAFETY: reads registers.
        unsafe {
            core::arch::asm!(
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

    pub(super) fn thread_pointer() -> usize {
        let pointer: usize;
        // SAFETY: the register does not change while the thread lives.
        unsafe { core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack)) };
        pointer
    }
}

#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
mod registers {
    use super::Place;

    pub(super) fn read() -> Option<Place> {
        None
    }

    pub(super) fn thread_pointer() -> usize {
        0
    }
}

/// Copies what lies on a stack from the address `from` on into `copy`, up to the end of `own`, which [`own_stack`] has
/// given to this thread; returns how many bytes there were. What does not lie in `own` (the stack of a signal handler, of
/// a coroutine) is copied by the system, up to the first page that is not mapped.
pub fn copy_stack(from: usize, own: &Range<usize>, copy: &mut [u8]) -> usize {
    if !own.contains(&from) {
        return copy_strange(from, copy);
    }
    let length = copy.len().min(own.end - from);
    // SAFETY: this thread's own stack is mapped from any address in use on it up to its end, for as long as the thread lives.
    // What lies there may be changed by its owner, which is here; the copy may lie there too.
    unsafe { core::ptr::copy(core::ptr::with_exposed_provenance(from), copy.as_mut_ptr(), length) };
    length
}

// Its frame would lie on every stack that is copied.
#[inline(never)]
fn copy_strange(from: usize, copy: &mut [u8]) -> usize {
    read_foreign(process_id(), from, copy).unwrap_or(0)
}

/// The stack that the system or the C library has given to the calling thread, if the address `at` lies on it and it is certain that
/// nothing in it is ever unmapped while the thread lives; else `None`. Uses `room` while it reads; costs some microseconds per
/// ten mappings of the process.
///
/// Certain are the first thread's stack, and one that has a guard page below and the thread's control block, which the C library puts
/// above, in one mapping.
pub fn own_stack(at: usize, room: &mut [u8]) -> Option<Range<usize>> {
    /// How far the first thread's stack may grow, of what no system places anything in unless asked to.
    const GROWTH: usize = 64 << 20;
    let control_block = registers::thread_pointer() & !15;
    let (mut found, mut guarded_from) = (None, 0);
    each_mapping(room, |mapping| {
        let Mapping { range, .. } = &mapping;
        if mapping.path == b"[stack]" && at < range.end && at >= range.end.saturating_sub(GROWTH) {
            found = Some(range.end.saturating_sub(GROWTH)..range.end);
        }
        if range.contains(&at) && guarded_from == range.start && range.contains(&control_block) && at < control_block {
            found = Some(range.start..control_block);
        }
        guarded_from = if mapping.is_guard { range.end } else { 0 };
    })
    .ok()?;
    found
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::vec::Vec;

    use super::*;

    #[inline(never)]
    fn look() -> Option<Range<usize>> {
        let mut room = [0; 4096];
        let at = here()?.stack as usize;
        own_stack(at, &mut room)
    }

    #[test]
    #[cfg_attr(miri, ignore = "there are no registers")]
    fn a_threads_own_stack_is_known_and_can_be_copied() {
        let of_thread = thread::spawn(|| {
            let local = [7_u8; 64];
            let own = look().unwrap();
            assert!(own.contains(&local.as_ptr().addr()));
            assert_eq!(own.end, registers::thread_pointer() & !15);
            let mut copy = Vec::from([0; 64]);
            assert_eq!(copy_stack(local.as_ptr().expose_provenance(), &own, &mut copy), 64);
            assert_eq!(copy, local);
            let mut copy = Vec::from([0; 4096]);
            assert_eq!(copy_stack(own.end - 100, &own, &mut copy), 100);
            own
        });
        let of_thread = of_thread.join().unwrap();
        assert!(look().is_none_or(|own| own.end <= of_thread.start || own.start >= of_thread.end));
    }

    /// A thread whose stack is given: nobody says that what lies below is a guard.
    #[test]
    #[cfg_attr(miri, ignore = "there are no registers")]
    fn a_stack_without_a_guard_is_not_certain() {
        extern "C" fn start(found: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: whoever waits for this thread owns it.
            unsafe { found.cast::<Option<Range<usize>>>().write(look()) };
            core::ptr::null_mut()
        }
        let (page, length) = (crate::page_size(), 1 << 20);
        let below = crate::map(page + length).unwrap();
        let mut found = Some(0..0);
        // SAFETY: the stack is a mapping of its own that nobody else uses, behind a page that can be read; the thread is waited for.
        unsafe {
            assert_eq!(libc::mprotect(below.as_ptr().cast(), page, libc::PROT_READ), 0);
            let (mut attributes, mut thread) = (core::mem::zeroed(), core::mem::zeroed());
            libc::pthread_attr_init(&mut attributes);
            libc::pthread_attr_setstack(&mut attributes, below.as_ptr().add(page).cast(), length);
            assert_eq!(libc::pthread_create(&mut thread, &attributes, start, (&raw mut found).cast()), 0);
            assert_eq!(libc::pthread_join(thread, core::ptr::null_mut()), 0);
            libc::pthread_attr_destroy(&mut attributes);
            crate::unmap(below, page + length).unwrap();
        }
        assert_eq!(found, None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "there are no registers")]
    fn another_stack_is_copied_up_to_its_end() {
        let page = crate::page_size();
        let start = crate::map(2 * page).unwrap();
        // SAFETY: the mapping is ours, and its second page is not used again.
        unsafe {
            start.write_bytes(5, page);
            crate::unmap(start.add(page), page).unwrap();
        }
        let at = start.expose_provenance().get() + page - 100;
        assert_eq!(own_stack(at, &mut [0; 4096]), None);
        let mut copy = [0; 300];
        let copied = copy_stack(at, &(0..0), &mut copy);
        assert!(copied >= 100 && copy[..100] == [5; 100]);
        // SAFETY: ours, as above.
        unsafe { crate::unmap(start, page) }.unwrap();
    }
}
