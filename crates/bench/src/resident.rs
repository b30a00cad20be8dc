//! The resident memory of this process, read without calling malloc, so that reading does not change it.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The summary of the page tables by the kernel.
pub struct Resident {
    rollup: File,
}

impl Resident {
    /// Opens the summary. Each read returns its current state.
    ///
    /// # Errors
    /// A description, if the kernel does not provide the file.
    pub fn open() -> Result<Resident, String> {
        let path = "/proc/self/smaps_rollup";
        File::open(path).map(|rollup| Resident { rollup }).map_err(|error| format!("cannot open {path}: {error}"))
    }

    /// Returns the resident anonymous memory in bytes; `None` if the kernel does not report it.
    pub fn anonymous(&self) -> Option<u64> {
        let mut buffer = [0; 4096];
        let read = self.rollup.read_at(&mut buffer, 0).ok()?;
        let name = b"\nAnonymous:";
        let at = buffer[..read].windows(name.len()).position(|window| window == name)?;
        let digits = buffer[at + name.len()..read].trim_ascii_start().iter().take_while(|byte| byte.is_ascii_digit());
        Some(
            digits.fold(0u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))) * 1024,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::{Heap, PAGE};

    #[test]
    fn touched_memory_is_counted_until_it_is_freed() {
        let (heap, resident) = (Heap::of_this_process(), Resident::open().unwrap());
        let before = resident.anonymous().unwrap();
        let mut block = heap.allocate(8192 * PAGE);
        block.touch_pages(0);
        let during = resident.anonymous().unwrap();
        heap.free(block);
        let after = resident.anonymous().unwrap();
        // Tests beside this one allocate and free up to 4 MiB meanwhile.
        assert!((28 << 20..36 << 20).contains(&(during - before)), "{before} {during}");
        assert!(after < before + (4 << 20), "{before} {after}");
    }
}
