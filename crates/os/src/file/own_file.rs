//! Files of `/proc` about this process.

use core::ffi::CStr;
use core::fmt::{Arguments, Write};

use crate::file::file_error::FileError;
use crate::file::output::Line;
use crate::file::segment_file::SegmentFile;

/// Where `/proc` has them: by the calling thread, and before Linux 3.17, which has no such folder, by the first one.
/// When the first thread has ended before the others, its folder has no memory, no descriptors and no namespaces.
const FOLDERS: [&str; 2] = ["thread-self", "self"];

impl SegmentFile {
    /// Opens a file of `/proc` about this process, such as `maps`, for reading. The file is about the calling thread
    /// where threads differ (`stat` has its times).
    ///
    /// # Errors
    /// [`FileError`], where there is no `/proc`.
    pub fn open_own(name: &str) -> Result<SegmentFile, FileError> {
        with_own_path(format_args!("{name}"), Self::open_read_only)
    }
}

/// Calls `with` with the path of a file of `/proc` about this process, and with the next one where there is none.
pub(crate) fn with_own_path<R>(
    name: Arguments<'_>,
    with: impl Fn(&CStr) -> Result<R, FileError>,
) -> Result<R, FileError> {
    let mut result = Err(FileError::NotFound);
    for folder in FOLDERS {
        let mut path = Line::<48>::new();
        let _ = write!(path, "/proc/{folder}/{name}\0");
        let path = CStr::from_bytes_with_nul(path.bytes()).map_err(|_| FileError::NotFound)?;
        result = with(path);
        if !matches!(result, Err(FileError::NotFound)) {
            break;
        }
    }
    result
}
