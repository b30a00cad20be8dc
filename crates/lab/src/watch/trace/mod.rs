//! `heapwright watch TRACE`: what each event of a trace does to a heap, and why the policy put a block where it did.
//!
//! From the bottom up: `before` (a heap as a policy sees it), `why` (the reason for a place), `story` (an event, told),
//! `lane` (a heap under a policy), `player` (a trace and its heaps in time), `screen` and `show` (what the user sees).

mod before;
mod lane;
mod player;
mod screen;
mod show;
mod story;
#[cfg(test)]
mod tests;
mod why;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use heapwright_placement::PolicyKind;

use self::player::Player;
use self::show::Show;
use crate::number;
use crate::run::launch;
use crate::watch::plain;
use crate::watch::terminal::Terminal;

/// What of the arguments is about traces.
pub struct Plan<'p> {
    /// The trace.
    pub path: &'p Path,
    /// The names of the policies.
    pub policies: &'p [String],
    /// The event to begin at, standing still.
    pub at: Option<u64>,
    /// Whether a picture is printed instead.
    pub once: bool,
}

/// So many policies fit beside each other.
const MOST: usize = 2;

/// Plays the trace.
pub fn run(plan: &Plan) -> Result<ExitCode> {
    let mut player = Player::open(plan.path, &policies(plan.policies)?)?;
    if let Some(at) = plan.at {
        player.is_paused = true;
        player.seek(at)?;
    }
    if plan.once {
        return print(&mut player, plan.at);
    }
    let end = Show::of(player).run(&mut Terminal::take()?)?;
    Ok(end.map_or(ExitCode::SUCCESS, launch::end_by))
}

fn policies(names: &[String]) -> Result<Vec<PolicyKind>> {
    ensure!(names.len() <= MOST, "no more than {MOST} policies can be watched at once");
    let mut policies = Vec::new();
    for name in names {
        match PolicyKind::from_name(name) {
            Some(policy) => policies.push(policy),
            None => bail!("{name} is no engine's: a trace can be replayed under every other policy"),
        }
    }
    if policies.is_empty() {
        policies.push(PolicyKind::First);
    }
    Ok(policies)
}

/// Prints the heaps as they are after the event asked for, or at the end.
fn print(player: &mut Player, at: Option<u64>) -> Result<ExitCode> {
    player.seek(at.unwrap_or(player.count))?;
    while player.is_seeking() {
        player.advance(Duration::ZERO)?;
    }
    let mut out = anstream::stdout().lock();
    let (at, count) = (number::grouped(player.at), number::grouped(player.count));
    writeln!(out, "{} after {at} of {count} events", player.program())?;
    for lane in &player.lanes {
        writeln!(out, "\nunder {}", lane.policy().name())?;
        if let Some(story) = &lane.story {
            writeln!(out, "  {}\n  {}", story.what, story.why)?;
        }
        let mark = lane.story.as_ref().and_then(|story| story.mark.clone());
        plain::print_heap(&mut out, lane.engine(), lane.granule(), mark.as_ref())?;
    }
    out.flush()?;
    Ok(damaged(player))
}

/// The exit code: whether all of the trace could be read.
fn damaged(player: &Player) -> ExitCode {
    match &player.damage {
        None => ExitCode::SUCCESS,
        Some(damage) => {
            let _ = writeln!(io::stderr(), "heapwright: {damage}");
            ExitCode::FAILURE
        }
    }
}
