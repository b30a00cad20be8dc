//! Report 000, Figure 8: the oracle reproduces the published counts, for worst fit with the defect of its program.

use heapwright_placement::{Engine, Growth, PolicyKind, Rules};
use heapwright_rules::{Odd, Worst};
use heapwright_testkit::Oracle;
use heapwright_workloads::published::GnuRandom;

const HEADER: u64 = 24;

/// The figures that the program prints at exit.
#[derive(Debug, PartialEq, Eq)]
struct Figures {
    mallocs: u64,
    frees: u64,
    reuses: u64,
    grows: u64,
    splits: u64,
    blocks: u64,
    requested: u64,
    max_heap: u64,
}

const PUBLISHED: Figures = Figures {
    mallocs: 100_001,
    frees: 19_958,
    reuses: 45_256,
    grows: 54_745,
    splits: 41_585,
    blocks: 88_369,
    requested: 179_258_508,
    max_heap: 132_109_388,
};

const PUBLISHED_WORST: Figures =
    Figures { reuses: 41_847, grows: 58_154, blocks: 91_778, max_heap: 135_600_204, ..PUBLISHED };

/// A heap under the rules of report 000, and the peak of all payloads together.
struct ReportedProgram {
    heap: Oracle,
    max_heap: u64,
}

impl ReportedProgram {
    fn start(policy: PolicyKind) -> ReportedProgram {
        let rules =
            Rules { granule: 4, header: HEADER as u32, min_remainder: 32, growth: Growth::Append, ..Rules::default() };
        let heap = Oracle::create(policy, 1 << 28, &rules).expect("the rules are valid");
        ReportedProgram { heap, max_heap: 0 }
    }

    fn allocate(&mut self, bytes: usize) -> usize {
        let offset = self.heap.allocate(bytes, 1).expect("the region is long enough");
        self.record_peak();
        offset
    }

    fn free(&mut self, offset: usize) {
        self.heap.deallocate(offset).expect("the block is live");
        self.record_peak();
    }

    /// Updates the peak of all payloads: the heap without the headers.
    fn record_peak(&mut self) {
        let payloads = self.heap.heap_size() as u64 - HEADER * self.heap.block_count() as u64;
        self.max_heap = self.max_heap.max(payloads);
    }

    fn run(mut self) -> Figures {
        let mut random = GnuRandom::seeded(0);
        let blocks: Vec<usize> = (0..50_000)
            .map(|_| {
                let bytes = if random.draw() % 10 < 4 { 1024 } else { random.draw() % 5120 + 1024 };
                self.allocate(bytes as usize)
            })
            .collect();
        for block in blocks {
            if random.draw() % 10 + 1 > 6 {
                self.free(block);
            }
        }
        for _ in 0..50_000 {
            self.allocate(1024);
        }
        // The terminal's output buffer.
        self.allocate(1024);
        self.figures()
    }

    fn figures(&self) -> Figures {
        let counters = self.heap.counters().expect("statistics are on");
        Figures {
            mallocs: counters.mallocs,
            frees: counters.frees,
            reuses: counters.reuses,
            grows: counters.grows,
            splits: counters.splits,
            blocks: counters.blocks,
            requested: counters.rounded,
            max_heap: self.max_heap,
        }
    }
}

#[test]
fn next_fit_is_as_published() {
    assert_eq!(ReportedProgram::start(PolicyKind::Next).run(), PUBLISHED);
}

#[test]
fn first_fit_is_as_published() {
    assert_eq!(ReportedProgram::start(PolicyKind::First).run(), PUBLISHED);
}

#[test]
fn best_fit_is_as_published() {
    assert_eq!(ReportedProgram::start(PolicyKind::Best).run(), PUBLISHED);
}

#[test]
fn worst_fit_without_the_defect_has_the_figures_of_the_others() {
    assert_eq!(ReportedProgram::start(PolicyKind::Worst).run(), PUBLISHED);
}

#[test]
fn worst_fit_that_refuses_exact_fits_is_as_published() {
    let mut program = ReportedProgram::start(PolicyKind::Worst);
    program.heap = program.heap.under(Odd { worst: Worst::NeverExact, ..Odd::USUAL });
    assert_eq!(program.run(), PUBLISHED_WORST);
}
