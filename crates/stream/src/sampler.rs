//! Which of a thread's requests are told with their stacks.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use heapwright_os::{copy_stack, map, own_stack, page_size, process_id, unmap};

/// So many stacks are copied by the system before it is looked for a thread's own stack; one less than a power of two.
const FEW: u32 = 7;

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
        // Where the first thread's stack is, is always worth knowing.
        self.strange.store(if thread == 0 { FEW } else { 0 }, Ordering::Relaxed);
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
            own = look(from);
            self.stack_start.store(own.start, Ordering::Relaxed);
            self.stack_end.store(own.end, Ordering::Relaxed);
        }
        copy_stack(from, &own, copy)
    }

    /// Whether it is to be looked where the thread's stack is: not for the sake of a few copies, which the system makes faster, and the more
    /// seldom the more often it was in vain.
    fn is_worth_a_look(&self) -> bool {
        let strange = self.strange.load(Ordering::Relaxed).wrapping_add(1);
        self.strange.store(strange, Ordering::Relaxed);
        strange > FEW && strange.is_power_of_two()
    }
}

/// Where the stack is that `at` lies on. Apart from what is always done, whose frame lies on all stacks that are copied. The room for it is not taken from that stack, which may be a short one.
#[cold]
#[inline(never)]
fn look(at: usize) -> Range<usize> {
    let length = page_size();
    let Ok(room) = map(length) else { return 0..0 };
    // SAFETY: the mapping is ours alone, all zero, and goes when nothing refers to it any more.
    unsafe {
        let own = own_stack(at, core::slice::from_raw_parts_mut(room.as_ptr(), length));
        // A page that stays is in nobody's way.
        let _ = unmap(room, length);
        own.unwrap_or(0..0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many requests are chosen.
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
            assert_eq!(sampler.copy_stack(place.stack as usize, &mut copy), 64);
            let is_known = sampler.stack_end.load(Ordering::Relaxed) != 0;
            assert_eq!(is_known, copies > FEW, "{copies}");
        }
    }
}
