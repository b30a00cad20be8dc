//! Positions in files by which openings are told apart.

use core::sync::atomic::{AtomicI64, Ordering};

/// Positions of openings lie above those that programs have after reading a file, and below the longest files of most
/// file systems.
const LEAST: i64 = 1 << 39;
const MOST: i64 = LEAST + LEAST / 2;

/// How many positions a copy of this library has for itself: a process may have several, in libraries that contain it.
const OF_A_COPY: i64 = 1 << 20;

/// The first position of the copy that has something at `address`.
fn first_of_copy(address: usize) -> i64 {
    let page = (address >> 12) as i64;
    LEAST + page % ((MOST - LEAST) / OF_A_COPY) * OF_A_COPY
}

/// Gives the open file of `descriptor` a position that no other opening of this process has, if its file system allows
/// it. Returns the position that it has now.
pub(crate) fn set_own_position(descriptor: i32) -> i64 {
    static OPENED: AtomicI64 = AtomicI64::new(0);
    let own = OPENED.fetch_add(1, Ordering::Relaxed) % OF_A_COPY;
    set_position(descriptor, first_of_copy((&raw const OPENED).addr()) + own);
    position(descriptor)
}

/// Sets the position of the open file of `descriptor`, if its file system allows it.
pub(crate) fn set_position(descriptor: i32, position: i64) {
    // SAFETY: the call takes an open descriptor and numbers.
    unsafe { libc::lseek(descriptor, position, libc::SEEK_SET) };
}

/// Returns the position of the open file of `descriptor`, which may be none.
pub(crate) fn position(descriptor: i32) -> i64 {
    // SAFETY: the call takes numbers, and changes nothing, whatever the descriptor is.
    unsafe { libc::lseek(descriptor, 0, libc::SEEK_CUR) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::segment::Segment;
    use crate::file::segment_file::SegmentFile;

    #[test]
    fn copies_of_the_library_have_positions_of_their_own() {
        let [program, library, another] = [0x5555_5567_8010, 0x7fff_f7d0_3018, 0x7fff_f7e1_2018].map(first_of_copy);
        for (one, other) in [(program, library), (library, another), (program, another)] {
            assert!(one.abs_diff(other) >= OF_A_COPY as u64);
        }
        assert!([program, library, another].iter().all(|first| (LEAST..MOST).contains(first)));
    }

    /// To set a position in `/proc/self/maps`, or to ask for one that was set, the system lists all mappings.
    #[test]
    #[cfg_attr(miri, ignore = "there is no such file")]
    fn files_that_the_system_makes_get_no_position() {
        let file = SegmentFile::open_read_only(c"/proc/self/maps").unwrap();
        assert_eq!(position(file.descriptor), 0);
        let segment = Segment::create_unnamed(c"/dev/shm", 0o600, 4096).unwrap();
        assert!((LEAST..MOST).contains(&position(segment.file().descriptor)));
    }
}
