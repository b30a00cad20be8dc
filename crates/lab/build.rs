//! Builds the drop-in library that the command carries inside, by the same cargo, and leaves it in `OUT_DIR`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the drop-in library is made of, beside the workspace's manifest and lock file.
const SOURCES: [&str; 5] = ["placement", "os", "heapwright", "process", "malloc"];

const LIBRARY: &str = "libheapwright.so";

fn main() -> Result<(), Box<dyn Error>> {
    let manifest_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let workspace = manifest_dir.ancestors().nth(2).ok_or("the lab lies in crates/lab of its workspace")?;
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", workspace.join("crates").join(source).display());
    }
    println!("cargo::rerun-if-changed={}", workspace.join("Cargo.toml").display());

    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let built = build_library(workspace, &target_dir(&out_dir)?)?;
    fs::copy(built, out_dir.join(LIBRARY))?;
    Ok(())
}

/// A target directory beside the running cargo's own, which that cargo has locked; the same one for every profile, so
/// that the library is built once for all of them.
fn target_dir(out_dir: &Path) -> Result<PathBuf, Box<dyn Error>> {
    // .../target/[<triple>/]<profile>/build/<package>/out
    let target = out_dir.ancestors().nth(4).ok_or("OUT_DIR is not where cargo puts it")?;
    Ok(target.join("embedded"))
}

/// Builds the library in the profile made for it, whatever the profile of the command, and returns where it is.
fn build_library(workspace: &Path, target_dir: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let triple = env::var("TARGET")?;
    let status = Command::new(env::var("CARGO")?)
        .current_dir(workspace)
        .args(["build", "--locked", "--profile", "preload", "--package", "heapwright-malloc", "--target", &triple])
        .arg("--target-dir")
        .arg(target_dir)
        // Set when the command itself is being checked by clippy or by a compiler wrapper of the workspace.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_BUILD_TARGET")
        .status()?;
    if !status.success() {
        return Err(
            format!("cannot build {LIBRARY}: `cargo build --profile preload -p heapwright-malloc` failed").into()
        );
    }
    Ok(target_dir.join(triple).join("preload").join(LIBRARY))
}
