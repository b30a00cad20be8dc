//! What all heaps of the process stand on: the pages, placed by the engine; what is known of each slab; the heaps themselves.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering;

use heapwright_heaps::{
    Backing, CreateError, FirstFit, FreeError, GrowingHeap, Mappings, ResizeError, Settings, Statistics,
};
use heapwright_os::{ForkPass, Refused, now_nanoseconds, secret_word};

use crate::OutOfMemory;
use crate::classes::SMALL_CLASSES;
use crate::harden;
use crate::heap::{Entry, Heap, Owned};
use crate::heaps::Heaps;
use crate::links::{Beside, Key, Links};
use crate::slab::{BlocksOut, Known, NO_SLAB, PAGE, SLAB, Slab};
use crate::tables::Tables;
use crate::world::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, CAPACITY, Lock, Locked, only_one, touch};

/// The least address space that makes sense for the pages.
const LEAST_CAPACITY: usize = 16 << 20;

/// Bytes of pages in holes that are kept for the next who needs them: at least so many, and more where they are needed
/// again; or a part of the heap if that is more, but no more than a part of the bytes in use.
const KEEP: usize = 1 << 20;
const HEAP_PART: usize = 16;
const USED_PART: usize = 8;
const MOST_REGRETTED: usize = 256 << 20;

/// How many bytes more are kept for each that was given back too early: a program that does so once does so again.
const REGRET: usize = 4;

/// Where things are. Set once, before the first heap exists.
pub(crate) struct Ground {
    base: AtomicPtr<u8>,
    /// How many slabs the tables are long enough for; at least as many as the pages have.
    room: AtomicUsize,
    /// How many heaps there is room for.
    heap_room: AtomicUsize,
    entries: AtomicPtr<AtomicU32>,
    slabs: AtomicPtr<Known>,
    heaps: AtomicPtr<Heap>,
    key: AtomicUsize,
    /// The table of links that are not in their blocks.
    beside: AtomicPtr<u8>,
    /// Bytes of slabs that were given back to the system so far.
    returned: AtomicUsize,
    ready: AtomicBool,
}

only_one! {
pub(crate) static GROUND: Ground = Ground {
    base: AtomicPtr::new(null_mut()),
    room: AtomicUsize::new(0),
    heap_room: AtomicUsize::new(0),
    entries: AtomicPtr::new(null_mut()),
    slabs: AtomicPtr::new(null_mut()),
    heaps: AtomicPtr::new(null_mut()),
    key: AtomicUsize::new(0),
    beside: AtomicPtr::new(null_mut()),
    returned: AtomicUsize::new(0),
    ready: AtomicBool::new(false),
};
}

/// What one thread at a time works on.
pub(crate) struct Shared {
    pub(crate) pages: GrowingHeap<FirstFit>,
    pub(crate) heaps: Heaps,
    /// Long blocks in mappings of their own.
    pub(crate) mappings: Mappings,
    keep: Keep,
    tables: Tables,
}

only_one! {
    static SHARED: Lock<Option<Shared>> = Lock::new(None);
}

/// The word that is 0 while nobody has the pages for himself.
#[cfg(not(all(loom, test)))]
pub(crate) fn lock_word() -> *const u32 {
    SHARED.word()
}

impl Ground {
    /// The first byte of the pages.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.load(Ordering::Relaxed)
    }

    pub(crate) fn entries(&self) -> *const AtomicU32 {
        self.entries.load(Ordering::Relaxed)
    }

    pub(crate) fn key(&self) -> Key {
        Key(self.key.load(Ordering::Relaxed))
    }

    pub(crate) fn beside(&self) -> Beside {
        Beside::new(self.beside.load(Ordering::Relaxed), self.base().addr())
    }

    /// Where the links of a class are.
    pub(crate) fn links(&self, class: usize) -> Links {
        if class < SMALL_CLASSES { Links::Inside(self.key()) } else { Links::Beside(self.beside()) }
    }

    /// Whether the ground has been laid.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// How many slabs may have entries: the numbers of slabs are below.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.room.load(Ordering::Relaxed)
    }

    /// How many heaps there is room for.
    pub(crate) fn room_for_heaps(&self) -> usize {
        self.heap_room.load(Ordering::Relaxed)
    }

    /// The number of the slab or other run of pages that an address lies in, if it lies in any.
    #[inline(always)]
    pub(crate) fn number_of(&self, address: usize) -> Option<u32> {
        let number = address.wrapping_sub(self.base().addr()) / SLAB;
        (number < self.room()).then_some(number as u32)
    }

    /// Whose the slab of a number is and of which class.
    pub(crate) fn entry(&self, number: u32) -> Entry {
        // SAFETY: there is one for every number.
        Entry::from_bits(unsafe { &*self.entries().add(number as usize) }.load(Ordering::Acquire))
    }

    /// Says whose a slab is from now on.
    pub(crate) fn set_entry(&self, number: u32, entry: Entry) {
        // SAFETY: as above.
        unsafe { &*self.entries().add(number as usize) }.store(entry.to_bits(), Ordering::Release);
    }

    /// What is known of each slab, by its number.
    #[cfg(not(all(loom, test)))]
    pub(crate) fn slabs(&self) -> *const Known {
        self.slabs.load(Ordering::Relaxed)
    }

    /// What its owner knows of the slab of a number.
    #[inline(always)]
    pub(crate) fn slab(&self, number: u32) -> *mut Slab {
        // SAFETY: there is one for every number.
        let slab = unsafe { &raw mut (*self.slabs.load(Ordering::Relaxed).add(number as usize)).slab };
        touch(slab);
        slab
    }

    /// So many bytes of slabs have been given back to the system.
    pub(crate) fn see_returned(&self, bytes: usize) {
        self.returned.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How many bytes of slabs have been given back to the system so far.
    pub(crate) fn returned(&self) -> usize {
        self.returned.load(Ordering::Relaxed)
    }

    /// How many blocks of the slab of a number are out.
    #[inline(always)]
    pub(crate) fn blocks_out(&self, number: u32) -> &BlocksOut {
        // SAFETY: there is one for every number, zero at first; nobody has it for himself.
        unsafe { &(*self.slabs.load(Ordering::Relaxed).add(number as usize)).out }
    }

    /// Where the slab of a number begins.
    #[inline(always)]
    pub(crate) fn start_of(&self, number: u32) -> *mut u8 {
        // SAFETY: numbers are of slabs within the pages.
        unsafe { self.base().add(number as usize * SLAB) }
    }

    /// The heap of an owner, from 1; it stays where it is.
    #[inline(always)]
    pub(crate) fn heap(&self, owner: u32) -> &Heap {
        // SAFETY: owners' heaps have been made and are never unmade.
        unsafe { &*self.place_of_heap(owner) }
    }

    /// The room for heaps.
    #[cfg(not(all(loom, test)))]
    pub(crate) fn heaps(&self) -> *const u8 {
        self.heaps.load(Ordering::Relaxed).cast_const().cast()
    }

    /// Where the heap of an owner is, or will be made.
    #[inline(always)]
    pub(crate) fn place_of_heap(&self, owner: u32) -> *mut Heap {
        // SAFETY: there is room for every owner's.
        unsafe { self.heaps.load(Ordering::Relaxed).byte_add(owner as usize * Heap::STEP + Heap::AT) }
    }

    /// Lays the ground, if that has not been done.
    ///
    /// # Errors
    /// [`Refused`] when there is no address space.
    pub(crate) fn lay(&self) -> Result<(), Refused> {
        let mut shared = SHARED.lock();
        if shared.is_none() {
            let mut capacity = CAPACITY;
            *shared = loop {
                match Shared::with(capacity) {
                    Ok(made) => break Some(made),
                    // Where there are few addresses, as on processors with 39 bits, the pages leave some to the tables.
                    Err(Refused) if capacity / 2 >= LEAST_CAPACITY => capacity /= 2,
                    Err(Refused) => return Err(Refused),
                }
            };
            self.ready.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The pages, for this thread alone.
    pub(crate) fn shared(&self) -> Option<Held> {
        self.is_ready().then(|| Held(SHARED.lock()))
    }

    /// Takes the lock for a fork.
    pub(crate) fn hold(&self, pass: ForkPass<'_>) {
        SHARED.hold_for_fork(pass);
    }

    /// Frees it after the fork.
    ///
    /// # Safety
    /// This thread, or the one that it is a copy of, called [`Ground::hold`].
    pub(crate) unsafe fn let_go(&self) {
        // SAFETY: this thread, or the one that it is a copy of, called `hold`, as this function requires.
        unsafe { SHARED.let_go_after_fork() };
    }

    /// In a fork's child: the heaps of the parent's other threads stay with them. If a signal handler that forks has
    /// interrupted this thread while it held the lock, orphans are not looked for in the child.
    pub(crate) fn begin_child(&self) {
        if self.is_ready()
            && let Some(shared) = SHARED.lock_in_child()
        {
            Held(shared).heaps.leave_to_parent();
        }
    }
}

/// [`Shared`], held.
pub(crate) struct Held(Locked<'static, Option<Shared>>);

impl core::ops::Deref for Held {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        match &*self.0 {
            Some(shared) => shared,
            None => heapwright_os::abort(),
        }
    }
}

impl core::ops::DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Shared {
        match &mut *self.0 {
            Some(shared) => shared,
            None => heapwright_os::abort(),
        }
    }
}

impl Shared {
    fn with(capacity: usize) -> Result<Shared, Refused> {
        let settings = Settings {
            capacity,
            granule: PAGE as u32,
            keep: KEEP,
            // `Keep` has the parts.
            keep_part: usize::MAX,
            backing: Backing::WhenTouched,
            statistics: Statistics::Kept,
            ..Settings::default()
        };
        let pages = GrowingHeap::<FirstFit>::with((), &settings).map_err(|error| match error {
            CreateError::Refused | CreateError::Rules(_) => Refused,
        })?;
        let slabs = pages.capacity() / SLAB;
        let tables = Tables::of(slabs)?;
        GROUND.base.store(pages.base().as_ptr(), Ordering::Relaxed);
        GROUND.entries.store(tables.entries(), Ordering::Relaxed);
        GROUND.slabs.store(tables.slabs(), Ordering::Relaxed);
        GROUND.heaps.store(tables.heaps(), Ordering::Relaxed);
        GROUND.beside.store(tables.beside(), Ordering::Relaxed);
        GROUND.key.store(key_of_links(), Ordering::Relaxed);
        harden::lay(slabs)?;
        let (heaps, mappings, keep) = (Heaps::new(), Mappings::new(), Keep::default());
        Ok(Shared { pages, heaps, mappings, keep, tables })
    }

    /// A heap for the calling thread; `None` when there are too many.
    pub(crate) fn adopt_heap(&mut self) -> Option<Owned> {
        // Without room for one more, there may still be one that a thread left.
        let _ = self.tables.cover_heap(self.heaps.made() + 1, &GROUND.heap_room);
        self.heaps.adopt()
    }

    /// Pages for a slab; returns its number, and whether they are in memory already.
    pub(crate) fn place_slab(&mut self) -> Option<(u32, bool)> {
        // SAFETY: the length is not 0 and the alignment a power of two.
        let layout = unsafe { Layout::from_size_align_unchecked(SLAB, SLAB) };
        let start = self.place(layout).ok()?;
        let number = GROUND.number_of(start.addr().get())?;
        Some((number, self.pages.was_kept(start, SLAB)))
    }

    /// Pages for a slab or for a block that has no class.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    #[inline(never)]
    pub(crate) fn place(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        let placed = self.pages.allocate_soon(layout).map_err(|_| OutOfMemory)?;
        if self.tables.cover(self.pages.heap_size().div_ceil(SLAB), &GROUND.room).is_err() {
            // SAFETY: the block was just placed, and nobody knows of it.
            let _ = unsafe { self.pages.deallocate_unsized(placed) };
            return Err(OutOfMemory);
        }
        self.keep.see_placed(layout.size(), &mut self.pages);
        Ok(placed)
    }

    /// Resizes a block that has no class where it is.
    ///
    /// # Errors
    /// [`ResizeError`]; nothing has changed then.
    ///
    /// # Safety
    /// Nobody uses its bytes above the new length any more.
    pub(crate) unsafe fn resize(&mut self, block: NonNull<u8>, old: usize, new: usize) -> Result<(), ResizeError> {
        // SAFETY: as this function requires.
        unsafe { self.pages.resize_in_place(block, old, new) }?;
        if self.tables.cover(self.pages.heap_size().div_ceil(SLAB), &GROUND.room).is_err() {
            // SAFETY: nobody uses what was added.
            let _ = unsafe { self.pages.resize_in_place(block, new, old) };
            return Err(ResizeError::NoRoom);
        }
        Ok(())
    }

    /// Takes back the pages of a slab or of a block that has no class.
    ///
    /// # Errors
    /// [`FreeError`].
    ///
    /// # Safety
    /// If it is one, nobody uses it any more.
    #[inline(never)]
    pub(crate) unsafe fn remove(&mut self, start: NonNull<u8>) -> Result<(), FreeError> {
        // SAFETY: the caller's promise.
        unsafe { self.pages.deallocate_unsized(start) }?;
        self.keep.see_freed(&mut self.pages);
        Ok(())
    }

    /// Takes the pages of a slab back.
    pub(crate) fn remove_slab(&mut self, number: u32) {
        if let Some(start) = NonNull::new(GROUND.start_of(number)) {
            // SAFETY: the slab was placed, and nobody uses a block of it.
            let _ = unsafe { self.remove(start) };
        }
    }
}

/// How much to keep, learnt from what became of what was given back: what is asked for again within a second was given back too
/// early, and for the next second as much more is kept.
#[derive(Default)]
struct Keep {
    /// Bytes given back, when it was last looked.
    returned: u64,
    /// Bytes given back that nobody has asked for since, and the time of the latest.
    away: usize,
    returned_at: u64,
    /// Bytes that were asked for again too soon, and the time of the latest.
    regretted: usize,
    regretted_at: u64,
}

impl Keep {
    const SOON: u64 = 1_000_000_000;

    /// Pages of so many bytes have been placed.
    fn see_placed(&mut self, bytes: usize, pages: &mut GrowingHeap<FirstFit>) {
        let again = bytes.min(self.away);
        if again == 0 {
            return;
        }
        let now = now_nanoseconds();
        if now - self.returned_at > Keep::SOON {
            self.away = 0;
            return;
        }
        self.away -= again;
        self.regretted = (self.regretted + REGRET * again).min(MOST_REGRETTED);
        self.regretted_at = now;
        self.apply(pages);
    }

    fn apply(&self, pages: &mut GrowingHeap<FirstFit>) {
        let used = pages.counters().map_or(0, |counters| counters.live as usize);
        let part = (pages.top() / HEAP_PART).min(used / USED_PART);
        pages.set_keep(part.max(KEEP + self.regretted));
    }

    /// Pages have been freed, and some may have been given back.
    fn see_freed(&mut self, pages: &mut GrowingHeap<FirstFit>) {
        if self.regretted != 0 && now_nanoseconds() - self.regretted_at > Keep::SOON {
            self.regretted = 0;
        }
        self.apply(pages);
        let returned = pages.returns().bytes;
        if returned != self.returned {
            self.away += (returned - self.returned) as usize;
            self.returned = returned;
            self.returned_at = now_nanoseconds();
        }
    }
}

/// What links are written with. The lowest four bits stay, so that links are still multiples of 16. What is no link, as plain
/// pointers and small numbers are not, becomes no address by it but one that no process has: of two bits that are clear in all
/// addresses of processes, the higher on x86-64 and the lower on aarch64 (which ignores the higher), these are turned.
fn key_of_links() -> usize {
    secret_word() as usize & !0xF | 1 << 63 | 1 << 55
}

const _: () = assert!(NO_SLAB as usize > CAPACITY / SLAB);
