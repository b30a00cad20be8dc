//! A handle of a segment, and the critical section in which everything happens.

use std::cell::UnsafeCell;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::Duration;

use heapwright_os::{Identity, Taken, fork_count, fork_counter};
use heapwright_placement::{Engine, PolicyKind};

use crate::format::record::Record;
use crate::mapped::engine::Placer;
use crate::mapped::mapping::Mapping;
use crate::order::recover::{NOTHING, recover};
use crate::order::view::View;
use crate::slabs::lane::{DETACHED, Lane};
use crate::terms::error::Error;
use crate::terms::offset::Offset;
use crate::terms::place::Place;
use crate::terms::settings::SmallBlocks;

/// A heap in memory that processes share, under the policy that its maker chose.
///
/// The segment is a POSIX shared-memory object or a file; everything of the heap lies in it, and nothing in it is an
/// address, so that every process maps it where it likes. All operations may be called from any thread and any process
/// at any time; one lock in the segment puts them in a row. A process may be killed at any instruction of any of them:
/// the next process that needs the lock completes or undoes what was half done, and goes on. No operation waits longer
/// than its patience for one process to release the lock.
///
/// The child of a `fork` may use its parent's handles; it counts as a process of its own from its first operation on. A
/// process that replaces its program (`exec`) without closing its handles counts as attached until it ends.
///
/// Processes that may write to a segment are trusted like threads: one that writes where it should not can make the
/// others read and write anything in the segment, and crash. A segment without users is examined before it is
/// believed.
///
/// ```
/// use heapwright_shared::{Place, Settings, SharedHeap};
/// # let name = format!("heapwright-doc-heap-{}", std::process::id());
/// let place = Place::new(&name)?;
/// let heap = SharedHeap::create(&place, &Settings::default())?;
/// let number = heap.allocate_value(42_u64)?;
/// heap.set_root("answer", number.cast())?;
///
/// // In another process:
/// let there = SharedHeap::open(&place)?;
/// let number = there.root("answer")?.ok_or("no answer")?;
/// // SAFETY: the root is a u64, and no process writes to it any more.
/// assert_eq!(unsafe { *there.get::<u64>(number.cast()) }, 42);
/// there.close()?;
///
/// SharedHeap::unlink(&place)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SharedHeap {
    pub(crate) mapping: Mapping,
    pub(crate) patience: Duration,
    /// The word of the process's identity, as of `forks`.
    me: AtomicU64,
    /// The count of forks under which the process attached; another one means that this is a child which has not yet.
    forks: AtomicU64,
    /// The present count; 0 in a child that has not counted yet.
    fork_counter: &'static AtomicU64,
    /// How long the heap is at least, in bytes: heaps do not become shorter.
    known_size: AtomicUsize,
    /// Used under the segment's lock only.
    view: UnsafeCell<View>,
    /// The slabs of this process.
    pub(crate) lane: Lane,
}

// SAFETY: nothing of a handle is tied to a thread, and its addresses are its own.
unsafe impl Send for SharedHeap {}
// SAFETY: the view is used under the segment's lock, which excludes threads too, and the slabs by one thread at a time;
// all else is atomic or constant.
unsafe impl Sync for SharedHeap {}

impl SharedHeap {
    pub(crate) fn new(mapping: Mapping, patience: Duration, forks: u64, me: Identity, view: View) -> SharedHeap {
        // SAFETY: the lane is the handle's, as the mapping is.
        let lane = unsafe { Lane::new(&mapping, view.slot) };
        if mapping.layout.shape.is_some() {
            lane.set_forks(forks);
        }
        SharedHeap {
            mapping,
            patience,
            me: AtomicU64::new(me.word()),
            forks: AtomicU64::new(forks),
            fork_counter: fork_counter(),
            known_size: AtomicUsize::new(0),
            view: UnsafeCell::new(view),
            lane,
        }
    }

    /// Takes the lock and makes sure that the heap is in order and this handle's view of it up to date.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<Section<'_>, Error> {
        let me = self.attached()?;
        let header = self.mapping.header();
        let taken =
            if header.lock.try_acquire(me) { Taken::Clean } else { self.mapping.wait_for_lock(me, self.patience)? };
        let mut section = Section { heap: self };
        if taken != Taken::Clean {
            section.take_over()?;
        } else if header.live.epoch() != section.view().epoch {
            section.view().refresh(&self.mapping)?;
        }
        Ok(section)
    }

    /// Enters the critical section if no process has the lock; `None` if one has.
    pub(crate) fn try_enter(&self) -> Result<Option<Section<'_>>, Error> {
        let me = self.attached()?;
        let header = self.mapping.header();
        if !header.lock.try_acquire(me) {
            return Ok(None);
        }
        let mut section = Section { heap: self };
        if header.live.epoch() != section.view().epoch {
            section.view().refresh(&self.mapping)?;
        }
        Ok(Some(section))
    }

    /// Returns this process's identity, attached.
    #[inline(always)]
    pub(crate) fn attached(&self) -> Result<Identity, Error> {
        if !self.is_attached() {
            self.attach_child()?;
        }
        Ok(Identity::from_word(self.me.load(Relaxed)))
    }

    /// Attaches this process, the child of a fork, under an identity of its own.
    #[cold]
    #[inline(never)]
    fn attach_child(&self) -> Result<(), Error> {
        let (forks, me) = (fork_count(), self.mapping.identify()?);
        let (_held, taken) = self.mapping.lock(me, self.patience)?;
        if self.forks.load(Relaxed) == forks {
            // Another thread was faster.
            return if taken == Taken::Clean { Ok(()) } else { recover(&self.mapping, NOTHING).map(drop) };
        }
        let view = View::enter(&self.mapping, taken, me)?;
        // SAFETY: under the lock, and no thread of this process is attached yet. The mapping is the handle's, too.
        unsafe { self.lane.restart(&self.mapping, view.slot) };
        // SAFETY: under the lock. What is overwritten may be half written by a thread of the parent and is not looked
        // at; it needs no drop.
        unsafe { self.view.get().write(view) };
        self.me.store(me.word(), Relaxed);
        self.forks.store(forks, Release);
        if self.mapping.layout.shape.is_some() {
            self.lane.set_forks(forks);
        }
        Ok(())
    }

    /// Returns whether this process is attached, rather than the child of one that is.
    #[inline(always)]
    pub(crate) fn is_attached(&self) -> bool {
        // Acquire: a thread that sees the count sees the identity that goes with it.
        self.forks.load(Acquire) == self.forks_now()
    }

    /// Returns the process's present count of forks; 0 in a child that has not counted yet.
    #[inline(always)]
    pub(crate) fn forks_now(&self) -> u64 {
        self.fork_counter.load(Acquire)
    }

    /// This handle is not to be used any more.
    pub(crate) fn set_detached(&self) {
        self.forks.store(DETACHED, Relaxed);
        self.lane.set_forks(DETACHED);
    }

    /// Returns the address of the segment's first byte in this process.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// Returns the address of what lies at `offset`. Nothing is looked at, not even whether the offset lies in the
    /// segment.
    #[inline(always)]
    #[must_use]
    pub fn pointer<T>(&self, offset: Offset<T>) -> NonNull<T> {
        let address = self.mapping.base().as_ptr().wrapping_add(offset.get() as usize);
        // An offset beyond any segment may wrap to 0: the base is as good an address of nothing.
        NonNull::new(address).unwrap_or(self.mapping.base()).cast()
    }

    /// Returns the offset of `pointer`, an address in the blocks of this mapping of the segment; `None` for any other.
    #[inline]
    #[must_use]
    pub fn offset_of<T>(&self, pointer: NonNull<T>) -> Option<Offset<T>> {
        let distance = self.distance_to(pointer.cast());
        let layout = &self.mapping.layout;
        (layout.data..layout.length()).contains(&distance).then(|| Offset::new(distance as u64)).flatten()
    }

    /// Returns whether `bytes` bytes at `start` lie among the blocks, before the heap's end: these can be read and
    /// written. Takes the lock if the heap must have grown since the last call for that.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Corrupted`].
    pub fn reaches_over<T>(&self, start: NonNull<T>, bytes: usize) -> Result<bool, Error> {
        let Some(place) = self.distance_to(start.cast()).checked_sub(self.mapping.layout.data) else {
            return Ok(false);
        };
        let Some(end) = place.checked_add(bytes).filter(|&end| end <= self.mapping.layout.plan.max_size) else {
            return Ok(false);
        };
        if end > self.known_size.load(Relaxed) {
            self.known_size.store(self.size()?, Relaxed);
        }
        Ok(end <= self.known_size.load(Relaxed))
    }

    #[inline]
    pub(crate) fn distance_to(&self, pointer: NonNull<u8>) -> usize {
        pointer.addr().get().wrapping_sub(self.mapping.base().addr().get())
    }

    /// Returns where the segment is found.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.mapping.place
    }

    /// Returns the policy that places blocks.
    #[must_use]
    pub fn policy(&self) -> PolicyKind {
        self.mapping.layout.plan.policy
    }

    /// Returns where small blocks come from.
    #[must_use]
    pub fn small_blocks(&self) -> SmallBlocks {
        self.mapping.layout.plan.small
    }

    /// Returns the least length and alignment of blocks, in bytes.
    #[must_use]
    pub fn granule(&self) -> usize {
        1 << self.mapping.layout.shift
    }

    /// Returns the most bytes of blocks that the heap can grow to.
    #[must_use]
    pub fn max_size(&self) -> usize {
        self.mapping.layout.plan.max_size
    }

    /// Returns how many bytes the segment takes besides blocks when it is as long as it can become.
    #[must_use]
    pub fn overhead(&self) -> usize {
        self.mapping.layout.data
    }
}

impl fmt::Debug for SharedHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedHeap")
            .field("place", self.place())
            .field("policy", &self.policy())
            .finish_non_exhaustive()
    }
}

/// The lock is held, and the heap is in order. Dropped, it releases the lock.
pub(crate) struct Section<'h> {
    heap: &'h SharedHeap,
}

impl<'h> Section<'h> {
    #[inline(always)]
    pub(crate) fn view(&mut self) -> &mut View {
        // SAFETY: the lock excludes all other sections of this handle, and this section is borrowed.
        unsafe { &mut *self.heap.view.get() }
    }

    #[inline(always)]
    pub(crate) fn engine(&mut self) -> &mut Placer {
        &mut self.view().engine
    }

    #[inline(always)]
    pub(crate) fn mapping(&self) -> &'h Mapping {
        &self.heap.mapping
    }

    #[inline(always)]
    pub(crate) fn record(&self) -> &'h Record {
        &self.mapping().header().live.record
    }

    /// Puts the heap in order after the death of the lock's last holder, or of an operation of our own.
    #[cold]
    #[inline(never)]
    fn take_over(&mut self) -> Result<(), Error> {
        let mapping = self.mapping();
        let engine = recover(mapping, NOTHING)?;
        let view = self.view();
        (view.engine, view.epoch) = (engine, mapping.header().live.epoch());
        Ok(())
    }

    pub(crate) fn heap_size(&mut self) -> usize {
        self.engine().heap_size()
    }

    /// Returns where the engine sees what lies at `offset`.
    #[inline(always)]
    pub(crate) fn place_of(&self, offset: Offset) -> Result<usize, Error> {
        let layout = &self.mapping().layout;
        let place = (offset.get() as usize).wrapping_sub(layout.data);
        if place < layout.plan.max_size { Ok(place) } else { Err(Error::NotABlock { offset: offset.get() }) }
    }
}

impl Drop for Section<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.record().is_pending() {
            // Only an operation that panicked leaves its record: what fails here has marked the heap as broken.
            let _ = self.take_over();
        }
        // SAFETY: a section exists while its handle holds the lock.
        unsafe { self.mapping().header().lock.release() };
    }
}
