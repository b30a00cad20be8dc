//! The end of a process that is refused memory which it cannot do without: one line on standard error, no temporary
//! files left, and the exit code of a failure. Rust's own end is an abort, after a backtrace for which it allocates.

use std::io::{Cursor, Write};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::{panic, ptr};

use heapwright_os::MemoryLimit;

use crate::cleanup;
use crate::own_memory::OwnMemory;

/// The longest line, in bytes.
const LINE: usize = 200;

/// The exit code.
static EXIT_CODE: AtomicU8 = AtomicU8::new(1);

/// The thread that ends the process; 0 as long as none does.
static ENDING: AtomicUsize = AtomicUsize::new(0);

/// Sets the exit code with which this process ends when memory is refused; it is 1 until then.
pub fn end_with(code: u8) {
    EXIT_CODE.store(code, Ordering::Relaxed);
}

/// Ends the process for which the system has no `size` bytes. What is allocated to remove temporary files comes from
/// `spare`.
///
/// Returns if they are more than the machine has: no limit and no other program is the reason then, but a length that
/// was read from a file, and what reads such lengths handles the refusal.
pub(crate) fn end(size: usize, spare: &OwnMemory) {
    if size as u64 <= memory_of_machine() {
        end_the_process(Some(size), spare);
    }
}

/// Whether libraries that are refused memory end the process as other refusals do. Not in a process that measures
/// malloc's heap.
static LIBRARIES_TOO: AtomicBool = AtomicBool::new(false);

/// The bytes of addresses that are reserved, untouched, for what the C library allocates to list a folder that is
/// removed at the end.
const RESERVE: usize = 256 << 10;

/// The address of the reserve; null if there is none.
static RESERVED: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

/// What [`note_end`] of the C library is; null until it was looked for.
static NOTE_OF_LIBRARY: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

/// Notes what is to be done with `object` at the end of the calling thread, as the C library's function of this name: a
/// program exports this one in its place. The library's ends the process by an abort when it is refused memory for the
/// note; after [`end_at_refusals_in_libraries`] that is the end for lack of memory. A thread that has just begun makes
/// such a note.
///
/// # Safety
/// As for `__cxa_thread_atexit_impl`: `destructor` may be called with `object` at the end of the thread.
pub unsafe fn note_end(
    destructor: unsafe extern "C" fn(*mut libc::c_void),
    object: *mut libc::c_void,
    handle: *mut libc::c_void,
    spare: &OwnMemory,
) -> libc::c_int {
    /// More than a note, and more than a thread keeps for itself of what it frees: what is freed serves the note.
    const ROOM: usize = 4096;
    type Note = unsafe extern "C" fn(
        unsafe extern "C" fn(*mut libc::c_void),
        *mut libc::c_void,
        *mut libc::c_void,
    ) -> libc::c_int;
    let mut note = NOTE_OF_LIBRARY.load(Ordering::Relaxed);
    if note.is_null() {
        // SAFETY: the name is a string that ends with zero.
        note = unsafe { libc::dlsym(libc::RTLD_NEXT, c"__cxa_thread_atexit_impl".as_ptr()) };
        NOTE_OF_LIBRARY.store(note, Ordering::Relaxed);
    }
    // SAFETY: the block is freed as it was allocated. glibc defines the function with this signature; the caller makes
    // the promise that it needs.
    unsafe {
        if LIBRARIES_TOO.load(Ordering::Relaxed) {
            let room = libc::malloc(ROOM);
            if room.is_null() {
                end_the_process(Some(ROOM), spare);
            }
            libc::free(room);
        }
        if note.is_null() {
            // Without the function nothing is done at the end of threads.
            return 0;
        }
        std::mem::transmute::<*mut libc::c_void, Note>(note)(destructor, object, handle)
    }
}

/// What panics of libraries say that were refused memory: zstd, which allocates by itself, and new threads, which have
/// a stack for signals.
const REFUSALS: [&str; 2] = ["zstd returned null pointer", "failed to allocate an alternative stack"];

/// Lets panics of libraries that were refused memory end the process in the same way. To be called once.
pub fn end_at_refusals_in_libraries(spare: &'static OwnMemory) {
    LIBRARIES_TOO.store(true, Ordering::Relaxed);
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping touches no other memory.
    let reserve = unsafe { libc::mmap(ptr::null_mut(), RESERVE, protection, flags, -1, 0) };
    RESERVED.store(if reserve == libc::MAP_FAILED { ptr::null_mut() } else { reserve }, Ordering::Relaxed);
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| info.payload().downcast_ref::<&str>().copied()).unwrap_or_default();
        if REFUSALS.iter().any(|refusal| text.contains(refusal)) {
            end_the_process(None, spare);
        }
        usual(info);
    }));
}

/// Ends the process for which there is no memory; the size that was refused, if it is known, is said.
fn end_the_process(size: Option<usize>, spare: &OwnMemory) -> ! {
    let this = this_thread();
    match ENDING.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            report(size);
            spare.begin();
            let reserve = RESERVED.swap(ptr::null_mut(), Ordering::Relaxed);
            if !reserve.is_null() {
                // SAFETY: nothing uses the mapping.
                unsafe { libc::munmap(reserve, RESERVE) };
            }
            cleanup::remove_all_if_unlocked();
        }
        // The spare memory is used up, too.
        Err(ending) if ending == this => {}
        Err(_) => loop {
            // SAFETY: pause has no preconditions.
            unsafe { libc::pause() };
        },
    }
    // SAFETY: nothing runs at the exit of a process that ends so.
    unsafe { libc::_exit(EXIT_CODE.load(Ordering::Relaxed).into()) }
}

/// Returns the length of main memory and swap space in bytes, without allocating.
fn memory_of_machine() -> u64 {
    // SAFETY: the structure consists of integers, for which zeroes are valid, and sysinfo fills it.
    let info = unsafe {
        let mut info: libc::sysinfo = std::mem::zeroed();
        libc::sysinfo(&mut info);
        info
    };
    (info.totalram + info.totalswap).saturating_mul(info.mem_unit.into())
}

/// Returns a number of this thread that is not 0.
fn this_thread() -> usize {
    // SAFETY: pthread_self has no preconditions.
    unsafe { libc::pthread_self() as usize }
}

/// Prints the line, without allocating.
fn report(size: Option<usize>) {
    let (line, length) = line(size, MemoryLimit::of_this_process());
    // SAFETY: the bytes are initialised and borrowed.
    unsafe { libc::write(libc::STDERR_FILENO, ptr::from_ref(&line).cast(), length) };
}

fn line(size: Option<usize>, limit: MemoryLimit) -> ([u8; LINE], usize) {
    let (mut line, advice) = (Cursor::new([0; LINE]), limit.advice());
    // Longer ones are cut.
    let _ = match size {
        Some(size) => writeln!(line, "heapwright: out of memory: {size} bytes could not be allocated: {advice}"),
        None => writeln!(line, "heapwright: out of memory: {advice}"),
    };
    let length = line.position() as usize;
    (line.into_inner(), length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_line_is_not_cut() {
        for limit in MemoryLimit::ALL {
            let (bytes, length) = line(Some(usize::MAX), limit);
            assert!(bytes[..length].ends_with(b"\n"));
        }
        let (bytes, length) = line(Some(40), MemoryLimit::Space);
        let expected = "heapwright: out of memory: 40 bytes could not be allocated: raise the limit on address space \
                        (`ulimit -v`)\n";
        assert_eq!(std::str::from_utf8(&bytes[..length]), Ok(expected));
    }

    #[test]
    fn more_than_the_machine_has_is_refused_and_ends_nothing() {
        static SPARE: OwnMemory = OwnMemory::new();
        assert!(memory_of_machine() > 1 << 20);
        end(usize::MAX >> 1, &SPARE);
    }
}
