//! A segment as it is at one moment, looked at without touching it and without believing anything of it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use heapwright_os::{FileError, FileStatus, Life, Taken};
use heapwright_placement::{Counters, Engine, HoleStats, PolicyKind};

use crate::format::root_slot::{self, Root};
use crate::handle::inspect::{BlockInfo, ProcessInfo, describe_blocks, listed};
use crate::handle::open::map;
use crate::mapped::copy::Copy;
use crate::mapped::engine::{self, Placer};
use crate::order::beyond;
use crate::order::condition::Condition;
use crate::order::owners::{Owners, Tally, count_blocks};
use crate::order::processes;
use crate::order::recover::{NOTHING, complete_blocks};
use crate::order::seal;
use crate::outside::observer::Observer;
use crate::slabs::marks;
use crate::slabs::parts;
use crate::terms::error::Error;
use crate::terms::place::Place;
use crate::terms::settings::{Access, SmallBlocks};

/// A segment as it is at one moment.
///
/// Everything but the data is copied, under the lock, and the copy is examined; nothing in the segment is changed,
/// whatever its condition, and no process is attached. Of one in which a process died, what is told is what the next to
/// use it will find.
///
/// ```
/// use heapwright_shared::{Condition, Place, Settings, SharedHeap, Snapshot};
/// # let name = format!("heapwright-doc-snapshot-{}", std::process::id());
/// let place = Place::new(&name)?;
/// let heap = SharedHeap::create(&place, &Settings::default())?;
/// heap.allocate(1000)?;
/// drop(heap);
/// let snapshot = Snapshot::read(&place)?;
/// assert_eq!(snapshot.condition, Condition::AtRest);
/// assert_eq!(snapshot.audit, Ok(()));
/// assert_eq!(snapshot.processes[0].blocks, 1);
/// SharedHeap::unlink(&place)?;
/// # Ok::<(), heapwright_shared::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Where the segment is.
    pub place: Place,
    /// The number of the user it belongs to.
    pub user: u32,
    /// Its permission bits.
    pub mode: u32,
    /// The policy that places blocks.
    pub policy: PolicyKind,
    /// The least length and alignment of blocks, in bytes.
    pub granule: usize,
    /// Where small blocks come from.
    pub small: SmallBlocks,
    /// How many bytes of blocks it can grow to.
    pub max_size: usize,
    /// How many bytes lie before the blocks, backed or not.
    pub overhead: usize,
    /// How many processes may be attached at a time.
    pub max_processes: usize,
    /// How many roots there is room for.
    pub max_roots: usize,
    /// In which condition it was found.
    pub condition: Condition,
    /// Why it is not known which of its processes live, in words that follow "because", if it is not: then those that
    /// have not closed it count as attached.
    pub doubt: Option<&'static str>,
    /// Number of times that a process completed or undid what a dead one left.
    pub recoveries: u64,
    /// The roots that are set, wherever they point.
    pub roots: Vec<Root>,
    /// Whether all is in order. If not, what follows is empty, but that processes which are attached are listed.
    pub audit: Result<(), Error>,
    /// How many bytes of blocks the heap holds.
    pub size: usize,
    /// What has happened in the heap, as by [`SharedHeap::counters`](crate::SharedHeap::counters).
    pub counters: Counters,
    /// The sizes of the holes.
    pub holes: HoleStats,
    /// All blocks in address order, used and free.
    pub blocks: Vec<BlockInfo>,
    /// The processes that are attached, and those which have left blocks.
    pub processes: Vec<ProcessInfo>,
}

impl Snapshot {
    /// Looks at the segment at `place`, which belongs to the effective user or the superuser. If its file may be read
    /// but not written to, it is copied without its lock, until nothing changes meanwhile.
    ///
    /// Time and memory: proportional to the heap's metadata.
    ///
    /// # Errors
    /// As [`SharedHeap::open`](crate::SharedHeap::open) for what does not even begin like a segment of this system;
    /// what else is wrong is told in [`Snapshot::audit`].
    pub fn read(place: &Place) -> Result<Snapshot, Error> {
        Self::read_with(place, &Access::default())
    }

    /// As [`Snapshot::read`], with a patience of one's own, or for segments of others.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub fn read_with(place: &Place, access: &Access) -> Result<Snapshot, Error> {
        /// Number of copies in which the same fault must be found: slabs are used without the lock, so that one copy of
        /// them may be torn.
        const TRIES: u32 = 4;
        let mut snapshot = Self::read_once(place, access)?;
        for _ in 1..TRIES {
            let may_be_torn = snapshot.small == SmallBlocks::Slabs && snapshot.condition == Condition::InUse;
            if snapshot.audit.is_ok() || !may_be_torn {
                break;
            }
            snapshot = Self::read_once(place, access)?;
        }
        Ok(snapshot)
    }

    /// Returns the bytes in used blocks. In a heap with slabs, `counters.live` has whole slabs instead of their blocks.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.processes.iter().map(|process| process.bytes).sum()
    }

    fn read_once(place: &Place, access: &Access) -> Result<Snapshot, Error> {
        let (mapping, status) = match map(place, access.owner) {
            Err(Error::System { reason: FileError::Denied, .. }) => return Self::read_only(place, access),
            mapped => mapped?,
        };
        let me = mapping.identify()?;
        let (held, taken) = mapping.lock(me, access.patience)?;
        let copied = Copy::of(&mapping.place, mapping.segment.file(), mapping.layout);
        match taken {
            Taken::Clean => drop(held),
            Taken::FromTheDead(dead) => held.return_to(dead),
        }
        Ok(Self::of(place, status, &copied?, taken))
    }

    /// Reads a segment whose lock cannot be taken because its file may not be written to: until nothing changes
    /// meanwhile.
    fn read_only(place: &Place, access: &Access) -> Result<Snapshot, Error> {
        let (observer, begun) = (Observer::open_with(place, access)?, Instant::now());
        loop {
            let (copy, changed) = observer.copy()?;
            let holder = copy.sections.header().lock.holder();
            let taken = holder.map_or(Taken::Clean, Taken::FromTheDead);
            match holder.filter(|&holder| copy.sections.deaths().life_of(holder) == Life::Alive) {
                None if !changed => return Ok(Self::of(place, observer.status(), &copy, taken)),
                Some(holder) if begun.elapsed() > access.patience && !changed => {
                    return Err(Error::TimedOut { holder: holder.pid });
                }
                _ if begun.elapsed() > access.patience => return Err(Error::Restless { place: place.clone() }),
                _ => sleep(Duration::from_micros(100)),
            }
        }
    }

    fn of(place: &Place, status: FileStatus, copy: &Copy, taken: Taken) -> Snapshot {
        let layout = &copy.sections.layout;
        let plan = &layout.plan;
        let condition = Condition::of(&copy.sections, taken);
        let owners = Owners::of(&copy.sections);
        let mut snapshot = Snapshot {
            place: place.clone(),
            user: status.owner,
            mode: status.mode,
            policy: plan.policy,
            granule: plan.granule as usize,
            small: plan.small,
            max_size: plan.max_size,
            overhead: layout.data,
            max_processes: plan.processes,
            max_roots: plan.roots,
            condition,
            doubt: processes::doubt(&copy.sections),
            recoveries: copy.sections.header().live.recoveries(),
            roots: root_slot::list(copy.sections.roots()),
            audit: Ok(()),
            size: 0,
            counters: Counters::default(),
            holes: HoleStats::default(),
            blocks: Vec::new(),
            processes: listed(&owners, &[Tally::default(); 256]),
        };
        match audit(copy, taken, condition) {
            Ok(engine) => snapshot.describe(copy, &engine, &owners),
            Err(error) => snapshot.audit = Err(error),
        }
        snapshot
    }

    fn describe(&mut self, copy: &Copy, engine: &Placer, owners: &Owners) {
        self.size = engine.heap_size();
        self.counters = parts::count_blocks_of_slabs(&copy.sections, engine.counters().unwrap_or_default());
        self.holes = engine.holes();
        self.blocks = describe_blocks(&copy.sections, engine, owners);
        self.processes = listed(owners, &count_blocks(&copy.sections, engine));
    }
}

/// Returns the engine over the copy, once all was found in order, or put in order as the next to use the segment would.
fn audit(copy: &Copy, taken: Taken, condition: Condition) -> Result<Placer, Error> {
    if let Some(error) = &copy.unreadable {
        return Err(error.clone());
    }
    let sections = &copy.sections;
    let seal = seal::judge(sections, taken)?;
    if let Some(checksum) = seal {
        seal::verify_copy(copy, checksum)?;
    }
    let engine = match condition {
        Condition::Broken => {
            return Err(Error::Corrupted { what: "a process found the heap's metadata beyond recovery", offset: 0 });
        }
        Condition::Interrupted { .. } | Condition::Abandoned if seal.is_none() => {
            engine::believe_claim(sections, copy.allocated)?;
            let (engine, _) = complete_blocks(sections, NOTHING)?;
            marks::reconcile(sections, &engine);
            processes::count_anew(sections, &engine);
            engine
        }
        _ => engine::attach(sections)?,
    };
    engine::check(sections, &engine)?;
    marks::check(sections, &engine)?;
    beyond::verify_copy(copy, engine.heap_size())?;
    processes::check_counts(sections, &engine)?;
    Ok(engine)
}
