//! The terminal: set up for full-screen pictures, and restored however the command ends.

use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anyhow::{Result, bail};
use heapwright_host::terminal::{stop_group, wait};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::{DefaultTerminal, Frame};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::flag;

/// The terminal in full-screen mode. Dropping this restores it, also when a thread panics.
pub struct Terminal {
    /// Dropped by hand: its own destructor prints an error, and may panic, if the terminal is closed.
    inner: ManuallyDrop<DefaultTerminal>,
    /// The signal that arrived, otherwise 0.
    signal: Arc<AtomicI32>,
    /// Whether a signal asks to stop (job control).
    is_to_stop: Arc<AtomicBool>,
    /// Whether the command was continued, and the shell may have changed the terminal meanwhile.
    is_continued: Arc<AtomicBool>,
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
        let (is_to_stop, is_continued) = (Arc::default(), Arc::default());
        flag::register(SIGTSTP, Arc::clone(&is_to_stop))?;
        flag::register(SIGCONT, Arc::clone(&is_continued))?;
        if AutoStream::choice(&io::stdout()) == ColorChoice::Never {
            ratatui::crossterm::style::force_color_output(false);
        }
        Ok(Terminal { inner: ManuallyDrop::new(ratatui::try_init()?), signal, is_to_stop, is_continued })
    }

    /// Draws a picture.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame)) -> io::Result<()> {
        match self.inner.draw(picture) {
            // The next call of `next` returns what closed the terminal.
            Err(_) if wait(Duration::ZERO) => Ok(()),
            drawn => drawn.map(|_| ()),
        }
    }

    /// Waits for input for at most `time`; returns `None` if there was none. Where the user or a signal asks to stop
    /// the command, it stops in here, and everything is to be drawn again afterwards.
    pub fn next(&mut self, time: Duration) -> io::Result<Option<Input>> {
        let input = self.next_key_or_signal(time)?;
        if self.is_to_stop.swap(false, Ordering::Relaxed) {
            self.stop()?;
        } else if self.is_continued.swap(false, Ordering::Relaxed) {
            self.take_again()?;
        } else {
            return Ok(input);
        }
        Ok(input.or(Some(Input::Other)))
    }

    fn next_key_or_signal(&self, time: Duration) -> io::Result<Option<Input>> {
        if let Some(signal) = self.pending_signal() {
            return Ok(Some(signal));
        }
        if let Some(input) = self.here()? {
            return Ok(Some(input));
        }
        wait(time);
        match self.pending_signal() {
            Some(signal) => Ok(Some(signal)),
            None => self.here(),
        }
    }

    /// Returns input that is already there; Ctrl-Z asks to stop. Does not read from a closed terminal: crossterm would
    /// retry for ever without sleeping.
    fn here(&self) -> io::Result<Option<Input>> {
        if wait(Duration::ZERO) {
            return Ok(Some(Input::Signal(SIGHUP)));
        }
        if !event::poll(Duration::ZERO)? {
            return Ok(None);
        }
        Ok(Some(match event::read()? {
            Event::Key(key) if key.code == KeyCode::Char('z') && key.modifiers.contains(KeyModifiers::CONTROL) => {
                self.is_to_stop.store(true, Ordering::Relaxed);
                Input::Other
            }
            Event::Key(key) if key.kind != KeyEventKind::Release => of_key(key),
            _ => Input::Other,
        }))
    }

    /// Gives the terminal back to the shell, and stops until the shell continues the command; where there is no shell,
    /// it goes on.
    fn stop(&mut self) -> io::Result<()> {
        ratatui::try_restore()?;
        self.inner.show_cursor()?;
        stop_group();
        self.is_continued.store(false, Ordering::Relaxed);
        self.take_again()
    }

    /// Sets the terminal up again after the command was continued.
    fn take_again(&mut self) -> io::Result<()> {
        // What is thought to be the mode already is not set.
        disable_raw_mode()?;
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, Clear(ClearType::All))?;
        // A new one knows of nothing that has been drawn. `clear` would ask the terminal where the cursor is.
        *self.inner = DefaultTerminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
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

fn of_key(key: KeyEvent) -> Input {
    if !key.modifiers.contains(KeyModifiers::CONTROL) {
        return Input::Key(key.code);
    }
    match key.code {
        KeyCode::Char('c') => Input::Interrupt,
        // The byte of Ctrl-\ is that of Ctrl-4, too.
        KeyCode::Char('\\' | '4') => Input::Signal(SIGQUIT),
        code => Input::Key(code),
    }
}
