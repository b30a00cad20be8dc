//! The smallest structure with a lock, an invariant and a redo record, to try the kill tests on: two words that are
//! always equal.

use std::fs::OpenOptions;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use memmap2::MmapRaw;
use nix::unistd::getpid;

use crate::subject::Subject;

/// The words of the file. All stores are ordered for the compiler: a killed process's stores are a prefix of its code.
#[repr(C)]
struct Words {
    /// The process that holds the lock, or 0.
    lock: AtomicU64,
    /// What both words are to be; only of meaning while `armed` is not 0.
    redo: AtomicU64,
    armed: AtomicU64,
    left: AtomicU64,
    right: AtomicU64,
}

/// A mapping of the two words.
pub struct TwoWords(MmapRaw);

impl TwoWords {
    fn words(&self) -> &Words {
        // SAFETY: the mapping is a page long, page-aligned, lives as long as `self`, and all words are atomic.
        unsafe { &*self.0.as_ptr().cast::<Words>() }
    }

    fn lock(&self) -> Result<(), String> {
        let words = self.words();
        let me = u64::from(getpid().as_raw().unsigned_abs());
        let holder = words.lock.swap(me, Ordering::Acquire);
        if holder != 0 && words.armed.load(Ordering::Relaxed) != 0 {
            // The test never lets two living processes at the lock, so its holder is dead.
            self.store(words.redo.load(Ordering::Relaxed));
        }
        Ok(())
    }

    fn store(&self, value: u64) {
        let words = self.words();
        words.left.store(value, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        words.right.store(value, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        words.armed.store(0, Ordering::Relaxed);
    }

    fn set(&self, value: u64) -> Result<(), String> {
        let words = self.words();
        self.lock()?;
        words.redo.store(value, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        words.armed.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.store(value);
        words.lock.store(0, Ordering::Release);
        Ok(())
    }
}

/// The toy as the subject of kills. Dropping it removes its file.
pub struct Toy {
    path: PathBuf,
}

impl Toy {
    pub fn new(path: PathBuf) -> Toy {
        Toy { path }
    }
}

impl Drop for Toy {
    fn drop(&mut self) {
        // There is none when it could not be made, which was reported.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Subject for Toy {
    type Handle = TwoWords;

    fn name(&self) -> String {
        "two equal words".into()
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn prepare(&self) -> Result<(), String> {
        std::fs::write(&self.path, vec![0; 4096]).map_err(|error| error.to_string())
    }

    fn attach(&self) -> Result<TwoWords, String> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path).map_err(|error| error.to_string())?;
        MmapRaw::map_raw(&file).map(TwoWords).map_err(|error| error.to_string())
    }

    fn operate(&self, toy: &mut TwoWords) -> Result<(), String> {
        toy.set(7)
    }

    fn recover(&self, toy: &mut TwoWords) -> Result<(), String> {
        toy.lock()
    }

    fn judge(&self, toy: &mut TwoWords) -> Result<(), String> {
        let words = toy.words();
        let (left, right) = (words.left.load(Ordering::Relaxed), words.right.load(Ordering::Relaxed));
        if left == right { Ok(()) } else { Err(format!("{left} and {right} are not equal")) }
    }

    fn record(&self) -> Range<usize> {
        std::mem::offset_of!(Words, redo)..std::mem::offset_of!(Words, left)
    }
}
