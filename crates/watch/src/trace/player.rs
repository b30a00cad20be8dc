//! Plays a trace: forwards at some speed, step by step, or from the start again.

use std::borrow::Cow;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use heapwright_host::files::{self, ensure_rereadable};
use heapwright_host::names::Shown;
use heapwright_replay::Model;
use heapwright_trace::{Event, ReadError, Reader};

use super::lane::Lane;
use super::question::Question;

/// The longest work between two pictures.
const BUDGET: Duration = Duration::from_millis(25);

/// Number of events between two readings of the clock.
const STRIDE: u64 = 512;

/// Number of history points over the whole trace.
const MOMENTS: u64 = 256;

/// Duration of the whole trace at the first speed, in seconds.
const FIRST_LENGTH: u64 = 30;

/// The highest speed, in events per second.
const FASTEST: u64 = 1_000_000_000;

/// A trace and its heaps.
pub struct Player {
    path: PathBuf,
    reader: Reader<'static>,
    /// The next event, if it was read already.
    ahead: Option<Event>,
    /// The heaps.
    pub lanes: Vec<Lane>,
    /// The heaps that a lane can change to.
    choices: Vec<Model>,
    /// Number of events.
    pub count: u64,
    /// Number of events applied.
    pub at: u64,
    /// Events per second.
    pub speed: u64,
    /// Whether it is paused.
    pub is_paused: bool,
    /// The number of events at which a seek ends.
    target: Option<u64>,
    /// Fraction of an event that is due.
    owed: f64,
    /// Why the trace cannot be read to its end, if it is damaged.
    pub damage: Option<ReadError>,
}

impl Player {
    /// Opens the trace at `path`, paused at its start, with each of these heaps; each can change to any of `choices`.
    pub fn open(path: &Path, heaps: &[Model], choices: Vec<Model>) -> Result<Player> {
        ensure_rereadable(path)?;
        let (count, damage) = count(path)?;
        Ok(Player {
            path: path.to_owned(),
            reader: open(path)?,
            ahead: None,
            lanes: heaps.iter().map(|&model| Lane::new(model)).collect::<Result<_>>()?,
            choices,
            count,
            at: 0,
            speed: rounded((count / FIRST_LENGTH).max(1)),
            is_paused: false,
            target: None,
            owed: 0.0,
            damage,
        })
    }

    /// Returns the name of the recorded program, or of the file where the trace tells none.
    pub fn program(&self) -> Cow<'_, str> {
        let of_file = || self.path.file_name().map_or_else(|| self.path.shown(), Shown::shown);
        self.reader.about().get("program").map_or_else(of_file, Cow::Borrowed)
    }

    /// Returns why the recording ended before the program did, if it did so.
    pub fn incomplete(&self) -> Option<&str> {
        self.reader.about().incomplete()
    }

    /// Returns whether a seek is in progress.
    pub fn is_seeking(&self) -> bool {
        self.target.is_some()
    }

    /// Seeks to the point after `event` events; restarts if that is earlier.
    pub fn seek(&mut self, event: u64) -> Result<()> {
        let event = event.min(self.count);
        if event < self.at || (event == self.at && event != 0) {
            self.restart()?;
        }
        self.target = Some(event);
        Ok(())
    }

    /// Applies one more event, and pauses.
    pub fn step(&mut self) -> Result<()> {
        self.is_paused = true;
        self.seek(self.target.unwrap_or(self.at) + 1)
    }

    /// Goes back by one event, and pauses.
    pub fn step_back(&mut self) -> Result<()> {
        self.is_paused = true;
        self.seek(self.target.unwrap_or(self.at).saturating_sub(1))
    }

    /// Doubles the speed, or multiplies it by two and a half.
    pub fn faster(&mut self) {
        self.speed = rounded((self.speed + 1).saturating_mul(2).min(FASTEST));
    }

    /// Halves the speed, or a little less.
    pub fn slower(&mut self) {
        self.speed = rounded(self.speed / 2).max(1);
    }

    /// Gives heap number `lane` the next policy, and replays every event up to here for it.
    pub fn change_policy(&mut self, lane: usize) -> Result<()> {
        let at = self.target.unwrap_or(self.at);
        let number = self.choices.iter().position(|model| model == self.lanes[lane].model());
        let next = number.map_or(0, |number| (number + 1) % self.choices.len());
        let Some(&next) = self.choices.get(next) else { return Ok(()) };
        self.lanes[lane] = Lane::new(next)?;
        self.restart()?;
        self.target = Some(at);
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        self.reader = open(&self.path)?;
        self.ahead = None;
        self.at = 0;
        for lane in &mut self.lanes {
            *lane = Lane::new(*lane.model())?;
        }
        Ok(())
    }

    /// Applies the events that are due after `elapsed`, as far as time allows, and explains the last.
    pub fn advance(&mut self, elapsed: Duration) -> Result<()> {
        let goal = match self.target {
            Some(target) => target,
            None if self.is_paused => return Ok(()),
            None => {
                self.owed += elapsed.as_secs_f64() * self.speed as f64;
                let due = self.owed as u64;
                self.owed -= due as f64;
                (self.at + due).min(self.count)
            }
        };
        self.advance_to(goal)?;
        if self.target == Some(self.at) || self.at == self.count {
            self.target = None;
            self.is_paused |= self.at == self.count;
        }
        Ok(())
    }

    /// Applies events until `goal` or until the time is over. Explains the last event.
    fn advance_to(&mut self, goal: u64) -> Result<()> {
        let start = Instant::now();
        let (mut explain, every) = (false, (self.count / MOMENTS).max(1));
        while self.at < goal && !explain {
            explain = self.at + 1 == goal || (self.at.is_multiple_of(STRIDE) && start.elapsed() > BUDGET);
            let Some(event) = self.next_event()? else { break };
            self.apply(&event, if explain { Lane::explain } else { Lane::apply }, every);
        }
        Ok(())
    }

    /// Applies an event, and samples the heaps every so many events.
    fn apply(&mut self, event: &Event, by: fn(&mut Lane, &Event), every: u64) {
        self.at += 1;
        for lane in &mut self.lanes {
            by(lane, event);
            if self.at.is_multiple_of(every) {
                lane.note();
            }
        }
    }

    /// Applies the next event and explains it.
    pub fn apply_one(&mut self) -> Result<()> {
        let every = (self.count / MOMENTS).max(1);
        if let Some(event) = self.next_event()? {
            self.apply(&event, Lane::explain, every);
        }
        Ok(())
    }

    /// Applies events until the next one chooses between holes of the first heap, or until the time is over.
    pub fn advance_to_question(&mut self) -> Result<Option<Question>> {
        let (start, every) = (Instant::now(), (self.count / MOMENTS).max(1));
        while start.elapsed() <= BUDGET {
            let Some(event) = self.next_event()? else { return Ok(None) };
            let question = self.lanes[0].question(&event);
            if question.is_some() {
                self.ahead = Some(event);
                return Ok(question);
            }
            self.apply(&event, Lane::apply, every);
        }
        Ok(None)
    }

    fn next_event(&mut self) -> Result<Option<Event>> {
        match self.ahead.take() {
            None => next(&mut self.reader).with_context(|| self.path.shown().into_owned()),
            event => Ok(event),
        }
    }
}

fn open(path: &Path) -> Result<Reader<'static>> {
    let reader = Reader::new(BufReader::new(files::open(path)?)).with_context(|| path.shown().into_owned())?;
    Ok(reader.up_to_damage())
}

/// Returns the next event of the heap: thread changes are skipped and not counted.
fn next(reader: &mut Reader<'_>) -> Result<Option<Event>, ReadError> {
    loop {
        match reader.next_event()? {
            Some(Event::Thread { .. }) => {}
            event => return Ok(event),
        }
    }
}

/// Counts the readable events, and returns the damage that ends them.
fn count(path: &Path) -> Result<(u64, Option<ReadError>)> {
    let mut reader = open(path)?;
    let mut count = 0;
    while next(&mut reader).with_context(|| path.shown().into_owned())?.is_some() {
        count += 1;
    }
    Ok((count, reader.take_damage()))
}

/// Returns the greatest of 1, 2, 5, 10, 20, … that is at most `number`.
fn rounded(number: u64) -> u64 {
    let power = 10_u64.pow(number.max(1).ilog10());
    [5, 2, 1].map(|digit| digit * power).into_iter().find(|&round| round <= number).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_round() {
        let speeds: Vec<u64> = [0, 1, 2, 3, 5, 9, 10, 19, 20, 49, 50, 123_456].into_iter().map(rounded).collect();
        assert_eq!(speeds, [1, 1, 2, 2, 5, 5, 10, 10, 20, 20, 50, 100_000]);
    }
}
