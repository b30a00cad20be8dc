//! A trace that is played: forwards at some speed, step by step, or from the start again.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use heapwright_placement::PolicyKind;
use heapwright_trace::{Event, ReadError, Reader};

use super::lane::Lane;

/// How long the heaps may work between two pictures.
const BUDGET: Duration = Duration::from_millis(25);

/// The clock is asked every so many events.
const STRIDE: u64 = 512;

/// How many moments of the whole trace are noted.
const MOMENTS: u64 = 256;

/// At first the whole trace takes about so long.
const FIRST_LENGTH: u64 = 30;

/// The highest speed, in events per second.
const FASTEST: u64 = 1_000_000_000;

/// A trace and the heaps that it happens to.
pub struct Player {
    path: PathBuf,
    reader: Reader<BufReader<File>>,
    /// The heaps.
    pub lanes: Vec<Lane>,
    /// How many events there are.
    pub count: u64,
    /// How many have happened.
    pub at: u64,
    /// Events per second.
    pub speed: u64,
    /// Whether it stands still.
    pub is_paused: bool,
    /// How many events are to have happened before it goes on as before.
    target: Option<u64>,
    /// Parts of an event that are due.
    owed: f64,
    /// Why there is nothing more to read, unless it is the end.
    pub damage: Option<String>,
}

impl Player {
    /// The trace at `path`, paused at its start, under each of `policies`.
    pub fn open(path: &Path, policies: &[PolicyKind]) -> Result<Player> {
        let (count, damage) = count(path)?;
        Ok(Player {
            path: path.to_owned(),
            reader: open(path)?,
            lanes: policies.iter().map(|&policy| Lane::new(policy)).collect::<Result<_>>()?,
            count,
            at: 0,
            speed: rounded((count / FIRST_LENGTH).max(1)),
            is_paused: false,
            target: None,
            owed: 0.0,
            damage,
        })
    }

    /// What the trace says of itself: the program's name.
    pub fn program(&self) -> &str {
        self.reader.about().get("program").unwrap_or("?")
    }

    /// Whether it is on its way to somewhere.
    pub fn is_seeking(&self) -> bool {
        self.target.is_some()
    }

    /// Goes to where so many events have happened, from the start if that is before.
    pub fn seek(&mut self, event: u64) -> Result<()> {
        let event = event.min(self.count);
        if event < self.at || (event == self.at && event != 0) {
            self.restart()?;
        }
        self.target = Some(event);
        Ok(())
    }

    /// One event more, and stands still.
    pub fn step(&mut self) -> Result<()> {
        self.is_paused = true;
        self.seek(self.target.unwrap_or(self.at) + 1)
    }

    /// One event less, and stands still.
    pub fn step_back(&mut self) -> Result<()> {
        self.is_paused = true;
        self.seek(self.target.unwrap_or(self.at).saturating_sub(1))
    }

    /// Twice, or two and a half times, as fast.
    pub fn faster(&mut self) {
        self.speed = rounded((self.speed + 1).saturating_mul(2).min(FASTEST));
    }

    /// Half as fast, or a little less.
    pub fn slower(&mut self) {
        self.speed = rounded(self.speed / 2).max(1);
    }

    /// Gives the heap number `lane` the next policy, and lets everything happen to it again.
    pub fn change_policy(&mut self, lane: usize) -> Result<()> {
        let at = self.target.unwrap_or(self.at);
        let number = PolicyKind::ALL.iter().position(|&policy| policy == self.lanes[lane].policy());
        let next = PolicyKind::ALL[(number.unwrap_or(0) + 1) % PolicyKind::ALL.len()];
        self.lanes[lane] = Lane::new(next)?;
        self.restart()?;
        self.target = Some(at);
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        self.reader = open(&self.path)?;
        self.at = 0;
        for lane in &mut self.lanes {
            *lane = Lane::new(lane.policy())?;
        }
        Ok(())
    }

    /// Lets happen what is due after `elapsed`, or as much of it as there is time for, and tells the last of it.
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

    /// Goes on until `goal` events have happened or the time is over. The last event is told.
    fn advance_to(&mut self, goal: u64) -> Result<()> {
        let start = Instant::now();
        let (mut told, every) = (false, (self.count / MOMENTS).max(1));
        while self.at < goal && !told {
            told = self.at + 1 == goal || (self.at.is_multiple_of(STRIDE) && start.elapsed() > BUDGET);
            let Some(event) = next(&mut self.reader).with_context(|| self.path.display().to_string())? else { break };
            self.at += 1;
            for lane in &mut self.lanes {
                if told {
                    lane.tell(&event);
                } else {
                    lane.apply(&event);
                }
                if self.at.is_multiple_of(every) {
                    lane.note();
                }
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<Reader<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    Reader::new(BufReader::new(file)).with_context(|| path.display().to_string())
}

/// The next event that is one for the heap: changes of threads are passed over, and not counted.
fn next(reader: &mut Reader<impl Read>) -> Result<Option<Event>, ReadError> {
    loop {
        match reader.next_event()? {
            Some(Event::Thread { .. }) => {}
            event => return Ok(event),
        }
    }
}

/// How many events can be read, and why no more.
fn count(path: &Path) -> Result<(u64, Option<String>)> {
    let mut reader = open(path)?;
    let mut count = 0;
    loop {
        match next(&mut reader) {
            Ok(Some(_)) => count += 1,
            Ok(None) => return Ok((count, None)),
            Err(error) => return Ok((count, Some(error.to_string()))),
        }
    }
}

/// The greatest of 1, 2, 5, 10, 20, … that is not above `number`.
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
