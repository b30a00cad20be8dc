//! Arguments that the simulating commands share: the heap, its policies, and the trace.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use heapwright_allocators::rules::{self, RuleArguments};
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
    /// The heaps that the arguments describe, one per policy: those of these names, or all. Refuses rules that the fast
    /// engine does not have.
    ///
    /// # Errors
    /// What is wrong with the rules, or that they exclude a policy.
    pub fn models(&self, policies: &[String]) -> Result<Vec<Model>> {
        let models = self.models_of_any_engine(policies)?;
        rules::refuse_odd(&self.rules.over(RuleSet::SIMULATED)?)?;
        Ok(models)
    }

    /// As [`HeapArguments::models`], for a command that has the reference engine, too.
    ///
    /// # Errors
    /// What is wrong with the rules, or that they exclude a policy.
    pub fn models_of_any_engine(&self, policies: &[String]) -> Result<Vec<Model>> {
        let set = self.rules.over(RuleSet::SIMULATED)?;
        Ok(rules::policies(&set, policies)?.into_iter().map(|policy| self.model_of(&set, policy)).collect())
    }

    /// As [`HeapArguments::models`], for a command that finds the length of the heap itself.
    ///
    /// # Errors
    /// As [`HeapArguments::models`].
    pub fn models_of_any_length(&self, policies: &[String]) -> Result<Vec<Model>> {
        let set = RuleSet { limit: None, ..self.rules.of_any_length(RuleSet::SIMULATED)? };
        rules::refuse_odd(&set)?;
        Ok(rules::policies(&set, policies)?.into_iter().map(|policy| self.model_of(&set, policy)).collect())
    }

    fn model_of(&self, set: &RuleSet, policy: PolicyKind) -> Model {
        Model { seed: self.seed, ..Model::of_set(policy, set) }
    }
}

/// Begins to read a trace, up to damage if there is any.
pub fn open(path: &Path) -> Result<Reader<'static>> {
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    let reader = Reader::new(BufReader::new(file)).with_context(|| path.display().to_string())?;
    Ok(reader.up_to_damage())
}
