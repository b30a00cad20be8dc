//! Comparisons of the system's malloc with itself under other names: whatever is recommended then is wrong.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use heapwright_allocators::allocator::Allocator;
use heapwright_allocators::peers::{self, Peer};
use heapwright_allocators::preload::LIBRARY;
use heapwright_host::identity::origin_of_malloc;
use heapwright_host::interruption::Interruption;
use heapwright_show::progress::Progress;
use serde::{Deserialize, Serialize};

use super::claims::Advice;
use super::evidence;
use super::list;
use super::predicted::{Compared, Comparing, Effort};
use super::programs::Program;
use super::real::Contender;

/// The programs whose traces are replayed: with one thread and with several. They are short, since there are many
/// trials.
const TRACED: [&str; 5] = ["dot", "z3", "git-log", "gs", "pipeline"];

/// The file of the trials.
const FILE: &str = "itself.json";

/// Rounds of a comparison: with fewer than ten, nothing can be said of four allocators. A budget
/// would not be enough for that on a loaded machine.
const ROUNDS: u32 = 12;

/// What a comparison of the system's malloc with itself said.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    /// Of which program the trace is.
    pub program: String,
    /// Whether other processes kept every processor busy.
    pub is_loaded: bool,
    /// The verdict, in a word.
    pub verdict: String,
    /// The verdict with its evidence.
    pub text: String,
    /// The allocators that it recommends, all of which are the system's malloc.
    pub named: Vec<String>,
}

impl Trial {
    /// Returns whether it recommends one of them, or may: what is not understood counts.
    pub fn is_wrong(&self) -> bool {
        !self.named.is_empty() || !["keep", "unknown"].contains(&self.verdict.as_str())
    }
}

/// Returns the trials that are kept in `folder`.
///
/// # Errors
/// When there is a file that cannot be read.
pub fn kept(folder: &Path) -> Result<Vec<Trial>> {
    Ok(evidence::read(&folder.join(FILE))?.unwrap_or_default())
}

/// Makes trials until `folder` has `count` of them, every other one on a loaded machine.
///
/// # Errors
/// When the command fails, or Ctrl-C ends the measurement; the trials until then are kept.
pub fn measure(count: usize, command: &Path, folder: &Path, work: &Path, until: &Interruption) -> Result<()> {
    let mut trials = kept(folder)?;
    let contenders = disguised();
    let comparing = Comparing { command, contenders: &contenders, effort: Effort::Rounds(ROUNDS), folder: work };
    let traces: Vec<(&str, PathBuf)> = traces(command, work)?;
    let progress = Progress::new("against itself", count);
    while trials.len() < count {
        progress.is_at(trials.len() as u64, count as u64);
        let is_loaded = trials.len() % 2 == 1;
        let (program, trace) = &traces[trials.len() / 2 % traces.len()];
        // Our own library under another name is the system's malloc too.
        let settings = [(LIBRARY, origin_of_malloc()), ("HEAPWRIGHT_PEERS", work.to_owned())];
        let load = is_loaded.then(Load::start);
        let compared = comparing.trace(trace, &settings);
        drop(load);
        if until.came() {
            bail!("interrupted");
        }
        let compared = Compared::of(&compared?)?;
        let named = Advice::of(&compared).names().into_iter().map(str::to_owned).collect();
        let recommended = compared.recommendation.context("compare recommended nothing")?;
        let (verdict, text) = (recommended.verdict, recommended.text);
        trials.push(Trial { program: (*program).to_owned(), is_loaded, verdict, text, named });
        evidence::write(&folder.join(FILE), &trials)?;
    }
    Ok(())
}

/// Returns the C library's own file under a name of its own, and under the names of the mallocs that were built or are
/// installed, so that these take no part. An installed one counts although a built one replaces it elsewhere.
fn disguised() -> Vec<Contender> {
    let library = origin_of_malloc();
    let found = peers::find().into_iter().chain(peers::installed()).map(|peer| peer.name);
    let names: BTreeSet<String> = found.chain(["again".to_owned()]).collect();
    let peer = |name: String| Allocator::Peer(Peer { name, library: library.clone() });
    names.into_iter().map(|name| Contender { name: name.clone(), allocator: peer(name) }).collect()
}

/// Records the programs.
fn traces(command: &Path, work: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    let chosen: Vec<&'static Program> = list::all().filter(|program| TRACED.contains(&program.name)).collect();
    let recorded = |program: &&'static Program| {
        let folder = work.join(program.name);
        std::fs::create_dir_all(&folder).context("cannot make a folder")?;
        let trace = work.join(format!("{}.hwt", program.name));
        record(command, program, &folder, &trace).with_context(|| format!("cannot record {}", program.name))?;
        Ok((program.name, trace))
    };
    chosen.iter().map(recorded).collect()
}

fn record(command: &Path, program: &Program, folder: &Path, trace: &Path) -> Result<()> {
    let prepared = program.prepare(folder)?;
    let mut record = Command::new(command);
    let options: [OsString; 3] = ["record".into(), "-o".into(), trace.into()];
    record.args(options).arg("--").args(&prepared.command).current_dir(folder);
    record.envs(prepared.settings.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
    let output = record.output().with_context(|| format!("cannot run {}", command.display()))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// Threads that keep every processor busy until this is dropped.
struct Load {
    threads: Vec<thread::JoinHandle<()>>,
}

/// Whether they are to end. One load exists at a time.
static IS_OVER: AtomicBool = AtomicBool::new(false);

impl Load {
    fn start() -> Load {
        IS_OVER.store(false, Ordering::Relaxed);
        let spin = || {
            while !IS_OVER.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Load { threads: (0..processors).map(|_| thread::spawn(spin)).collect() }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        IS_OVER.store(true, Ordering::Relaxed);
        // A loop that only reads a flag does not panic.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_that_recommends_anything_is_wrong() {
        let trial = |verdict: &str, named: &[&str]| Trial {
            program: "jq".to_owned(),
            is_loaded: false,
            verdict: verdict.to_owned(),
            text: String::new(),
            named: named.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert!(!trial("keep", &[]).is_wrong() && !trial("unknown", &[]).is_wrong());
        assert!(trial("change", &["again"]).is_wrong() && trial("depends", &["cached"]).is_wrong());
        assert!(trial("change", &[]).is_wrong(), "its words were not understood");
    }

    #[test]
    fn the_traced_programs_are_in_the_list() {
        assert!(TRACED.iter().all(|name| list::all().any(|program| program.name == *name)));
    }

    #[test]
    fn a_load_ends_when_it_is_dropped() {
        let load = Load::start();
        assert!(!load.threads.is_empty());
        drop(load);
        assert!(IS_OVER.load(Ordering::Relaxed));
    }
}
