//! The path of a stream, by which a process opens it again when it grows.

use core::ffi::CStr;
use core::fmt::Write;
use core::ptr::NonNull;

use heapwright_os::{FileError, Line, Refused, map, round_to_pages, unmap};

/// The longest path that a process can open, with the zero byte at its end.
pub const PATH_LENGTH: usize = 4096;

/// A path in pages of its own: the thread that begins a recording may have a short stack.
pub(crate) struct StreamPath {
    text: NonNull<u8>,
}

impl StreamPath {
    /// Returns the path of a process's stream, `PID.UNIQUE-PROGRAM`. Each program that the process runs, by `exec`, has
    /// one of its own. Processes of several namespaces may have the same number, but differ in `unique`.
    ///
    /// # Errors
    /// [`FileError::NotFound`] if it is too long; [`FileError::NoMemory`].
    pub(crate) fn new(directory: &CStr, pid: u32, unique: u32, attempt: u32) -> Result<StreamPath, FileError> {
        let mut name = Line::<48>::new();
        let _ = write!(name, "/{pid}.{unique:x}-{attempt}\0");
        let (directory, name) = (directory.to_bytes(), name.bytes());
        if directory.len() + name.len() > PATH_LENGTH {
            return Err(FileError::NotFound);
        }
        let text = map(room()).map_err(|Refused| FileError::NoMemory)?;
        // SAFETY: the mapping was just made, nothing else uses it, and both parts fit there.
        unsafe {
            text.as_ptr().copy_from_nonoverlapping(directory.as_ptr(), directory.len());
            text.as_ptr().add(directory.len()).copy_from_nonoverlapping(name.as_ptr(), name.len());
        }
        Ok(StreamPath { text })
    }

    pub(crate) fn as_c_string(&self) -> &CStr {
        // SAFETY: the text is mapped as long as this value lives, and does not change.
        let bytes = unsafe { core::slice::from_raw_parts(self.text.as_ptr(), PATH_LENGTH) };
        CStr::from_bytes_until_nul(bytes).unwrap_or_default()
    }
}

impl Drop for StreamPath {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and not used afterwards. Pages that cannot be unmapped leak.
        let _ = unsafe { unmap(self.text, room()) };
    }
}

fn room() -> usize {
    round_to_pages(PATH_LENGTH).unwrap_or(PATH_LENGTH)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::vec;

    use super::*;

    #[test]
    fn a_path_is_the_directory_and_a_name_as_far_as_it_can_be_opened() {
        assert_eq!(StreamPath::new(c"/d", 7, 0xab, 1).unwrap().as_c_string(), c"/d/7.ab-1");
        let long = |length| CString::new(vec![b'd'; length]).unwrap();
        let name = "/7.ab-1\0".len();
        let longest = StreamPath::new(&long(PATH_LENGTH - name), 7, 0xab, 1).unwrap();
        assert_eq!(longest.as_c_string().to_bytes_with_nul().len(), PATH_LENGTH);
        assert!(StreamPath::new(&long(PATH_LENGTH - name + 1), 7, 0xab, 1).is_err());
    }
}
