//! How fast the engine is beside the system's malloc, in one process and in interleaved rounds.
//!
//! ```sh
//! cargo run --release -p heapwright-placement --example steady -- [steady|comb|program000]… [POLICY…]
//! ```
//! Nothing named means everything. A subject that overruns its time budget is shown as `-`. The engine has no memory
//! behind it; malloc's blocks are not written to either, beyond what malloc itself writes. The row `no-op` is the cost
//! of the measuring itself and is contained in all the others. An operation is one allocate or one free.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use heapwright_placement::{
    BestFit, Buddy, Engine, FirstFit, Fit, GoodFit, Growth, NextFit, RandomFit, Rules, WorstFit,
};

const ROUNDS: usize = 5;
const SETUP_BUDGET: Duration = Duration::from_secs(6);

/// What a workload drives: an allocator whose blocks are named by a number.
trait Subject {
    fn allocate(&mut self, bytes: usize) -> usize;
    fn free(&mut self, block: usize, bytes: usize);
}

/// Takes no time: what is left is the harness.
struct NoOp;

impl Subject for NoOp {
    #[inline(never)]
    fn allocate(&mut self, bytes: usize) -> usize {
        black_box(bytes)
    }

    #[inline(never)]
    fn free(&mut self, block: usize, bytes: usize) {
        black_box((block, bytes));
    }
}

/// The system's malloc.
struct Malloc;

impl Malloc {
    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 8).expect("the workloads ask for sizes that exist")
    }
}

impl Subject for Malloc {
    #[inline(never)]
    fn allocate(&mut self, bytes: usize) -> usize {
        // SAFETY: no workload asks for 0 bytes.
        black_box(unsafe { System.alloc(Self::layout(bytes)) }) as usize
    }

    #[inline(never)]
    fn free(&mut self, block: usize, bytes: usize) {
        // SAFETY: workloads free what they allocated, once, with its size.
        unsafe { System.dealloc(black_box(block) as *mut u8, Self::layout(bytes)) }
    }
}

/// An engine with no memory behind it. Its metadata is zeroed memory that the system commits as it is touched.
struct Placed<E> {
    engine: E,
    _metadata: Vec<u64>,
}

impl<E: Engine> Subject for Placed<E> {
    #[inline(never)]
    fn allocate(&mut self, bytes: usize) -> usize {
        black_box(self.engine.allocate(bytes, 16).expect("the region is large enough"))
    }

    #[inline(never)]
    fn free(&mut self, block: usize, _bytes: usize) {
        let freed = self.engine.deallocate(black_box(block));
        assert!(black_box(freed).is_ok(), "a workload frees what it allocated");
    }
}

const RULES: Rules = Rules {
    granule: 16,
    header: 0,
    min_remainder: 1,
    growth: Growth::Pages(1 << 16),
    phase: 0,
    statistics: heapwright_placement::Statistics::Off,
};

/// A boxed subject for an engine type over a region of `capacity` bytes.
macro_rules! placed {
    ($Engine:ty, $rules:expr, $capacity:expr) => {{
        let cells = <$Engine>::metadata_cells($capacity, &$rules).expect("the rules are valid");
        let mut metadata = vec![0u64; cells];
        let base = NonNull::from(metadata.as_mut_slice()).cast();
        // SAFETY: zeroed, long enough, and it stays where it is beside the engine, untouched by anything else.
        let engine = unsafe { <$Engine>::create_zeroed(base, $capacity, &$rules) }.expect("the rules are valid");
        Box::new(Placed { engine, _metadata: metadata }) as Box<dyn Subject>
    }};
}

const SUBJECTS: [&str; 9] = ["no-op", "malloc", "first", "next", "best", "worst", "random", "good", "buddy"];

fn make_subject(name: &str, capacity: usize) -> Box<dyn Subject> {
    let fixed = Rules { growth: Growth::Fixed, ..RULES };
    match name {
        "no-op" => Box::new(NoOp),
        "malloc" => {
            // Without this, malloc would pay for its pages in the first round only.
            malloc_trim(0);
            Box::new(Malloc)
        }
        "first" => placed!(Fit<'static, FirstFit>, RULES, capacity),
        "next" => placed!(Fit<'static, NextFit>, RULES, capacity),
        "best" => placed!(Fit<'static, BestFit>, RULES, capacity),
        "worst" => placed!(Fit<'static, WorstFit>, RULES, capacity),
        "random" => placed!(Fit<'static, RandomFit>, RULES, capacity),
        "good" => placed!(Fit<'static, GoodFit>, RULES, capacity),
        _ => placed!(Buddy<'static>, fixed, capacity.next_power_of_two()),
    }
}

/// A 64-bit generator (splitmix64): fixed seeds, a nanosecond a number.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Reads the clock so that what came before is inside and what comes after outside.
#[inline(always)]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has both instructions.
        unsafe {
            std::arch::x86_64::_mm_lfence();
            let now = std::arch::x86_64::_rdtsc();
            std::arch::x86_64::_mm_lfence();
            now
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// What a tick is in nanoseconds, and how many ticks reading the clock takes.
fn calibrate_ticks() -> (f64, u64) {
    let (start, first) = (Instant::now(), ticks());
    let mut costs: Vec<u64> = (0..100_000)
        .map(|_| {
            let before = ticks();
            ticks() - before
        })
        .collect();
    while start.elapsed() < Duration::from_millis(50) {}
    let nanoseconds = start.elapsed().as_nanos() as f64 / (ticks() - first) as f64;
    costs.sort_unstable();
    (nanoseconds, costs[costs.len() / 2])
}

/// The `part`-quantile of sorted samples.
fn quantile<T: Copy>(sorted: &[T], part: f64) -> T {
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    quantile(&samples, 0.5)
}

/// Free a random live block, allocate one of another size in its place.
struct Steady {
    subject: Box<dyn Subject>,
    live: Vec<(usize, u32)>,
    sizes: Vec<u32>,
    numbers: Numbers,
}

impl Steady {
    /// A live set of `count` blocks, churned four times over; `None` when that takes too long.
    fn settle(name: &str, count: usize) -> Option<Self> {
        // Log-uniform from 16 bytes to 4 KiB: 740 bytes on average. A fit needs the live set and its holes.
        let sizes = (0..1024).map(|step| (16.0 * 256f64.powf(f64::from(step) / 1023.0)) as u32).collect();
        let subject = make_subject(name, count * 740 * 4 + (64 << 20));
        let mut steady = Steady { subject, live: vec![(0, 0); count], sizes, numbers: Numbers(1) };
        let start = Instant::now();
        for slot in 0..count {
            let bytes = steady.next_size();
            steady.live[slot] = (steady.subject.allocate(bytes as usize), bytes);
        }
        for step in 0..count * 4 {
            steady.replace_one();
            if step % 256 == 0 && start.elapsed() > SETUP_BUDGET {
                return None;
            }
        }
        Some(steady)
    }

    fn next_size(&mut self) -> u32 {
        self.sizes[self.numbers.below(self.sizes.len())]
    }

    #[inline(always)]
    fn replace_one(&mut self) {
        let slot = self.numbers.below(self.live.len());
        let bytes = self.next_size();
        let (block, old) = self.live[slot];
        self.subject.free(block, old as usize);
        self.live[slot] = (self.subject.allocate(bytes as usize), bytes);
    }

    fn time_operations(&mut self, pairs: usize) -> f64 {
        for _ in 0..pairs / 10 {
            self.replace_one();
        }
        let start = Instant::now();
        for _ in 0..pairs {
            self.replace_one();
        }
        start.elapsed().as_nanos() as f64 / (2 * pairs) as f64
    }

    fn sample_latencies(&mut self, pairs: usize, cost: u64) -> Vec<u64> {
        let mut samples = Vec::with_capacity(pairs * 2);
        for _ in 0..pairs {
            let slot = self.numbers.below(self.live.len());
            let bytes = self.next_size();
            let (block, old) = self.live[slot];
            let before = ticks();
            self.subject.free(block, old as usize);
            let between = ticks();
            let block = self.subject.allocate(bytes as usize);
            let after = ticks();
            self.live[slot] = (block, bytes);
            samples.push((between - before).saturating_sub(cost));
            samples.push((after - between).saturating_sub(cost));
        }
        samples
    }

    fn empty(mut self) {
        for (block, bytes) in std::mem::take(&mut self.live) {
            self.subject.free(block, bytes as usize);
        }
    }
}

fn run_steady(names: &[&str]) {
    let (tick, cost) = calibrate_ticks();
    for count in [1_000, 10_000, 100_000, 1_000_000] {
        println!("\nsteady, {count} live blocks, log-uniform 16 B to 4 KiB (ns per operation)");
        let mut subjects: Vec<_> = names.iter().map(|name| Steady::settle(name, count)).collect();
        let mut rounds = vec![Vec::new(); names.len()];
        for round in 0..ROUNDS {
            for turn in 0..names.len() {
                let at = (turn + round) % names.len();
                if let Some(subject) = &mut subjects[at] {
                    rounds[at].push(subject.time_operations(200_000));
                }
            }
        }
        println!("{:10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}", "", "median", "p50", "p99", "p99.99", "max", "/malloc");
        let system = names.iter().position(|&name| name == "malloc").map(|at| median(rounds[at].clone()));
        for (at, subject) in subjects.into_iter().enumerate() {
            let Some(mut subject) = subject else {
                println!("{:10} {:>8}", names[at], "-");
                continue;
            };
            let time = median(rounds[at].clone());
            let mut samples = subject.sample_latencies(500_000, cost);
            samples.sort_unstable();
            let [p50, p99, p9999, max] = [0.5, 0.99, 0.9999, 1.0].map(|part| quantile(&samples, part) as f64 * tick);
            let over = system.map_or("-".to_string(), |system| format!("{:.2}", time / system));
            println!("{:10} {time:8.1} {p50:8.0} {p99:8.0} {p9999:8.0} {max:8.0} {over:>8}", names[at]);
            subject.empty();
        }
    }
}

/// What the comb costs per operation: an allocate that fits no hole and its free; frees that make holes, in random
/// order; allocates that fill them.
struct CombTimes {
    miss: f64,
    free: f64,
    fill: f64,
}

fn time_comb(name: &str, holes: usize) -> Option<CombTimes> {
    const TOOTH: usize = 64;
    let start = Instant::now();
    let mut subject = make_subject(name, holes * 4 * TOOTH + (64 << 20));
    let mut blocks: Vec<usize> = (0..2 * holes).map(|_| subject.allocate(TOOTH)).collect();
    let mut loose: Vec<usize> = blocks.iter().copied().step_by(2).collect();
    let repeats = (100_000 / holes).max(1);
    let (mut free, mut fill) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..repeats {
        Numbers(holes as u64).shuffle(&mut loose);
        let begin = Instant::now();
        loose.iter().for_each(|&block| subject.free(block, TOOTH));
        free += begin.elapsed();
        let begin = Instant::now();
        for some in loose.chunks_mut(1000) {
            some.iter_mut().for_each(|block| *block = subject.allocate(TOOTH));
            if begin.elapsed() > SETUP_BUDGET {
                return None;
            }
        }
        fill += begin.elapsed();
        if start.elapsed() > SETUP_BUDGET * 2 {
            return None;
        }
    }
    loose.iter().for_each(|&block| subject.free(block, TOOTH));
    let begin = Instant::now();
    let pairs = 100_000;
    for pair in 0..pairs {
        let block = subject.allocate(2 * TOOTH);
        subject.free(block, 2 * TOOTH);
        if pair % 64 == 0 && begin.elapsed() > SETUP_BUDGET {
            return None;
        }
    }
    let miss = begin.elapsed();
    blocks.iter().skip(1).step_by(2).for_each(|&block| subject.free(block, TOOTH));
    blocks.clear();
    let per = |time: Duration, operations: usize| time.as_nanos() as f64 / operations as f64;
    Some(CombTimes { miss: per(miss, 2 * pairs), free: per(free, holes * repeats), fill: per(fill, holes * repeats) })
}

fn run_comb(names: &[&str]) {
    println!("\ncomb of isolated 64-byte holes (ns per operation): no hole fits / random frees / filling");
    let counts = [1_000, 100_000, 1_000_000, 10_000_000];
    print!("{:10}", "");
    counts.iter().for_each(|count| print!(" {count:>22}"));
    println!("   last over first");
    for name in names {
        print!("{name:10}");
        let times: Vec<_> = counts.iter().map(|&holes| time_comb(name, holes)).collect();
        for time in &times {
            let text = time.as_ref().map_or("-".into(), |t| format!("{:.1} / {:.1} / {:.1}", t.miss, t.free, t.fill));
            print!(" {text:>22}");
        }
        if let (Some(Some(first)), Some(Some(last))) = (times.first(), times.last()) {
            let over = [last.miss / first.miss, last.free / first.free, last.fill / first.fill];
            print!("   {:.1} / {:.1} / {:.1}", over[0], over[1], over[2]);
        }
        println!();
    }
}

unsafe extern "C" {
    safe fn srand(seed: u32);
    safe fn rand() -> i32;
    safe fn malloc_trim(pad: usize) -> i32;
}

/// The sizes and the frees of report 000's program, drawn from the C library's generator.
fn draw_program() -> (Vec<usize>, Vec<usize>) {
    srand(0);
    let sizes = (0..50_000).map(|_| if rand() % 10 < 4 { 1024 } else { (rand() % 5120 + 1024) as usize }).collect();
    let freed = (0..50_000).filter(|_| rand() % 10 + 1 > 6).collect();
    (sizes, freed)
}

/// The whole program in milliseconds, from an empty heap; `None` when it takes too long.
fn time_program(name: &str, sizes: &[usize], freed: &[usize]) -> Option<f64> {
    let mut subject = make_subject(name, 512 << 20);
    let mut blocks = Vec::with_capacity(100_000);
    let begin = Instant::now();
    blocks.extend(sizes.iter().map(|&bytes| subject.allocate(bytes)));
    freed.iter().for_each(|&at| subject.free(blocks[at], sizes[at]));
    for _ in 0..50_000 {
        blocks.push(subject.allocate(1024));
        if begin.elapsed() > SETUP_BUDGET {
            return None;
        }
    }
    let time = begin.elapsed().as_secs_f64() * 1e3;
    let mut kept = vec![true; blocks.len()];
    freed.iter().for_each(|&at| kept[at] = false);
    for at in (0..blocks.len()).filter(|&at| kept[at]) {
        subject.free(blocks[at], sizes.get(at).copied().unwrap_or(1024));
    }
    Some(time)
}

fn run_program(names: &[&str]) {
    println!("\nreport 000's program, not touched, whole (ms)");
    let (sizes, freed) = draw_program();
    let mut times = vec![Vec::new(); names.len()];
    for round in 0..ROUNDS {
        for turn in 0..names.len() {
            let at = (turn + round) % names.len();
            times[at].extend(time_program(names[at], &sizes, &freed));
        }
    }
    let medians: Vec<_> = times.into_iter().map(|times| (!times.is_empty()).then(|| median(times))).collect();
    let system = names.iter().position(|&name| name == "malloc").and_then(|at| medians[at]);
    for (name, time) in names.iter().zip(medians) {
        match (time, system) {
            (Some(time), Some(system)) => println!("{name:10} {time:8.2} {:8.3} of malloc", time / system),
            (Some(time), None) => println!("{name:10} {time:8.2}"),
            (None, _) => println!("{name:10} {:>8}", "-"),
        }
    }
}

/// What measures a workload for the subjects of these names.
type Run = fn(&[&str]);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = |name: &str| arguments.iter().any(|argument| argument == name);
    let any_policy = SUBJECTS.iter().any(|name| asked(name));
    let names: Vec<&str> =
        SUBJECTS.into_iter().filter(|name| !any_policy || asked(name) || matches!(*name, "no-op" | "malloc")).collect();
    let workloads: [(&str, Run); 3] = [("steady", run_steady), ("comb", run_comb), ("program000", run_program)];
    let any_workload = workloads.iter().any(|(name, _)| asked(name));
    for (name, run) in workloads {
        if !any_workload || asked(name) {
            run(&names);
        }
    }
}
