//! Progress bars on standard error, if it is a terminal.

use heapwright_host::names::Shown;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar for `steps` steps, with the time left; it shows nothing unless standard error is a terminal, and leaves
/// nothing behind when it is dropped.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Starts a bar for `steps` steps of `what`.
    pub fn new(what: &str, steps: usize) -> Progress {
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len}, {eta} left  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(steps as u64).with_style(style).with_prefix(what.to_owned());
        Progress { bar }
    }

    /// Sets the number of steps.
    pub fn expect(&self, steps: usize) {
        self.bar.set_length(steps as u64);
    }

    /// Sets the message about the current step.
    pub fn at(&self, message: &str) {
        self.bar.set_message(message.shown().into_owned());
    }

    /// Runs `print` with the bar hidden.
    pub fn aside<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    /// Sets the number of steps that are done, and of all steps.
    pub fn is_at(&self, done: u64, steps: u64) {
        self.bar.set_length(steps);
        self.bar.set_position(done);
    }

    /// Adds a step that is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
