//! The terminal, taken for pictures and given back whatever happens.

use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anyhow::{Result, bail};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// The terminal while it shows pictures; as it was before once this is dropped, also when a thread panics.
pub struct Terminal {
    /// Dropped by hand, for it complains, and panics, where nobody hears it.
    inner: ManuallyDrop<DefaultTerminal>,
    /// The signal that came, 0 before.
    signal: Arc<AtomicI32>,
}

/// What the user wants, or the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A key.
    Key(KeyCode),
    /// Ctrl-C.
    Interrupt,
    /// A signal that asks to end.
    Signal(i32),
    /// Something that changes at most the picture's size.
    Other,
}

impl Terminal {
    /// Takes the terminal.
    pub fn take() -> Result<Terminal> {
        if !io::stdout().is_terminal() {
            bail!(
                "standard output is not a terminal: `heapwright watch --once` prints what is seen as text, and \
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

    /// Shows a picture.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame)) -> io::Result<()> {
        match self.inner.draw(picture) {
            // What closed it is told by the next look.
            Err(_) if is_closed(wait(Duration::ZERO)) => Ok(()),
            drawn => drawn.map(|_| ()),
        }
    }

    /// Waits for something to happen, at most for `time`; `None` when nothing did.
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
        // A terminal that was closed can neither be given back nor told of it.
        if !is_closed(wait(Duration::ZERO)) {
            ratatui::restore();
            // SAFETY: nobody uses it any more.
            unsafe { ManuallyDrop::drop(&mut self.inner) };
        }
    }
}

/// What has happened already. Of a terminal that is closed nothing is read: that would be tried for ever, without sleeping.
fn here() -> io::Result<Option<Input>> {
    if is_closed(wait(Duration::ZERO)) {
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

/// Waits until the terminal has something to read, is closed, or a signal comes; at most for `time`. Returns what the
/// system says of the terminal. (The terminal is looked at where pictures go to; keys come from the same one.)
fn wait(time: Duration) -> i16 {
    let mut terminal = libc::pollfd { fd: libc::STDOUT_FILENO, events: libc::POLLIN, revents: 0 };
    let milliseconds = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one descriptor is looked at, and its answer is ours to write.
    unsafe { libc::poll(&raw mut terminal, 1, milliseconds) };
    terminal.revents
}

/// Whoever closes a terminal does not always tell by a signal.
fn is_closed(said: i16) -> bool {
    said & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

fn of_key(key: KeyEvent) -> Input {
    let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if with_control && key.code == KeyCode::Char('c') { Input::Interrupt } else { Input::Key(key.code) }
}
