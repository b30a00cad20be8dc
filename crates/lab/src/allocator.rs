//! Whose malloc a child process runs on.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::peers::Peer;
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
}

impl Allocator {
    /// The name in tables.
    pub fn name(&self) -> &str {
        match self {
            Allocator::System => "system",
            Allocator::Heapwright(policy) => policy,
            Allocator::Peer(peer) => peer.name,
        }
    }

    /// The library that has to be loaded before the C library, if any.
    pub fn library(&self) -> Result<Option<PathBuf>> {
        match self {
            Allocator::System => Ok(None),
            Allocator::Heapwright(_) => preload::library(None).map(Some),
            Allocator::Peer(peer) => Ok(Some(peer.library.clone())),
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
        if let Allocator::Heapwright(policy) = self {
            command.env(preload::POLICY, policy);
        }
        Ok(())
    }
}
