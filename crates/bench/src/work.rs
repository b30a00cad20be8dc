//! A workload, measured from its beginning to its end.

use std::ffi::{CStr, OsString};
use std::path::Path;
use std::time::Instant;

use crate::notes::Notes;
use crate::setup::Setup;
use crate::workload::WORKLOADS;

/// The argument with which this program is a workload.
pub const WORK: &str = "work";
/// The line that names the library of this process' malloc.
pub const MALLOC: &str = "malloc";
/// The line with the processor time of the workload, in nanoseconds.
pub const CPU: &str = "cpu_ns";
/// The line with the time that passed, in nanoseconds.
pub const ELAPSED: &str = "elapsed_ns";

/// Does the workload of that name: `NAME SHARE FILE_OF_SIZES`. Prints a line `name value` for every figure.
///
/// # Errors
/// What is wrong with the arguments, or why the workload could not go on.
pub fn work(arguments: &[OsString]) -> Result<(), String> {
    let [name, scale, sizes] = arguments else { return Err(format!("{WORK} NAME SHARE FILE_OF_SIZES")) };
    let workload = WORKLOADS.iter().find(|workload| name == workload.name);
    let workload = workload.ok_or_else(|| format!("there is no workload {}", name.display()))?;
    let setup = Setup::new(&scale.to_string_lossy(), Path::new(sizes))?;
    let mut notes = Notes::default();
    let watch = Stopwatch::start();
    (workload.run)(&setup, &mut notes)?;
    let (cpu, elapsed) = watch.read();
    // Some know better which part of them counts.
    if !notes.has(CPU) {
        notes.add(CPU, cpu);
        notes.add(ELAPSED, elapsed);
    }
    tell_malloc();
    print!("{notes}");
    Ok(())
}

/// Both times since a moment.
pub struct Stopwatch {
    start: Instant,
    cpu: u64,
}

impl Stopwatch {
    /// From now on.
    pub fn start() -> Stopwatch {
        Stopwatch { start: Instant::now(), cpu: processor_nanoseconds() }
    }

    /// The processor time of all threads, and the time that passed, in nanoseconds.
    pub fn read(&self) -> (u64, u64) {
        (processor_nanoseconds() - self.cpu, self.start.elapsed().as_nanos() as u64)
    }
}

/// Prints the line that names the library of this process' malloc.
pub fn tell_malloc() {
    println!("{MALLOC} {}", library_of_malloc());
}

/// The processor time of all threads of this process so far.
fn processor_nanoseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours to write. The clock exists on every Linux; were it to fail, the time would read 0.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The library that malloc comes from, as the dynamic linker sees it; it goes on without one that it cannot load.
fn library_of_malloc() -> String {
    // SAFETY: all zeroes is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the name ends with a zero byte and `info` is written only.
    let found = unsafe { libc::dladdr(libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()), &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return String::new();
    }
    // SAFETY: dladdr gave a string that lives as long as the library is loaded, which is for ever.
    unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned()
}
