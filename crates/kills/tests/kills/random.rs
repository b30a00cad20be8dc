//! Kills at random moments among busy processes.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fastrand::Rng;
use heapwright_shared::{Place, PolicyKind, Settings, SharedHeap, SmallBlocks};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::census::{Census, verify};
use crate::child;
use crate::fates::empty;
use crate::ledger::{Ledger, Page, Stage, WORKERS};
use crate::words;
use crate::worker::{self, root_name, work};

/// After so many kills all workers are killed and everything is counted.
const ROUND: usize = 100;
/// How many failures are told in full.
const TOLD: usize = 10;

/// What many kills led to.
#[derive(Default)]
pub struct Tally {
    pub kills: usize,
    pub operations: u64,
    /// Number of kills in the middle of an operation, which another process completed or undid.
    pub recoveries: u64,
    /// Waits above the limit.
    pub hangs: usize,
    /// Segments that could not be used any more.
    pub lost: usize,
    /// Blocks whose contents were not as written.
    pub corrupted: usize,
    /// Blocks that were lost, or that no process knows of.
    pub unaccounted: usize,
    /// The longest that the survivor waited for its own operation after a kill.
    pub longest_wait: Duration,
    told: Vec<String>,
}

impl Tally {
    /// # Errors
    /// The table, when a column that must be 0 is not.
    pub fn verdict(&self) -> Result<(), String> {
        let bad = self.hangs + self.lost + self.corrupted + self.unaccounted;
        if bad == 0 { Ok(()) } else { Err(format!("{self}\n{}", self.told.join("\n"))) }
    }

    fn tell(&mut self, what: String) {
        if self.told.len() < TOLD {
            self.told.push(format!("  after {} kills: {what}", self.kills));
        }
    }

    /// Counts what a process could not do under the heading where it belongs.
    fn count(&mut self, complaint: String) {
        if complaint.contains("is held by") {
            self.hangs += 1;
        } else if complaint.contains("word ") {
            self.corrupted += 1;
        } else {
            self.lost += 1;
        }
        self.tell(complaint);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>8} kills", self.kills)?;
        writeln!(f, "{:>8} operations", self.operations)?;
        writeln!(f, "{:>8} recoveries", self.recoveries)?;
        writeln!(f, "{:>8} hangs", self.hangs)?;
        writeln!(f, "{:>8} lost segments", self.lost)?;
        writeln!(f, "{:>8} corrupted payloads", self.corrupted)?;
        writeln!(f, "{:>8} blocks unaccounted for", self.unaccounted)?;
        write!(f, "{:>8.1} ms: the longest wait of a survivor", self.longest_wait.as_secs_f64() * 1e3)
    }
}

/// Where the workers live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Homes {
    /// In the namespace of process numbers of the process that kills them.
    One,
    /// Each in one of its own, as in containers.
    Each,
}

/// Four workers on one segment, and the process that kills them.
struct Battle {
    place: Place,
    heap: SharedHeap,
    ledger: Ledger,
    workers: [Pid; WORKERS],
    homes: Homes,
    rng: Rng,
    tally: Tally,
}

/// Whether [`Homes::Each`] is permitted here.
pub fn are_homes_permitted() -> bool {
    child::spawn_elsewhere(|| Ok(())).and_then(child::finish).is_ok()
}

/// Kills `kills` times one of four busy processes under `policy`.
pub fn kill_at_random(
    policy: PolicyKind,
    small: SmallBlocks,
    homes: Homes,
    kills: usize,
    place: &Place,
    seed: u64,
) -> Result<Tally, String> {
    let mut battle = Battle::begin(policy, small, homes, place.clone(), seed)?;
    while battle.tally.kills < kills {
        for _ in 0..ROUND {
            battle.kill_one();
        }
        battle.count_all()?;
    }
    Ok(battle.end())
}

impl Battle {
    fn begin(policy: PolicyKind, small: SmallBlocks, homes: Homes, place: Place, seed: u64) -> Result<Battle, String> {
        // Four workers have slabs of a dozen classes each, and room is to be short, too.
        let (size, most) = if small == SmallBlocks::Slabs { (512 << 10, 1 << 20) } else { (128 << 10, 256 << 10) };
        let settings = Settings {
            size,
            max_size: Some(most),
            small,
            policy,
            seed,
            patience: worker::PATIENCE,
            // The dead fill the table within a few kills, so that their slots are counted anew.
            processes: 2 * WORKERS,
            ..Settings::default()
        };
        drop(SharedHeap::unlink(&place));
        let heap = SharedHeap::create(&place, &settings).map_err(words("create"))?;
        let mut file: PathBuf = place.path().to_owned();
        file.as_mut_os_string().push(".ledger");
        let ledger = Ledger::new(&file).map_err(|error| error.to_string())?;
        let workers = [Pid::from_raw(0); WORKERS];
        let mut battle =
            Battle { place, heap, ledger, workers, homes, rng: Rng::with_seed(seed), tally: Tally::default() };
        battle.hire_all();
        Ok(battle)
    }

    /// Puts a worker in every place and waits until all have begun: from then on one at most is taking over from the
    /// dead.
    fn hire_all(&mut self) {
        (0..WORKERS).for_each(|number| self.hire(number));
        self.wait_for_beginners();
    }

    fn hire(&mut self, number: usize) {
        let page = &self.ledger.pages()[number];
        page.started.store(0, Ordering::Release);
        let seed = self.rng.u64(..);
        let work = || work(&self.place, number, page, seed).inspect_err(|complaint| page.complain(complaint));
        self.workers[number] = match self.homes {
            Homes::One => child::spawn(work),
            Homes::Each => child::spawn_elsewhere(work).expect("it was permitted before"),
        };
    }

    /// Kills a worker at a random moment, looks after its blocks and puts another one in its place.
    fn kill_one(&mut self) {
        let pause = if self.rng.bool() { 300 } else { 4000 };
        std::thread::sleep(Duration::from_micros(self.rng.u64(..pause)));
        let number = self.victim();
        self.bury(number);
        self.survive();
        self.settle(number);
        self.hire(number);
    }

    /// Any worker; but the one that is just taking over from the dead goes first, as it would reclaim the blocks of a
    /// second dead one before they have been looked at.
    fn victim(&mut self) -> usize {
        let pages = self.ledger.pages();
        let starting = (0..WORKERS).find(|&number| pages[number].started.load(Ordering::Acquire) == 0);
        starting.unwrap_or_else(|| self.rng.usize(..WORKERS))
    }

    fn bury(&mut self, number: usize) {
        match waitpid(self.workers[number], Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => child::end(self.workers[number]),
            other => {
                let complaint = self.ledger.pages()[number].complaint();
                self.tally.count(format!("worker {number} ended by itself: {other:?}: {complaint}"));
            }
        }
        self.tally.kills += 1;
    }

    /// Does an operation as the survivor that it is, and looks how long that takes.
    fn survive(&mut self) {
        let start = Instant::now();
        let done = self.heap.allocate(64).and_then(|block| self.heap.deallocate(block));
        self.tally.longest_wait = self.tally.longest_wait.max(start.elapsed());
        match done {
            Ok(()) | Err(heapwright_shared::Error::Full { .. }) => {}
            Err(error) => self.tally.count(format!("the survivor: {error}")),
        }
        if let Err(error) = self.heap.check() {
            self.tally.count(format!("check: {error}"));
        }
    }

    /// Sees that a dead worker's blocks are there with what was written to them, and strikes out all but the named one.
    fn settle(&mut self, number: usize) {
        let named = match self.heap.root(&root_name(number)) {
            Ok(named) => named,
            Err(error) => return self.tally.count(format!("root: {error}")),
        };
        for entry in &self.ledger.pages()[number].entries {
            if let Some((offset, bytes, tag)) = entry.live() {
                let used = self.heap.usable_size(offset);
                if !matches!(used, Ok(size) if size >= bytes) {
                    self.tally.unaccounted += 1;
                    self.tally.tell(format!("the block at {offset:?} of {bytes} bytes is lost: {used:?}"));
                } else if let Err(wrong) = verify(&self.heap, offset, bytes, tag) {
                    self.tally.count(wrong);
                }
            }
            if entry.live().is_none_or(|(offset, ..)| Some(offset) != named) {
                entry.set(Stage::Empty);
            }
        }
    }

    /// Kills all workers: nothing may be used then but what the ledger knows and one block in flight each.
    fn count_all(&mut self) -> Result<(), String> {
        self.wait_for_beginners();
        for number in 0..WORKERS {
            self.bury(number);
        }
        if let Err(error) = self.heap.check() {
            self.tally.count(format!("check: {error}"));
        }
        let census = Census::take(&self.heap)?;
        let entries = || self.ledger.pages().iter().flat_map(|page| &page.entries);
        let known: Vec<u64> = entries().filter_map(|entry| entry.live()).map(|(offset, ..)| offset.get()).collect();
        let changing = entries().filter(|entry| !entry.is_empty() && entry.live().is_none()).count();
        let unknown = census.used.keys().filter(|offset| !known.contains(offset)).count();
        // Each may have had one in flight, and a block that was just moving is in two places.
        if unknown > WORKERS + changing {
            self.tally.unaccounted += unknown;
            self.tally.tell(format!("{unknown} used blocks that no process knows of"));
        }
        if let Some((offset, _)) = census.used.iter().find(|(_, used)| !used.left_behind) {
            self.tally.unaccounted += 1;
            self.tally.tell(format!("the block at {offset:#x} is not listed as left behind, and all are dead"));
        }
        for number in 0..WORKERS {
            self.settle(number);
        }
        empty(&self.heap)?;
        for number in 0..WORKERS {
            for entry in &self.ledger.pages()[number].entries {
                entry.set(Stage::Empty);
            }
        }
        self.hire_all();
        Ok(())
    }

    /// Waits until all workers have begun, by which all that the dead left without a name is reclaimed.
    fn wait_for_beginners(&mut self) {
        let start = Instant::now();
        let begun = |page: &Page| page.started.load(Ordering::Acquire) == 1;
        while !self.ledger.pages().iter().all(begun) {
            if start.elapsed() > 2 * worker::PATIENCE {
                self.tally.hangs += 1;
                self.tally.tell("a worker does not begin".into());
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn end(mut self) -> Tally {
        for worker in self.workers {
            child::end(worker);
        }
        let pages = self.ledger.pages();
        self.tally.operations = pages.iter().map(|page| page.operations.load(Ordering::Relaxed)).sum();
        self.tally.recoveries = self.heap.recoveries().unwrap_or_default();
        self.tally
    }
}
