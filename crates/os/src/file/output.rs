//! Text and output, without allocating.

use core::ffi::{CStr, c_void};
use core::fmt;
use core::ptr::NonNull;

use crate::call::errno::errno;
use crate::call::page_size::round_to_pages;
use crate::call::refused::Refused;
use crate::call::waiting::without_signals_of_refusal;
use crate::memory::pages::map;

/// A buffer of at most `N` bytes of text. Longer text is truncated.
///
/// ```
/// use core::fmt::Write;
/// let mut line = heapwright_os::Line::<8>::new();
/// write!(line, "{}-{}", 12, "345678").unwrap();
/// assert_eq!(line.bytes(), b"12-34567");
/// ```
#[derive(Clone, Debug)]
pub struct Line<const N: usize> {
    text: [u8; N],
    length: usize,
}

impl<const N: usize> Line<N> {
    /// An empty line.
    #[must_use]
    pub const fn new() -> Self {
        Line { text: [0; N], length: 0 }
    }

    /// Returns the text.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    /// Copies the text into pages of its own, which are never unmapped.
    ///
    /// # Errors
    /// [`Refused`] when the system has no memory.
    pub fn kept(&self) -> Result<&'static Line<N>, Refused> {
        let place = map(round_to_pages(size_of::<Self>()).ok_or(Refused)?)?.cast::<Self>();
        // SAFETY: the pages are new, long enough and aligned for any type, and are never unmapped.
        unsafe {
            place.write(self.clone());
            Ok(place.as_ref())
        }
    }

    /// Removes all text.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let taken = bytes.len().min(N - self.length);
        self.text[self.length..self.length + taken].copy_from_slice(&bytes[..taken]);
        self.length += taken;
    }
}

impl<const N: usize> Default for Line<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> fmt::Write for Line<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// An open file for writing.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    descriptor: i32,
    /// The device and the inode, which show whether the descriptor was closed and used again.
    file: (u64, u64),
}

impl Output {
    /// Standard error, by its present descriptor.
    #[must_use]
    pub fn standard_error() -> Output {
        Self::over(libc::STDERR_FILENO)
    }

    /// Standard error by a duplicate descriptor, which stays open when the program closes the original before it ends
    /// (many do, to detect write errors). It is closed by `exec`.
    #[must_use]
    pub fn standard_error_kept() -> Output {
        const OUT_OF_THE_WAY: i32 = 200;
        // SAFETY: the call takes a descriptor and numbers only.
        let descriptor = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) };
        if descriptor < 0 { Self::standard_error() } else { Self::over(descriptor) }
    }

    /// Opens the file at `path`, creates it if it does not exist, and empties it. It is locked until it is closed, so
    /// that processes that end at the same time do not mix their texts. `None` when it cannot be opened, as a named
    /// pipe that has no reader.
    #[must_use]
    pub fn file(path: &CStr) -> Option<Output> {
        // Opening does not wait for a reader; writing does.
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: a `CStr` ends with a zero; the other calls take a descriptor and may fail (on a pipe, for example).
        unsafe {
            let descriptor = libc::open(path.as_ptr(), flags, 0o666 as libc::c_uint);
            if descriptor < 0 {
                return None;
            }
            libc::fcntl(descriptor, libc::F_SETFL, 0);
            libc::flock(descriptor, libc::LOCK_EX);
            libc::ftruncate(descriptor, 0);
            Some(Self::over(descriptor))
        }
    }

    fn over(descriptor: i32) -> Output {
        Output { descriptor, file: identity(descriptor).unwrap_or_default() }
    }

    /// Whether the descriptor still refers to the same file.
    #[must_use]
    pub fn is_open(&self) -> bool {
        identity(self.descriptor) == Some(self.file)
    }

    /// Returns itself while it is open, otherwise standard error if that is the same file; `None` if both are closed,
    /// or are files of the program's by now.
    #[must_use]
    pub fn still_open(self) -> Option<Output> {
        let original = Output { descriptor: libc::STDERR_FILENO, ..self };
        [self, original].into_iter().find(Output::is_open)
    }

    /// Writes `bytes`, until the system refuses. Not a cancellation point, and raises no signal: a pipe may have no
    /// reader any more, and files a limit.
    pub fn write(&self, bytes: &[u8]) {
        let _ = self.write_all(bytes);
    }

    /// As [`Output::write`].
    ///
    /// # Errors
    /// [`Refused`] when the system has not written all bytes: the disk may be full, or the file too long for the
    /// process's limit.
    pub fn write_all(&self, bytes: &[u8]) -> Result<(), Refused> {
        // SAFETY: a slice is mapped.
        unsafe { self.write_memory_all(bytes.as_ptr(), bytes.len()) }
    }

    /// Writes `count` bytes of memory, which other threads may change meanwhile.
    ///
    /// # Safety
    /// The bytes are mapped for reading.
    pub unsafe fn write_memory(&self, start: *const u8, count: usize) {
        // SAFETY: the bytes are mapped, as this function requires.
        let _ = unsafe { self.write_memory_all(start, count) };
    }

    /// # Safety
    /// The bytes are mapped for reading.
    unsafe fn write_memory_all(&self, start: *const u8, count: usize) -> Result<(), Refused> {
        // SAFETY: the bytes are mapped, as this function requires.
        without_signals_of_refusal(|| unsafe { self.write_until_refused(start, count) })
    }

    /// # Safety
    /// The bytes are mapped for reading.
    unsafe fn write_until_refused(&self, start: *const u8, count: usize) -> Result<(), Refused> {
        let mut done = 0;
        while done < count {
            // SAFETY: the bytes are mapped, as this function requires; only the system reads them.
            let written = unsafe { libc::syscall(libc::SYS_write, self.descriptor, start.add(done), count - done) };
            match usize::try_from(written) {
                Ok(0) => return Err(Refused),
                Ok(written) => done += written,
                Err(_) if errno() == libc::EINTR => {}
                Err(_) => return Err(Refused),
            }
        }
        Ok(())
    }

    /// Closes the file.
    pub fn close(self) {
        // SAFETY: the call takes a descriptor only, and the output is not used afterwards.
        unsafe { libc::close(self.descriptor) };
    }
}

/// An open stream (`FILE *`) of the C library.
#[derive(Clone, Copy, Debug)]
pub struct Stream(NonNull<libc::FILE>);

impl Stream {
    /// The stream at `file`; `None` for null.
    ///
    /// # Safety
    /// The stream is open, and stays open as long as the result is used.
    #[must_use]
    pub unsafe fn over(file: *mut c_void) -> Option<Stream> {
        NonNull::new(file.cast()).map(Stream)
    }

    /// Writes `bytes`; returns whether all were written. May allocate.
    #[must_use]
    pub fn write(&self, bytes: &[u8]) -> bool {
        // SAFETY: the stream is open, as `over` requires, and a slice is valid for reads of its length.
        unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), self.0.as_ptr()) == bytes.len() }
    }
}

fn identity(descriptor: i32) -> Option<(u64, u64)> {
    // SAFETY: a stat buffer consists of integers, for which zeros are valid, and is valid for the call's write.
    unsafe {
        let mut found: libc::stat = core::mem::zeroed();
        (libc::fstat(descriptor, &mut found) == 0).then_some((found.st_dev, found.st_ino))
    }
}
