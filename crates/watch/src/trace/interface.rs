//! The user interface of a trace: plays it, draws it, and handles the keys.

use std::time::{Duration, Instant};

use anyhow::Result;
use ratatui::crossterm::event::KeyCode;

use super::screen;
use super::show::Show;
use crate::terminal::{Input, Terminal};

/// Shortest interval between pictures.
const PAUSE: Duration = Duration::from_millis(50);

/// Plays until the user quits, or a signal arrives.
pub fn run(mut show: Show, terminal: &mut Terminal) -> Result<Option<i32>> {
    let mut last = Instant::now();
    loop {
        let now = Instant::now();
        show.player.advance(now - last)?;
        last = now;
        if let Some(quiz) = &mut show.quiz {
            quiz.advance(&mut show.player)?;
        }
        let mut areas = Vec::new();
        terminal.draw(|frame| {
            areas = screen::map_areas(frame.area(), show.player.lanes.len());
            show.follow(&areas);
            screen::draw(frame, &show);
        })?;
        let wait = if show.player.is_seeking() { Duration::ZERO } else { PAUSE.saturating_sub(last.elapsed()) };
        match terminal.next(wait)? {
            Some(Input::Signal(signal)) => return Ok(Some(signal)),
            Some(Input::Interrupt | Input::Key(KeyCode::Char('q'))) => return Ok(None),
            Some(Input::Key(key)) => show.take(key, &areas)?,
            // The command may have been stopped.
            Some(Input::Other) => last = Instant::now(),
            None => {}
        }
    }
}
