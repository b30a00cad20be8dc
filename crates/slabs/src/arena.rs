//! The arena: the pages of the process, placed by the engine behind one lock, and the tables that describe them.

mod retention;
mod stretches;
mod surrendered;

use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering;

use heapwright_heaps::{
    Backing, CreateError, FirstFit, FreeError, GrowingHeap, Mappings, ResizeError, Settings, Statistics,
};
use heapwright_os::{ForkPass, Refused, prefetch, process_id, secret_word};

use crate::classes::{PAGE, SLAB, SMALL_CLASSES};
use crate::entry::Entry;
use crate::errors::OutOfMemory;
use crate::links::{Key, Links, SideTable};
use crate::platform::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, CAPACITY, Lock, Locked, only_one, touch};
use crate::scarcity;
use crate::slab::dissolved::GrainMap;
use crate::slab::{BlocksOut, Slab, SlabMeta};
use crate::slab_list::NO_SLAB;
use crate::tables::{HEAP_STEP, Tables};
use retention::Retention;
use stretches::{Stretch, Stretches};

/// The least address space that is reserved for the pages.
const LEAST_CAPACITY: usize = 16 << 20;

/// The maps of slabs that dissolve are mapped from this many slabs on: a program with fewer is short, and starts faster
/// without.
const FEW_SLABS: u32 = 16;

/// Maps are mapped for this many slabs at a time.
const MAPS_AHEAD: usize = 64;

/// The addresses of the pages and of their tables. They are set once, before the first heap exists.
pub struct Arena {
    base: AtomicPtr<u8>,
    /// The number of slabs that the tables are long enough for: at least that of the pages.
    room: AtomicUsize,
    /// The number of heaps that the table of heaps is long enough for.
    heap_room: AtomicUsize,
    entries: AtomicPtr<AtomicU32>,
    slabs: AtomicPtr<SlabMeta>,
    heaps: AtomicPtr<u8>,
    key: AtomicUsize,
    side_table: AtomicPtr<u8>,
    /// The maps of dissolved slabs.
    grain_maps: AtomicPtr<GrainMap>,
    /// Number of slabs that have room for a map.
    grain_map_room: AtomicUsize,
    /// Bytes of slabs that were purged so far.
    purged: AtomicUsize,
    /// Number of slabs that were placed so far.
    slabs_placed: AtomicUsize,
    ready: AtomicBool,
}

only_one! {
/// The arena of the process.
pub static ARENA: Arena = Arena {
    base: AtomicPtr::new(null_mut()),
    room: AtomicUsize::new(0),
    heap_room: AtomicUsize::new(0),
    entries: AtomicPtr::new(null_mut()),
    slabs: AtomicPtr::new(null_mut()),
    heaps: AtomicPtr::new(null_mut()),
    key: AtomicUsize::new(0),
    side_table: AtomicPtr::new(null_mut()),
    grain_maps: AtomicPtr::new(null_mut()),
    grain_map_room: AtomicUsize::new(0),
    purged: AtomicUsize::new(0),
    slabs_placed: AtomicUsize::new(0),
    ready: AtomicBool::new(false),
};
}

/// The state that the arena's lock protects.
pub struct ArenaState {
    /// The page heap: its blocks are slabs and long blocks.
    pub pages: GrowingHeap<FirstFit>,
    /// The heaps that exist.
    pub heaps: Registry,
    /// Long blocks in mappings of their own.
    pub mappings: Mappings,
    retention: Retention,
    stretches: Stretches,
    surrendered: Surrendered,
    tables: Tables,
}

/// The ranges of addresses that were given back to the system for good (`surrendered`). The engine has them as blocks,
/// which are never freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surrendered {
    /// The number of ranges.
    pub ranges: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// The heaps that exist, by their numbers. The operations are in `heap::registry`.
pub struct Registry {
    /// The number of heaps that were ever made.
    pub(crate) made: u32,
    /// The first of the idle heaps, whose threads have ended, and the last; 0 without any. The last abandoned is the
    /// first, unless its pages were purged.
    pub(crate) idle: u32,
    pub(crate) last_idle: u32,
    /// The heap that was last checked for a thread that no longer exists.
    pub(crate) checked: u32,
    /// The number of forks between the first ancestor of the process and the process.
    pub(crate) generation: u32,
    pub(crate) process: u32,
}

only_one! {
    static STATE: Lock<Option<ArenaState>> = Lock::new(None);
}

/// Returns the address of the word that is 0 while the arena's lock is free.
#[cfg(not(loom))]
pub fn lock_word() -> *const u32 {
    STATE.word()
}

impl Arena {
    /// Returns the address of the first page.
    pub fn base(&self) -> *mut u8 {
        self.base.load(Ordering::Relaxed)
    }

    /// Returns the page map: an entry for each slab, by number.
    pub fn entries(&self) -> *const AtomicU32 {
        self.entries.load(Ordering::Relaxed)
    }

    pub(crate) fn key(&self) -> Key {
        Key(self.key.load(Ordering::Relaxed))
    }

    /// Returns the table of the links of long classes and of the marks of long blocks.
    pub fn side_table(&self) -> SideTable {
        SideTable::new(self.side_table.load(Ordering::Relaxed), self.base().addr())
    }

    /// Returns the place of the links of a class.
    pub(crate) fn links(&self, class: usize) -> Links {
        if class < SMALL_CLASSES { Links::InBlock(self.key()) } else { Links::SideTable(self.side_table()) }
    }

    /// Returns whether the arena has been initialised.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Returns the number of slabs that may have entries: the numbers of slabs are below.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.room.load(Ordering::Relaxed)
    }

    /// Returns the number of heaps that the table of heaps is long enough for.
    pub(crate) fn room_for_heaps(&self) -> usize {
        self.heap_room.load(Ordering::Relaxed)
    }

    /// Returns the number of the slab or other 64 KiB of pages in which an address lies, if it lies in the pages.
    #[inline(always)]
    pub fn number_of(&self, address: usize) -> Option<u32> {
        let number = address.wrapping_sub(self.base().addr()) / SLAB;
        (number < self.room()).then_some(number as u32)
    }

    /// Returns the owner and the class of the slab of a number.
    pub fn entry(&self, number: u32) -> Entry {
        // SAFETY: there is one for every number.
        Entry::from_bits(unsafe { &*self.entries().add(number as usize) }.load(Ordering::Acquire))
    }

    /// Sets the owner and the class of the slab of a number.
    pub(crate) fn set_entry(&self, number: u32, entry: Entry) {
        // SAFETY: as above.
        unsafe { &*self.entries().add(number as usize) }.store(entry.to_bits(), Ordering::Release);
    }

    /// Returns the metadata of slab 0. That of each other slab lies below that of the slab before.
    #[cfg(not(loom))]
    pub fn slabs(&self) -> *const SlabMeta {
        self.slabs.load(Ordering::Relaxed)
    }

    /// Returns the part of a slab's metadata that is used behind the lock of its heap.
    #[inline(always)]
    pub(crate) fn slab(&self, number: u32) -> *mut Slab {
        // SAFETY: there is one for every number.
        let slab = unsafe { &raw mut (*self.slabs.load(Ordering::Relaxed).sub(number as usize)).slab };
        touch(slab);
        slab
    }

    /// Prefetches the metadata of a slab.
    #[inline]
    pub(crate) fn prefetch_slab(&self, number: u32) {
        /// The length of a cache line.
        const LINE: usize = 64;
        let meta = self.slabs.load(Ordering::Relaxed).wrapping_sub(number as usize).cast::<u8>();
        (0..size_of::<SlabMeta>()).step_by(LINE).for_each(|line| prefetch(meta.wrapping_add(line)));
    }

    /// Returns the map of a dissolved slab.
    #[inline]
    pub fn grain_map(&self, number: u32) -> &GrainMap {
        // SAFETY: a slab is dissolved after room was made for its map, which consists of atomic words.
        unsafe { &*self.grain_maps.load(Ordering::Relaxed).add(number as usize) }
    }

    /// Makes room for the map of a slab.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn cover_grain_map(&self, number: u32) -> Result<(), Refused> {
        if self.has_grain_map(number) {
            return Ok(());
        }
        self.lock().ok_or(Refused)?.cover_grain_map(number)
    }

    /// Returns whether there is room for the map of a slab.
    pub(crate) fn has_grain_map(&self, number: u32) -> bool {
        (number as usize) < self.grain_map_room.load(Ordering::Relaxed)
    }

    /// Records that `bytes` of slabs have been purged.
    pub(crate) fn record_purge(&self, bytes: usize) {
        self.purged.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes of slabs that were purged so far.
    pub fn purged(&self) -> usize {
        self.purged.load(Ordering::Relaxed)
    }

    /// Returns the number of slabs that were placed so far.
    pub fn slabs_placed(&self) -> usize {
        self.slabs_placed.load(Ordering::Relaxed)
    }

    /// Returns the count of the blocks of a slab that are out.
    #[inline(always)]
    pub fn blocks_out(&self, number: u32) -> &BlocksOut {
        // SAFETY: there is one for every number, zero at first, and it is only used through shared references.
        unsafe { &(*self.slabs.load(Ordering::Relaxed).sub(number as usize)).out }
    }

    /// Returns the address of the slab of a number.
    #[inline(always)]
    pub fn start_of(&self, number: u32) -> *mut u8 {
        // SAFETY: numbers are of slabs within the pages.
        unsafe { self.base().add(number as usize * SLAB) }
    }

    /// Returns the address behind the page of heap 1. That of each other heap lies below that of the heap before.
    #[cfg(not(loom))]
    pub fn heaps(&self) -> *const u8 {
        self.heaps.load(Ordering::Relaxed)
    }

    /// Returns the address of the page of a heap, by the heap's number.
    #[inline(always)]
    pub(crate) fn heap_page(&self, owner: u32) -> *mut u8 {
        // SAFETY: the table has a page for every heap's number.
        unsafe { self.heaps.load(Ordering::Relaxed).sub(owner as usize * HEAP_STEP) }
    }

    /// Initialises the arena if that has not been done. `more` is called before the arena is ready, to make further
    /// tables.
    ///
    /// # Errors
    /// [`Refused`] when there is no address space.
    pub fn init(&self, more: impl Fn(&mut ArenaState) -> Result<(), Refused>) -> Result<(), Refused> {
        let mut state = STATE.lock();
        if state.is_none() {
            *state = Some(self.create(more)?);
            self.ready.store(true, Ordering::Release);
        }
        Ok(())
    }

    #[cold]
    fn create(&self, more: impl Fn(&mut ArenaState) -> Result<(), Refused>) -> Result<ArenaState, Refused> {
        let mut capacity = CAPACITY;
        loop {
            let state = ArenaState::with(capacity);
            match state.and_then(|mut state| more(&mut state).map(|()| state)) {
                // Where there are few addresses, as on processors with 39 bits, the pages leave some to the tables.
                Err(Refused) if capacity / 2 >= LEAST_CAPACITY => capacity /= 2,
                created => return created,
            }
        }
    }

    /// Locks the arena; `None` before it is initialised.
    #[inline(never)]
    pub fn lock(&self) -> Option<ArenaGuard> {
        self.is_ready().then(|| ArenaGuard::new(STATE.lock()))
    }

    /// Returns whether a thread holds the arena's lock at this moment.
    pub fn is_locked(&self) -> bool {
        STATE.is_held()
    }

    /// Locks the arena for a fork.
    pub fn hold(&self, pass: ForkPass<'_>) {
        STATE.hold_for_fork(pass);
    }

    /// Unlocks the arena after the fork.
    ///
    /// # Safety
    /// This thread, or the one that it is a copy of, called [`Arena::hold`].
    pub unsafe fn let_go(&self) {
        // SAFETY: this thread, or the one that it is a copy of, called `hold`, as this function requires.
        unsafe { STATE.let_go_after_fork() };
    }

    /// Returns the arena to the child of a fork, which holds the lock; `None` if it is not initialised, or if a signal
    /// handler that forks has interrupted this thread while it held the lock.
    pub fn lock_in_child(&self) -> Option<ArenaGuard> {
        if self.is_ready() { STATE.lock_in_child().map(ArenaGuard::new) } else { None }
    }
}

/// The state of the arena, locked.
pub struct ArenaGuard(ManuallyDrop<Locked<'static, Option<ArenaState>>>);

impl ArenaGuard {
    fn new(locked: Locked<'static, Option<ArenaState>>) -> ArenaGuard {
        ArenaGuard(ManuallyDrop::new(locked))
    }
}

impl Drop for ArenaGuard {
    /// Unlocks the arena. It is not inlined at each of the many places that lock it.
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: the value is dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

impl core::ops::Deref for ArenaGuard {
    type Target = ArenaState;

    fn deref(&self) -> &ArenaState {
        match &**self.0 {
            Some(state) => state,
            None => heapwright_os::abort(),
        }
    }
}

impl core::ops::DerefMut for ArenaGuard {
    fn deref_mut(&mut self) -> &mut ArenaState {
        match &mut **self.0 {
            Some(state) => state,
            None => heapwright_os::abort(),
        }
    }
}

impl ArenaState {
    #[cold]
    #[inline(never)]
    fn with(capacity: usize) -> Result<ArenaState, Refused> {
        let settings = Settings {
            capacity,
            granule: PAGE as u32,
            keep: retention::FEWEST,
            // `Retention` computes the part.
            keep_part: usize::MAX,
            backing: Backing::WhenTouched,
            statistics: Statistics::Kept,
            ..Settings::default()
        };
        let room = |capacity: usize| Tables::room(capacity / SLAB);
        let (mut pages, before, after) =
            GrowingHeap::<FirstFit>::with_tables((), &settings, room).map_err(|error| match error {
                CreateError::Refused | CreateError::Rules(_) | CreateError::Align => Refused,
            })?;
        let tables = Tables::of(pages.capacity() / SLAB, before, after)?;
        // SAFETY: the marks and links of what lies in holes are not used, and the page heap has no other.
        unsafe { pages.purge_beside(|range, hole| ARENA.side_table().pages_within(ARENA.base().addr(), range, hole)) };
        ARENA.base.store(pages.base().as_ptr(), Ordering::Relaxed);
        ARENA.entries.store(tables.entries(), Ordering::Relaxed);
        ARENA.slabs.store(tables.slabs(), Ordering::Relaxed);
        ARENA.heaps.store(tables.heaps(), Ordering::Relaxed);
        ARENA.side_table.store(tables.side_table(), Ordering::Relaxed);
        ARENA.grain_maps.store(tables.grain_maps(), Ordering::Relaxed);
        ARENA.key.store(key_of_links(), Ordering::Relaxed);
        let heaps = Registry { made: 0, idle: 0, last_idle: 0, checked: 0, generation: 0, process: process_id() };
        Ok(ArenaState {
            pages,
            heaps,
            mappings: Mappings::new(),
            retention: Retention::NONE,
            stretches: Stretches::NONE,
            surrendered: Surrendered::default(),
            tables,
        })
    }

    /// Makes the table of heaps long enough for one more.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn cover_next_heap(&mut self) -> Result<(), Refused> {
        self.tables.cover_heap(self.heaps.made + 1, &ARENA.heap_room)
    }

    /// Places a slab; returns its number, whether its pages are in memory already, and the stretch that begins with it,
    /// to be backed by a huge page without the arena's lock.
    pub(crate) fn place_slab(&mut self) -> Option<(u32, bool, Option<Stretch>)> {
        // SAFETY: the length is not 0 and the alignment a power of two.
        let layout = unsafe { Layout::from_size_align_unchecked(SLAB, SLAB) };
        self.stretches.observe_end(self.end());
        let (start, was_kept) = self.place_pages(layout).ok()?;
        let used = self.pages.counters().map_or(0, |counters| counters.live as usize);
        let stretch = self.stretches.observe_slab(start, used, (self.pages.base(), self.end()));
        ARENA.slabs_placed.fetch_add(1, Ordering::Relaxed);
        let number = ARENA.number_of(start.addr().get())?;
        if number >= FEW_SLABS && !ARENA.has_grain_map(number) {
            // Once the system refuses all memory, slabs that dissolve serve what is asked for, if they have maps.
            let _ = self.cover_grain_maps(number as usize + MAPS_AHEAD).or_else(|Refused| self.cover_grain_map(number));
        }
        Some((number, was_kept, stretch))
    }

    /// Makes room for the map of a slab.
    fn cover_grain_map(&mut self, number: u32) -> Result<(), Refused> {
        self.cover_grain_maps(number as usize + 1)
    }

    /// Makes room for the maps of the first `slabs` slabs.
    fn cover_grain_maps(&mut self, slabs: usize) -> Result<(), Refused> {
        let covered = self.tables.cover_grain_maps(slabs)?;
        ARENA.grain_map_room.store(covered, Ordering::Relaxed);
        Ok(())
    }

    /// Places a slab or a long block.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn place(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        self.place_pages(layout).map(|(start, _)| start)
    }

    /// As [`ArenaState::place`]; also returns whether the pages are in memory already.
    #[inline(never)]
    fn place_pages(&mut self, layout: Layout) -> Result<(NonNull<u8>, bool), OutOfMemory> {
        let placed = self.pages.allocate_soon(layout).map_err(|_| OutOfMemory)?;
        if self.cover_pages().is_err() {
            // SAFETY: the block was just placed, and its address has not been returned.
            let _ = unsafe { self.pages.deallocate_unsized(placed) };
            return Err(OutOfMemory);
        }
        let was_kept = self.pages.take_pending(placed, layout.size());
        self.retention.observe_placement(layout.size(), &mut self.pages);
        self.observe_taken();
        Ok((placed, was_kept))
    }

    /// Returns the address up to which the pages are accessible.
    fn end(&self) -> usize {
        self.pages.base().addr().get() + self.pages.committed()
    }

    /// Lets frees purge nothing until [`ArenaState::end_trim`]: what they free is weighed before it is purged.
    pub fn begin_trim(&mut self) {
        self.retention.hold(&mut self.pages);
    }

    /// Unmaps what lies behind the last block, after all holes were purged.
    pub fn end_trim(&mut self) {
        self.pages.retract(PAGE);
        self.retention.let_go(&mut self.pages);
    }

    /// Leaves the heaps of a parent's other threads to the parent, in the child of a fork. A trim by one of these
    /// threads ends.
    pub fn begin_child(&mut self) {
        self.heaps.leave_to_parent();
        self.retention.let_go(&mut self.pages);
    }

    /// Purges all holes, and unmaps what lies behind the last block.
    pub fn trim(&mut self) {
        self.pages.trim();
        self.pages.retract(PAGE);
    }

    /// Resizes a long block where it is.
    ///
    /// # Errors
    /// [`ResizeError`]; nothing has changed then.
    ///
    /// # Safety
    /// The bytes of the block above the new length are not used any more.
    pub unsafe fn resize(&mut self, block: NonNull<u8>, old: usize, new: usize) -> Result<(), ResizeError> {
        // SAFETY: as this function requires.
        unsafe { self.pages.resize_in_place(block, old, new) }?;
        if self.cover_pages().is_err() {
            // SAFETY: what was added is not used yet.
            let _ = unsafe { self.pages.resize_in_place(block, new, old) };
            return Err(ResizeError::NoRoom);
        }
        Ok(())
    }

    /// Returns the bytes of slabs and of long blocks.
    pub fn taken(&self) -> usize {
        let placed = self.pages.counters().map_or(0, |counters| counters.live as usize);
        placed.saturating_sub(self.surrendered.bytes) + self.mappings.totals().bytes as usize
    }

    /// Has limits checked when much memory was taken.
    pub fn observe_taken(&self) {
        scarcity::observe(self.taken());
    }

    /// Purges a part of the holes that were not used for a `period` of nanoseconds; returns whether there are more.
    pub fn decay(&mut self, now: u64, period: u64) -> bool {
        self.retention.decay(now, period, &mut self.pages)
    }

    /// Purges a part of the holes after a thread has ended, if they are more than what is in use; returns the bytes of
    /// such a part, 0 where they are not.
    pub fn purge_after_thread(&mut self) -> usize {
        if self.retention.purge_after_thread(&mut self.pages) { retention::PART } else { 0 }
    }

    /// Makes the tables long enough for the pages.
    fn cover_pages(&mut self) -> Result<(), Refused> {
        self.tables.cover(self.pages.heap_size().div_ceil(SLAB), &ARENA.room)
    }

    /// Frees the pages of a slab or of a long block.
    ///
    /// # Errors
    /// [`FreeError`].
    ///
    /// # Safety
    /// If it is one, it is not used any more.
    #[inline(never)]
    pub unsafe fn remove(&mut self, start: NonNull<u8>) -> Result<(), FreeError> {
        // SAFETY: the caller's promise.
        unsafe { self.pages.deallocate_unsized(start) }?;
        self.retention.observe_free(&mut self.pages);
        Ok(())
    }

    /// Frees the pages of a slab.
    pub(crate) fn remove_slab(&mut self, number: u32) {
        if let Some(start) = NonNull::new(ARENA.start_of(number)) {
            // SAFETY: the slab was placed, and none of its blocks is used.
            let _ = unsafe { self.remove(start) };
        }
    }
}

/// Returns a secret that links are XORed with. The lowest four bits stay, so that links are still multiples of 16.
///
/// Two bits that are clear in all addresses of processes are set, the higher for x86-64 and the lower for aarch64,
/// which ignores the higher: words that are no links, such as plain pointers and small numbers, thus decode to invalid
/// addresses.
fn key_of_links() -> usize {
    secret_word() as usize & !0xF | 1 << 63 | 1 << 55
}

const _: () = assert!(NO_SLAB as usize > CAPACITY / SLAB);
