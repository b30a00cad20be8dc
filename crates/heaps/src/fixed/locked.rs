//! Fixed heaps as a program's allocator.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};

use heapwright_placement::{Rules, RulesError};

use super::FixedHeap;
use crate::policy::{Chosen, Policy};
use crate::spin::SpinLock;

/// Why a [`LockedHeap`] did not take a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// It has one already.
    Taken,
    /// The region is too short, or the rules make no sense.
    Rules(RulesError),
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimError::Taken => f.write_str("the heap has a region already"),
            ClaimError::Rules(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ClaimError {}

/// A [`FixedHeap`] behind a spin lock, for a region that is only known at run time, such as the one a linker script sets
/// aside. Until it has claimed a region it grants nothing.
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
    /// A heap without a region.
    #[must_use]
    pub const fn new() -> Self {
        LockedHeap { heap: SpinLock::new(None) }
    }

    /// Makes the heap in `region`; as [`FixedHeap::with`].
    ///
    /// # Errors
    /// [`ClaimError`]; the heap is as before.
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

    /// Runs `work` on the heap while no other thread uses it; `None` when it has no region. `work` must not use the
    /// locked heap itself.
    pub fn with<R>(&self, work: impl FnOnce(&mut FixedHeap<'static, P>) -> R) -> Option<R> {
        self.heap.with(|heap| heap.as_mut().map(work))
    }
}

impl<P: Policy> Default for LockedHeap<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// A [`FixedHeap`] in `N` bytes of its own, behind a spin lock and made at the first allocation by the rules of
/// [`COMPACT`](crate::COMPACT): a whole allocator in one `static`, which takes no room in the program's file. As for [`LockedHeap`], not for
/// interrupt handlers. `N` bytes that are too few for a heap make one that grants nothing.
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
    // Both start as zeros or as nothing at all, or the bytes would have to be in the program's file.
    bytes: UnsafeCell<[MaybeUninit<u8>; N]>,
    made: SpinLock<Made<P>>,
}

/// A heap, and the address of the bytes that it was made in; 0 before. It refers to its bytes, so should both be moved, it
/// must be neither used nor, as a value, looked at.
struct Made<P: Policy> {
    home: usize,
    heap: MaybeUninit<FixedHeap<'static, P>>,
}

// SAFETY: the bytes are reached through the locked heap only.
unsafe impl<const N: usize, P: Policy<Choice = ()>> Sync for StaticHeap<N, P> where FixedHeap<'static, P>: Send {}

impl<const N: usize, P: Policy<Choice = ()>> StaticHeap<N, P> {
    /// A heap that holds nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        StaticHeap {
            bytes: UnsafeCell::new([MaybeUninit::uninit(); N]),
            made: SpinLock::new(Made { home: 0, heap: MaybeUninit::uninit() }),
        }
    }

    /// Runs `work` on the heap while no other thread uses it; `None` when it could not be made. `work` must not use the
    /// static heap itself.
    pub fn with<R>(&'static self, work: impl FnOnce(&mut FixedHeap<'static, P>) -> R) -> Option<R> {
        self.run(work)
    }

    fn run<R>(&self, work: impl FnOnce(&mut FixedHeap<'static, P>) -> R) -> Option<R> {
        let bytes = self.bytes.get();
        self.made.with(|made| {
            if made.home == 0 {
                // SAFETY: there is no heap yet, so nobody uses the bytes; they last as long as `self`, and so does the heap.
                made.heap.write(FixedHeap::new(unsafe { &mut *bytes }).ok()?);
                made.home = bytes.addr();
            }
            // SAFETY: the heap was made, and its bytes are still where they were.
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

/// `GlobalAlloc` for a type whose method `$with` runs a closure on its heap.
macro_rules! allocate_globally {
    ([$($parameters:tt)*] $Heap:ty, $with:ident) => {
        // SAFETY: blocks are as long and as aligned as asked, never move, and do not overlap.
        unsafe impl<$($parameters)*> GlobalAlloc for $Heap {
            unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
                pointer(self.$with(|heap| heap.allocate(layout)))
            }

            unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
                pointer(self.$with(|heap| heap.allocate_zeroed(layout)))
            }

            unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
                // SAFETY: the block came from `alloc` with this layout, so it is not null; the caller gives it up.
                let _ = self.$with(|heap| unsafe { heap.deallocate(NonNull::new_unchecked(block), layout) });
            }

            unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
                let Ok(new) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
                // SAFETY: the block came from `alloc` with this layout; growing and shrinking do the same.
                pointer(self.$with(|heap| unsafe { heap.grow(NonNull::new_unchecked(block), layout, new) }))
            }
        }
    };
}

allocate_globally!([P: Policy] LockedHeap<P>, with);
allocate_globally!([const N: usize, P: Policy<Choice = ()>] StaticHeap<N, P>, run);
