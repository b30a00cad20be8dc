//! The system's clock without the C library: others put functions that allocate in the place of its `clock_gettime`.
//!
//! The system maps a library into every process that reads the clock without a system call, the vDSO. Sources: the man
//! page vdso(7); the gABI's chapters on dynamic linking; for the second form of hash table, "ELF: better symbol lookup
//! via DT_GNU_HASH" by R. Bendersky, 2017.

use core::ffi::{CStr, c_void};
use core::mem::transmute;
use core::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use crate::code::objects::are_in_one_object;

/// The function's name.
const NAME: &CStr = if cfg!(target_arch = "aarch64") { c"__kernel_clock_gettime" } else { c"__vdso_clock_gettime" };

type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> i32;

/// The function; null as long as it was not looked for, or where there is none.
static FUNCTION: AtomicPtr<u8> = AtomicPtr::new(null_mut());

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const FOUND: u8 = 1;
const MISSING: u8 = 2;

/// Whether the process's `clock_gettime` is the C library's.
static IS_GENUINE: AtomicBool = AtomicBool::new(false);

/// Has the time read by the process's `clock_gettime` from now on if that is the C library's. A replay shows a library
/// another clock by redirecting this import.
///
/// Not for use in `malloc`: the dynamic linker's lock is taken.
pub fn trust_the_clock_of_the_c_library() {
    let is_genuine = are_in_one_object(libc::clock_gettime as *const c_void, libc::getauxval as *const c_void);
    IS_GENUINE.store(is_genuine, Ordering::Relaxed);
}

/// Returns the time of a clock, which every system has, in nanoseconds.
pub(crate) fn nanoseconds_of(clock: libc::clockid_t) -> u64 {
    nanoseconds_if_any(clock).unwrap_or(0)
}

/// Returns the time of a clock in nanoseconds; `None` when there is none, such as that of a process that has ended.
pub(crate) fn nanoseconds_if_any(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let function =
        if IS_GENUINE.load(Ordering::Relaxed) { Some(libc::clock_gettime as ClockGettime) } else { function() };
    let refused = match function {
        // SAFETY: the function writes to a local variable only.
        Some(function) => unsafe { function(clock, &raw mut time) },
        // SAFETY: as above.
        None => unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) as i32 },
    };
    (refused == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn function() -> Option<ClockGettime> {
    if STATE.load(Ordering::Acquire) == UNKNOWN {
        find();
    }
    let function = FUNCTION.load(Ordering::Relaxed);
    // SAFETY: it is the address of a function of this type: the name says which.
    (!function.is_null()).then(|| unsafe { transmute::<*mut u8, ClockGettime>(function) })
}

#[cold]
fn find() {
    // SAFETY: the call has no preconditions.
    let image = if cfg!(miri) { 0 } else { unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } };
    // SAFETY: the system's image stays mapped, and is what its headers say.
    let found = if image == 0 { None } else { unsafe { symbol(image as usize, NAME) } };
    FUNCTION.store(found.map_or(null_mut(), with_exposed_provenance_mut), Ordering::Relaxed);
    STATE.store(if found.is_some() { FOUND } else { MISSING }, Ordering::Release);
}

/// Types of segments, and tags of the dynamic section.
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const HASH: u64 = 4;
const STRINGS: u64 = 5;
const SYMBOLS: u64 = 6;
const GNU_HASH: u64 = 0x6fff_fef5;

/// Bytes of an entry of the table of symbols.
const SYMBOL: usize = 24;

/// Returns the address of a function of a 64-bit ELF image.
///
/// # Safety
/// At `image` a whole image is mapped.
unsafe fn symbol(image: usize, name: &CStr) -> Option<usize> {
    // SAFETY: the image is whole, as this function requires: what its headers lead to lies in it.
    unsafe {
        if read::<[u8; 5]>(image) != *b"\x7fELF\x02" {
            return None;
        }
        let (headers, size, count) = (read::<u64>(image + 32), read::<u16>(image + 54), read::<u16>(image + 56));
        let (mut shift, mut dynamic) = (None, None);
        for number in 0..usize::from(count) {
            let header = image + headers as usize + number * usize::from(size);
            let (offset, address) = (read::<u64>(header + 8) as usize, read::<u64>(header + 16) as usize);
            match read::<u32>(header) {
                LOAD if shift.is_none() => shift = Some((image + offset).wrapping_sub(address)),
                DYNAMIC => dynamic = Some(image + offset),
                _ => {}
            }
        }
        let (shift, mut entry) = (shift?, dynamic?);
        let (mut strings, mut symbols, mut count) = (None, None, None);
        loop {
            let (tag, value) = (read::<u64>(entry), shift.wrapping_add(read::<u64>(entry + 8) as usize));
            match tag {
                0 => break,
                STRINGS => strings = Some(value),
                SYMBOLS => symbols = Some(value),
                HASH => count = Some(read::<u32>(value + 4) as usize),
                GNU_HASH if count.is_none() => count = Some(count_by_gnu_hash(value)),
                _ => {}
            }
            entry += 16;
        }
        let (strings, symbols) = (strings?, symbols?);
        (0..count?).map(|number| symbols + number * SYMBOL).find_map(|symbol| {
            let is_defined = read::<u16>(symbol + 6) != 0;
            let own = CStr::from_ptr(with_exposed_provenance(strings + read::<u32>(symbol) as usize));
            (is_defined && own == name).then(|| shift.wrapping_add(read::<u64>(symbol + 8) as usize))
        })
    }
}

/// Returns the number of symbols: one more than that of the last in the longest chain.
///
/// # Safety
/// At `table` there is such a table.
unsafe fn count_by_gnu_hash(table: usize) -> usize {
    // SAFETY: the table is whole, as this function requires.
    unsafe {
        let (buckets, first, words) = (read::<u32>(table), read::<u32>(table + 4), read::<u32>(table + 8));
        let bucket = table + 16 + words as usize * 8;
        let chains = bucket + buckets as usize * 4;
        let last = (0..buckets as usize).map(|number| read::<u32>(bucket + number * 4)).max().unwrap_or(0);
        if last < first {
            return first as usize;
        }
        let mut last = last as usize;
        // The last of a chain is odd.
        while read::<u32>(chains + (last - first as usize) * 4) & 1 == 0 {
            last += 1;
        }
        last + 1
    }
}

/// # Safety
/// At `address` there are as many bytes of an image; every value of `T` is valid.
unsafe fn read<T: Copy>(address: usize) -> T {
    // SAFETY: as this function requires.
    unsafe { with_exposed_provenance::<T>(address).read_unaligned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "the image is the system's")]
    fn the_clock_of_the_system_is_that_of_the_c_library() {
        let before = nanoseconds_of(libc::CLOCK_MONOTONIC);
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time is written to a local variable.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        let between = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let after = nanoseconds_of(libc::CLOCK_MONOTONIC);
        assert!(before <= between && between <= after && after - before < 1_000_000_000);
    }

    #[test]
    #[cfg_attr(miri, ignore = "the image is the system's")]
    fn functions_of_the_image_are_found_by_name() {
        // SAFETY: the call has no preconditions.
        let image = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
        if image == 0 {
            return;
        }
        // SAFETY: the system's image is whole.
        unsafe {
            assert!(symbol(image, NAME).is_some_and(|found| found > image));
            assert_eq!(symbol(image, c"no_such_function"), None);
        }
    }
}
