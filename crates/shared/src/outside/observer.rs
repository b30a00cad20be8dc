//! A segment in use, read without its lock and without the permission to write.

use std::slice;

use heapwright_os::{FileStatus, SegmentFile, SharedLock};
use heapwright_placement::{BlockState, Counters, Glance, PolicyKind};

use crate::format::header::Header;
use crate::format::layout::Layout;
use crate::format::process_slot::{Owner, ProcessState};
use crate::format::root_slot::{self, Root};
use crate::handle::open::examine;
use crate::mapped::contents;
use crate::mapped::copy::Copy;
use crate::mapped::engine;
use crate::mapped::sections::Sections;
use crate::order::owners::{Owners, Tally};
use crate::slabs::parts::{count_blocks_of_slabs, each_part};
use crate::terms::error::Error;
use crate::terms::offset::Offset;
use crate::terms::place::Place;
use crate::terms::settings::{Access, SmallBlocks};

/// A segment opened for reading only: never attached, never locked, never written to.
///
/// The file is opened with `O_RDONLY`, so that the permission to read suffices, and is read instead of mapped, so that
/// cutting it short is an error and not a signal. What processes change while it is read may be seen half changed:
/// see [`Picture::torn`].
///
/// ```
/// use heapwright_shared::{Observer, Place, Settings, SharedHeap};
/// # let name = format!("heapwright-doc-observer-{}", std::process::id());
/// let place = Place::new(&name)?;
/// let heap = SharedHeap::create(&place, &Settings::default())?;
/// heap.allocate(1000)?;
/// let picture = Observer::open(&place)?.picture()?;
/// assert_eq!((picture.counters.mallocs, picture.processes[0].blocks), (1, 1));
/// assert!(!picture.torn);
/// SharedHeap::unlink(&place)?;
/// # Ok::<(), heapwright_shared::Error>(())
/// ```
#[derive(Debug)]
pub struct Observer {
    place: Place,
    file: SegmentFile,
    status: FileStatus,
    layout: Layout,
}

/// A segment as an [`Observer`] has read it.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The policy that places blocks.
    pub policy: PolicyKind,
    /// Where small blocks come from.
    pub small: SmallBlocks,
    /// How many bytes of blocks the heap has.
    pub size: usize,
    /// How many bytes of blocks it can grow to.
    pub max_size: usize,
    /// How often a process completed or undid what a dead one left.
    pub recoveries: u64,
    /// What has happened in the heap, as by [`SharedHeap::counters`](crate::SharedHeap::counters).
    pub counters: Counters,
    /// The processes that are attached, and those that left blocks.
    pub processes: Vec<ObservedProcess>,
    /// The roots that are set.
    pub roots: Vec<Root>,
    /// Whether the heap changed while it was read, or a process was in the middle of an operation. Blocks are then
    /// still apart and within the heap, but may be missing, joined or cut, and what is counted need not fit together.
    pub torn: bool,
}

/// A process in a [`Picture`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedProcess {
    /// Its number in the process table; numbers are used again.
    pub slot: u8,
    /// Which process it is and what became of it.
    pub owner: Owner,
    /// How many blocks it has.
    pub blocks: u64,
    /// How many bytes those are.
    pub bytes: u64,
    /// How many blocks of slabs users of this slot have allocated and freed; `None` in a heap without slabs, which
    /// counts no operations by process.
    pub operations: Option<u64>,
}

/// The lock of a segment at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockView {
    /// The number of the process that holds it, dead or alive.
    pub holder: Option<u32>,
    /// Whether others may be asleep until it is released.
    pub contended: bool,
}

impl Observer {
    /// Opens the segment at `place`, which belongs to the effective user or the superuser.
    ///
    /// # Errors
    /// As [`SharedHeap::open`](crate::SharedHeap::open), except that nothing is locked and nothing times out.
    pub fn open(place: &Place) -> Result<Observer, Error> {
        Self::open_with(place, &Access::default())
    }

    /// As [`Observer::open`], for segments of others. There is nothing to be patient for.
    ///
    /// # Errors
    /// As [`Observer::open`].
    pub fn open_with(place: &Place, access: &Access) -> Result<Observer, Error> {
        let file = SegmentFile::open_read_only(place.c_path()).map_err(|reason| Error::refused(place, 0, reason))?;
        let (status, layout) = examine(place, access.owner, &file)?;
        Ok(Observer { place: place.clone(), file, status, layout })
    }

    /// Returns the attributes of the file.
    pub(crate) fn status(&self) -> FileStatus {
        self.status
    }

    /// Returns the lock's state. Time: two system calls.
    ///
    /// # Errors
    /// [`Error::WrongLength`] for a file that was cut short; what the system says.
    pub fn lock(&self) -> Result<LockView, Error> {
        let mut word = [0; 8];
        self.read_file(Header::UNSEALED[0], &mut word)?;
        let lock = SharedLock::copy_of(u64::from_ne_bytes(word));
        Ok(LockView { holder: lock.holder().map(|holder| holder.pid), contended: lock.is_contended() })
    }

    /// Reads everything but the data. Time and memory: proportional to the heap's metadata.
    ///
    /// # Errors
    /// [`Error::Corrupted`] for what cannot be a heap; [`Error::WrongLength`] for a file that was cut short; what the
    /// system says.
    pub fn picture(&self) -> Result<Picture, Error> {
        let (copy, changed) = self.copy()?;
        let torn = changed || self.lock()?.holder.is_some();
        if let Some(error) = copy.unreadable {
            return Err(error);
        }
        let sections = &copy.sections;
        engine::believe_claim(sections, copy.allocated)?;
        Ok(Picture { torn, ..describe(sections)? })
    }

    /// Reads bytes of the data from `offset` on, and returns how many: fewer than `buffer` has only at the data's end.
    /// Others may write to them meanwhile.
    ///
    /// # Errors
    /// [`Error::NotABlock`] for an offset outside the data; [`Error::WrongLength`] for a file that was cut short; what
    /// the system says.
    pub fn read(&self, offset: Offset, buffer: &mut [u8]) -> Result<usize, Error> {
        let start = usize::try_from(offset.get()).ok().filter(|&at| at >= self.layout.data);
        let rest = start.and_then(|at| self.layout.length().checked_sub(at));
        let (Some(start), Some(rest)) = (start, rest) else { return Err(Error::NotABlock { offset: offset.get() }) };
        let length = buffer.len().min(rest);
        self.read_file(start, &mut buffer[..length])?;
        Ok(length)
    }

    /// Copies everything but the data. Returns whether it changed meanwhile, too.
    pub(crate) fn copy(&self) -> Result<(Copy, bool), Error> {
        let before = self.moving_parts()?;
        let copy = Copy::of(&self.place, &self.file, self.layout)?;
        let changed = self.moving_parts()? != before;
        Ok((copy, changed))
    }

    /// Returns what nearly every operation changes: header and process table, counts of slabs, and the head of the
    /// engine's metadata.
    fn moving_parts(&self) -> Result<Vec<u8>, Error> {
        let Layout { roots, slab_counts, owners, metadata, .. } = self.layout;
        let mut parts = Vec::new();
        for (from, to) in [(0, roots), (slab_counts, owners), (metadata, metadata + Glance::HEAD * 8)] {
            let mut part = vec![0; to - from];
            self.read_file(from, &mut part)?;
            parts.append(&mut part);
        }
        Ok(parts)
    }

    /// Reads from the file, unless that was cut short.
    fn read_file(&self, at: usize, buffer: &mut [u8]) -> Result<(), Error> {
        contents::read(&self.place, &self.file, at, buffer)?;
        contents::verify_length(&self.place, &self.file, self.layout.length())
    }
}

/// Describes a copy, which may be torn, or hold anything, as one that is not torn.
fn describe(sections: &Sections) -> Result<Picture, Error> {
    let plan = &sections.layout.plan;
    let cells = sections.layout.cells(engine::capacity(sections)?)?;
    // SAFETY: the copy has these cells, which only this function uses.
    let cells = unsafe { slice::from_raw_parts(sections.metadata().as_ptr(), cells) };
    let corrupted = |what| Error::Corrupted { what, offset: sections.layout.metadata as u64 };
    let glance = Glance::of(cells).map_err(|_| corrupted("the engine's metadata is not that of this heap"))?;
    if glance.granule() != plan.granule as usize || glance.heap_size().max(glance.top()) > plan.max_size {
        return Err(corrupted("the heap is longer than its segment"));
    }
    let mut tallies = [Tally::default(); 256];
    for block in glance.blocks(cells.get(glance.map()).unwrap_or_default()) {
        each_part(sections, block, |part, owner| {
            if part.state == BlockState::Used {
                tallies[usize::from(owner)].add(part.size);
            }
        });
    }
    Ok(Picture {
        policy: plan.policy,
        small: plan.small,
        size: glance.heap_size(),
        max_size: plan.max_size,
        recoveries: sections.header().live.recoveries(),
        counters: count_blocks_of_slabs(sections, glance.counters().unwrap_or_default()),
        processes: processes(sections, &tallies),
        roots: root_slot::list(sections.roots()),
        torn: false,
    })
}

fn processes(sections: &Sections, tallies: &[Tally; 256]) -> Vec<ObservedProcess> {
    let owners = Owners::of(sections);
    let observed = (0..=u8::MAX).map(|slot| {
        let Tally { blocks, bytes } = tallies[usize::from(slot)];
        let operations = sections.slab_counts(slot).map(|counts| {
            let (taken, freed) = counts.counts();
            taken.wrapping_add(freed)
        });
        ObservedProcess { slot, owner: owners.get(slot), blocks, bytes, operations }
    });
    observed.filter(|one| one.blocks > 0 || one.owner.state == ProcessState::Attached).collect()
}
