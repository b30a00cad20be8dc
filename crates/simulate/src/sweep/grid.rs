//! All combinations of a sweep's parameters, in a fixed order.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use heapwright_allocators::rules;
use heapwright_placement::PolicyKind;
use heapwright_replay::Model;
use heapwright_rules::{Invalid, RuleSet};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::lists::NamedSet;
use heapwright_host::names::Shown;

/// The version of the form of rows.
pub const SCHEMA: u32 = 2;

/// What is combined with what.
#[derive(Clone, Debug, Serialize)]
pub struct Grid {
    /// The traces: names and hashes, no paths, so that shards may run on different machines.
    pub traces: Vec<TraceName>,
    /// By name; empty for all that a set of rules allows.
    pub policies: Vec<String>,
    pub sets: Vec<NamedSet>,
    /// Of random fit; the other policies are tried once.
    pub seeds: Vec<u64>,
}

/// Which trace it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceName {
    pub name: String,
    /// SHA-256 of the file, in hexadecimal.
    pub hash: String,
}

/// One combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Which of the traces.
    pub trace: usize,
    /// Which of the sets of rules.
    pub set: usize,
    pub model: Model,
    /// Why there can be no such heap.
    pub refusal: Option<String>,
}

impl Grid {
    /// All points, in their order: by trace, policy, rules and seed.
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for trace in 0..self.traces.len() {
            for policy in PolicyKind::ALL.into_iter().filter(|policy| self.names(*policy)) {
                let seeds = if policy == PolicyKind::Random { &self.seeds[..] } else { &[1] };
                for (set, named) in self.sets.iter().enumerate() {
                    let refusal = self.refusal(policy, &named.set);
                    if self.policies.is_empty() && refusal.is_some() && self.allows_another(&named.set) {
                        continue;
                    }
                    let model = Model::of_set(policy, &named.set);
                    let of = |&seed| Point { trace, set, model: Model { seed, ..model }, refusal: refusal.clone() };
                    points.extend(seeds.iter().map(of));
                }
            }
        }
        points
    }

    /// Whether a policy is one of the sweep's.
    fn names(&self, policy: PolicyKind) -> bool {
        self.policies.is_empty() || self.policies.iter().any(|name| name == policy.name())
    }

    /// Why these rules are none of this policy, or of none at all.
    fn refusal(&self, policy: PolicyKind, set: &RuleSet) -> Option<String> {
        let allowed = rules::policies(set, &[policy.name().to_owned()]).map(|_| ());
        match (allowed, set.validate()) {
            (Err(error), _) => Some(error.to_string()),
            (_, Err(Invalid::NoLimit)) => Some(rules::NO_LENGTH.to_owned()),
            (_, Err(invalid)) => Some(invalid.to_string()),
            _ => None,
        }
    }

    /// Whether some policy can have these rules: then the others have no rows where none was named.
    fn allows_another(&self, set: &RuleSet) -> bool {
        PolicyKind::ALL.iter().any(|policy| self.refusal(*policy, set).is_none())
    }

    /// At least as many points as there are.
    pub fn most_points(&self) -> usize {
        let policies = PolicyKind::ALL.iter().filter(|policy| self.names(**policy)).count();
        let lists = [self.traces.len(), policies, self.sets.len(), self.seeds.len().max(1)];
        lists.into_iter().fold(1, usize::saturating_mul)
    }

    /// Returns the identity of this sweep: parameters, contents of traces, version of the program and form of rows.
    pub fn fingerprint(&self) -> Result<String> {
        let text = serde_json::to_string(&(SCHEMA, env!("CARGO_PKG_VERSION"), self))?;
        Ok(hexadecimal(&Sha256::digest(text))[..32].to_owned())
    }
}

impl TraceName {
    /// The name and the hash of the trace at `path`.
    pub fn of(path: &Path) -> Result<TraceName> {
        let cannot = || format!("{} cannot be read", path.shown());
        let mut file = std::fs::File::open(path).with_context(cannot)?;
        let (mut hash, mut bytes) = (Sha256::new(), vec![0; 1 << 16]);
        loop {
            match file.read(&mut bytes).with_context(cannot)? {
                0 => break,
                read => hash.update(&bytes[..read]),
            }
        }
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(TraceName { name, hash: hexadecimal(&hash.finalize()) })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
