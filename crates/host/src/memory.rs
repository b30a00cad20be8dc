//! The amount of memory that measurements may use.

use std::fs::{self, File};
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::{NonNull, null_mut};

use anyhow::{Context, Result};

/// Returns the bytes that measurements may use: half of what is available on the machine and to this process's control
/// group.
///
/// # Errors
/// When the available memory is unknown.
pub fn budget() -> Result<usize> {
    let text = fs::read_to_string("/proc/meminfo").context("cannot read how much memory there is")?;
    let machine = available(&text).context("/proc/meminfo has no MemAvailable")?;
    Ok(group_allowance().map_or(machine, |group| group.min(machine)) / 2)
}

/// Returns the available memory from `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<usize> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = rest.trim().strip_suffix(" kB")?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Returns what is left of the control group's limit as a container has it, or `None` without a limit.
fn group_allowance() -> Option<usize> {
    let number = |file: &str| -> Option<usize> {
        fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

/// Fresh pages of zeroes, unmapped when dropped. Pages that are not touched take no memory.
pub struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

impl Pages {
    /// Maps `bytes` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// The system's reason.
    pub fn map(bytes: usize) -> io::Result<Pages> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address that the kernel chooses changes no existing memory.
        let start = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
        match NonNull::new(start.cast()) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => Ok(Pages { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the first byte and leaves the pages mapped.
    pub fn leak(self) -> NonNull<u8> {
        ManuallyDrop::new(self).start
    }

    /// Takes pages back that were leaked.
    ///
    /// # Safety
    /// [`Pages::leak`] returned `start`, of pages mapped with this `bytes`, and they were not taken back since. While
    /// the value lives, nothing that refers to them is used after its drop.
    pub unsafe fn adopt(start: NonNull<u8>, bytes: usize) -> Pages {
        Pages { start, bytes }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this value is the only owner of the mapping, and addresses into it are not used after its drop.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Returns where the program break is. glibc answers without a system call.
pub fn program_break() -> u64 {
    // SAFETY: sbrk(0) only reads the break.
    unsafe { libc::sbrk(0) }.addr() as u64
}

/// Makes a file in memory that other processes can map, closed when a program is executed.
///
/// # Errors
/// The system's reason.
pub fn file_in_memory(name: &str) -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_found_or_missing() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   24 kB\n"), Some(24 * 1024));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert_eq!(available("MemAvailable: lots\n"), None);
    }
}
