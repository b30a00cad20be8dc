//! `heapwright watch TRACE`: what each event of a trace does to a heap, and why the policy put a block where it did.
//!
//! From the bottom up: `before` (a heap before an event), `why` (the reason for a placement), `story` (the explanation
//! of an event), `question` (a placement to be guessed), `lane` (a heap under a policy), `player` (a trace and its
//! heaps in time), `quiz` (guess first), `show`, `screen` and `interface` (the user interface).

mod before;
mod interface;
mod lane;
mod player;
mod question;
mod quiz;
mod screen;
mod show;
mod story;
#[cfg(test)]
mod tests;
mod why;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use heapwright_allocators::rules::{self, RuleArguments};
use heapwright_host::names::Shown;
use heapwright_placement::PolicyKind;
use heapwright_replay::Model;
use heapwright_rules::RuleSet;

use self::player::Player;
use self::show::Show;
use crate::plain;
use crate::terminal::Terminal;
use heapwright_run::launch;
use heapwright_show::number;
use heapwright_show::output::warn_of_part;
use heapwright_show::terminal::{fitted, fitted_below};
use heapwright_show::usage::Misuse;

/// The arguments that concern traces.
pub struct Plan<'p> {
    /// The trace.
    pub path: &'p Path,
    /// The names of the policies.
    pub policies: &'p [String],
    /// The rules of their heaps.
    pub rules: &'p RuleArguments,
    /// The event to start after, paused.
    pub at: Option<u64>,
    /// Whether to print one picture and exit.
    pub once: bool,
    /// Whether the user guesses each placement before it is shown.
    pub quiz: bool,
}

/// The most policies that are shown side by side.
const MOST: usize = 2;

/// Plays the trace.
pub fn run(plan: &Plan) -> Result<ExitCode> {
    let set = plan.rules.over(RuleSet::SIMULATED)?;
    let choices: Vec<Model> =
        rules::policies(&set, &[])?.into_iter().map(|policy| Model::of_set(policy, &set)).collect();
    let heaps: Vec<Model> =
        policies(&set, plan.policies)?.into_iter().map(|policy| Model::of_set(policy, &set)).collect();
    if plan.quiz {
        check_quiz(&heaps)?;
    }
    let mut player = Player::open(plan.path, &heaps, choices)?;
    if let Some(at) = plan.at {
        player.is_paused = true;
        player.seek(at)?;
    }
    if plan.once {
        warn_of_part(plan.path, player.damage.as_ref(), player.incomplete());
        return print(&mut player, plan.at);
    }
    let show = if plan.quiz { Show::asking(player) } else { Show::of(player) };
    let end = interface::run(show, &mut Terminal::take()?)?;
    Ok(end.map_or(ExitCode::SUCCESS, launch::end_by))
}

/// Refuses a quiz that cannot be asked or answered.
fn check_quiz(heaps: &[Model]) -> Result<()> {
    let [heap] = heaps else { bail!(Misuse("--quiz asks about one policy: leave the other out".to_owned())) };
    if heap.policy == PolicyKind::Random {
        bail!(Misuse("--quiz: random fit draws a hole, which cannot be guessed".to_owned()));
    }
    if let Some(reason) = heap.odd_reason() {
        bail!(Misuse(format!("--quiz has no explanations for the reference engine ({reason})")));
    }
    ensure!(io::stdout().is_terminal(), "--quiz asks on a terminal, and standard output is none");
    Ok(())
}

/// Returns the policies of these names; the first one that the rules allow if none is named.
fn policies(set: &RuleSet, names: &[String]) -> Result<Vec<PolicyKind>> {
    let other = names.iter().find(|name| PolicyKind::from_name(name).is_none());
    if let Some(name) = other {
        bail!(Misuse(format!("a trace cannot be replayed under {name}; every other policy works")));
    }
    let mut policies = rules::policies(set, names)?;
    if names.is_empty() {
        policies.truncate(1);
    }
    if policies.len() > MOST {
        bail!(Misuse(format!("no more than {MOST} policies can be watched at once")));
    }
    Ok(policies)
}

/// Prints the heaps after the requested event, or at the end.
fn print(player: &mut Player, at: Option<u64>) -> Result<ExitCode> {
    player.seek(at.unwrap_or(player.count))?;
    while player.is_seeking() {
        player.advance(Duration::ZERO)?;
    }
    let mut out = Vec::new();
    let (at, count) = (number::grouped(player.at), number::counted(player.count, "event"));
    writeln!(out, "{} after {at} of {count}", player.program().shown())?;
    for lane in &player.lanes {
        let engine = lane.model().odd_reason().map(|reason| format!(" (reference engine: {reason})"));
        let heading = format!("under {}{}", lane.policy().name(), engine.unwrap_or_default());
        writeln!(out, "\n{}", fitted(&heading))?;
        if let Some(story) = &lane.story {
            writeln!(out, "{}\n{}", fitted_below(&story.what), fitted_below(&story.why))?;
        }
        let mark = lane.story.as_ref().and_then(|story| story.mark.clone());
        plain::print_heap(&mut out, lane.engine(), lane.granule(), mark.as_ref())?;
    }
    heapwright_show::print!("{}", String::from_utf8_lossy(&out));
    Ok(ExitCode::SUCCESS)
}
