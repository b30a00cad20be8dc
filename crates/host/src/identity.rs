//! Identity of files.

use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::names::Shown;
use anyhow::{Result, ensure};

/// Returns whether both paths lead to the same existing file.
pub fn is_same_file(left: &Path, right: &Path) -> bool {
    matches!((left.canonicalize(), right.canonicalize()), (Ok(left), Ok(right)) if left == right)
}

/// Checks that `malloc`, the file that a process has its malloc from, is the preloaded `library`, if any. The dynamic
/// linker only warns about a library that it cannot load.
///
/// # Errors
/// When it is another file.
pub fn ensure_preloaded(library: Option<&Path>, malloc: &Path) -> Result<()> {
    if let Some(library) = library {
        let (library_name, malloc_name) = (library.shown(), malloc.shown());
        ensure!(is_same_file(malloc, library), "{library_name} was not loaded: malloc came from {malloc_name}");
    }
    Ok(())
}

/// Returns the address that the dynamic linker finds for a name in all that is loaded, in its order.
pub fn symbol(name: &CStr) -> Option<*const c_void> {
    // SAFETY: the name ends with a zero byte.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address.cast_const())
}

/// Returns the library that defines this process's malloc, as the dynamic linker resolved it.
pub fn origin_of_malloc() -> PathBuf {
    let malloc = libc::malloc as *const () as usize;
    heapwright_os::object_at(malloc, |object| PathBuf::from(OsStr::from_bytes(object.path.to_bytes())))
        .unwrap_or_default()
}
