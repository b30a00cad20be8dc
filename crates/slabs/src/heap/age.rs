//! The age of a heap: the time in which slabs become cold, and in which dissolving others in vain is forgotten.

/// The age of a heap, in steps in each of which it gets a few slabs.
pub(super) struct Age {
    /// Modulo 2^8.
    now: u8,
    /// Where in the classes the next search for a sparse slab begins.
    pub(super) search: u8,
    /// Number of slabs that the heap has got in this step.
    slabs: u32,
    /// The most slabs that the heap had.
    most: u32,
    /// Number of slabs that were dissolved in vain: soon all their blocks were freed. One is forgotten every few steps.
    vain: u8,
}

impl Age {
    pub(super) const NEW: Age = Age { now: 0, search: 0, slabs: 0, most: 0, vain: 0 };

    pub(super) fn now(&self) -> u8 {
        self.now
    }

    /// Records that a heap with `count` slabs has got one of them.
    pub(super) fn record_slab(&mut self, count: u32) {
        /// The steps after which a slab that was dissolved in vain is forgotten.
        const STEPS: u8 = 8;
        self.slabs += 1;
        self.most = self.most.max(count);
        if self.slabs >= slabs_of_step(count) {
            (self.slabs, self.now) = (0, self.now.wrapping_add(1));
            self.vain -= u8::from(self.now.is_multiple_of(STEPS)).min(self.vain);
        }
    }

    /// Records that no block is left of a slab that was dissolved at an age. That was in vain if the heap has got less
    /// than four times its slabs since, as far as ages can be told apart.
    pub(super) fn record_emptied(&mut self, dissolved_at: u8) {
        const SOON: u32 = 4;
        const LONGEST: u32 = 128;
        let soon = (SOON * self.most / slabs_of_step(self.most)).min(LONGEST);
        if u32::from(self.now.wrapping_sub(dissolved_at)) < soon {
            self.vain = (self.vain + 1).min(Age::MOST_VAIN);
        }
    }

    /// Forgets which slabs were dissolved in vain: memory is what matters now.
    pub(super) fn forget_vain(&mut self) {
        self.vain = 0;
    }

    /// Returns the part of a heap's memory that lies in holes before slabs are dissolved.
    pub(super) fn part_in_holes(&self) -> usize {
        (16 >> (self.vain / Age::VAIN_TO_DOUBLE)).max(1)
    }

    /// As many in vain double the part: nothing is dissolved after four times as many, until some are forgotten.
    const VAIN_TO_DOUBLE: u8 = 16;
    const MOST_VAIN: u8 = 6 * Age::VAIN_TO_DOUBLE;
}

/// The slabs that a heap with `count` slabs gets in a step: half a MiB, or a part of those that it has.
fn slabs_of_step(count: u32) -> u32 {
    const LEAST: u32 = 8;
    const PART: u32 = 128;
    LEAST.max(count / PART)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Gets 200 slabs, and then `steps` steps of others in a heap that has no more than these.
    fn get_slabs(age: &mut Age, steps: u32) {
        (1..=200).for_each(|count| age.record_slab(count));
        (0..8 * steps).for_each(|_| age.record_slab(200));
    }

    #[test]
    fn what_is_dissolved_in_vain_is_dissolved_later_and_forgotten_in_time() {
        let mut age = Age::NEW;
        get_slabs(&mut age, 0);
        let mut parts = [(); 7].map(|()| {
            let part = age.part_in_holes();
            (0..16).for_each(|_| age.record_emptied(age.now()));
            part
        });
        assert_eq!(parts, [16, 8, 4, 2, 1, 1, 1]);
        parts = [(); 7].map(|()| {
            get_slabs(&mut age, 8 * 16 - 25);
            age.part_in_holes()
        });
        assert_eq!(parts, [1, 1, 2, 4, 8, 16, 16]);
    }

    #[test]
    fn what_lasts_was_not_dissolved_in_vain() {
        let mut age = Age::NEW;
        for _ in 0..100 {
            let dissolved_at = age.now();
            get_slabs(&mut age, 100);
            age.record_emptied(dissolved_at);
        }
        assert_eq!(age.part_in_holes(), 16);
        (0..100).for_each(|_| age.record_emptied(age.now()));
        age.forget_vain();
        assert_eq!(age.part_in_holes(), 16);
    }
}
