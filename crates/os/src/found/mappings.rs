//! The mappings of this process.

use core::ops::Range;

use crate::call::errno::errno_kept;
use crate::call::waiting::uncancelled;
use crate::file::file_error::FileError;
use crate::file::segment_file::SegmentFile;
use crate::memory::pages::calls_are_filtered;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping<'t> {
    /// Its addresses.
    pub range: Range<usize>,
    /// Whether it is mapped for execution.
    pub is_executable: bool,
    /// Whether it cannot be accessed.
    pub is_guard: bool,
    /// The offset in its file at which it begins.
    pub offset: u64,
    /// The lowest 24 bits of its file's number (inode), which another file of this path most likely differs in; 0
    /// without a file.
    pub file: u32,
    /// The path of its file as the system writes it, a name in brackets, or nothing.
    pub path: &'t [u8],
}

impl<'t> Mapping<'t> {
    /// Parses a line of `/proc/PID/maps`.
    ///
    /// ```
    /// use heapwright_os::Mapping;
    /// let line = b"7f2a1c000000-7f2a1c021000 r-xp 00001000 fe:00 1234   /usr/lib/libz.so.1";
    /// let mapping = Mapping::from_line(line).unwrap();
    /// assert_eq!((mapping.range.len(), mapping.is_executable, mapping.offset), (0x21000, true, 0x1000));
    /// assert_eq!(mapping.file, 1234);
    /// assert_eq!(mapping.path, b"/usr/lib/libz.so.1");
    /// ```
    #[must_use]
    pub fn from_line(line: &'t [u8]) -> Option<Mapping<'t>> {
        let (range, rest) = split(line, b' ')?;
        let (start, end) = split(range, b'-')?;
        let (permissions, rest) = split(rest, b' ')?;
        let (offset, rest) = split(rest, b' ')?;
        let (_device, rest) = split(rest, b' ')?;
        let (inode, path) = split(rest, b' ').unwrap_or((rest, b""));
        Some(Mapping {
            range: hexadecimal(start)? as usize..hexadecimal(end)? as usize,
            is_executable: permissions.get(2) == Some(&b'x'),
            is_guard: permissions.starts_with(b"---"),
            offset: hexadecimal(offset)?,
            file: Mapping::file_of(str::from_utf8(inode).ok()?.parse().ok()?),
            path: path.trim_ascii(),
        })
    }
}

impl Mapping<'_> {
    /// Returns what stands for a file of this number (inode).
    #[must_use]
    pub const fn file_of(inode: u64) -> u32 {
        (inode & 0xff_ffff) as u32
    }
}

/// Calls `visit` for each mapping of this process, in the order of their addresses. Uses `room` as a buffer, which
/// should hold many lines: mappings that change between two reads may be reported twice or not at all. A line that does
/// not fit is left out.
///
/// # Errors
/// [`FileError`], where there is no `/proc`.
pub fn each_mapping(room: &mut [u8], mut visit: impl FnMut(Mapping<'_>)) -> Result<(), FileError> {
    errno_kept(|| {
        uncancelled(|| {
            let file = SegmentFile::open_own("maps")?;
            let (mut at, mut kept) = (0, 0);
            loop {
                let Some(rest) = room.get_mut(kept..) else { return Ok(()) };
                let read = file.read_some_at(at, rest)?;
                at += read as u64;
                let filled = kept + read;
                let lines = room.get(..filled).unwrap_or_default();
                let ends = lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
                lines[..ends].split(|&byte| byte == b'\n').filter_map(Mapping::from_line).for_each(&mut visit);
                if read == 0 {
                    return Ok(());
                }
                // A line that is longer than the whole buffer is skipped.
                let begun = if ends == 0 && filled == room.len() { filled } else { ends };
                room.copy_within(begun..filled, 0);
                kept = filled - begun;
            }
        })
    })
}

/// Returns the mapping that contains an address: its range, and whether it cannot be accessed. Takes a few system
/// calls, however many mappings there are. `None` where the system has no such question (it has since Linux 6.11), or a
/// filter of system calls is in force, which may not expect it.
pub(crate) fn mapping_at(address: usize) -> Option<(Range<usize>, bool)> {
    /// `PROCMAP_QUERY`, with a structure of this size.
    const QUERY: u64 = 0xC068_6611;
    /// Of the mapping's flags: it can be read, written or executed.
    const ACCESS: u64 = 1 | 2 | 4;
    if calls_are_filtered() {
        return None;
    }
    let mut query = Query { size: size_of::<Query>() as u64, address: address as u64, ..Query::default() };
    let answer = errno_kept(|| {
        uncancelled(|| {
            let file = SegmentFile::open_own("maps").ok()?;
            // SAFETY: the system reads and writes the structure, which is as long as the number of the call says.
            Some(unsafe { libc::syscall(libc::SYS_ioctl, file.descriptor, QUERY, &raw mut query) })
        })
    });
    (answer == Some(0)).then_some((query.start as usize..query.end as usize, query.flags & ACCESS == 0))
}

/// The system's structure for a question about a mapping.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    /// 0: the mapping that contains the address.
    kind: u64,
    address: u64,
    start: u64,
    end: u64,
    flags: u64,
    _page_size: u64,
    _offset: u64,
    _inode: u64,
    _device: [u32; 2],
    _lengths: [u32; 2],
    _texts: [u64; 2],
}

const _: () = assert!(size_of::<Query>() == 0x68);

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = text.iter().position(|&byte| byte == at)?;
    Some((&text[..place], &text[place + 1..]))
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(text).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "there is no such file")]
    fn mappings_are_the_same_whatever_the_room() {
        let read = |room: usize| {
            let (mut room, mut found) = (Vec::from_iter(core::iter::repeat_n(0, room)), Vec::new());
            each_mapping(&mut room, |mapping| {
                if mapping.is_executable && mapping.path.starts_with(b"/") {
                    found.push((mapping.range.clone(), mapping.path.to_vec()));
                }
            })
            .unwrap();
            found
        };
        let here = mappings_are_the_same_whatever_the_room as fn() as usize;
        let all = read(1 << 20);
        assert!(all.iter().any(|(range, _)| range.contains(&here)), "{all:?}");
        for room in [400, 607, 1000, 1500, 2011, 4096] {
            assert_eq!(read(room), all, "{room}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no such file")]
    fn one_mapping_is_as_in_the_list() {
        let (mut room, mut listed) = (Vec::from_iter(core::iter::repeat_n(0, 1 << 16)), Vec::new());
        each_mapping(&mut room, |mapping| listed.push((mapping.range, mapping.is_guard))).unwrap();
        // Other tests map and unmap meanwhile.
        let alike = listed.iter().filter(|listed| mapping_at(listed.0.start).is_some_and(|found| found == **listed));
        let here = one_mapping_is_as_in_the_list as fn() as usize;
        match mapping_at(here) {
            Some((range, is_guard)) => assert!(range.contains(&here) && !is_guard && alike.count() > listed.len() / 2),
            None => assert_eq!(alike.count(), 0, "the system does not know the question"),
        }
        assert_eq!(mapping_at(0), None);
    }

    #[test]
    fn what_is_no_line_is_none() {
        for line in [&b""[..], b"12", b"1-2 r", b"x-y r-xp 0 0 0", b"1-2 r-xp zz 00:00 0 /a"] {
            assert_eq!(Mapping::from_line(line), None);
        }
        let bare = Mapping::from_line(b"1000-2000 ---p 00000000 00:00 0 ").unwrap();
        assert!(bare.is_guard && !bare.is_executable && bare.path.is_empty());
    }
}
