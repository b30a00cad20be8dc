//! Where a segment is found: the name of a POSIX shared-memory object, or the path of a file.

use std::ffi::{CStr, CString, OsStr};
use std::fmt::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::error::Error;

/// Where shared-memory objects are files.
const SHM: &[u8] = b"/dev/shm/";
/// The longest name of an object, in bytes.
const LONGEST_NAME: usize = 255;

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
    path: CString,
}

impl Place {
    /// The place of this name or path.
    ///
    /// # Errors
    /// [`Error::BadName`] for a name that is empty, `.`, `..` or longer than 255 bytes, and for a NUL anywhere.
    pub fn new(name: impl AsRef<OsStr>) -> Result<Place, Error> {
        let given = name.as_ref().as_bytes();
        let bare = given.strip_prefix(b"/").unwrap_or(given);
        let path = match bare.contains(&b'/') {
            true => given.to_vec(),
            false if bare.is_empty() || bare == b"." || bare == b".." => {
                return Err(Error::BadName { why: "a shared-memory object is not named \"\", \".\" or \"..\"" });
            }
            false if bare.len() > LONGEST_NAME => return Err(Error::BadName { why: "it is longer than 255 bytes" }),
            false => [SHM, bare].concat(),
        };
        let path = CString::new(path).map_err(|_| Error::BadName { why: "it contains a NUL byte" })?;
        Ok(Place { path })
    }

    /// The file behind it, for shared-memory objects too.
    #[must_use]
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.path.to_bytes()))
    }

    pub(crate) fn c_path(&self) -> &CStr {
        &self.path
    }

    /// The path from the root directory: that of the file also when the process works in another directory later.
    pub(crate) fn absolute(&self) -> CString {
        let absolute = std::path::absolute(self.path()).map(|path| CString::new(path.into_os_string().into_vec()));
        absolute.ok().and_then(Result::ok).unwrap_or_else(|| self.path.clone())
    }

    /// The directory that the file is in.
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
