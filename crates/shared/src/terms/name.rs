//! What names stand for: a shared-memory object or a file.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;

use super::error::Error;
use super::place::Place;

/// Where shared-memory objects are files.
const SHM: &[u8] = b"/dev/shm/";
/// The longest name of an object, in bytes.
const LONGEST_NAME: usize = 255;

impl Place {
    /// Returns the place of this name or path.
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
}
