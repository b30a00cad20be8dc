//! The workspace of the project.

use std::path::Path;

use anyhow::{Context, Result};

/// Returns the root of the workspace.
pub fn workspace() -> Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("no workspace around this crate")
}
