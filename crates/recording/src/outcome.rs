//! The outcome of a recorded program.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Result, bail};
use heapwright_host::descriptors::described;
use heapwright_host::names::Shown;
use heapwright_host::temporary;
use heapwright_show::number;
use heapwright_trace::WriteError;

use super::left::Left;
use super::recorded::{Recorded, Unread};

/// The outcome of a recorded program.
pub struct Recording {
    /// The traces that were kept, at least one: the program's own first, if there is one, then the others by descending
    /// number of events.
    pub traces: Vec<Recorded>,
    /// Traces that were removed because they have few events.
    pub left_out: Vec<Recorded>,
    /// Processes that have no trace because their calls could not be read.
    pub unread: Option<Unread>,
    /// Processes that run, and have made no call until the recording ended.
    pub unheard: Vec<Left>,
    /// Exit status of the program.
    pub status: ExitStatus,
    /// The signal by which another process asked this command to end, while the program ran.
    pub asked_to_end: Option<i32>,
    /// Wall time of the program.
    pub elapsed: Duration,
}

impl Recording {
    /// Returns the trace to analyse: the program's own, unless another process has more than ten times as many events:
    /// then the program was only its wrapper, as a shell or a compiler's driver is.
    pub fn main(&self) -> &Recorded {
        /// Ratio of events from which on the program counts as a wrapper of another process.
        const WRAPPED: u64 = 10;
        let own = &self.traces[0];
        let most = self.traces.iter().max_by_key(|one| one.figures.events()).unwrap_or(own);
        let is_wrapper = !own.is_the_program || own.figures.events().saturating_mul(WRAPPED) < most.figures.events();
        if is_wrapper { most } else { own }
    }

    /// Returns the same, of a recording to temporary files.
    ///
    /// # Errors
    /// When nothing of it could be written, with what to do.
    pub fn written(&self) -> Result<&Recorded> {
        let main = self.main();
        match why_empty(main) {
            Some(why) => bail!(why),
            None => Ok(main),
        }
    }

    /// Describes the processes that have no trace although they made calls, or may do so, in a line each.
    pub fn without_calls(&self) -> impl Iterator<Item = String> {
        let unread = self.unread.as_ref().map(Unread::describe);
        let unheard = (!self.unheard.is_empty()).then(|| why_unheard(&self.unheard));
        unread.into_iter().chain(unheard).chain(why_few(&self.left_out))
    }

    /// Returns how the program failed, a sentence for people, unless it succeeded or this command was asked to end it.
    pub fn failure(&self) -> Option<String> {
        let has_failed = !self.status.success() && self.asked_to_end.is_none();
        has_failed.then(|| format!("the program ended with {}; what it did until then is shown", self.status))
    }
}

/// Returns why nothing of a process was written to its trace, a temporary file; `None` if something was.
fn why_empty(one: &Recorded) -> Option<String> {
    let error = one.error.as_ref().filter(|_| one.length == 0)?;
    Some(format!("nothing was recorded of {}: {}{}", one.who(), described(error), room(error)))
}

/// Returns what to do where a temporary file could not be written for lack of space.
fn room(error: &anyhow::Error) -> &'static str {
    let cause = error.chain().find_map(|cause| match cause.downcast_ref() {
        Some(WriteError::Io(error)) => Some(error),
        _ => cause.downcast_ref::<io::Error>(),
    });
    cause.map(temporary::advice).unwrap_or_default()
}

/// Says that nothing is known of processes that continue.
pub(super) fn why_unheard(unheard: &[Left]) -> String {
    let names: Vec<String> = unheard.iter().map(|left| format!("{} [{}]", left.name.shown(), left.pid)).collect();
    still_running(&names, "had made no call yet")
}

/// Describes the processes without a trace that continue, and whose calls until then were few; `None` if there are
/// none.
pub(super) fn why_few(left_out: &[Recorded]) -> Option<String> {
    let outlived = left_out.iter().filter(|one| one.outlived);
    let names: Vec<String> = outlived.map(|one| format!("{} [{}]", one.program.shown(), one.pid)).collect();
    (!names.is_empty()).then(|| still_running(&names, "had made few calls until then"))
}

/// Describes processes that continue, and what they had done.
fn still_running(names: &[String], done: &str) -> String {
    const LISTED: usize = 3;
    let mut listed = names[..names.len().min(LISTED)].join(", ");
    if let Some(more) = names.len().checked_sub(LISTED).filter(|&more| more > 0) {
        listed.push_str(&format!(", {} more", number::grouped(more as u64)));
    }
    let (it, was) = if names.len() == 1 { ("it", "was") } else { ("them", "were") };
    let what_to_do = format!("keep {it} in the foreground to record {it}");
    format!("{listed} {was} still running when the program ended, and {done}: {what_to_do}")
}
