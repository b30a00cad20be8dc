//! The user interface of a running program: samples it, draws it, and handles the keys.

use std::time::Instant;

use anyhow::Result;
use ratatui::layout::Rect;

use super::live::{End, Live};
use super::screen;
use super::terminal::Terminal;

/// Watches until the user quits.
pub fn run(mut live: Live, terminal: &mut Terminal) -> Result<End> {
    let mut due = Instant::now();
    loop {
        if Instant::now() >= due {
            if !live.is_paused {
                live.look();
            }
            due = Instant::now() + live.interval();
        }
        let mut area = Rect::ZERO;
        terminal.draw(|frame| {
            area = screen::map_area(frame.area(), &live);
            screen::draw(frame, &live);
        })?;
        let wait = due.saturating_duration_since(Instant::now());
        if let Some(input) = terminal.next(wait)?
            && let Some(end) = live.take(input, area)?
        {
            return Ok(end);
        }
    }
}
