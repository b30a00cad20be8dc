//! Builds the libraries and the program that the command carries inside, by the same cargo, and leaves them in
//! `OUT_DIR`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the libraries are made of, beside the workspace's manifest and lock file.
const SOURCES: [&str; 12] = [
    "placement",
    "os",
    "rules",
    "heaps",
    "slabs",
    "cached",
    "beacon",
    "process",
    "malloc",
    "stream",
    "record",
    "bench",
];

/// What is built in one profile.
struct Part {
    profile: &'static str,
    /// The packages, and the file that each becomes.
    files: &'static [(&'static str, &'static str)],
}

/// The libraries, and the program in which mallocs are measured.
const CARRIED: [Part; 2] = [
    Part {
        profile: "preload",
        files: &[("heapwright-malloc", "libheapwright.so"), ("heapwright-record", "libheapwright_record.so")],
    },
    Part { profile: "measured", files: &[("heapwright-bench", "heapwright-bench")] },
];

fn main() -> Result<(), Box<dyn Error>> {
    let manifest_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let workspace = manifest_dir.ancestors().nth(2).ok_or("this crate lies in crates/carried of its workspace")?;
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", workspace.join("crates").join(source).display());
    }
    println!("cargo::rerun-if-changed={}", workspace.join("Cargo.toml").display());

    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let target_dir = target_dir(&out_dir)?;
    for part in &CARRIED {
        let built = part.build(workspace, &target_dir)?;
        for (_, file) in part.files {
            fs::copy(built.join(file), out_dir.join(file))?;
        }
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

impl Part {
    /// Builds the packages in the profile made for them, whatever the profile of the command, and returns where their
    /// files are.
    fn build(&self, workspace: &Path, target_dir: &Path) -> Result<PathBuf, Box<dyn Error>> {
        let triple = env::var("TARGET")?;
        // The order of the library's code is by such names (.cargo/config.toml), also where RUSTFLAGS is set.
        let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default() + "\x1f-Csymbol-mangling-version=v0";
        let packages: Vec<&str> = self.files.iter().flat_map(|(package, _)| ["--package", package]).collect();
        let status = Command::new(env::var("CARGO")?)
            .current_dir(workspace)
            .args(["build", "--locked", "--profile", self.profile, "--target", &triple])
            .args(&packages)
            .arg("--target-dir")
            .arg(target_dir)
            // Set when the command itself is being checked by clippy or by a compiler wrapper of the workspace.
            .env_remove("RUSTC_WORKSPACE_WRAPPER")
            .env_remove("CARGO_TARGET_DIR")
            .env("CARGO_ENCODED_RUSTFLAGS", flags.trim_start_matches('\x1f'))
            .env_remove("CARGO_BUILD_TARGET")
            .status()?;
        if !status.success() {
            return Err(format!("`cargo build --profile {} {}` failed", self.profile, packages.join(" ")).into());
        }
        Ok(target_dir.join(triple).join(self.profile))
    }
}
