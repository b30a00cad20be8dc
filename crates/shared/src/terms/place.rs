//! Where a segment is found: the name of a POSIX shared-memory object, or the path of a file.

use std::ffi::{CStr, CString, OsStr};
use std::fmt::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The name of a shared-memory object or the path of a file.
///
/// A name without a slash, or with one at its start only, is a POSIX shared-memory object as `shm_open` knows it;
/// anything else with a slash is a path.
///
/// ```
/// use heapwright_shared::Place;
/// assert_eq!(Place::new("/orders")?.to_string(), "/dev/shm/orders");
/// assert_eq!(Place::new("./orders")?.to_string(), "./orders");
/// assert!(Place::new("..").is_err());
/// # Ok::<(), heapwright_shared::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Place {
    pub(super) path: CString,
}

impl Place {
    /// Returns the file behind it, for shared-memory objects too.
    #[must_use]
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.path.to_bytes()))
    }

    pub(crate) fn c_path(&self) -> &CStr {
        &self.path
    }

    /// Returns the path from the root directory: that of the file also when the process works in another directory
    /// later.
    pub(crate) fn absolute(&self) -> CString {
        let absolute = std::path::absolute(self.path()).map(|path| CString::new(path.into_os_string().into_vec()));
        absolute.ok().and_then(Result::ok).unwrap_or_else(|| self.path.clone())
    }

    /// Returns the directory that the file is in.
    pub(crate) fn directory(&self) -> CString {
        let path = self.path.to_bytes();
        let end = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        CString::new(&path[..end]).unwrap_or_default()
    }
}

/// The path. Control characters are escaped: a terminal would obey them. So are bytes that are no UTF-8, and the
/// backslash: different paths look different.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.to_bytes().utf8_chunks().try_for_each(|chunk| {
            chunk.valid().chars().try_for_each(|character| match character.is_control() || character == '\\' {
                true => character.escape_debug().fmt(f),
                false => f.write_char(character),
            })?;
            chunk.invalid().escape_ascii().fmt(f)
        })
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({self})")
    }
}
