//! What `heapwright compare` predicts: runs the command, and reads its JSON.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use heapwright_allocators::allocator::Allocator;
use heapwright_allocators::preload::VARIABLES;
use heapwright_stats::Estimate;
use serde::Deserialize;
use serde_json::Value;

use super::programs::Prepared;
use super::real::{Contender, POLICY};

/// How the command is run.
pub struct Comparing<'a> {
    /// The built command, an absolute path.
    pub command: &'a Path,
    /// The allocators; libraries are named to the command, so that both measure the same.
    pub contenders: &'a [Contender],
    /// How many rounds of replays are made.
    pub effort: Effort,
    /// A folder for its output.
    pub folder: &'a Path,
}

/// How many rounds of replays are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// As many as fit into about this time.
    Budget(Duration),
    /// This number, however long they take.
    Rounds(u32),
}

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Replays.
    Replays,
    /// Replays, and runs of the program itself.
    Confirmed,
}

impl Comparing<'_> {
    /// Compares a program: records it, replays it, and perhaps runs it. Returns the JSON object.
    ///
    /// # Errors
    /// When the command fails or writes no JSON.
    pub fn program(&self, program: &Prepared, basis: Basis) -> Result<Value> {
        let mut command = self.command();
        if basis == Basis::Confirmed {
            command.arg("--confirm");
        }
        let settings = program.settings.iter().map(|(name, value)| (name, value));
        command.envs(settings).current_dir(&program.folder).arg("--").args(&program.command);
        self.run(&mut command)
    }

    /// Compares a trace. `settings` are additional environment variables.
    ///
    /// # Errors
    /// As [`Comparing::program`].
    pub fn trace(&self, trace: &Path, settings: &[(&str, PathBuf)]) -> Result<Value> {
        let mut command = self.command();
        command.arg(trace).envs(settings.iter().map(|(name, value)| (name, value)));
        self.run(&mut command)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.command);
        VARIABLES.into_iter().for_each(|variable| {
            command.env_remove(variable);
        });
        command.args(["compare", "--no-latencies", "--policy", POLICY, "--json"]).arg(self.output());
        match self.effort {
            Effort::Budget(budget) => command.arg("--budget").arg(format!("{}ms", budget.as_millis())),
            Effort::Rounds(rounds) => command.arg("--rounds").arg(rounds.to_string()),
        };
        for contender in self.contenders {
            if let Allocator::Peer(peer) = &contender.allocator {
                command.arg("--allocator").arg(format!("{}={}", peer.name, peer.library.display()));
            }
        }
        command
    }

    fn output(&self) -> PathBuf {
        self.folder.join("compared.json")
    }

    fn run(&self, command: &mut Command) -> Result<Value> {
        let output = self.output();
        let ended = command.stdin(Stdio::null()).output();
        let ended = ended.with_context(|| format!("cannot run {}", self.command.display()))?;
        let errors = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.success(), "compare failed ({}): {}", ended.status, errors.trim());
        let bytes = fs::read(&output).context("compare wrote no JSON")?;
        // Otherwise the next comparison could leave this one.
        fs::remove_file(&output).context("cannot remove the JSON of compare")?;
        serde_json::from_slice(&bytes).context("cannot understand the JSON of compare")
    }
}

/// The part of a comparison's JSON that is judged.
#[derive(Debug, Deserialize)]
pub struct Compared {
    /// What it recommends.
    pub recommendation: Option<Recommended>,
    /// A row per allocator.
    pub results: Vec<Row>,
}

/// What a comparison recommends.
#[derive(Clone, Debug, Deserialize)]
pub struct Recommended {
    /// `change`, `depends`, `keep` or `unknown`.
    pub verdict: String,
    /// The row to choose.
    pub choice: Option<String>,
    /// The verdict with its evidence.
    pub text: String,
}

/// An allocator's row.
#[derive(Debug, Deserialize)]
pub struct Row {
    /// The allocator's name.
    pub name: String,
    /// Whether it is one of the policies, among others.
    pub kind: String,
    /// Predictions for the whole program.
    #[serde(default)]
    pub program: Option<Whole>,
}

/// Predictions for the whole program: bytes, seconds.
#[derive(Debug, Deserialize)]
pub struct Whole {
    /// Peak RSS.
    #[serde(default)]
    pub peak: Option<Estimate>,
    /// Processor time.
    #[serde(default)]
    pub processor: Option<Estimate>,
}

impl Compared {
    /// Reads the JSON object.
    ///
    /// # Errors
    /// When it has another form.
    pub fn of(json: &Value) -> Result<Compared> {
        Compared::deserialize(json).context("the JSON of compare has another form")
    }

    /// Returns the predictions for the program under an allocator.
    pub fn whole(&self, name: &str) -> Option<&Whole> {
        self.results.iter().find(|row| row.name == name)?.program.as_ref()
    }
}

impl Row {
    /// Returns the name that verdicts use.
    pub fn title(&self) -> String {
        match (self.kind.as_str(), self.name.as_str()) {
            ("policy", "buddy") => "buddies".to_owned(),
            ("policy", "mapped") => "a mapping per block".to_owned(),
            ("policy", policy) => format!("{policy} fit"),
            (_, name) => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn predictions_are_read_and_what_is_not_there_is_not_known() {
        let json = json!({"recommendation": {"verdict": "keep", "choice": "system", "text": "Keep.", "command": null},
            "results": [
                {"name": "system", "kind": "system", "program": {"peak": {"median": 4096.0, "interval": null}}},
                {"name": "good", "kind": "policy", "figures": {}}]});
        let compared = Compared::of(&json).unwrap();
        let system = compared.whole("system").unwrap();
        assert_eq!((system.peak.unwrap().median, system.processor), (4096.0, None));
        assert!(compared.whole("good").is_none() && compared.whole("other").is_none());
        assert_eq!(compared.results[1].title(), "good fit");
        assert!(Compared::of(&json!({})).is_err());
    }
}
