//! `heapwright shm check`.

use std::process::ExitCode;

use anstyle::Style;
use anyhow::Result;
use heapwright_shared::{Access, Condition, Error, Place, Root, Snapshot};
use serde_json::{Value, json};

use super::arguments::CheckArgs;
use super::blocks::{used_block, used_blocks};
use super::{json, look, waiting};
use heapwright_show::number::counted;
use heapwright_show::results;

/// Checks the segments, prints their faults, and fails if there are any.
pub fn run(args: &CheckArgs) -> Result<ExitCode> {
    let access = args.trust.access();
    let checked: Vec<Checked> = args.places.iter().map(|place| Checked::of(place, &access)).collect();
    if args.json {
        results::print(&checked.iter().map(Checked::json).collect::<Vec<_>>())?;
    } else {
        checked.iter().for_each(Checked::print);
    }
    let sound = checked.iter().all(|one| one.problems().is_empty());
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What came of a check.
struct Checked<'a> {
    place: &'a Place,
    outcome: Result<Box<Snapshot>, Error>,
}

impl<'a> Checked<'a> {
    fn of(place: &'a Place, access: &Access) -> Checked<'a> {
        Checked { place, outcome: waiting::read(place, access).map(Box::new) }
    }

    /// All that is wrong.
    fn problems(&self) -> Vec<Value> {
        let snapshot = match &self.outcome {
            Err(error) => return vec![json::problem(error)],
            Ok(snapshot) => snapshot,
        };
        match &snapshot.audit {
            Err(error) => vec![json::problem(error)],
            Ok(()) => dangling_roots(snapshot).map(problem_of_root).collect(),
        }
    }

    /// What is right, in a few words.
    fn summary(&self) -> Option<String> {
        let snapshot = self.outcome.as_ref().ok().filter(|snapshot| snapshot.audit.is_ok())?;
        let holes = snapshot.holes.count as u64;
        let (used, roots) = (used_blocks(snapshot), snapshot.roots.len() as u64);
        let found =
            [(used, "block"), (holes, "hole"), (roots, "root")].map(|(count, thing)| counted(count, thing)).join(", ");
        Some(match snapshot.condition {
            Condition::Interrupted { by } => {
                format!(
                    "{found}; process {by} died in an operation, which the next to use the segment completes or undoes"
                )
            }
            Condition::Abandoned => {
                format!("{found}; all its processes died, and the next one that opens it repairs it")
            }
            _ => found,
        })
    }

    fn print(&self) {
        let problems = self.problems();
        let (verdict, style) = if problems.is_empty() { ("ok", look::GOOD) } else { ("FAILED", look::BAD) };
        let bold = Style::new().bold();
        let summary = self.summary().map_or_else(String::new, |summary| format!("  {summary}"));
        heapwright_show::println!("{style}{verdict:<6}{style:#}  {bold}{}{bold:#}{summary}", self.place);
        for problem in &problems {
            heapwright_show::println!("        {}", problem["message"].as_str().unwrap_or_default());
        }
    }

    fn json(&self) -> Value {
        let problems = self.problems();
        let state = match &self.outcome {
            Ok(snapshot) => look::condition(snapshot).0,
            Err(error) => look::refusal(error).unwrap_or("refused"),
        };
        json!({ "place": look::path(self.place), "ok": problems.is_empty(), "state": state, "problems": problems })
    }
}

/// The roots that point at no used block.
fn dangling_roots(snapshot: &Snapshot) -> impl Iterator<Item = &Root> {
    snapshot.roots.iter().filter(|root| used_block(&snapshot.blocks, root.offset).is_none())
}

fn problem_of_root(root: &Root) -> Value {
    let offset = root.offset.get();
    let message = format!(
        "the root {:?} points at {offset:#x}, where no block starts; point it elsewhere, or run repair when no \
         process uses the segment",
        root.name
    );
    json!({ "message": message, "offset": offset })
}
