//! The allocator of a child process.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use heapwright_rules::RuleSet;

use crate::baselines::{NO_OP, SYSTEM};
use crate::peers::{self, Peer};
use crate::policy;
use crate::preload;
use heapwright_host::names::Shown;

/// The allocator of a child process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// The C library's own.
    System,
    /// The drop-in library under the policy with this name.
    Heapwright(&'static str),
    /// The drop-in library under the policy with this name and these rules.
    Ruled(&'static str, RuleSet),
    /// Another allocator's library.
    Peer(Peer),
    /// No allocator: measures the cost of measuring.
    NoOp,
}

/// Returns every allocator: none and the system's malloc first, then the drop-in library's default and its policies,
/// then the given allocators, then those found on this machine whose names are not among the given.
pub fn all(given: &[Peer]) -> Vec<Allocator> {
    let found = peers::find().into_iter().filter(|peer| given.iter().all(|other| other.name != peer.name));
    let mut all = vec![Allocator::NoOp, Allocator::System, Allocator::Heapwright(policy::CACHED)];
    all.extend(policy::names().map(Allocator::Heapwright));
    all.extend(given.iter().cloned().chain(found).map(Allocator::Peer));
    all
}

impl Allocator {
    /// Returns the name in tables.
    pub fn name(&self) -> &str {
        match self {
            Allocator::System => SYSTEM,
            Allocator::Heapwright(policy) | Allocator::Ruled(policy, _) => policy,
            Allocator::Peer(peer) => &peer.name,
            Allocator::NoOp => NO_OP,
        }
    }

    /// Returns the library to load before the C library, if any.
    ///
    /// # Errors
    /// When there is no such file, or its path cannot be passed to the dynamic linker.
    pub fn library(&self) -> Result<Option<PathBuf>> {
        match self {
            Allocator::System | Allocator::NoOp => Ok(None),
            Allocator::Heapwright(_) | Allocator::Ruled(..) => preload::library(None).map(Some),
            Allocator::Peer(peer) => {
                let path = preload::listed(&peer.library);
                path.map(Some).with_context(|| format!("cannot use the library {}", peer.library.shown()))
            }
        }
    }

    /// Makes `command` start with this allocator, no other library preloaded, and no settings of the drop-in library
    /// that this process has inherited: its rows are what their names say.
    pub fn apply(&self, command: &mut Command) -> Result<()> {
        preload::VARIABLES.into_iter().for_each(|variable| {
            command.env_remove(variable);
        });
        command.envs(self.environment()?);
        Ok(())
    }

    /// Returns the variables under which a program runs on this allocator: its library, and its settings.
    ///
    /// # Errors
    /// As [`Allocator::library`].
    pub fn environment(&self) -> Result<Vec<(OsString, OsString)>> {
        let library = self.library()?.map(|library| (preload::LD_PRELOAD.into(), library.into_os_string()));
        Ok(library.into_iter().chain(self.settings()).collect())
    }

    /// Returns the environment that it needs besides its library.
    pub fn settings(&self) -> Vec<(OsString, OsString)> {
        match self {
            // The library's own default is measured as users get it, without settings.
            Allocator::System | Allocator::NoOp | Allocator::Heapwright(policy::CACHED) => Vec::new(),
            Allocator::Heapwright(name) => vec![(preload::POLICY.into(), name.into())],
            Allocator::Ruled(name, rules) => {
                vec![(preload::POLICY.into(), name.into()), (preload::RULES.into(), rules.to_string().into())]
            }
            Allocator::Peer(peer) => peer.settings(),
        }
    }
}
