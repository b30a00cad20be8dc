//! How much memory this process holds, read without allocating.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};

/// Where the kernel tells how much memory is resident.
pub struct Resident {
    source: Source,
}

enum Source {
    /// Exact: the kernel walks the page tables.
    Rollup(File),
    /// Where there is no other; some kernels lag a few pages behind.
    Statm(File),
}

/// What counts: anonymous memory, and shared memory of which some allocators make their heaps; not the code and data of
/// files that are mapped.
const COUNTED: [&[u8]; 4] = [b"\nAnonymous:", b"\nPss_Shmem:", b"\nShared_Hugetlb:", b"\nPrivate_Hugetlb:"];

impl Resident {
    /// Finds the best source.
    ///
    /// # Errors
    /// When /proc has none.
    pub fn open() -> Result<Resident> {
        if let Ok(file) = File::open("/proc/self/smaps_rollup") {
            return Ok(Resident { source: Source::Rollup(file) });
        }
        let file = File::open("/proc/self/statm").context("/proc does not tell how much memory is resident")?;
        Ok(Resident { source: Source::Statm(file) })
    }

    /// The resident bytes that may belong to a heap.
    pub fn bytes(&self) -> Result<u64> {
        let mut buffer = [0; 4096];
        let total = match &self.source {
            Source::Rollup(file) => {
                let text = read(file, &mut buffer)?;
                let kilobytes = COUNTED.iter().map(|name| number_after(text, name).unwrap_or(0)).sum::<u64>();
                number_after(text, COUNTED[0]).map(|_| kilobytes * 1024)
            }
            Source::Statm(file) => {
                let mut numbers = read(file, &mut buffer)?.split(|&byte| byte == b' ').map(leading_number);
                let (resident, shared) = (numbers.nth(1).flatten(), numbers.next().flatten());
                resident
                    .zip(shared)
                    .map(|(resident, shared)| resident.saturating_sub(shared) * heapwright_os::page_size() as u64)
            }
        };
        total.context("/proc does not tell how much memory is resident")
    }
}

/// The most memory that was resident since [`forget_high_water`], as the kernel counts it: of files too, and on some
/// kernels a few pages per processor late. `None` when it does not say.
pub fn high_water() -> Option<u64> {
    let file = File::open("/proc/self/status").ok()?;
    let mut buffer = [0; 4096];
    Some(number_after(read(&file, &mut buffer).ok()?, b"\nVmHWM:")? * 1024)
}

/// Has [`high_water`] begin again from what is resident now.
pub fn forget_high_water() {
    // Where this is not allowed, the high water of the start stays, which is low: nothing was done yet.
    let _ = OpenOptions::new().write(true).open("/proc/self/clear_refs").and_then(|mut file| file.write_all(b"5"));
}

/// Where this process' program break began: field 47 of its `stat`.
pub fn start_of_break() -> Option<u64> {
    let file = File::open("/proc/self/stat").ok()?;
    let mut buffer = [0; 4096];
    let text = read(&file, &mut buffer).ok()?;
    // The second field is the command's name in parentheses, which may hold anything.
    let behind_name = &text[text.iter().rposition(|&byte| byte == b')')? + 1..];
    leading_number(behind_name.split(|&byte| byte == b' ').nth(45)?).filter(|&start| start > 0)
}

/// The library that an address belongs to, as the dynamic linker sees it.
pub fn library_of<'a>(address: *const libc::c_void) -> Option<&'a CStr> {
    // SAFETY: all zeroes is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is written only.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gave a string that lives as long as the library is loaded, which is for ever.
    Some(unsafe { CStr::from_ptr(info.dli_fname) })
}

fn read<'a>(file: &File, buffer: &'a mut [u8]) -> Result<&'a [u8]> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read_at(&mut buffer[len..], len as u64).context("cannot read from /proc")? {
            0 => break,
            read => len += read,
        }
    }
    Ok(&buffer[..len])
}

fn number_after(text: &[u8], name: &[u8]) -> Option<u64> {
    let at = text.windows(name.len()).position(|window| window == name)?;
    leading_number(text[at + name.len()..].trim_ascii_start())
}

fn leading_number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let mut any = None;
    for digit in digits {
        any = Some(any.unwrap_or(0u64).checked_mul(10)?.checked_add(u64::from(digit - b'0'))?);
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::lazy::Lazy;

    #[test]
    fn memory_that_is_touched_is_seen() {
        let resident = Resident::open().unwrap();
        let before = resident.bytes().unwrap();
        let held = Lazy::<u8>::committed(32 << 20).unwrap();
        let after = resident.bytes().unwrap();
        assert!(after - before >= 32 << 20 && after - before < 48 << 20, "{before} {after} {}", held.len());
    }

    #[test]
    fn the_break_begins_below_where_it_is() {
        // SAFETY: sbrk(0) moves nothing.
        let now = unsafe { libc::sbrk(0) }.addr() as u64;
        assert!(start_of_break().is_some_and(|start| start <= now && now - start < 1 << 40));
    }

    #[test]
    fn numbers_are_found_by_their_names() {
        let text = b"Rss: 1 kB\nPss_Anon: 2 kB\nAnonymous:    31 kB\nEnd";
        assert_eq!(number_after(text, b"\nAnonymous:"), Some(31));
        assert_eq!(number_after(text, b"\nNone:"), None);
        assert_eq!((leading_number(b"x"), leading_number(b"99999999999999999999")), (None, None));
    }
}
