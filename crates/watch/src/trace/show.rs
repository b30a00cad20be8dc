//! What is shown of a trace, and what the keys do.

use std::ops::Range;

use anyhow::Result;
use heapwright_placement::Engine;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;

use super::player::Player;
use super::quiz::Quiz;
use crate::live::steered;
use crate::picture;
use crate::view::{Frame, View};

/// The most digits that can be typed.
const DIGITS: usize = 15;

/// A trace on the terminal.
pub struct Show {
    /// The trace and its heaps.
    pub player: Player,
    /// The view of each heap.
    pub views: Vec<View>,
    /// The heap that the keys control.
    pub active: usize,
    /// The number being typed.
    pub typed: Option<String>,
    /// The quiz, if the user is to guess first.
    pub quiz: Option<Quiz>,
}

impl Show {
    /// Shows the trace of `player`.
    pub fn of(player: Player) -> Show {
        let views = vec![View::Whole; player.lanes.len()];
        Show { player, views, active: 0, typed: None, quiz: None }
    }

    /// The same, with a quiz: before a placement is shown, the user guesses it.
    pub fn asking(mut player: Player) -> Show {
        player.is_paused = true;
        Show { quiz: Some(Quiz::default()), ..Show::of(player) }
    }

    /// Handles a key.
    pub fn take(&mut self, key: KeyCode, areas: &[Rect]) -> Result<()> {
        if let Some(typed) = self.typed.take() {
            return self.type_on(typed, key);
        }
        if let Some(quiz) = &mut self.quiz
            && quiz.take(key, &mut self.player)?
        {
            return Ok(());
        }
        match key {
            KeyCode::Char(' ') => self.player.is_paused = !self.player.is_paused,
            KeyCode::Char('+' | '=') => self.player.faster(),
            KeyCode::Char('-') => self.player.slower(),
            KeyCode::Right => self.player.step()?,
            KeyCode::Left => self.player.step_back()?,
            KeyCode::Char('g') => self.typed = Some(String::new()),
            KeyCode::Char('s') => self.player.change_policy(self.active)?,
            KeyCode::Tab => self.active = (self.active + 1) % self.views.len(),
            key => {
                if let Some(&area) = areas.get(self.active) {
                    self.views[self.active] = steered(self.views[self.active], key, &self.frame(self.active, area));
                }
            }
        }
        Ok(())
    }

    /// Handles a key while the number of an event is typed.
    fn type_on(&mut self, mut typed: String, key: KeyCode) -> Result<()> {
        match key {
            KeyCode::Char(digit) if digit.is_ascii_digit() && typed.len() < DIGITS => typed.push(digit),
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Esc => return Ok(()),
            KeyCode::Enter => {
                if let Ok(event) = typed.parse() {
                    self.player.is_paused = true;
                    self.player.seek(event)?;
                }
                return Ok(());
            }
            _ => {}
        }
        self.typed = Some(typed);
        Ok(())
    }

    /// Moves partial views to the bytes of the last event.
    pub fn follow(&mut self, areas: &[Rect]) {
        for (number, &area) in areas.iter().enumerate() {
            let frame = self.frame(number, area);
            let mark = self.mark(number);
            if let (View::Part { start, scale }, Some(mark)) = (self.views[number], mark)
                && !(start..start + frame.columns * frame.rows * scale).contains(&mark.start)
            {
                self.views[number] = View::around(mark.start, scale, &frame);
            }
        }
    }

    /// Returns the bytes that are highlighted in heap number `lane`: the chosen hole, or those of the last event.
    pub fn mark(&self, lane: usize) -> Option<Range<usize>> {
        match self.quiz.as_ref().and_then(|quiz| quiz.question.as_ref()) {
            Some(question) => question.hole().map(|hole| hole.start..hole.end()),
            None => self.player.lanes[lane].story.as_ref().and_then(|story| story.mark.clone()),
        }
    }

    fn frame(&self, number: usize, area: Rect) -> Frame {
        let lane = &self.player.lanes[number];
        picture::frame(lane.engine().heap_size(), lane.granule(), area)
    }
}
