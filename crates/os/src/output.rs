//! Text, without allocating.

use core::ffi::{CStr, c_void};
use core::fmt;
use core::ptr::NonNull;

use crate::errno::errno;
use crate::pages::{Refused, map, round_to_pages};

/// Text gathered in place, at most `N` bytes of it; what is longer is cut off.
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
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Line { text: [0; N], length: 0 }
    }

    /// What was gathered.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    /// The same in pages of its own, for as long as the process lasts.
    ///
    /// # Errors
    /// [`Refused`] when the system has no memory.
    pub fn kept(&self) -> Result<&'static Line<N>, Refused> {
        let place = map(round_to_pages(size_of::<Self>()).ok_or(Refused)?)?.cast::<Self>();
        // SAFETY: the pages are new and long enough, begin at a multiple of any alignment, and are never unmapped.
        unsafe {
            place.write(self.clone());
            Ok(place.as_ref())
        }
    }

    /// Forgets what was gathered.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Adds bytes as they are.
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

/// An open file to write to.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    descriptor: i32,
    /// The device and the file, by which a descriptor that was closed and used again is told apart.
    file: (u64, u64),
}

impl Output {
    /// Standard error as it is now.
    #[must_use]
    pub fn standard_error() -> Output {
        Self::over(libc::STDERR_FILENO)
    }

    /// Standard error by a descriptor of our own, which stays open when the program closes its own before it ends (as
    /// many do in order to see write errors); not passed on by `exec`.
    #[must_use]
    pub fn standard_error_kept() -> Output {
        const OUT_OF_THE_WAY: i32 = 200;
        // SAFETY: duplicating a descriptor has no preconditions.
        let descriptor = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) };
        if descriptor < 0 { Self::standard_error() } else { Self::over(descriptor) }
    }

    /// The file at `path`, made if need be and emptied, locked until it is closed so that processes that end together
    /// do not mix their texts. `None` when it cannot be opened.
    #[must_use]
    pub fn file(path: &CStr) -> Option<Output> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
        // SAFETY: the path is a C string; the other calls take a descriptor only and may fail (on a pipe, say).
        unsafe {
            let descriptor = libc::open(path.as_ptr(), flags, 0o666 as libc::c_uint);
            if descriptor < 0 {
                return None;
            }
            libc::flock(descriptor, libc::LOCK_EX);
            libc::ftruncate(descriptor, 0);
            Some(Self::over(descriptor))
        }
    }

    fn over(descriptor: i32) -> Output {
        Output { descriptor, file: identity(descriptor).unwrap_or_default() }
    }

    /// Whether the descriptor still is what it was.
    #[must_use]
    pub fn is_open(&self) -> bool {
        identity(self.descriptor) == Some(self.file)
    }

    /// Writes all of `bytes` as far as the system takes them.
    pub fn write(&self, bytes: &[u8]) {
        // SAFETY: the buffer is valid for its length.
        unsafe { self.write_memory(bytes.as_ptr(), bytes.len()) };
    }

    /// Writes `count` bytes of memory that somebody may be writing to meanwhile.
    ///
    /// # Safety
    /// They are mapped.
    pub unsafe fn write_memory(&self, start: *const u8, count: usize) {
        let mut done = 0;
        while done < count {
            // SAFETY: the caller's promise; only the system looks at the bytes.
            let written = unsafe { libc::write(self.descriptor, start.add(done).cast(), count - done) };
            match usize::try_from(written) {
                Ok(written) if written > 0 => done += written,
                _ if errno() == libc::EINTR => {}
                _ => return,
            }
        }
    }

    /// Closes the file.
    pub fn close(self) {
        // SAFETY: the descriptor is ours.
        unsafe { libc::close(self.descriptor) };
    }
}

/// A stream of the C library that somebody else has opened.
#[derive(Clone, Copy, Debug)]
pub struct Stream(NonNull<libc::FILE>);

impl Stream {
    /// The stream at `file`; `None` for null.
    ///
    /// # Safety
    /// It is open, and stays so for as long as this is used.
    #[must_use]
    pub unsafe fn over(file: *mut c_void) -> Option<Stream> {
        NonNull::new(file.cast()).map(Stream)
    }

    /// Writes `bytes`; returns whether the stream took them all. This may allocate.
    #[must_use]
    pub fn write(&self, bytes: &[u8]) -> bool {
        // SAFETY: the stream is open, and the buffer is valid for its length.
        unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), self.0.as_ptr()) == bytes.len() }
    }
}

fn identity(descriptor: i32) -> Option<(u64, u64)> {
    // SAFETY: a stat buffer is plain integers, and fstat fills it or fails.
    unsafe {
        let mut found: libc::stat = core::mem::zeroed();
        (libc::fstat(descriptor, &mut found) == 0).then_some((found.st_dev, found.st_ino))
    }
}
