//! Arguments that the simulating commands share: the heap, its policies, and the trace.

use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use heapwright_allocators::rules::{self, RuleArguments};
use heapwright_host::files;
use heapwright_host::names::Shown;
use heapwright_placement::PolicyKind;
use heapwright_replay::Model;
use heapwright_rules::RuleSet;
use heapwright_trace::Reader;

/// A simulated heap.
#[derive(Args, Clone, Debug)]
pub struct HeapArguments {
    /// The rules.
    #[command(flatten)]
    pub rules: RuleArguments,

    /// The seed of random fit.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl HeapArguments {
    /// The heaps that the arguments describe, one per policy: those of these names, or all.
    ///
    /// # Errors
    /// What is wrong with the rules, or that they exclude a policy.
    pub fn models(&self, policies: &[String]) -> Result<Vec<Model>> {
        self.models_under(&self.rules.over(RuleSet::SIMULATED)?, policies)
    }

    /// As [`HeapArguments::models`], for a command that finds the length of the heap itself.
    ///
    /// # Errors
    /// As [`HeapArguments::models`].
    pub fn models_of_any_length(&self, policies: &[String]) -> Result<Vec<Model>> {
        self.models_under(&RuleSet { limit: None, ..self.rules.of_any_length(RuleSet::SIMULATED)? }, policies)
    }

    fn models_under(&self, set: &RuleSet, policies: &[String]) -> Result<Vec<Model>> {
        Ok(rules::policies(set, policies)?.into_iter().map(|policy| self.model_of(set, policy)).collect())
    }

    fn model_of(&self, set: &RuleSet, policy: PolicyKind) -> Model {
        Model { seed: self.seed, ..Model::of_set(policy, set) }
    }
}

/// Begins to read a trace, up to damage if there is any.
pub fn open(path: &Path) -> Result<Reader<'static>> {
    let reader = Reader::new(BufReader::new(files::open(path)?)).with_context(|| path.shown().into_owned())?;
    Ok(reader.up_to_damage())
}

/// Prints which of the heaps the reference engine simulates, and why.
pub fn print_engines(models: &[Model]) {
    for model in models {
        if let Some(reason) = model.odd_reason() {
            heapwright_show::println!("{}: reference engine, because {reason}", model.policy.name());
        }
    }
}
