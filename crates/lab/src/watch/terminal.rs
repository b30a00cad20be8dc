//! The terminal, taken for pictures and given back whatever happens.

use std::io::{self, IsTerminal};
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
    inner: DefaultTerminal,
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
        Ok(Terminal { inner: ratatui::try_init()?, signal })
    }

    /// Shows a picture.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame)) -> io::Result<()> {
        self.inner.draw(picture).map(|_| ())
    }

    /// Waits for something to happen, at most for `time`; `None` when nothing did.
    pub fn next(&self, time: Duration) -> io::Result<Option<Input>> {
        if let Some(signal) = self.pending_signal() {
            return Ok(Some(signal));
        }
        if !event::poll(time)? {
            return Ok(self.pending_signal());
        }
        Ok(Some(match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => of_key(key),
            _ => Input::Other,
        }))
    }

    fn pending_signal(&self) -> Option<Input> {
        let signal = self.signal.load(Ordering::Relaxed);
        (signal != 0).then_some(Input::Signal(signal))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn of_key(key: KeyEvent) -> Input {
    let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if with_control && key.code == KeyCode::Char('c') { Input::Interrupt } else { Input::Key(key.code) }
}
