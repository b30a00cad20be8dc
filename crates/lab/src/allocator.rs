//! Whose malloc a child process runs on.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::peers::{self, Peer};
use crate::policy;
use crate::preload;

/// Whose malloc a child process runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// The C library's own.
    System,
    /// The drop-in library under the policy of this name.
    Heapwright(&'static str),
    /// Another allocator's library.
    Peer(Peer),
    /// Nobody's: what is measured is the cost of measuring.
    NoOp,
}

/// Everybody there is: nobody and the system's malloc first, then the drop-in library's own and its policies, then the allocators that are given, and
/// those found on this machine that have not the name of one given.
pub fn all(given: &[Peer]) -> Vec<Allocator> {
    let found = peers::find().into_iter().filter(|peer| given.iter().all(|other| other.name != peer.name));
    let mut all = vec![Allocator::NoOp, Allocator::System, Allocator::Heapwright(policy::CACHED)];
    all.extend(policy::names().map(Allocator::Heapwright));
    all.extend(given.iter().cloned().chain(found).map(Allocator::Peer));
    all
}

impl Allocator {
    /// The name in tables.
    pub fn name(&self) -> &str {
        match self {
            Allocator::System => "system",
            Allocator::Heapwright(policy) => policy,
            Allocator::Peer(peer) => &peer.name,
            Allocator::NoOp => "no-op",
        }
    }

    /// The library that has to be loaded before the C library, if any.
    ///
    /// # Errors
    /// When there is no such file, or the dynamic linker could not be told of it.
    pub fn library(&self) -> Result<Option<PathBuf>> {
        match self {
            Allocator::System | Allocator::NoOp => Ok(None),
            Allocator::Heapwright(_) => preload::library(None).map(Some),
            Allocator::Peer(peer) => {
                let path = preload::listed(&peer.library);
                path.map(Some).with_context(|| format!("cannot use the library {}", peer.library.display()))
            }
        }
    }

    /// Makes `command` start with this allocator and nothing else preloaded.
    pub fn apply(&self, command: &mut Command) -> Result<()> {
        preload::VARIABLES.into_iter().for_each(|variable| {
            command.env_remove(variable);
        });
        if let Some(library) = self.library()? {
            command.env(preload::LD_PRELOAD, library);
        }
        command.envs(self.settings());
        Ok(())
    }

    /// The environment that it needs beside its library.
    pub fn settings(&self) -> Vec<(OsString, OsString)> {
        match self {
            Allocator::System | Allocator::NoOp => Vec::new(),
            // The library's own default is measured as people have it: with nothing set. Whoever asks for measures is told what these
            // cost; other policies know none.
            Allocator::Heapwright(policy::CACHED) => {
                env::var_os(preload::HARDEN).map(|measures| (preload::HARDEN.into(), measures)).into_iter().collect()
            }
            Allocator::Heapwright(name) => vec![(preload::POLICY.into(), name.into())],
            Allocator::Peer(peer) => peer.settings(),
        }
    }
}
