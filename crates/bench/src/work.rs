//! Runs and measures a workload.

use std::ffi::{CStr, OsString};
use std::path::Path;

use crate::notes::Notes;
use crate::setup::Setup;
use crate::stopwatch::{CPU, ELAPSED, Stopwatch};
use crate::workload::WORKLOADS;

/// The first argument of this program for [`work()`].
pub const WORK: &str = "work";
/// The name of the line with the library that provides the malloc of this process.
pub const MALLOC: &str = "malloc";
/// Runs a workload; the arguments are `NAME SHARE FILE_OF_SIZES`. Prints a line `name value` for every figure.
///
/// # Errors
/// A description of invalid arguments or of the failure of the workload.
pub fn work(arguments: &[OsString]) -> Result<(), String> {
    let [name, scale, sizes] = arguments else { return Err(format!("{WORK} NAME SHARE FILE_OF_SIZES")) };
    let workload = WORKLOADS.iter().find(|workload| name == workload.name);
    let workload = workload.ok_or_else(|| format!("there is no workload {}", name.display()))?;
    let setup = Setup::new(&scale.to_string_lossy(), Path::new(sizes))?;
    let mut notes = Notes::default();
    let watch = Stopwatch::start();
    (workload.run)(&setup, &mut notes)?;
    let (cpu, elapsed) = watch.read();
    // Some workloads measure only a section of themselves.
    if !notes.has(CPU) {
        notes.add(CPU, cpu);
        notes.add(ELAPSED, elapsed);
    }
    print_malloc();
    print!("{notes}");
    Ok(())
}

/// Prints the line of [`MALLOC`].
pub fn print_malloc() {
    println!("{MALLOC} {}", library_of_malloc());
}

/// Returns the path of the library that provides malloc, from the dynamic linker. Detects a preload that failed to
/// load, which the dynamic linker ignores.
fn library_of_malloc() -> String {
    // SAFETY: `Dl_info` has integers and raw pointers only, for which zero is a valid value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a C string, `dlsym` may return any pointer for `dladdr`, and `info` is valid for writes.
    let found = unsafe { libc::dladdr(libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()), &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return String::new();
    }
    // SAFETY: `dladdr` succeeded and the pointer is not null: it is a C string that is valid while the library is
    // loaded. The library of malloc is never unloaded.
    unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned()
}
