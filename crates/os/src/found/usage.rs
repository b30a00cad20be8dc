//! What a process uses: memory, page faults, processor time. Of this process and of others.

use core::fmt::Write;

use crate::call::errno::errno_kept;
use crate::call::page_size::page_size;
use crate::call::waiting::uncancelled;
use crate::file::file_error::FileError;
use crate::file::output::Line;
use crate::file::segment_file::SegmentFile;
use crate::time::clock::nanoseconds_if_any;
use crate::time::ticks::now_nanoseconds;

/// What a process uses at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Usage {
    /// The time at which this was determined, by [`now_nanoseconds`].
    pub nanoseconds: u64,
    /// Resident anonymous memory in bytes: heap, stacks and data; neither files nor shared memory.
    pub resident: u64,
    /// Page faults since the process began.
    pub faults: u64,
    /// Processor time in nanoseconds since the process began, of all its threads.
    pub processor_nanoseconds: u64,
}

/// Returns the calling process's usage; `None` where there is no `/proc`. Costs some 5 µs. Usable in `malloc`.
///
/// ```
/// let usage = heapwright_os::own_usage().unwrap();
/// assert!(usage.resident > 0 && usage.faults > 0 && usage.processor_nanoseconds > 0);
/// ```
#[must_use]
pub fn own_usage() -> Option<Usage> {
    errno_kept(|| {
        let resident = anonymous(|line| read_own("statm", line))?;
        let processor_nanoseconds = nanoseconds_if_any(libc::CLOCK_PROCESS_CPUTIME_ID)?;
        let faults = faults(libc::RUSAGE_SELF)?;
        Some(Usage { nanoseconds: now_nanoseconds(), resident, faults, processor_nanoseconds })
    })
}

/// Returns the calling thread's page faults and processor time in nanoseconds since it began; 0 when not known.
#[must_use]
pub fn thread_usage() -> (u64, u64) {
    errno_kept(|| {
        (faults(libc::RUSAGE_THREAD).unwrap_or(0), nanoseconds_if_any(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0))
    })
}

/// Returns the usage of the process with this number; `None` when there is none, when it has ended and has not been
/// waited for, or when its first thread has ended: see [`usage_by`].
#[must_use]
pub fn usage_of(process: u32) -> Option<Usage> {
    usage_by(process, process)
}

/// Returns the usage of a process, of which this is a thread that runs.
#[must_use]
pub fn usage_by(process: u32, thread: u32) -> Option<Usage> {
    errno_kept(|| {
        let path = path_of(thread, "statm");
        let path = path.c_str()?;
        let resident = anonymous(|line| read(path, line))?;
        let mut line = [0; 1024];
        let line = read(path_of(process, "stat").c_str()?, &mut line).ok()?;
        let (minor, major) = (stat_field(line, MINOR_FAULTS)?, stat_field(line, MAJOR_FAULTS)?);
        let mut of_process = 0;
        // SAFETY: the number of the clock is written to a local variable.
        let got = unsafe { libc::clock_getcpuclockid(process as libc::pid_t, &mut of_process) };
        let processor_nanoseconds = if got == 0 { nanoseconds_if_any(of_process)? } else { return None };
        // The memory of a process that has ended is gone, which is not a use of no memory.
        let usage = Usage { nanoseconds: now_nanoseconds(), resident, faults: minor + major, processor_nanoseconds };
        (resident != 0).then_some(usage)
    })
}

/// Returns the bytes of files, programs and libraries, that are resident in the calling process.
#[must_use]
pub fn resident_files() -> Option<u64> {
    status_bytes(b"RssFile:")
}

/// Returns the peak of the resident memory of the calling process since it began its program, in bytes. `None`
/// without `/proc`: the peak of the process may be that of the program before.
#[must_use]
pub fn peak_of_program() -> Option<u64> {
    status_bytes(b"VmHWM:")
}

/// Returns the bytes in the line of the process's status that begins with `name`.
fn status_bytes(name: &[u8]) -> Option<u64> {
    errno_kept(|| {
        let mut text = [0; 4096];
        let text = read_own("status", &mut text).ok()?;
        let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name))?;
        Some(number(line.strip_suffix(b"kB")?.trim_ascii())? * 1024)
    })
}

/// Whether the calling process has turned transparent huge pages off for itself.
#[must_use]
pub fn are_huge_pages_off() -> bool {
    // SAFETY: the call takes no pointers.
    errno_kept(|| unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) }) > 0
}

/// Fields of `/proc/PID/stat` behind the program's name, from 0.
const MINOR_FAULTS: usize = 7;
const MAJOR_FAULTS: usize = 9;

/// Returns a field of the contents of `/proc/PID/stat`, of those behind the program's name, which may contain any
/// characters and ends with the last parenthesis.
#[must_use]
pub fn stat_field(line: &[u8], index: usize) -> Option<u64> {
    let name_ends = line.iter().rposition(|&byte| byte == b')')?;
    number(line.get(name_ends + 2..)?.split(|&byte| byte == b' ').nth(index)?)
}

/// Returns the resident anonymous memory in bytes that a file `statm` states, which `read` reads.
fn anonymous(read: impl Fn(&mut [u8]) -> Result<&[u8], FileError>) -> Option<u64> {
    let mut line = [0; 128];
    let line = read(&mut line).ok()?;
    let mut fields = line.split(|&byte| byte == b' ').skip(1).map(number);
    let (resident, shared) = (fields.next()??, fields.next()??);
    Some(resident.saturating_sub(shared) * page_size() as u64)
}

/// Reads the beginning of a file.
fn read<'b>(path: &core::ffi::CStr, buffer: &'b mut [u8]) -> Result<&'b [u8], FileError> {
    let length = uncancelled(|| SegmentFile::open_read_only(path).and_then(|file| file.read_some_at(0, buffer)))?;
    Ok(&buffer[..length])
}

/// Reads the beginning of a file of `/proc` about this process.
fn read_own<'b>(name: &str, buffer: &'b mut [u8]) -> Result<&'b [u8], FileError> {
    let length = uncancelled(|| SegmentFile::open_own(name).and_then(|file| file.read_some_at(0, buffer)))?;
    Ok(&buffer[..length])
}

/// Returns the path of a file of `/proc/PID`, with a zero at its end.
fn path_of(process: u32, file: &str) -> Path {
    let mut path = Line::new();
    let _ = write!(path, "/proc/{process}/{file}\0");
    Path(path)
}

struct Path(Line<32>);

impl Path {
    fn c_str(&self) -> Option<&core::ffi::CStr> {
        core::ffi::CStr::from_bytes_until_nul(self.0.bytes()).ok()
    }
}

fn faults(who: i32) -> Option<u64> {
    // SAFETY: a usage buffer consists of integers, for which zeros are valid, and is valid for the call's write.
    unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        let got = libc::getrusage(who, &mut usage) == 0;
        got.then_some(usage.ru_minflt as u64 + usage.ru_majflt as u64)
    }
}

fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "there is no /proc")]
    fn what_is_touched_is_resident_and_faulted_on() {
        const LENGTH: usize = 32 << 20;
        let before = own_usage().unwrap();
        let block = std::vec![1_u8; LENGTH];
        let (own, seen) = (own_usage().unwrap(), usage_of(std::process::id()).unwrap());
        let of_thread = thread_usage();
        assert!(block[LENGTH / 2] == 1 && of_thread.0 > 0 && of_thread.1 > 0);
        for after in [own, seen] {
            assert!(after.resident > before.resident + LENGTH as u64 * 9 / 10, "{before:?} {after:?}");
            assert!(after.faults > before.faults && after.processor_nanoseconds > before.processor_nanoseconds);
            assert!(after.nanoseconds > before.nanoseconds);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no /proc")]
    fn a_process_that_is_not_there_uses_nothing() {
        assert_eq!(usage_of(u32::MAX / 2), None);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = || std::fs::read_to_string(std::format!("/proc/{}/stat", child.id())).unwrap().contains(") Z");
        while !ended() {
            std::thread::yield_now();
        }
        assert_eq!(usage_of(child.id()), None);
        child.wait().unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no /proc")]
    fn the_program_and_its_libraries_are_resident() {
        assert!(resident_files().unwrap() > 64 << 10);
    }

    #[test]
    fn names_of_programs_do_not_shift_fields() {
        let line = b"7 (a) (b c) S 1 2 3 4 5 6 1234 0 5 0";
        assert_eq!((stat_field(line, MINOR_FAULTS), stat_field(line, MAJOR_FAULTS)), (Some(1234), Some(5)));
    }
}
