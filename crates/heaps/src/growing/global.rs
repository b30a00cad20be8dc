//! A growing heap as a Rust program's global allocator.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::{NonNull, drop_in_place, null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use heapwright_os::{ForkPass, HeldAcrossForks, Lock, Refused, hold_across_forks, map, round_to_pages, unmap};
use heapwright_placement::PolicyKind;

use super::{GrowingHeap, Settings};
use crate::policy::{Chosen, Policy};

/// A [`GrowingHeap`] behind a lock, created at the first allocation. The child of a `fork` can go on using it, whatever
/// other threads were doing.
///
/// ```
/// use heapwright::{BestFit, GlobalHeap};
///
/// #[global_allocator]
/// static HEAP: GlobalHeap<BestFit> = GlobalHeap::new();
///
/// let words: Vec<String> = (0..100).map(|n| n.to_string()).collect();
/// assert!(HEAP.with(|heap| heap.counters().unwrap().live).unwrap() >= 100);
/// # drop(words);
/// ```
pub struct GlobalHeap<P: Policy = Chosen> {
    choice: P::Choice,
    /// Null until the first allocation.
    made: AtomicPtr<Made<P>>,
    _heap: PhantomData<GrowingHeap<P>>,
}

// SAFETY: the choice is `Sync` and only read, and the heap is protected by the lock.
unsafe impl<P: Policy> Sync for GlobalHeap<P> where P::Choice: Sync {}

/// A heap in a mapping of its own: fork handlers find it there wherever the [`GlobalHeap`] is moved.
#[repr(C)]
struct Made<P: Policy> {
    link: Link,
    heap: Lock<GrowingHeap<P>>,
}

impl GlobalHeap<Chosen> {
    /// Creates a heap under `policy`.
    #[must_use]
    pub const fn with_policy(policy: PolicyKind) -> Self {
        GlobalHeap { choice: policy, made: AtomicPtr::new(null_mut()), _heap: PhantomData }
    }
}

impl<P: Policy<Choice = ()>> GlobalHeap<P> {
    /// Creates a heap under the policy of its type.
    #[must_use]
    pub const fn new() -> Self {
        GlobalHeap { choice: (), made: AtomicPtr::new(null_mut()), _heap: PhantomData }
    }
}

impl<P: Policy<Choice = ()>> Default for GlobalHeap<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Policy> GlobalHeap<P> {
    /// Runs `inspect` on the heap, which must not allocate; returns `None` when nothing has been allocated yet.
    ///
    /// The heap cannot be replaced, for its blocks would go with it:
    ///
    /// ```compile_fail,E0594
    /// use heapwright::{BestFit, GlobalHeap, GrowingHeap};
    /// static HEAP: GlobalHeap<BestFit> = GlobalHeap::new();
    /// let other = GrowingHeap::new().unwrap();
    /// HEAP.with(|heap| *heap = other);
    /// ```
    pub fn with<R>(&self, inspect: impl FnOnce(&GrowingHeap<P>) -> R) -> Option<R> {
        self.with_made(|heap| inspect(heap))
    }

    /// As [`GrowingHeap::trim`]; 0 when nothing has been allocated yet.
    pub fn trim(&self) -> usize {
        self.with_made(GrowingHeap::trim).unwrap_or(0)
    }

    /// As [`GrowingHeap::set_keep`]; returns `false`, and does nothing, when nothing has been allocated yet.
    pub fn set_keep(&self, bytes: usize) -> bool {
        self.with_made(|heap| heap.set_keep(bytes)).is_some()
    }

    /// As [`GlobalHeap::with`], for changes. Not public: a caller could put another heap in its place, whose blocks
    /// would go with this one's.
    #[inline(always)]
    fn with_made<R>(&self, act: impl FnOnce(&mut GrowingHeap<P>) -> R) -> Option<R> {
        let made = NonNull::new(self.made.load(Ordering::Acquire))?;
        // SAFETY: the heap lives until this value is dropped, which is borrowed.
        Some(act(&mut unsafe { made.as_ref() }.heap.lock()))
    }

    /// As [`GlobalHeap::with`], with a heap that is created now if there is none; `None` if the system refuses one.
    #[inline]
    fn with_ready<R>(&self, act: impl FnOnce(&mut GrowingHeap<P>) -> R) -> Option<R> {
        if self.made.load(Ordering::Acquire).is_null() {
            self.make().ok()?;
        }
        self.with_made(act)
    }

    #[cold]
    fn make(&self) -> Result<(), Refused> {
        see_forks()?;
        let place = map(Self::length()?)?.cast::<Made<P>>();
        let listed = HEAPS.lock();
        if !self.made.load(Ordering::Acquire).is_null() {
            // Another thread was quicker.
            drop(listed);
            // SAFETY: the mapping is new, and nothing is in it.
            return unsafe { unmap(place.cast(), Self::length()?) };
        }
        let Ok(heap) = GrowingHeap::with(self.choice, &Settings::default()) else {
            drop(listed);
            // SAFETY: as above.
            unsafe { unmap(place.cast(), Self::length()?) }?;
            return Err(Refused);
        };
        // SAFETY: the mapping is new and long enough; the link comes first in it.
        unsafe {
            place.write(Made { link: Link::of::<P>(listed.first.get()), heap: Lock::new(heap) });
            listed.first.set(place.as_ptr().cast());
        }
        self.made.store(place.as_ptr(), Ordering::Release);
        Ok(())
    }

    fn length() -> Result<usize, Refused> {
        round_to_pages(size_of::<Made<P>>()).ok_or(Refused)
    }
}

impl<P: Policy> Drop for GlobalHeap<P> {
    fn drop(&mut self) {
        let Some(made) = NonNull::new(*self.made.get_mut()) else { return };
        HEAPS.lock().remove(made.as_ptr().cast());
        // SAFETY: the heap is in no list any more, and this is the last use of it.
        unsafe {
            drop_in_place(made.as_ptr());
            if let Ok(length) = Self::length() {
                let _ = unmap(made.cast(), length);
            }
        }
    }
}

/// What comes first in every [`Made`]: what a fork needs of it.
struct Link {
    next: Cell<*const Link>,
    hold: unsafe fn(*const Link, ForkPass<'_>),
    let_go: unsafe fn(*const Link),
}

impl Link {
    fn of<P: Policy>(next: *const Link) -> Link {
        unsafe fn hold<P: Policy>(link: *const Link, pass: ForkPass<'_>) {
            // SAFETY: the link is that of a heap under `P`.
            unsafe { (*link.cast::<Made<P>>()).heap.hold_for_fork(pass) };
        }
        unsafe fn let_go<P: Policy>(link: *const Link) {
            // SAFETY: the link is that of a heap under `P`, and this thread, or the one that it is a copy of, has
            // called `hold`.
            unsafe { (*link.cast::<Made<P>>()).heap.let_go_after_fork() };
        }
        Link { next: Cell::new(next), hold: hold::<P>, let_go: let_go::<P> }
    }
}

/// The list of all heaps of the process.
struct Heaps {
    first: Cell<*const Link>,
}

// SAFETY: the links are behind the lock, and their heaps may be used by any thread.
unsafe impl Send for Heaps {}

static HEAPS: Lock<Heaps> = Lock::new(Heaps { first: Cell::new(null()) });

impl Heaps {
    fn links(&self) -> impl Iterator<Item = &Link> {
        // SAFETY: links in the list are of heaps that live, and each is removed before its heap is dropped.
        let at = |link: *const Link| unsafe { link.as_ref() };
        core::iter::successors(at(self.first.get()), move |link| at(link.next.get()))
    }

    fn remove(&self, gone: *const Link) {
        // SAFETY: the link is in the list, hence its heap lives.
        let after = unsafe { (*gone).next.get() };
        match self.links().find(|link| link.next.get() == gone) {
            Some(before) => before.next.set(after),
            None => self.first.set(after),
        }
    }
}

/// Has the locks of all heaps held while the process forks. Called without a lock, for it may allocate.
fn see_forks() -> Result<(), Refused> {
    static SEEN: AtomicBool = AtomicBool::new(false);
    if SEEN.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    hold_across_forks::<Heaps>().inspect_err(|_| SEEN.store(false, Ordering::Relaxed))
}

impl HeldAcrossForks for Heaps {
    type State = Heaps;

    fn lock() -> &'static Lock<Heaps> {
        &HEAPS
    }

    fn before_fork(heaps: Option<&Heaps>, pass: ForkPass<'_>) {
        // SAFETY: a link's functions are for its own heap, which lives as long as the link is in the list.
        heaps.iter().flat_map(|heaps| heaps.links()).for_each(|link| unsafe { (link.hold)(link, pass) });
    }

    unsafe fn after_fork(heaps: Option<&Heaps>) {
        // SAFETY: as above; this thread, or the one that it is a copy of, has called `before_fork`.
        heaps.iter().flat_map(|heaps| heaps.links()).for_each(|link| unsafe { (link.let_go)(link) });
    }
}

fn pointer<E>(result: Option<Result<NonNull<u8>, E>>) -> *mut u8 {
    result.and_then(Result::ok).map_or(null_mut(), NonNull::as_ptr)
}

// SAFETY: the heap returns blocks of at least the requested size and alignment, which never move and do not overlap.
unsafe impl<P: Policy> GlobalAlloc for GlobalHeap<P>
where
    P::Choice: Sync,
{
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        pointer(self.with_ready(|heap| heap.allocate(layout)))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        pointer(self.with_ready(|heap| heap.allocate_zeroed(layout)))
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `alloc` with this layout, so that it is not null and live, and the caller does
        // not use it after this call, as `GlobalAlloc` requires.
        let _ = self.with_made(|heap| unsafe { heap.deallocate(NonNull::new_unchecked(block), layout) });
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(new) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        // SAFETY: the block came from `alloc` with this layout, so that it is not null and live; the caller does not
        // use the old block after success.
        pointer(self.with_made(|heap| unsafe { heap.reallocate(NonNull::new_unchecked(block), layout, new) }))
    }
}
