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
use super::terminal::Input;
use super::view::View;
use heapwright_run::launch;

/// Shortest interval between samples.
const PAUSE: Duration = Duration::from_millis(100);

/// Sampling takes at most this fraction of the time, as a divisor.
const SHARE: u32 = 5;

/// How watching ended.
pub enum End {
    /// The program ended.
    Ended(ExitStatus),
    /// The program, or the process given with `--pid`, still runs.
    Left,
    /// This command received a signal that ends it.
    Signal(i32),
}

/// The question that is put to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Nothing.
    None,
    /// What to do with the running program.
    End,
}

/// The state of watching.
pub struct Live {
    /// The program, if this command started it.
    pub program: Option<Program>,
    /// Its processes.
    pub family: Family,
    /// The part of the heap that is shown.
    pub view: View,
    /// The pending question.
    pub question: Question,
    /// Whether the picture is paused.
    pub is_paused: bool,
    /// Exit status of the program, once it has ended.
    pub ended: Option<ExitStatus>,
    /// How long the program has run, or ran.
    pub ran: Duration,
    /// How long the last sample took.
    looked: Duration,
    started: Instant,
    /// Whether the program keeps running when watching ends.
    detach: bool,
}

impl Live {
    /// Watches a program that this command started.
    pub fn of_program(program: Program) -> Live {
        let family = Family::of_program(program.pid(), program.name());
        Live { program: Some(program), ..Live::of_process_in(family) }
    }

    /// Leaves the program running when watching ends.
    pub fn detached(self) -> Live {
        Live { detach: true, ..self }
    }

    /// Watches a process that runs already.
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

    /// Returns whether nothing can change any more.
    pub fn is_over(&self) -> bool {
        self.ended.is_some() || (self.program.is_none() && self.family.is_over())
    }

    /// Samples the processes.
    pub fn look(&mut self) {
        if self.is_over() {
            return;
        }
        let now = Instant::now();
        // Polled first: the state that a process leaves at its end exists once it has ended.
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

    /// Returns the time between two samples.
    pub fn interval(&self) -> Duration {
        PAUSE.max(SHARE * self.looked)
    }

    /// Handles an input; returns how watching ends, if it does.
    pub fn take(&mut self, input: Input, area: Rect) -> Result<Option<End>> {
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

    /// Handles the wish to quit: ends watching, or asks about the running program.
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

    /// Leaves the program running, if there is one.
    fn let_go(&mut self) -> End {
        if let Some(program) = &mut self.program {
            program.let_go();
        }
        End::Left
    }

    /// Passes a signal that ends this command on to the program, unless that is to keep running.
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

    /// Changes the view.
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

/// Returns the view after a key that moves it.
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

/// Describes how a program ended.
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("ended by {}", launch::signal_name(signal)),
        (None, None) => "ended".to_owned(),
    }
}
