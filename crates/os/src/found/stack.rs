//! The calling thread's stack: its registers, its bounds, and copies of its contents.

use core::ops::Range;

use crate::code::arch::{Place, registers, thread_pointer};
use crate::found::foreign::read_foreign;
use crate::found::mappings::{Mapping, each_mapping, mapping_at};
use crate::own::process::thread_id;

/// Returns the caller's registers; `None` on processors that are not supported. Inlined: the registers are the caller's
/// own.
#[inline(always)]
#[must_use]
pub fn here() -> Option<Place> {
    registers()
}

/// Copies the stack from the address `from` on into `copy`, up to the end of `own`; returns the number of bytes. A
/// stack outside `own` (of a signal handler, of a coroutine) is copied by a system call, up to the first page that is
/// not mapped.
///
/// # Safety
/// [`own_stack`] has returned `own` to this thread, or it is empty; `from` is an address in use on this thread's stack,
/// or lies outside `own`.
pub unsafe fn copy_stack(from: usize, own: &Range<usize>, copy: &mut [u8]) -> usize {
    if !own.contains(&from) {
        return copy_strange(from, copy);
    }
    let length = copy.len().min(own.end - from);
    // SAFETY: this thread's own stack is mapped from any address in use on it up to its end, for as long as the thread
    // lives. Only this thread changes its contents, and `copy` may overlap: `core::ptr::copy` allows it.
    unsafe { core::ptr::copy(core::ptr::with_exposed_provenance(from), copy.as_mut_ptr(), length) };
    length
}

// Not inlined: its frame would lie on every stack that is copied.
#[inline(never)]
fn copy_strange(from: usize, copy: &mut [u8]) -> usize {
    // By this thread: the first one, whose number is the process's, may have ended.
    read_foreign(thread_id(), from, copy).unwrap_or(0)
}

/// Returns the range of the stack that the system or the C library has allocated for the calling thread, if the address
/// `at` lies on it and no part of it can be unmapped while the thread lives; else `None`. Uses `room` as a buffer.
/// Takes some microseconds, or, for the first thread and where the system can only list all mappings, some microseconds
/// per ten mappings of the process.
///
/// Recognised are the first thread's stack, and one that lies in a mapping with a guard page below and the thread's
/// control block, which the C library places above the stack.
pub fn own_stack(at: usize, room: &mut [u8]) -> Option<Range<usize>> {
    /// The size to which the first thread's stack may grow. Systems place nothing there unless a program asks for it.
    const GROWTH: usize = 64 << 20;
    let control_block = thread_pointer() & !15;
    if let Some((range, _)) = mapping_at(at)
        && range.contains(&control_block)
    {
        let below = mapping_at(range.start.wrapping_sub(1));
        let is_own = at < control_block && below.is_some_and(|(_, is_guard)| is_guard);
        return is_own.then_some(range.start..control_block);
    }
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
            assert_eq!(own.end, thread_pointer() & !15);
            let mut copy = Vec::from([0; 64]);
            // SAFETY: the bytes are a local variable's, and the range is this thread's own stack.
            assert_eq!(unsafe { copy_stack(local.as_ptr().expose_provenance(), &own, &mut copy) }, 64);
            assert_eq!(copy, local);
            let mut copy = Vec::from([0; 4096]);
            // SAFETY: the stack is in use up to its end, and the range is this thread's own.
            assert_eq!(unsafe { copy_stack(own.end - 100, &own, &mut copy) }, 100);
            own
        });
        let of_thread = of_thread.join().unwrap();
        assert!(look().is_none_or(|own| own.end <= of_thread.start || own.start >= of_thread.end));
    }

    /// A thread whose stack the program has allocated: the page below need not be a guard.
    #[test]
    #[cfg_attr(miri, ignore = "there are no registers")]
    fn a_stack_without_a_guard_is_not_certain() {
        extern "C" fn start(found: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: the argument points to an option that lives until this thread is joined, and is not used before.
            unsafe { found.cast::<Option<Range<usize>>>().write(look()) };
            core::ptr::null_mut()
        }
        let (page, length) = (crate::page_size(), 1 << 20);
        let below = crate::map(page + length).unwrap();
        let mut found = Some(0..0);
        // SAFETY: the stack is a mapping of its own that nothing else uses, behind a page that can be read; the thread
        // is joined before `found` and the mapping go.
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
        // SAFETY: the mapping was made above, and its second page is not used again.
        unsafe {
            start.write_bytes(5, page);
            crate::unmap(start.add(page), page).unwrap();
        }
        let at = start.expose_provenance().get() + page - 100;
        assert_eq!(own_stack(at, &mut [0; 4096]), None);
        let mut copy = [0; 300];
        // SAFETY: the range is empty.
        let copied = unsafe { copy_stack(at, &(0..0), &mut copy) };
        assert!(copied >= 100 && copy[..100] == [5; 100]);
        // SAFETY: the first page of the mapping made above is left, and not used again.
        unsafe { crate::unmap(start, page) }.unwrap();
    }
}
