//! Programs run for real: interleaved rounds, each under every allocator once.

use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use heapwright_allocators::allocator::Allocator;
use heapwright_allocators::baselines::SYSTEM_AGAIN;
use heapwright_allocators::launcher::{Launch, Launcher};
use heapwright_allocators::{peers, policy};
use heapwright_host::interruption::Interruption;
use heapwright_show::progress::Progress;

use super::evidence::{RealRow, RealRun};
use super::programs::Prepared;

/// Time limit of a run, in seconds. No program of the list takes a second.
const LIMIT: u32 = 60;

/// The policy that takes part. `compare` needs one at least; this is the one that is meant for whole programs.
pub const POLICY: &str = "good";

/// The mallocs that `cargo xtask peers` builds, and Debian's package of gperftools.
pub const PEERS: [&str; 7] =
    ["mimalloc2", "mimalloc3", "snmalloc", "rpmalloc", "jemalloc", "tcmalloc-google", "tcmalloc"];

/// An allocator by its name in tables.
#[derive(Clone)]
pub struct Contender {
    /// The name.
    pub name: String,
    /// The allocator.
    pub allocator: Allocator,
}

/// Returns the allocators: the system's malloc first, and last the system's malloc again.
pub fn contenders() -> Vec<Contender> {
    let named = |allocator: Allocator| Contender { name: allocator.name().to_owned(), allocator };
    let peers = peers::find().into_iter().filter(|peer| PEERS.contains(&peer.name.as_str())).map(Allocator::Peer);
    let first = [Allocator::System, Allocator::Heapwright(policy::CACHED)].into_iter();
    let all = first.chain(peers).chain([Allocator::Heapwright(POLICY)]).map(named);
    all.chain([Contender { name: SYSTEM_AGAIN.to_owned(), allocator: Allocator::System }]).collect()
}

/// Returns the names of the peers that are not among `contenders`.
pub fn missing(contenders: &[Contender]) -> Vec<&'static str> {
    PEERS.into_iter().filter(|name| contenders.iter().all(|contender| contender.name != *name)).collect()
}

/// Runs a program `rounds` times under each of `contenders`, in random order.
///
/// # Errors
/// When the program fails under the system's malloc, or Ctrl-C ends the measurement.
pub fn measure(
    program: &Prepared,
    launcher: &Launcher,
    contenders: &[Contender],
    rounds: u32,
    until: &Interruption,
) -> Result<Vec<RealRow>> {
    let mut rows: Vec<RealRow> = contenders.iter().map(Contender::row).collect();
    let mut rng = Rng::with_seed(1);
    let progress = Progress::new("real runs", rounds as usize * contenders.len());
    // The first run reads files that later ones find in memory.
    run(program, launcher, &Allocator::System)?;
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..contenders.len()).filter(|&at| rows[at].note.is_none()).collect();
        rng.shuffle(&mut order);
        for at in order {
            let contender = &contenders[at];
            progress.at(&contender.name);
            match run(program, launcher, &contender.allocator) {
                Ok(run) => rows[at].runs.push(run),
                Err(error) if contender.allocator == Allocator::System => return Err(error),
                Err(error) => rows[at].note = Some(format!("{error:#}")),
            }
            if until.came() {
                bail!("interrupted");
            }
            progress.step();
        }
    }
    Ok(rows)
}

impl Contender {
    fn row(&self) -> RealRow {
        let version = match &self.allocator {
            Allocator::Peer(peer) => Some(peer.version()),
            _ => None,
        };
        RealRow { name: self.name.clone(), version, note: None, runs: Vec::new() }
    }
}

fn run(program: &Prepared, launcher: &Launcher, allocator: &Allocator) -> Result<RealRun> {
    let launch = Launch {
        command: &program.command,
        settings: &program.settings,
        times: 1,
        seconds: LIMIT,
        ends_as: ExitStatus::default(),
    };
    let spent = launcher.run(&launch, allocator, |launcher| {
        launcher.stdin(Stdio::null()).stdout(Stdio::null()).current_dir(&program.folder);
    })?;
    let run = spent.first().context("there was no run")?;
    Ok(RealRun {
        seconds: run.elapsed_ns as f64 / 1e9,
        cpu_seconds: run.cpu_us as f64 / 1e6,
        peak_rss: run.peak_kib * 1024,
    })
}
