//! Sampling: the choice of requests that are recorded with their stacks.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use heapwright_os::{map, own_stack, page_size, process_id, unmap};

/// Number of stacks that are copied by a system call before the bounds of the thread's own stack are looked up; one
/// less than a power of two.
const BEFORE_LOOKUP: u32 = 7;

/// A thread's random generator and the bounds of its stack. Used only by the thread that writes to the buffer in which
/// this lies.
#[repr(C)]
#[derive(Default)]
pub struct Sampler {
    random: AtomicU64,
    /// The thread's own stack, from [`heapwright_os::own_stack`]; empty when not known.
    stack_start: AtomicUsize,
    stack_end: AtomicUsize,
    /// Number of copied stacks outside these bounds.
    outside: AtomicU32,
}

/// The size in bytes from which on every request is recorded with its stack, whatever the sampling: few blocks of this
/// size hold as much as all others, and an estimate would miss them. Requesting one takes longer than a stack.
pub const ALWAYS_SAMPLED_FROM: u64 = 64 << 10;

impl Sampler {
    /// Initializes the sampler for this thread of the process.
    pub(crate) fn begin(&self, thread: u32) {
        self.random.store(u64::from(process_id()) << 32 | u64::from(thread), Ordering::Relaxed);
        self.stack_start.store(0, Ordering::Relaxed);
        self.stack_end.store(0, Ordering::Relaxed);
        // The first thread's stack is looked up at once.
        self.outside.store(if thread == 0 { BEFORE_LOOKUP } else { 0 }, Ordering::Relaxed);
    }

    /// Continues in the next buffer of the same thread.
    pub(crate) fn go_on_from(&self, last: &Sampler) {
        self.random.store(last.random.load(Ordering::Relaxed), Ordering::Relaxed);
        self.stack_start.store(last.stack_start.load(Ordering::Relaxed), Ordering::Relaxed);
        self.stack_end.store(last.stack_end.load(Ordering::Relaxed), Ordering::Relaxed);
        self.outside.store(last.outside.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Decides at random whether a request is sampled: on average one in `every`. Each decision is independent of the
    /// earlier ones, so that a periodic program cannot align with the sampling.
    #[must_use]
    pub fn choose(&self, every: u32) -> bool {
        every == 1 || self.below(every) == 0
    }

    /// Returns a random number below `limit`.
    pub(crate) fn below(&self, limit: u32) -> u32 {
        // SplitMix64: a Weyl sequence, mixed by Stafford's variant 13.
        let state = self.random.load(Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.store(state, Ordering::Relaxed);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let number = (mixed ^ mixed >> 31) >> 32;
        // The number is below 2³², hence the product below 2⁶⁴.
        ((number * u64::from(limit)) >> 32) as u32
    }

    /// Returns the bounds of the thread's own stack, empty when they are not known; `from` lies on the current one.
    pub(crate) fn own_stack(&self, from: usize) -> Range<usize> {
        let mut own = self.stack_start.load(Ordering::Relaxed)..self.stack_end.load(Ordering::Relaxed);
        if !own.contains(&from) && self.is_lookup_due() {
            own = look_up(from);
            self.stack_start.store(own.start, Ordering::Relaxed);
            self.stack_end.store(own.end, Ordering::Relaxed);
        }
        own
    }

    /// Whether to look up the thread's stack: not for a few copies, which a system call makes faster, and less often
    /// after each lookup without a result.
    fn is_lookup_due(&self) -> bool {
        let outside = self.outside.load(Ordering::Relaxed).wrapping_add(1);
        self.outside.store(outside, Ordering::Relaxed);
        outside > BEFORE_LOOKUP && outside.is_power_of_two()
    }
}

/// Looks up the bounds of the stack that `at` lies on. Not inlined, as its frame would lie on every stack that is
/// copied. Its buffer is mapped, as the stack may be short.
#[cold]
#[inline(never)]
fn look_up(at: usize) -> Range<usize> {
    let length = page_size();
    let Ok(room) = map(length) else { return 0..0 };
    // SAFETY: the mapping was just made, is all zero and used by nothing else, and is unmapped after the last use of
    // the slice.
    unsafe {
        let own = own_stack(at, core::slice::from_raw_parts_mut(room.as_ptr(), length));
        // A page that cannot be unmapped leaks.
        let _ = unmap(room, length);
        own.unwrap_or(0..0)
    }
}

#[cfg(test)]
mod tests {
    use heapwright_os::copy_stack;

    use super::*;

    /// Returns how many of `of` requests are sampled.
    fn chosen(sampler: &Sampler, every: u32, of: u32) -> u32 {
        (0..of).map(|_| u32::from(sampler.choose(every))).sum()
    }

    #[test]
    fn requests_are_chosen_evenly_and_each_by_itself() {
        let sampler = Sampler::default();
        sampler.begin(3);
        assert_eq!(chosen(&sampler, 1, 1000), 1000);
        for (every, few, many) in [(2, 497_500, 502_500), (16, 61_289, 63_711), (1000, 842, 1158)] {
            let chosen = chosen(&sampler, every, 1_000_000);
            assert!((few..=many).contains(&chosen), "{chosen} of a million, one in {every}");
        }
        // Right after one that was chosen, the next is chosen as often as any.
        let after = (0..4_000_000).fold((false, 0_u32), |(last, after), _| {
            let this = sampler.choose(16);
            (this, after + u32::from(last && this))
        });
        assert!((14_995..=16_255).contains(&after.1), "{} pairs", after.1);
    }

    #[test]
    fn threads_and_their_first_requests_are_not_alike() {
        let first: u32 = (0..100_000).fold(0, |sum, thread| {
            let sampler = Sampler::default();
            sampler.begin(thread);
            sum + u32::from(sampler.choose(16))
        });
        assert!((5867..=6633).contains(&first), "{first} of the first requests of 100,000 threads");
    }

    #[test]
    fn a_thread_goes_on_where_it_was() {
        let (sampler, next, alike) = (Sampler::default(), Sampler::default(), Sampler::default());
        sampler.begin(3);
        alike.begin(3);
        assert_eq!(chosen(&sampler, 4, 1000), chosen(&alike, 4, 1000));
        next.go_on_from(&sampler);
        let both: [u64; 2] = [&next, &alike].map(|one| (0..64).fold(0, |bits, _| bits << 1 | u64::from(one.choose(2))));
        assert_eq!(both[0], both[1]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "there are no registers")]
    fn a_threads_own_stack_is_found_soon_and_then_known() {
        let sampler = Sampler::default();
        sampler.begin(1);
        let place = heapwright_os::here();
        let Some(place) = place else { return };
        let mut copy = [0; 64];
        for copies in 1..20 {
            let own = sampler.own_stack(place.stack as usize);
            // SAFETY: the place is this function's, and the range is this thread's own stack.
            assert_eq!(unsafe { copy_stack(place.stack as usize, &own, &mut copy) }, 64);
            let is_known = sampler.stack_end.load(Ordering::Relaxed) != 0;
            assert_eq!(is_known, copies > BEFORE_LOOKUP, "{copies}");
        }
    }
}
