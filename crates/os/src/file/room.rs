//! Whether the system has the memory that a file in memory asks for.
//!
//! A file system in memory may be allowed more than the machine has. To back a file there, the kernel would not refuse,
//! but end processes to find the memory.

use core::mem::MaybeUninit;

use crate::file::descriptor::read_small;
use crate::file::file_error::FileError;

/// Fewer bytes are not worth a look.
const FEW: usize = 64 << 20;

/// Fails when the file lies in memory, and `bytes` more are more than the memory that is available, swap included.
///
/// # Errors
/// [`FileError::NoMemory`].
pub(crate) fn stay_within_memory(descriptor: i32, bytes: usize) -> Result<(), FileError> {
    if bytes < FEW || !lies_in_memory(descriptor) {
        return Ok(());
    }
    match available() {
        Some(available) if bytes as u64 > available => Err(FileError::NoMemory),
        _ => Ok(()),
    }
}

/// Whether an open file lies in a file system in memory.
fn lies_in_memory(descriptor: i32) -> bool {
    const RAMFS: u64 = 0x8584_58f6;
    let mut facts = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the call writes to the local variable, and takes a descriptor.
    let kind = unsafe {
        match libc::fstatfs(descriptor, facts.as_mut_ptr()) {
            // SAFETY: a call that succeeds has written all of it.
            0 => facts.assume_init().f_type as u64,
            _ => return false,
        }
    };
    [libc::TMPFS_MAGIC as u64, RAMFS].contains(&(kind & 0xffff_ffff))
}

/// Returns the available memory and the free swap of the machine in bytes; `None` where they are not known.
fn available() -> Option<u64> {
    let mut text = [0; 4096];
    available_in(read_small(c"/proc/meminfo", &mut text)?)
}

fn available_in(meminfo: &[u8]) -> Option<u64> {
    let bytes = |name: &[u8]| {
        let line = meminfo.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
        let number = str::from_utf8(line).ok()?.trim().strip_suffix("kB")?.trim_end();
        number.parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(bytes(b"MemAvailable:")?.saturating_add(bytes(b"SwapFree:").unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn available_memory_contains_free_swap() {
        let text = b"MemTotal:  100 kB\nMemAvailable:   24 kB\nSwapFree: 2 kB\n";
        assert_eq!(available_in(text), Some(26 << 10));
        assert_eq!(available_in(b"MemAvailable:   24 kB\n"), Some(24 << 10));
        assert_eq!(available_in(b"MemAvailable: much kB\n"), None);
        assert_eq!(available_in(b""), None);
    }

    #[test]
    fn more_than_there_is_is_refused_for_files_in_memory_only() {
        let (Ok(shared), Some(available)) = (File::open("/dev/shm"), available()) else { return };
        let system = File::open("/proc/self/exe").unwrap();
        if !lies_in_memory(shared.as_raw_fd()) {
            return;
        }
        let beyond = usize::try_from(available * 2).unwrap();
        assert_eq!(stay_within_memory(shared.as_raw_fd(), beyond), Err(FileError::NoMemory));
        assert_eq!(stay_within_memory(shared.as_raw_fd(), FEW - 1), Ok(()));
        if !lies_in_memory(system.as_raw_fd()) {
            assert_eq!(stay_within_memory(system.as_raw_fd(), beyond), Ok(()));
        }
    }
}
