//! A running program's heap on the terminal.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Result;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;

use super::family::Family;
use super::picture;
use super::program::Program;
use super::screen;
use super::terminal::{Input, Terminal};
use super::view::View;
use crate::run::launch;

/// How often the heap is looked at, at most.
const PAUSE: Duration = Duration::from_millis(100);

/// Looking takes at most so much of the time: one part in so many.
const SHARE: u32 = 5;

/// How watching ended.
pub enum End {
    /// The program ended.
    Ended(ExitStatus),
    /// The program, or the process that somebody else started, goes on.
    Left,
    /// A signal asked us to end.
    Signal(i32),
}

/// What the user is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Nothing.
    None,
    /// What is to become of the program.
    End,
}

/// What is watched, and how it is looked at.
pub struct Live {
    /// The program, if it is ours.
    pub program: Option<Program>,
    /// Its processes.
    pub family: Family,
    /// The part of the heap that is shown.
    pub view: View,
    /// What the user is asked.
    pub question: Question,
    /// Whether the picture stands still.
    pub is_paused: bool,
    /// How the program ended, once it has.
    pub ended: Option<ExitStatus>,
    /// How long it has run, or ran.
    pub ran: Duration,
    /// How long the last look took.
    looked: Duration,
    started: Instant,
    /// Whether the program goes on when watching ends.
    detach: bool,
}

impl Live {
    /// A program that was started for this.
    pub fn of_program(program: Program, detach: bool) -> Live {
        let family = Family::of_program(program.pid(), program.name());
        Live { program: Some(program), detach, ..Live::of_process_in(family) }
    }

    /// A process that somebody else started.
    pub fn of_process(pid: u32) -> Live {
        Live::of_process_in(Family::of(pid))
    }

    fn of_process_in(family: Family) -> Live {
        Live {
            program: None,
            family,
            view: View::Whole,
            question: Question::None,
            is_paused: false,
            ended: None,
            ran: Duration::ZERO,
            looked: Duration::ZERO,
            started: Instant::now(),
            detach: false,
        }
    }

    /// Whether nothing will change any more.
    pub fn is_over(&self) -> bool {
        self.ended.is_some() || (self.program.is_none() && self.family.is_over())
    }

    /// Looks at the processes.
    pub fn look(&mut self) {
        if self.is_over() {
            return;
        }
        let now = Instant::now();
        // Asked first: what a process leaves at its end is there once it has ended.
        let ended = self.program.as_mut().and_then(Program::ended);
        self.family.look(|pid| self.program.as_ref().map(|program| program.state_of(pid)));
        if let Some(program) = &self.program {
            program.forget(|pid| self.family.has(pid));
        }
        if ended.is_some() {
            self.ended = ended;
            self.family.end();
        }
        self.ran = self.started.elapsed();
        self.looked = now.elapsed();
    }

    /// Shows what happens until the user has seen enough.
    pub fn run(mut self, terminal: &mut Terminal) -> Result<End> {
        let mut due = Instant::now();
        loop {
            if Instant::now() >= due {
                if !self.is_paused {
                    self.look();
                }
                due = Instant::now() + PAUSE.max(SHARE * self.looked);
            }
            let mut area = Rect::ZERO;
            terminal.draw(|frame| {
                area = screen::map_area(frame.area(), &self);
                screen::draw(frame, &self);
            })?;
            let wait = due.saturating_duration_since(Instant::now());
            if let Some(input) = terminal.next(wait)?
                && let Some(end) = self.take(input, area)?
            {
                return Ok(end);
            }
        }
    }

    /// Does what the input asks for; returns how watching ends, if it does.
    fn take(&mut self, input: Input, area: Rect) -> Result<Option<End>> {
        match input {
            Input::Signal(signal) => {
                self.pass_on(signal);
                return Ok(Some(End::Signal(signal)));
            }
            Input::Interrupt if self.question == Question::End => return self.end_program().map(Some),
            Input::Interrupt => return Ok(self.leave()),
            Input::Key(key) if self.question == Question::End => return self.answer(key),
            Input::Key(KeyCode::Char('q')) => return Ok(self.leave()),
            Input::Key(key) => self.steer(key, area),
            Input::Other => {}
        }
        Ok(None)
    }

    /// The user has seen enough: that is all, unless a program has to be decided about.
    fn leave(&mut self) -> Option<End> {
        match (self.ended, &self.program) {
            (Some(status), _) => Some(End::Ended(status)),
            (None, Some(_)) if !self.detach => {
                self.question = Question::End;
                None
            }
            (None, _) => Some(self.let_go()),
        }
    }

    /// The program, if there is one, goes on.
    fn let_go(&mut self) -> End {
        if let Some(program) = &mut self.program {
            program.let_go();
        }
        End::Left
    }

    /// Somebody wants us to end, and by that the program, unless it is to go on.
    fn pass_on(&mut self, signal: i32) {
        if let Some(program) = &mut self.program {
            if !self.detach {
                program.signal(signal);
            }
            program.let_go();
        }
    }

    fn answer(&mut self, key: KeyCode) -> Result<Option<End>> {
        match key {
            KeyCode::Char('e') => return self.end_program().map(Some),
            KeyCode::Char('l') if self.program.as_ref().is_some_and(Program::can_be_left) => {
                return Ok(Some(self.let_go()));
            }
            KeyCode::Esc | KeyCode::Char('c' | 'q') => self.question = Question::None,
            _ => {}
        }
        Ok(None)
    }

    fn end_program(&mut self) -> Result<End> {
        Ok(match &mut self.program {
            Some(program) => End::Ended(program.end()?),
            None => End::Left,
        })
    }

    /// Changes what is shown.
    fn steer(&mut self, key: KeyCode, area: Rect) {
        match key {
            KeyCode::Tab => {
                self.family.choose_next();
                self.view = View::Whole;
            }
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            key => {
                if let Some(layout) = self.family.shown().sample.as_ref().and_then(|sample| sample.layout.as_ref()) {
                    self.view = steered(self.view, key, &picture::frame(layout.heap_size(), layout.granule(), area));
                }
            }
        }
    }
}

/// The view after a key that moves it.
pub fn steered(view: View, key: KeyCode, frame: &super::view::Frame) -> View {
    let page = frame.rows as isize;
    match key {
        KeyCode::Char('z' | '+' | '=') => view.closer(frame),
        KeyCode::Char('Z' | '-') => view.farther(frame),
        KeyCode::Up => view.scrolled(-1, frame),
        KeyCode::Down => view.scrolled(1, frame),
        KeyCode::PageUp => view.scrolled(-page, frame),
        KeyCode::PageDown => view.scrolled(page, frame),
        KeyCode::Home => view.scrolled(-(1 << 40), frame),
        KeyCode::End => view.scrolled(1 << 40, frame),
        KeyCode::Char('0') => View::Whole,
        _ => view,
    }
}

/// How a program ended, in words.
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("ended by {}", launch::signal_name(signal)),
        (None, None) => "ended".to_owned(),
    }
}
