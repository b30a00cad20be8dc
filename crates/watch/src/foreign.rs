//! Reads the memory of a watched process. Nothing is changed in it: pages that were never touched are zeroes, and those
//! in swap are not brought back.

use heapwright_host::target::read_present;

use super::unseen::Unseen;

/// Reads `count` bytes at `address` of process `pid`.
///
/// # Errors
/// [`Unseen::Swapped`] when a part is in swap; else when the process has ended or cannot be read.
pub fn read_bytes(pid: u32, address: u64, count: usize) -> Result<Vec<u8>, Unseen> {
    let (bytes, complete) = read_present(pid, address, count)?;
    if complete { Ok(bytes) } else { Err(Unseen::Swapped) }
}
