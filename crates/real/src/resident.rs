//! Resident memory of this process, read without allocating.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use heapwright_host::clock::processor_duration;
use heapwright_host::lazy::Lazy;

/// The file in which the kernel reports resident memory.
pub struct Resident {
    source: Source,
}

enum Source {
    /// Takes the same short time for any amount of memory, and is exact: the kernel adds up its counters (Linux 6.16
    /// and later).
    Status(File),
    /// Exact: the kernel walks the page tables, and the caches of the processor are full of them then.
    Rollup(File),
    /// The fallback, which may lag behind by some pages.
    Statm(File),
    /// With mapped files: takes no longer for more memory, and lags behind as well.
    Whole(File),
}

/// Reads the resident memory that can belong to a heap: anonymous memory, and shared memory, which some allocators use
/// for their heaps. Mapped files do not count.
const COUNTED: [&[u8]; 4] = [b"\nAnonymous:", b"\nPss_Shmem:", b"\nShared_Hugetlb:", b"\nPrivate_Hugetlb:"];

/// The same in `status`.
const COUNTED_IN_STATUS: [&[u8]; 3] = [b"\nRssAnon:", b"\nRssShmem:", b"\nHugetlbPages:"];

/// Number of pages that are touched one by one to see whether a source is exact. Counters that lag behind do so by 32
/// pages and more.
const PROBED: usize = 24;

impl Resident {
    /// Opens the best source.
    ///
    /// # Errors
    /// When /proc has none.
    pub fn open() -> Result<Resident> {
        if let Ok(file) = File::open("/proc/self/status") {
            let status = Resident { source: Source::Status(file) };
            if status.is_exact() {
                return Ok(status);
            }
        }
        if let Ok(file) = File::open("/proc/self/smaps_rollup") {
            return Ok(Resident { source: Source::Rollup(file) });
        }
        Ok(Resident { source: Source::Statm(open_statm()?) })
    }

    /// Opens a source that takes the same short time for any amount of memory. It includes mapped files.
    ///
    /// # Errors
    /// When /proc does not have it.
    pub fn open_quick() -> Result<Resident> {
        Ok(Resident { source: Source::Whole(open_statm()?) })
    }

    /// Returns whether each page that is touched is seen at once. Other threads must not allocate meanwhile.
    fn is_exact(&self) -> bool {
        let page = heapwright_os::page_size();
        let Ok(mut pages) = Lazy::<u8>::zeroed(PROBED * page) else { return false };
        let mut before = self.bytes().ok();
        (0..PROBED).all(|at| {
            pages[at * page] = 1;
            let after = self.bytes().ok();
            let is_seen = before.zip(after).is_some_and(|(before, after)| after == before + page as u64);
            before = after;
            is_seen
        })
    }

    /// Returns the resident bytes that can belong to a heap.
    pub fn bytes(&self) -> Result<u64> {
        let mut buffer = [0; 4096];
        let total = match &self.source {
            Source::Status(file) => sum_of(read(file, &mut buffer)?, &COUNTED_IN_STATUS),
            Source::Rollup(file) => sum_of(read(file, &mut buffer)?, &COUNTED),
            Source::Statm(file) => {
                let mut numbers = read(file, &mut buffer)?.split(|&byte| byte == b' ').map(leading_number);
                let (resident, shared) = (numbers.nth(1).flatten(), numbers.next().flatten());
                resident
                    .zip(shared)
                    .map(|(resident, shared)| resident.saturating_sub(shared) * heapwright_os::page_size() as u64)
            }
            Source::Whole(file) => {
                let resident = read(file, &mut buffer)?.split(|&byte| byte == b' ').nth(1).and_then(leading_number);
                resident.map(|pages| pages * heapwright_os::page_size() as u64)
            }
        };
        total.context("/proc does not tell how much memory is resident")
    }
}

/// Returns all that is resident, files included: exact where the kernel walks the page tables for that.
///
/// # Errors
/// When /proc does not tell.
pub fn whole() -> Result<u64> {
    let Ok(rollup) = File::open("/proc/self/smaps_rollup") else { return Resident::open_quick()?.bytes() };
    let mut buffer = [0; 4096];
    sum_of(read(&rollup, &mut buffer)?, &[b"\nRss:"]).context("/proc does not tell how much memory is resident")
}

/// Returns the processor time of a page fault for memory that is written to for the first time, in nanoseconds: the
/// median of some, which a disturbance does not change.
///
/// # Errors
/// When there is no memory for that.
pub fn fault_nanoseconds() -> Result<f64> {
    const PARTS: usize = 15;
    const PAGES: usize = 32;
    let page = heapwright_os::page_size();
    let mut memory = Lazy::<u8>::zeroed(PARTS * PAGES * page)?;
    let mut times = [0.0; PARTS];
    for (time, part) in times.iter_mut().zip(memory.chunks_mut(PAGES * page)) {
        let before = processor_duration();
        part.iter_mut().step_by(page).for_each(|byte| *std::hint::black_box(byte) = 1);
        *time = (processor_duration() - before).as_nanos() as f64 / PAGES as f64;
    }
    Ok(*times.select_nth_unstable_by(PARTS / 2, f64::total_cmp).1)
}

fn open_statm() -> Result<File> {
    File::open("/proc/self/statm").context("/proc does not tell how much memory is resident")
}

/// Returns the kernel's high-water mark of resident memory since [`forget_high_water`], or `None` when it is not
/// available. Includes mapped files; on some kernels it lags behind by a few pages per processor.
pub fn high_water() -> Option<u64> {
    let file = File::open("/proc/self/status").ok()?;
    let mut buffer = [0; 4096];
    Some(number_after(read(&file, &mut buffer).ok()?, b"\nVmHWM:")? * 1024)
}

/// Resets [`high_water`] to the memory that is resident now.
pub fn forget_high_water() {
    // Where this is not allowed, the high water of the start stays, which is low: nothing was done yet.
    let _ = OpenOptions::new().write(true).open("/proc/self/clear_refs").and_then(|mut file| file.write_all(b"5"));
}

/// Returns the start of this process' program break: field 47 of its `stat`.
pub fn start_of_break() -> Option<u64> {
    let file = File::open("/proc/self/stat").ok()?;
    let mut buffer = [0; 4096];
    let text = read(&file, &mut buffer).ok()?;
    // The second field is the command's name in parentheses, which may hold anything.
    let behind_name = &text[text.iter().rposition(|&byte| byte == b')')? + 1..];
    leading_number(behind_name.split(|&byte| byte == b' ').nth(45)?).filter(|&start| start > 0)
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

/// Returns the sum of these lines in bytes; `None` without the first of them.
fn sum_of(text: &[u8], names: &[&[u8]]) -> Option<u64> {
    number_after(text, names.first()?)?;
    Some(names.iter().map(|name| number_after(text, name).unwrap_or(0)).sum::<u64>() * 1024)
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

    fn source(path: &str, source: fn(File) -> Source) -> Resident {
        Resident { source: source(File::open(path).unwrap()) }
    }

    #[test]
    fn the_sources_agree() {
        let status = source("/proc/self/status", Source::Status).bytes().unwrap();
        let rollup = source("/proc/self/smaps_rollup", Source::Rollup).bytes().unwrap();
        // Another test of this process has 32 MiB for a moment.
        assert!(status.abs_diff(rollup) < 48 << 20 && status > 0, "{status} {rollup}");
    }

    #[test]
    fn a_source_is_exact_if_it_sees_each_page() {
        // Its lines have other names there.
        assert!(!source("/proc/self/status", Source::Rollup).is_exact());
        let mut constant = tempfile::NamedTempFile::new().unwrap();
        constant.write_all(b"Name:\tx\nRssAnon:\t  8 kB\nRssShmem:\t  0 kB\n").unwrap();
        let constant = source(constant.path().to_str().unwrap(), Source::Status);
        assert!(constant.bytes().unwrap() == 8192 && !constant.is_exact());
        // Other tests of this process allocate meanwhile, so that one attempt may fail.
        let rollup = source("/proc/self/smaps_rollup", Source::Rollup);
        assert!((0..1000).any(|_| rollup.is_exact()));
    }

    #[test]
    fn memory_that_is_touched_is_seen() {
        // Other tests of this process allocate meanwhile: the measurement has a process of its own.
        const ALONE: &str = "HEAPWRIGHT_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            alone.args(["--exact", "resident::tests::memory_that_is_touched_is_seen"]).env(ALONE, "yes");
            let output = alone.output().unwrap();
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
            return;
        }
        // The quick source lags behind by some pages per processor.
        for (resident, least) in [(Resident::open(), 32 << 20), (Resident::open_quick(), 30 << 20)] {
            let resident = resident.unwrap();
            let before = resident.bytes().unwrap();
            let held = Lazy::<u8>::committed(32 << 20).unwrap();
            let after = resident.bytes().unwrap();
            assert!(after - before >= least && after - before < 48 << 20, "{before} {after} {}", held.len());
        }
    }

    #[test]
    fn a_page_fault_takes_some_time() {
        let nanoseconds = fault_nanoseconds().unwrap();
        assert!((20.0..1e6).contains(&nanoseconds), "{nanoseconds}");
    }

    #[test]
    fn files_count_in_the_whole() {
        let whole = whole().unwrap();
        let quick = Resident::open_quick().unwrap().bytes().unwrap();
        // Another test of this process has 32 MiB for a moment.
        assert!(whole > 1 << 20 && whole.abs_diff(quick) < 48 << 20, "{whole} {quick}");
    }

    #[test]
    fn the_break_begins_below_where_it_is() {
        let now = heapwright_host::memory::program_break();
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
