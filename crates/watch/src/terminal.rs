//! The terminal: set up for full-screen pictures, and restored however the command ends.

use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anyhow::{Result, bail};
use heapwright_host::terminal::wait;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// The terminal in full-screen mode. Dropping this restores it, also when a thread panics.
pub struct Terminal {
    /// Dropped by hand: its own destructor prints an error, and may panic, if the terminal is closed.
    inner: ManuallyDrop<DefaultTerminal>,
    /// The signal that arrived, otherwise 0.
    signal: Arc<AtomicI32>,
}

/// Input from the user or the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A key.
    Key(KeyCode),
    /// Ctrl-C.
    Interrupt,
    /// A signal that asks to end.
    Signal(i32),
    /// Any other event, such as a change of size.
    Other,
}

impl Terminal {
    /// Sets up the terminal.
    pub fn take() -> Result<Terminal> {
        if !io::stdout().is_terminal() {
            bail!(
                "standard output is not a terminal: `heapwright watch --once` prints one picture as text, and \
                 `heapwright run --stats` the figures at the end"
            );
        }
        let signal = Arc::new(AtomicI32::new(0));
        for number in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            let seen = signal.clone();
            // SAFETY: the handler stores a number in an atomic, and nothing else.
            unsafe { signal_hook::low_level::register(number, move || seen.store(number, Ordering::Relaxed)) }?;
        }
        if AutoStream::choice(&io::stdout()) == ColorChoice::Never {
            ratatui::crossterm::style::force_color_output(false);
        }
        Ok(Terminal { inner: ManuallyDrop::new(ratatui::try_init()?), signal })
    }

    /// Draws a picture.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame)) -> io::Result<()> {
        match self.inner.draw(picture) {
            // The next call of `next` returns what closed the terminal.
            Err(_) if wait(Duration::ZERO) => Ok(()),
            drawn => drawn.map(|_| ()),
        }
    }

    /// Waits for input for at most `time`; returns `None` if there was none.
    pub fn next(&self, time: Duration) -> io::Result<Option<Input>> {
        if let Some(signal) = self.pending_signal() {
            return Ok(Some(signal));
        }
        if let Some(input) = here()? {
            return Ok(Some(input));
        }
        wait(time);
        match self.pending_signal() {
            Some(signal) => Ok(Some(signal)),
            None => here(),
        }
    }

    fn pending_signal(&self) -> Option<Input> {
        let signal = self.signal.load(Ordering::Relaxed);
        (signal != 0).then_some(Input::Signal(signal))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A closed terminal can be neither restored nor written to.
        if !wait(Duration::ZERO) {
            ratatui::restore();
            // SAFETY: this is the destructor, and the only place that drops `inner`; it is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.inner) };
        }
    }
}

/// Returns input that is already there. Does not read from a closed terminal: crossterm would retry for ever without
/// sleeping.
fn here() -> io::Result<Option<Input>> {
    if wait(Duration::ZERO) {
        return Ok(Some(Input::Signal(SIGHUP)));
    }
    if !event::poll(Duration::ZERO)? {
        return Ok(None);
    }
    Ok(Some(match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => of_key(key),
        _ => Input::Other,
    }))
}

fn of_key(key: KeyEvent) -> Input {
    let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if with_control && key.code == KeyCode::Char('c') { Input::Interrupt } else { Input::Key(key.code) }
}
