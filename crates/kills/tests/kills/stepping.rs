//! Kills at single instructions, and what survivors find.

use std::fmt;

use crate::film::{Film, Frame, Image};
use crate::pin::Pinned;
use crate::route::{Route, routes};
use crate::subject::{Record, Subject, Survivor};
use crate::victim::{Victim, describe};
use crate::witness::Witness;

/// What kills at single instructions led to.
#[derive(Default)]
pub struct Findings {
    /// How many instructions were stepped through.
    pub instructions: usize,
    /// How many states and kills were judged.
    pub judged: usize,
    /// How many victims went another way than the one filmed, and were killed elsewhere.
    pub strayed: usize,
    /// What was wrong, at which instruction.
    pub failures: Vec<String>,
}

impl Findings {
    /// Counts those of another operation with these.
    pub fn add(&mut self, other: Findings) {
        self.instructions += other.instructions;
        self.judged += other.judged;
        self.strayed += other.strayed;
        self.failures.extend(other.failures);
    }

    /// # Errors
    /// The failures, the first few in full.
    pub fn verdict(self) -> Result<(), String> {
        if self.failures.is_empty() {
            return Ok(());
        }
        let some: Vec<_> = self.failures.iter().take(5).map(String::as_str).collect();
        Err(format!("{} of {} judged are broken, for example\n{}", self.failures.len(), self.judged, some.join("\n")))
    }

    fn note(&mut self, subject: &impl Subject, verdict: Result<(), String>, moment: impl FnOnce() -> String) {
        self.judged += 1;
        if let Err(wrong) = verdict {
            self.failures.push(format!("  {}: {}: {wrong}", subject.name(), moment()));
        }
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Findings { instructions, judged, strayed, failures } = self;
        write!(f, "{instructions} instructions, {judged} judged ({strayed} strayed), {} broken", failures.len())
    }
}

/// An operation, stepped through once, and a survivor that judges what kills make of it.
pub struct Trial<'s, S: Subject> {
    subject: &'s S,
    witness: Witness,
    /// The state before the victim attaches.
    before: Image,
    film: Film,
    routes: Vec<Route>,
    _pinned: Pinned,
}

impl<'s, S: Subject> Trial<'s, S> {
    /// Prepares the operation and steps through it.
    pub fn prepare(subject: &'s S, survivor: Survivor) -> Result<Trial<'s, S>, String> {
        let pinned = Pinned::here();
        subject.prepare()?;
        let witness = Witness::start(subject, survivor)?;
        let before = Image::of(subject.path()).map_err(|error| error.to_string())?;
        let film = Film::shoot(start(subject)?, subject.path())?;
        let routes = routes(&film.instructions);
        Ok(Trial { subject, witness, before, film, routes, _pinned: pinned })
    }

    /// Has the survivor killed as well: from now on newcomers judge, who find all dead.
    pub fn dismiss(&mut self) -> Result<(), String> {
        self.witness = Witness::start(self.subject, Survivor::Newcomer)?;
        Ok(())
    }

    /// How many instructions the operation takes.
    pub fn instructions(&self) -> usize {
        self.film.instructions.len()
    }

    /// Has every state judged that the file passes through: those in which a kill at any instruction leaves it.
    pub fn judge_every_state(&self, record: Record) -> Result<Findings, String> {
        self.judge_frames(self.film.frames.iter(), record)
    }

    /// Has every `stride`-th of them judged, and the last.
    pub fn judge_states(&self, stride: usize) -> Result<Findings, String> {
        self.judge_frames(self.film.frames.iter().rev().step_by(stride), Record::Kept)
    }

    fn judge_frames<'f>(&self, frames: impl Iterator<Item = &'f Frame>, record: Record) -> Result<Findings, String> {
        let mut findings = Findings::default();
        for frame in frames {
            self.rewind()?;
            put(self.subject, &frame.image, record)?;
            let verdict = self.witness.judge();
            findings.note(self.subject, verdict, || moment(frame, &self.film));
        }
        Ok(findings)
    }

    /// Kills a process of its own at every `stride`-th moment of the operation and has what it leaves judged.
    pub fn kill_at_moments(&self, stride: usize) -> Result<Findings, String> {
        let mut findings = Findings::default();
        for count in self.film.moments().step_by(stride) {
            self.rewind()?;
            findings.strayed += usize::from(self.kill_after(count)?);
            let verdict = self.witness.judge();
            findings.note(self.subject, verdict, || {
                let at = self.film.instructions.get(count).map_or_else(String::new, |&address| describe(address));
                format!("SIGKILL after {count} instructions, before {at}")
            });
        }
        Ok(findings)
    }

    /// For `sample` of the states that a kill can leave, or all if there are not so many: steps a survivor through its
    /// recovery, kills it at the end, and has every state that it passed through judged by the next one.
    pub fn kill_the_recoverer(&self, survivor: Survivor, sample: usize) -> Result<Findings, String> {
        let mut findings = Findings::default();
        let stride = self.film.frames.len().div_ceil(sample);
        for frame in self.film.frames.iter().skip(stride / 2).step_by(stride) {
            self.rewind()?;
            let recovery = Film::shoot(self.recoverer(survivor, frame.after)?, self.subject.path())?;
            findings.instructions += recovery.instructions.len();
            for second in &recovery.frames {
                put(self.subject, &second.image, Record::Kept)?;
                let verdict = self.witness.judge();
                findings.note(self.subject, verdict, || {
                    format!("{}; its recoverer {}", moment(frame, &self.film), moment(second, &recovery))
                });
            }
        }
        Ok(findings)
    }

    /// Goes back to before the operation.
    fn rewind(&self) -> Result<(), String> {
        put(self.subject, &self.before, Record::Kept)?;
        self.witness.glance()
    }

    /// A process that stands before its recovery from another one, killed after `count` instructions.
    fn recoverer(&self, survivor: Survivor, count: usize) -> Result<Victim, String> {
        let subject = self.subject;
        match survivor {
            Survivor::Attached => {
                let recoverer = Victim::start(|| subject.attach(), |handle| subject.recover(handle))?;
                self.kill_after(count)?;
                Ok(recoverer)
            }
            Survivor::Newcomer => {
                self.kill_after(count)?;
                Victim::start(|| Ok(None), |handle| subject.recover(handle.insert(subject.attach()?)))
            }
        }
    }

    /// Kills a process after `count` instructions; says whether it went another way than the one in the film.
    fn kill_after(&self, count: usize) -> Result<bool, String> {
        let victim = start(self.subject)?;
        victim.follow(self.routes[count])?;
        Ok(self.film.instructions.get(count).is_some_and(|&expected| expected != victim.program_counter()))
    }
}

fn start<S: Subject>(subject: &S) -> Result<Victim, String> {
    Victim::start(|| subject.attach(), |handle| subject.operate(handle))
}

fn put<S: Subject>(subject: &S, image: &Image, record: Record) -> Result<(), String> {
    let put = match record {
        Record::Kept => image.restore(subject.path()),
        Record::Erased => image.erased(subject.record()).restore(subject.path()),
    };
    put.map_err(|error| format!("the state could not be put before the survivor: {error}"))
}

fn moment(frame: &Frame, film: &Film) -> String {
    format!("killed after {} of {} instructions, by {}", frame.after, film.instructions.len(), describe(frame.made_by))
}
