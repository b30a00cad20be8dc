//! Builds the libraries and the program that the command carries inside, by the same cargo, and leaves them in `OUT_DIR`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the libraries are made of, beside the workspace's manifest and lock file.
const SOURCES: [&str; 10] =
    ["placement", "os", "heapwright", "cached", "beacon", "process", "malloc", "stream", "record", "bench"];

/// The packages, and the file that each becomes: libraries, and the program in which mallocs are measured.
const CARRIED: [(&str, &str); 3] = [
    ("heapwright-malloc", "libheapwright.so"),
    ("heapwright-record", "libheapwright_record.so"),
    ("heapwright-bench", "heapwright-bench"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let manifest_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let workspace = manifest_dir.ancestors().nth(2).ok_or("the lab lies in crates/lab of its workspace")?;
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", workspace.join("crates").join(source).display());
    }
    println!("cargo::rerun-if-changed={}", workspace.join("Cargo.toml").display());

    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let built = build_carried(workspace, &target_dir(&out_dir)?)?;
    for (_, file) in CARRIED {
        fs::copy(built.join(file), out_dir.join(file))?;
    }
    Ok(())
}

/// A target directory beside the running cargo's own, which that cargo has locked; the same one for every profile, so
/// that they are built once for all of them.
fn target_dir(out_dir: &Path) -> Result<PathBuf, Box<dyn Error>> {
    // .../target/[<triple>/]<profile>/build/<package>/out
    let target = out_dir.ancestors().nth(4).ok_or("OUT_DIR is not where cargo puts it")?;
    Ok(target.join("embedded"))
}

/// Builds them in the profile made for them, whatever the profile of the command, and returns where they are.
fn build_carried(workspace: &Path, target_dir: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let triple = env::var("TARGET")?;
    let packages = CARRIED.map(|(package, _)| ["--package", package]);
    let status = Command::new(env::var("CARGO")?)
        .current_dir(workspace)
        .args(["build", "--locked", "--profile", "preload", "--target", &triple])
        .args(packages.as_flattened())
        .arg("--target-dir")
        .arg(target_dir)
        // Set when the command itself is being checked by clippy or by a compiler wrapper of the workspace.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_BUILD_TARGET")
        .status()?;
    if !status.success() {
        return Err(format!("`cargo build --profile preload {}` failed", packages.as_flattened().join(" ")).into());
    }
    Ok(target_dir.join(triple).join("preload"))
}
