//! Fixed heaps behind a lock, for use as a program's global allocator.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};

use heapwright_placement::{Rules, RulesError};

use super::FixedHeap;
use crate::policy::{Chosen, Policy};
use crate::spin::SpinLock;

/// Why a [`LockedHeap`] did not accept a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// It already has a region.
    Taken,
    /// The region is too short, or the rules are invalid.
    Rules(RulesError),
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimError::Taken => f.write_str("the heap already has a region"),
            ClaimError::Rules(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ClaimError {}

/// A [`FixedHeap`] behind a spin lock, for a region that is only known at run time, such as one that a linker script
/// reserves. Before it has claimed a region, every allocation fails.
///
/// Do not allocate in an interrupt handler that may interrupt an allocation: the lock would spin for ever.
///
/// ```
/// use core::mem::MaybeUninit;
/// use heapwright::{COMPACT, FirstFit, LockedHeap};
///
/// static HEAP: LockedHeap<FirstFit> = LockedHeap::new();
///
/// let region = Box::leak(Box::new([MaybeUninit::uninit(); 4096]));
/// HEAP.claim((), region, &COMPACT)?;
/// assert!(HEAP.with(|heap| heap.capacity()).is_some_and(|bytes| bytes > 3800));
/// # Ok::<(), heapwright::ClaimError>(())
/// ```
pub struct LockedHeap<P: Policy = Chosen> {
    heap: SpinLock<Option<FixedHeap<'static, P>>>,
}

impl<P: Policy> LockedHeap<P> {
    /// Creates a heap without a region.
    #[must_use]
    pub const fn new() -> Self {
        LockedHeap { heap: SpinLock::new(None) }
    }

    /// Creates the heap in `region`, as [`FixedHeap::with`] does.
    ///
    /// # Errors
    /// [`ClaimError`]; the heap is unchanged.
    pub fn claim(
        &self,
        choice: P::Choice,
        region: &'static mut [MaybeUninit<u8>],
        rules: &Rules,
    ) -> Result<(), ClaimError> {
        self.heap.with(|heap| match heap {
            Some(_) => Err(ClaimError::Taken),
            None => {
                *heap = Some(FixedHeap::with(choice, region, rules).map_err(ClaimError::Rules)?);
                Ok(())
            }
        })
    }

    /// Runs `work` on the heap under its lock; returns `None` when it has no region. `work` must not use the locked
    /// heap itself.
    pub fn with<R>(&self, work: impl FnOnce(&mut FixedHeap<'static, P>) -> R) -> Option<R> {
        self.heap.with(|heap| heap.as_mut().map(work))
    }
}

impl<P: Policy> Default for LockedHeap<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// A [`FixedHeap`] in `N` bytes of its own, behind a spin lock, created at the first allocation by the rules of
/// [`COMPACT`](crate::COMPACT): a whole allocator in one `static`, which takes no room in the program's file. As for
/// [`LockedHeap`], not for interrupt handlers, nor for the child of a `fork` that was made while another thread held
/// the lock: it waits for ever. If `N` bytes are too few for a heap, every allocation fails.
///
/// It belongs into a `static`, where it stays. One that is moved after its first allocation refuses every request; it
/// must not be used again at the address that it had before, which it cannot tell.
///
/// ```
/// use heapwright::{BestFit, StaticHeap};
///
/// #[global_allocator]
/// static HEAP: StaticHeap<{ 1 << 20 }, BestFit> = StaticHeap::new();
///
/// let words: Vec<String> = (0..100).map(|n| n.to_string()).collect();
/// assert!(HEAP.with(|heap| heap.blocks().count()).is_some_and(|blocks| blocks > 100));
/// # drop(words);
/// ```
pub struct StaticHeap<const N: usize, P: Policy<Choice = ()>> {
    // Both start zeroed or uninitialized; otherwise the bytes would be stored in the program's file.
    bytes: UnsafeCell<[MaybeUninit<u8>; N]>,
    made: SpinLock<Made<P>>,
}

/// A heap, and the address of the bytes that it was created in; 0 before. The heap refers to its bytes: if both are
/// moved, it must not be used or even exist as a value.
struct Made<P: Policy> {
    home: usize,
    heap: MaybeUninit<FixedHeap<'static, P>>,
}

// SAFETY: the bytes are accessed only by the heap under the lock, and that heap is `Send`.
unsafe impl<const N: usize, P: Policy<Choice = ()>> Sync for StaticHeap<N, P> where FixedHeap<'static, P>: Send {}

impl<const N: usize, P: Policy<Choice = ()>> StaticHeap<N, P> {
    /// Creates a heap without blocks.
    #[must_use]
    pub const fn new() -> Self {
        StaticHeap {
            bytes: UnsafeCell::new([MaybeUninit::uninit(); N]),
            made: SpinLock::new(Made { home: 0, heap: MaybeUninit::uninit() }),
        }
    }

    /// Runs `work` on the heap under its lock; returns `None` when it could not be created. `work` must not use the
    /// static heap itself.
    pub fn with<R>(&'static self, work: impl FnOnce(&mut FixedHeap<'static, P>) -> R) -> Option<R> {
        self.run(work)
    }

    fn run<R>(&self, work: impl FnOnce(&mut FixedHeap<'static, P>) -> R) -> Option<R> {
        let bytes = self.bytes.get();
        self.made.with(|made| {
            if made.home == 0 {
                // SAFETY: there is no heap yet, so that no other reference to the bytes exists; this thread holds the
                // lock. The bytes live as long as `self`, and so does the heap.
                made.heap.write(FixedHeap::new(unsafe { &mut *bytes }).ok()?);
                made.home = bytes.addr();
            }
            // SAFETY: `home` is not 0, so that the heap was written; the bytes that it refers to are where they were,
            // and have not been elsewhere, as the type requires.
            (made.home == bytes.addr()).then(|| work(unsafe { made.heap.assume_init_mut() }))
        })
    }
}

impl<const N: usize, P: Policy<Choice = ()>> Default for StaticHeap<N, P> {
    fn default() -> Self {
        Self::new()
    }
}

fn pointer<E>(result: Option<Result<NonNull<[u8]>, E>>) -> *mut u8 {
    result.and_then(Result::ok).map_or(null_mut(), |block| block.as_ptr().cast())
}

/// Implements `GlobalAlloc` for a type whose method `$with` runs a closure on its heap.
macro_rules! allocate_globally {
    ([$($parameters:tt)*] $Heap:ty, $with:ident) => {
        // SAFETY: the heap returns blocks of at least the requested size and alignment, which never move and do not
        // overlap.
        unsafe impl<$($parameters)*> GlobalAlloc for $Heap {
            unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
                pointer(self.$with(|heap| heap.allocate(layout)))
            }

            unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
                pointer(self.$with(|heap| heap.allocate_zeroed(layout)))
            }

            unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
                // SAFETY: the block came from `alloc` with this layout, so that it is not null and live, and the caller
                // does not use it after this call, as `GlobalAlloc` requires.
                let _ = self.$with(|heap| unsafe { heap.deallocate(NonNull::new_unchecked(block), layout) });
            }

            unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
                let Ok(new) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
                // SAFETY: the block came from `alloc` with this layout, so that it is not null and live; the caller
                // does not use the old block after success.
                pointer(self.$with(|heap| unsafe { heap.reallocate(NonNull::new_unchecked(block), layout, new) }))
            }
        }
    };
}

allocate_globally!([P: Policy] LockedHeap<P>, with);
allocate_globally!([const N: usize, P: Policy<Choice = ()>] StaticHeap<N, P>, run);
