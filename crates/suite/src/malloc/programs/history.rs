//! Inputs that are the same on every run: a text, and a repository with a history.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

/// Lines of the text, and words of a line.
const LINES: usize = 25_000;
const WORDS: usize = 12;

/// Commits of the history, files, and lines of a file.
const COMMITS: usize = 150;
const FILES: usize = 12;
const FILE_LINES: usize = 200;

/// Returns a text of words, few of which are frequent.
pub fn text() -> String {
    let mut rng = Rng::with_seed(1);
    let mut text = String::new();
    for _ in 0..LINES {
        for _ in 0..WORDS {
            text.push_str(&word(&mut rng));
            text.push(' ');
        }
        text.push('\n');
    }
    text
}

fn word(rng: &mut Rng) -> String {
    let range = rng.u32(1..=5_000);
    format!("word{}", rng.u32(..range))
}

/// Creates the repository in `folder` and returns its path.
pub fn repository(git: &Path, folder: &Path) -> Result<PathBuf> {
    let (repository, stream) = (folder.join("repository"), folder.join("history"));
    fs::write(&stream, history()).context("cannot write a history")?;
    let quiet = |arguments: &[&str], input: Stdio| -> Result<()> {
        let mut command = Command::new(git);
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").args(arguments);
        let output = command.current_dir(folder).stdin(input).output().context("cannot start git")?;
        ensure!(output.status.success(), "git {}: {}", arguments[0], String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    };
    quiet(&["init", "--quiet", "--bare", "repository"], Stdio::null())?;
    quiet(&["--git-dir=repository", "fast-import", "--quiet", "--force"], File::open(&stream)?.into())?;
    quiet(&["--git-dir=repository", "symbolic-ref", "HEAD", "refs/heads/main"], Stdio::null())?;
    Ok(repository)
}

/// Every commit changes some lines of some files.
fn history() -> String {
    let mut rng = Rng::with_seed(2);
    let mut files: Vec<Vec<String>> = (0..FILES).map(|_| (0..FILE_LINES).map(|_| line(&mut rng)).collect()).collect();
    let mut stream = String::new();
    for commit in 0..COMMITS {
        let _ = write!(
            stream,
            "commit refs/heads/main\ncommitter A <a@example.org> {} +0000\ndata <<END\nchange {commit}\nEND\n",
            1_700_000_000 + commit
        );
        for (number, lines) in files.iter_mut().enumerate() {
            (0..8).for_each(|_| lines[rng.usize(..FILE_LINES)] = line(&mut rng));
            let content = lines.concat();
            let _ = write!(stream, "M 644 inline file{number}\ndata {}\n{content}\n", content.len());
        }
    }
    stream
}

fn line(rng: &mut Rng) -> String {
    let mut line = (0..WORDS / 2).map(|_| word(rng)).collect::<Vec<_>>().join(" ");
    line.push('\n');
    line
}
