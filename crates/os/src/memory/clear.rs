//! Memory that is made zero, by writing or by purging, whichever costs the program less.

use core::ptr::NonNull;

use crate::call::page_size::page_size;
use crate::memory::pages::resident_unless_filtered;
use crate::memory::ranges::purge;

/// What is made zero at once: a multiple of every page size, long enough to be worth a system call.
const PIECE: usize = 1 << 20;

/// To ask for fewer bytes than this would take as long as to write them.
const WORTH_ASKING: usize = PIECE / 4;

/// Makes `bytes` bytes at `start` zero: by purging whole pages of which most are known to be away, otherwise by
/// writing. To write a page that is there takes a thirtieth of the time of the page fault that a purge would cost the
/// program.
///
/// # Safety
/// The bytes are private anonymous memory, belong to the caller, and their contents are not needed.
pub unsafe fn clear(start: NonNull<u8>, bytes: usize) {
    if bytes < WORTH_ASKING {
        // SAFETY: the bytes are the caller's.
        unsafe { start.write_bytes(0, bytes) };
        return;
    }
    let lead = start.addr().get().next_multiple_of(page_size()) - start.addr().get();
    // SAFETY: what is longer than `WORTH_ASKING` is longer than a page, and each piece lies in it.
    unsafe {
        start.write_bytes(0, lead);
        for offset in (lead..bytes).step_by(PIECE) {
            clear_piece(start.add(offset), PIECE.min(bytes - offset));
        }
    }
}

/// Makes at most [`PIECE`] bytes at the start of a page zero.
///
/// # Safety
/// As [`clear`].
unsafe fn clear_piece(start: NonNull<u8>, bytes: usize) {
    let pages = bytes - bytes % page_size();
    let is_away = || resident_unless_filtered(start, pages).is_some_and(|resident| resident < pages / 2);
    // SAFETY: as this function requires.
    unsafe {
        let purged = if pages >= WORTH_ASKING && is_away() && purge(start, pages).is_ok() { pages } else { 0 };
        start.add(purged).write_bytes(0, bytes - purged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::pages::{map, resident, unmap};

    #[test]
    #[cfg_attr(miri, ignore = "the calls are the system's")]
    fn what_is_away_stays_away_and_what_is_there_stays_there() {
        let (length, used, from) = (8 * PIECE, 3 * PIECE, 48);
        let (start, to) = (map(length).unwrap(), length - 5);
        // SAFETY: the mapping is new, and all is in it.
        unsafe {
            start.write_bytes(7, used);
            // One page among many that are away.
            start.add(5 * PIECE).write(7);
            start.add(to - 1).write_bytes(7, 6);
            clear(start.add(from), to - from);
            let in_memory = resident(start, length).unwrap();
            assert!((used..used + PIECE).contains(&in_memory), "{in_memory} of {length}");
            let bytes = core::slice::from_raw_parts(start.as_ptr(), length);
            assert!(bytes[..from] == [7; 48] && bytes[to..] == [7; 5]);
            assert!(bytes[from..to].iter().all(|&byte| byte == 0));
            unmap(start, length).unwrap();
        }
    }
}
