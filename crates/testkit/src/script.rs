//! Operations drawn from a seed, fast.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Duel, Operation, Scenario, Target, Told, replay, shrink};

/// Where the sizes of requests come from.
#[derive(Clone, Copy)]
enum Sizes {
    /// A few granules at most.
    Tiny,
    /// All orders of magnitude up to this part of the region.
    LogUniform(u32),
    /// One of four sizes, so that many holes are as long as each other.
    Few([usize; 4]),
    /// Up to this part of the region.
    Uniform(u32),
}

/// An endless sequence of operations for a scenario, drawn from a seed. It fills the heap, drains it, and fills it
/// again; most of what it asks makes sense, some of it does not.
pub struct Script {
    random: fastrand::Rng,
    granule: usize,
    capacity: usize,
    sizes: Sizes,
    /// Of 256 operations, how many are requests now.
    requests: u8,
    /// How many more operations until that changes.
    season: u32,
    /// Of 256 requests, how many ask for an alignment.
    aligned: u8,
    resizes: u8,
}

impl Script {
    /// The operations for `scenario` that come from `seed`.
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
        Script { random, granule, capacity, sizes, requests: 0, season: 0, aligned, resizes }
    }

    /// The next operation.
    pub fn draw(&mut self) -> Operation {
        self.turn_season();
        let kind = self.random.u8(..);
        match self.random.u16(..2048) {
            0 => Operation::Relocate,
            1..4 => Operation::Inspect,
            4..40 => self.draw_mistake(),
            _ if kind < self.requests => self.draw_request(),
            _ if self.random.u8(..) < self.resizes => self.draw_resize(),
            _ if self.random.bool() => Operation::Deallocate(self.draw_live()),
            _ => Operation::DeallocateSized(self.draw_live(), Told::Truly),
        }
    }

    /// Now and then, the share of requests changes: from filling to draining, or to about as much of either.
    fn turn_season(&mut self) {
        if self.season == 0 {
            self.season = self.random.u32(10..1000);
            self.requests = self.random.choice([20, 100, 128, 160, 235, 250]).unwrap_or(128);
        }
        self.season -= 1;
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
        Operation::Resize { target: self.draw_live(), old: Told::Truly, new: self.draw_size() }
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

    /// Something that a well-behaved program does not do, or not often.
    fn draw_mistake(&mut self) -> Operation {
        let index = self.random.usize(..1 << 20);
        match self.random.u8(..10) {
            0 => Operation::Deallocate(Target::Dead(index)),
            1 => Operation::DeallocateSized(Target::Dead(index), Told::As(1)),
            2 => Operation::Deallocate(Target::Inside(index, self.random.usize(..=3 * self.granule))),
            3 => Operation::Deallocate(Target::At(self.draw_number())),
            4 => Operation::DeallocateSized(self.draw_live(), Told::As(self.draw_number())),
            5 => Operation::Resize { target: Target::Dead(index), old: Told::As(1), new: self.draw_size() },
            6 => Operation::Resize { target: self.draw_live(), old: self.draw_told(), new: self.draw_number() },
            7 => Operation::Allocate { bytes: self.draw_number(), align: 1 },
            8 => Operation::Allocate { bytes: self.draw_size(), align: self.draw_number() },
            _ => Operation::Allocate { bytes: self.draw_size(), align: self.draw_alignment() },
        }
    }

    fn draw_told(&mut self) -> Told {
        if self.random.bool() { Told::Truly } else { Told::As(self.draw_number()) }
    }

    /// A number of any magnitude, often one at an edge.
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

/// Does the `length` operations that come from `seed` to the engine and the oracle of `scenario`.
///
/// # Panics
/// When they disagree, or one of them panics, with the shortest sequence of operations that shows it.
pub fn play(scenario: &Scenario, seed: u64, length: usize) {
    let mut duel = Duel::begin(scenario).expect("a scenario can be made");
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

/// Fails with the shortest sequence of operations that still shows the failure.
fn report(scenario: &Scenario, seed: u64, done: usize) -> ! {
    let mut script = Script::new(scenario, seed);
    let operations: Vec<Operation> = (0..done).map(|_| script.draw()).collect();
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let shortest = shrink(&operations, |operations| replay(scenario, operations).is_err());
    std::panic::set_hook(loud);
    let shows = replay(scenario, &shortest).map_or_else(|failure| failure.to_string(), |()| "nothing".into());
    panic!("{shows}\n{scenario:?}\nseed {seed}, operation {done}, at its shortest: {shortest:#?}");
}
