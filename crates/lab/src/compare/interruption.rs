//! Ctrl-C: the first ends what is under way in good order, the second at once.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether somebody wants this command to end; listens for as long as it lives.
pub struct Interruption {
    came: Arc<AtomicBool>,
}

impl Interruption {
    /// Begins to listen.
    pub fn listen() -> Result<Interruption> {
        let came = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // In this order: the first signal finds the flag down.
            flag::register_conditional_default(signal, came.clone()).context("cannot listen for signals")?;
            flag::register(signal, came.clone()).context("cannot listen for signals")?;
        }
        Ok(Interruption { came })
    }

    /// Whether it came.
    pub fn came(&self) -> bool {
        self.came.load(Ordering::Relaxed)
    }

    /// Opens a file that can be read until an interruption.
    pub fn open(&self, path: &Path) -> Result<Interruptible> {
        let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
        Ok(Interruptible { file, came: self.came.clone() })
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        // Signals do from now on what they always do.
        self.came.store(true, Ordering::Relaxed);
    }
}

/// A file that can be read until an interruption.
pub struct Interruptible {
    file: File,
    came: Arc<AtomicBool>,
}

impl Read for Interruptible {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.came.load(Ordering::Relaxed) {
            return Err(io::Error::other("interrupted"));
        }
        self.file.read(bytes)
    }
}
