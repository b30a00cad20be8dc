//! Generates operations from a seed, fast.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{ClaimedSize, Duel, Operation, Scenario, Target, replay, shrink};

/// The distribution of request sizes.
#[derive(Clone, Copy)]
enum Sizes {
    /// A few granules at most.
    Tiny,
    /// Log-uniform, up to the length of the region divided by this number.
    LogUniform(u32),
    /// One of four sizes, so that many holes have equal lengths.
    Few([usize; 4]),
    /// Uniform, up to the length of the region divided by this number.
    Uniform(u32),
}

/// An endless sequence of operations for a scenario, generated from a seed. It alternately fills and drains the heap.
/// Most operations are valid, some are not.
pub struct Script {
    random: fastrand::Rng,
    granule: usize,
    capacity: usize,
    sizes: Sizes,
    /// The current share of allocations, in 1/256.
    requests: u8,
    /// The number of operations until the share of allocations changes.
    phase_left: u32,
    /// The share of allocations with an alignment, in 1/256.
    aligned: u8,
    /// The share of resizes among the other operations, in 1/256.
    resizes: u8,
}

impl Script {
    /// Returns the operations for `scenario` that `seed` generates.
    #[must_use]
    pub fn new(scenario: &Scenario, seed: u64) -> Script {
        let mut random = fastrand::Rng::with_seed(seed);
        let granule = scenario.rules.granule as usize;
        let capacity = scenario.capacity;
        let few = std::array::from_fn(|_| random.usize(1..=granule * 100));
        let sizes = match random.u8(..8) {
            0 => Sizes::Tiny,
            1 => Sizes::Few(few),
            2 => Sizes::Uniform(random.u32(16..1000)),
            _ => Sizes::LogUniform(random.u32(4..200)),
        };
        let aligned = random.choice([0, 0, 10, 128]).unwrap_or(0);
        let resizes = random.choice([0, 20, 100]).unwrap_or(0);
        Script { random, granule, capacity, sizes, requests: 0, phase_left: 0, aligned, resizes }
    }

    /// Returns the next operation.
    pub fn draw(&mut self) -> Operation {
        self.advance_phase();
        let kind = self.random.u8(..);
        match self.random.u16(..2048) {
            0 => Operation::Relocate,
            1..4 => Operation::Inspect,
            4..40 => self.draw_mistake(),
            _ if kind < self.requests => self.draw_request(),
            _ if self.random.u8(..) < self.resizes => self.draw_resize(),
            _ if self.random.bool() => Operation::Deallocate(self.draw_live()),
            _ => Operation::DeallocateSized(self.draw_live(), ClaimedSize::Actual),
        }
    }

    /// Changes the share of allocations from time to time: between filling, draining and balance.
    fn advance_phase(&mut self) {
        if self.phase_left == 0 {
            self.phase_left = self.random.u32(10..1000);
            self.requests = self.random.choice([20, 100, 128, 160, 235, 250]).unwrap_or(128);
        }
        self.phase_left -= 1;
    }

    fn draw_live(&mut self) -> Target {
        Target::Live(self.random.usize(..1 << 20))
    }

    fn draw_request(&mut self) -> Operation {
        let bytes = self.draw_size();
        let align = if self.random.u8(..) < self.aligned { self.draw_alignment() } else { 1 };
        Operation::Allocate { bytes, align }
    }

    fn draw_alignment(&mut self) -> usize {
        1 << self.random.u32(..=self.capacity.ilog2())
    }

    fn draw_resize(&mut self) -> Operation {
        Operation::Resize { target: self.draw_live(), old: ClaimedSize::Actual, new: self.draw_size() }
    }

    fn draw_size(&mut self) -> usize {
        match self.sizes {
            Sizes::Tiny => self.random.usize(0..=4 * self.granule),
            Sizes::Few(sizes) => self.random.choice(sizes).unwrap_or(1),
            Sizes::Uniform(part) => self.random.usize(0..=self.capacity / part as usize),
            Sizes::LogUniform(part) => {
                let most = (self.capacity / part as usize).max(2);
                let doubling = self.random.u32(..=most.ilog2());
                self.random.usize(1 << doubling >> 1..=1 << doubling)
            }
        }
    }

    /// Returns an invalid or rare operation.
    fn draw_mistake(&mut self) -> Operation {
        let index = self.random.usize(..1 << 20);
        match self.random.u8(..10) {
            0 => Operation::Deallocate(Target::Dead(index)),
            1 => Operation::DeallocateSized(Target::Dead(index), ClaimedSize::Other(1)),
            2 => Operation::Deallocate(Target::Inside(index, self.random.usize(..=3 * self.granule))),
            3 => Operation::Deallocate(Target::At(self.draw_number())),
            4 => Operation::DeallocateSized(self.draw_live(), ClaimedSize::Other(self.draw_number())),
            5 => Operation::Resize { target: Target::Dead(index), old: ClaimedSize::Other(1), new: self.draw_size() },
            6 => Operation::Resize { target: self.draw_live(), old: self.draw_claim(), new: self.draw_number() },
            7 => Operation::Allocate { bytes: self.draw_number(), align: 1 },
            8 => Operation::Allocate { bytes: self.draw_size(), align: self.draw_number() },
            _ => Operation::Allocate { bytes: self.draw_size(), align: self.draw_alignment() },
        }
    }

    fn draw_claim(&mut self) -> ClaimedSize {
        if self.random.bool() { ClaimedSize::Actual } else { ClaimedSize::Other(self.draw_number()) }
    }

    /// Returns a number of any magnitude, often an edge case.
    fn draw_number(&mut self) -> usize {
        let number = match self.random.u8(..4) {
            0 => 1usize.rotate_left(self.random.u32(..64)),
            1 => self.capacity,
            2 => self.random.usize(..=self.capacity),
            _ => usize::MAX >> self.random.u32(..64),
        };
        number.wrapping_add(self.random.usize(..=2)).wrapping_sub(1)
    }
}

/// Performs `length` operations, generated from `seed`, on the engine and the oracle of `scenario`.
///
/// # Panics
/// If the two differ or one of them panics. The message has a short sequence of operations that reproduces the failure.
pub fn play(scenario: &Scenario, seed: u64, length: usize) {
    let mut duel = Duel::begin(scenario).expect("the scenario is valid");
    let mut script = Script::new(scenario, seed);
    let mut step = |operation| match catch_unwind(AssertUnwindSafe(|| duel.perform(operation))) {
        Ok(outcome) => outcome.is_ok(),
        Err(_) => false,
    };
    let failed = (0..length).find(|_| !step(script.draw()));
    if failed.is_some() || !step(Operation::Inspect) {
        report(scenario, seed, failed.map_or(length, |done| done + 1));
    }
}

/// Panics with a short sequence of operations that reproduces the failure.
fn report(scenario: &Scenario, seed: u64, done: usize) -> ! {
    let mut script = Script::new(scenario, seed);
    let operations: Vec<Operation> = (0..done).map(|_| script.draw()).collect();
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let shortest = shrink(&operations, |operations| replay(scenario, operations).is_err());
    std::panic::set_hook(loud);
    let failure =
        replay(scenario, &shortest).map_or_else(|divergence| divergence.to_string(), |()| "not reproduced".into());
    panic!("{failure}\n{scenario:?}\nseed {seed}, operation {done}, shortest sequence: {shortest:#?}");
}
