//! Which of a thread's requests are told with their stacks.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use heapwright_os::{copy_stack, map, own_stack, page_size, process_id, unmap};

/// A thread's dice, and what is known of its stack. Used by the thread that writes to the buffer it lies in, only.
#[repr(C)]
#[derive(Default)]
pub struct Sampler {
    random: AtomicU64,
    /// The thread's own stack, as [`heapwright_os::own_stack`] has it; empty when not known.
    stack_start: AtomicUsize,
    stack_end: AtomicUsize,
    /// How many stacks were copied that lie somewhere else.
    strange: AtomicU32,
}

impl Sampler {
    /// Begins anew, for this thread of the process.
    pub(crate) fn begin(&self, thread: u32) {
        self.random.store(u64::from(process_id()) << 32 | u64::from(thread), Ordering::Relaxed);
        self.stack_start.store(0, Ordering::Relaxed);
        self.stack_end.store(0, Ordering::Relaxed);
        self.strange.store(0, Ordering::Relaxed);
    }

    /// Goes on in the next buffer of the same thread.
    pub(crate) fn go_on_from(&self, last: &Sampler) {
        self.random.store(last.random.load(Ordering::Relaxed), Ordering::Relaxed);
        self.stack_start.store(last.stack_start.load(Ordering::Relaxed), Ordering::Relaxed);
        self.stack_end.store(last.stack_end.load(Ordering::Relaxed), Ordering::Relaxed);
        self.strange.store(last.strange.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Throws the dice: whether a request is one of those that are told, of which there is one in `every` on average. Each is chosen by itself,
    /// whatever became of those before, so that no rhythm of the program's meets one of the sampling.
    #[must_use]
    pub fn choose(&self, every: u32) -> bool {
        // Weyl's sequence, mixed by Stafford's thirteenth function: every number once, in an order that shows no pattern.
        let state = self.random.load(Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.store(state, Ordering::Relaxed);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let number = (mixed ^ mixed >> 31) >> 32;
        // A number below 2³², so that this is below 2⁶⁴; 0 for one in `every` of them.
        (number * u64::from(every)) >> 32 == 0
    }

    /// Copies what lies on the stack from `from` on; returns how many bytes there were.
    pub(crate) fn copy_stack(&self, from: usize, copy: &mut [u8]) -> usize {
        let mut own = self.stack_start.load(Ordering::Relaxed)..self.stack_end.load(Ordering::Relaxed);
        if !own.contains(&from) && self.is_worth_a_look() {
            own = look(from).unwrap_or(own);
            self.stack_start.store(own.start, Ordering::Relaxed);
            self.stack_end.store(own.end, Ordering::Relaxed);
        }
        copy_stack(from, &own, copy)
    }

    /// Whether it is to be looked where the thread's stack is: to look takes as long as the copies before by the system, which do
    /// without.
    fn is_worth_a_look(&self) -> bool {
        const COPIES: u32 = 64;
        let strange = self.strange.load(Ordering::Relaxed).wrapping_add(1);
        self.strange.store(strange, Ordering::Relaxed);
        strange % COPIES == COPIES / 4
    }
}

/// Where the stack is that `at` lies on. The room for it is not taken from that stack, which may be a short one.
fn look(at: usize) -> Option<Range<usize>> {
    let length = page_size();
    let room = map(length).ok()?;
    // SAFETY: the mapping is ours alone, all zero, and goes when nothing refers to it any more.
    unsafe {
        let own = own_stack(at, core::slice::from_raw_parts_mut(room.as_ptr(), length));
        // A page that stays is in nobody's way.
        let _ = unmap(room, length);
        own
    }
}
