//! Metadata that something else wrote to: taking up such a heap, checking, walking and recovering it neither panics nor
//! hangs, whatever the bytes are, and what passes the check can be worked with.
//!
//! Debug assertions watch every access to the metadata, so that one outside of it is a panic here.

use std::ptr::NonNull;

use heapwright_placement::{AnyEngine, BlockState, Change, Engine, Growth, PolicyKind, Rules, RulesError, Statistics};

/// Where the heap's end and top stand in the metadata, where the state ends, and where the block map begins when
/// counters are kept.
const END: usize = 1;
const TOP: usize = 2;
const STATE: usize = 7;
const MAP: usize = 24;

/// Regions that are scanned, that are indexed, and whose index has a second and a third level.
const LENGTHS: &[usize] = if cfg!(miri) { &[1030] } else { &[16, 700, 1100, 5000, 20_000] };

/// How many damages of many bytes are tried for each policy.
const DAMAGES: usize = if cfg!(miri) { 8 } else { 15_000 };

/// In how many steps single bytes are damaged: 1 is each of them.
const STRIDE: usize = if cfg!(miri) { 9973 } else { 1 };

/// A heap in some state, as the bytes of its metadata.
struct Specimen {
    policy: PolicyKind,
    rules: Rules,
    capacity: usize,
    cells: Vec<u64>,
}

/// What became of damaged metadata.
#[derive(PartialEq, Eq, Debug)]
enum Verdict {
    Refused,
    Reported,
    Passed,
}

fn attach(cells: &mut [u64]) -> Result<AnyEngine<'_>, RulesError> {
    let len = cells.len();
    // SAFETY: the slice is borrowed for as long as the engine. The bytes may be anything: so the heap is checked before
    // it is changed.
    unsafe { AnyEngine::attach(NonNull::from(cells).cast(), len) }
}

/// Allocates, frees and resizes at random. (Damage may have changed the rules, so that some of it is refused.)
fn exercise(heap: &mut AnyEngine<'_>, rules: &Rules, count: usize, random: &mut fastrand::Rng) {
    let (granule, header) = (rules.granule as usize, rules.header as usize);
    let mut used: Vec<usize> = Vec::new();
    used.extend(heap.blocks().filter(|block| block.state == BlockState::Used).map(|block| block.offset + header));
    for _ in 0..count {
        let long = if random.u8(..) < 16 { 400 } else { 20 };
        let bytes = random.usize(1..long * granule);
        match random.u8(0..8) {
            0..4 => used.extend(heap.allocate(bytes, 1 << random.u32(0..8))),
            4 if !used.is_empty() => {
                let _ = heap.resize(used[random.usize(..used.len())], 1, bytes);
            }
            _ if !used.is_empty() => {
                let _ = heap.deallocate(used.swap_remove(random.usize(..used.len())));
            }
            _ => {}
        }
    }
}

impl Specimen {
    fn new(policy: PolicyKind, granules: usize, rules: Rules, fill: usize, random: &mut fastrand::Rng) -> Specimen {
        let capacity = granules * rules.granule as usize;
        let mut cells = vec![0; AnyEngine::metadata_cells(policy, capacity, &rules).unwrap()];
        let mut heap = AnyEngine::create(policy, &mut cells, capacity, &rules).unwrap();
        exercise(&mut heap, &rules, fill, random);
        heap.check().unwrap();
        Specimen { policy, rules, capacity, cells }
    }

    fn all(policy: PolicyKind, random: &mut fastrand::Rng) -> Vec<Specimen> {
        let kept = Rules::default();
        let plain = Rules { statistics: Statistics::Off, ..kept };
        let growing = Rules { growth: Growth::Extend, header: 16, min_remainder: 40, ..kept };
        let mut specimens = Vec::new();
        for &granules in LENGTHS {
            specimens.push(Specimen::new(policy, granules, kept, 0, random));
            specimens.push(Specimen::new(policy, granules, kept, granules / 4, random));
            specimens.push(Specimen::new(policy, granules, plain, granules, random));
            specimens.push(Specimen::new(policy, granules, growing, granules / 8, random));
        }
        specimens
    }

    /// Takes up the heap in `cells`, walks it, checks it and, when it passes, uses it.
    fn examine(&self, cells: &mut [u64], random: &mut fastrand::Rng) -> Verdict {
        let Ok(mut heap) = attach(cells) else { return Verdict::Refused };
        walk(&heap, random);
        if heap.check().is_err() {
            return Verdict::Reported;
        }
        // Of a heap that grows by itself, what lies beyond its end was not looked at.
        if self.rules.growth == Growth::Fixed {
            exercise(&mut heap, &self.rules, 30, random);
            heap.check().expect("a heap that passed stays sound");
        }
        Verdict::Passed
    }

    /// Recovers the heap in `cells`, walks it and, when it passes the check, uses it.
    fn recover(&self, cells: &mut [u64], random: &mut fastrand::Rng) {
        let (len, capacity) = (cells.len(), self.capacity - random.usize(0..2) * random.usize(..self.capacity));
        let change = random.bool().then(|| change(capacity, self.rules.granule as usize, random));
        let base = NonNull::from(cells).cast();
        // SAFETY: the slice is borrowed for as long as the engine.
        let recovered = unsafe { AnyEngine::recover(self.policy, base, len, capacity, &self.rules, change) };
        let Ok(mut heap) = recovered else { return };
        walk(&heap, random);
        match heap.check() {
            // The length of a header is believed, and that of a block.
            Err(violation) => assert!(violation.invariant.contains("header"), "{violation}"),
            Ok(()) => {
                exercise(&mut heap, &self.rules, 30, random);
                heap.check().expect("a heap that was recovered stays sound");
            }
        }
    }

    /// Examines a copy of the metadata that `damage` was done to.
    fn damaged(&self, random: &mut fastrand::Rng, damage: impl FnOnce(&mut [u64], &mut fastrand::Rng)) -> Verdict {
        let mut cells = self.cells.clone();
        damage(&mut cells, random);
        self.examine(&mut cells, random)
    }
}

/// Any change, possible or not, of a region of so many bytes.
fn change(capacity: usize, granule: usize, random: &mut fastrand::Rng) -> Change {
    let mut bounds = [0; 4].map(|_| random.usize(0..=capacity) / granule * granule);
    if random.u8(..) > 8 {
        bounds.sort_unstable();
    }
    let [start, used_start, used_end, end] = bounds;
    Change { start, end, used_start, used_end }
}

/// Asks everything that can be asked without changing anything.
fn walk(heap: &AnyEngine<'_>, random: &mut fastrand::Rng) {
    let mut at = 0;
    for block in heap.blocks() {
        assert!(block.offset == at && block.size > 0, "{block:?} follows {at}");
        at += block.size;
    }
    assert_eq!(at, heap.heap_size(), "blocks fill the heap");
    assert!(heap.holes().total <= at);
    for _ in 0..8 {
        let offset = random.usize(0..=heap.capacity());
        if let Some(block) = heap.block_containing(offset) {
            assert!((block.offset..block.offset + block.size).contains(&offset));
        }
        assert!(heap.usable_size(offset).is_none_or(|usable| usable <= heap.heap_size()));
    }
    assert!(heap.counters().is_none_or(|counters| counters.live_requested() <= Some(u64::MAX)));
}

/// One thing that may happen to memory.
fn damage(cells: &mut [u64], random: &mut fastrand::Rng) {
    let len = cells.len();
    // The state comes first and is short: it has its share.
    let at = if random.u8(..) < 32 { random.usize(..MAP.min(len)) } else { random.usize(..len) };
    let run = at..len.min(at + random.usize(1..12));
    match random.u8(0..7) {
        0 => cells[run].fill_with(|| random.u64(..)),
        1 => cells[run].fill(0),
        2 => cells[run].fill(u64::MAX),
        3 => cells.copy_within(run.clone(), random.usize(..=len - run.len())),
        4 => cells[at] = random.u64(..) >> random.u32(44..64),
        5 => cells.swap(at, random.usize(..len)),
        _ => cells[at] ^= 1 << random.u32(0..64),
    }
}

fn damage_several(cells: &mut [u64], random: &mut fastrand::Rng) {
    (0..random.usize(1..5)).for_each(|_| damage(cells, random));
}

/// Everything behind the state is anything.
fn overwrite(cells: &mut [u64], random: &mut fastrand::Rng) {
    let sparse = random.bool();
    cells[TOP] = random.u64(..=cells[END]);
    cells[STATE..].fill_with(|| if sparse { 1 << random.u32(0..64) } else { random.u64(..) });
}

fn bytes_are_damaged_one_by_one(policy: PolicyKind) {
    let mut random = fastrand::Rng::with_seed(policy as u64);
    for specimen in Specimen::all(policy, &mut random) {
        let (mut tried, mut unnoticed) = (0, 0);
        for byte in (0..specimen.cells.len() * 8).step_by(STRIDE) {
            for pattern in [1 << random.u32(0..8), 0xFF, random.u64(1..256)] {
                let flip = |cells: &mut [u64], _: &mut _| cells[byte / 8] ^= pattern << (byte % 8 * 8);
                tried += 1;
                unnoticed += usize::from(specimen.damaged(&mut random, flip) == Verdict::Passed);
            }
        }
        // The rest does no harm: it means nothing, or makes another heap that is as sound.
        let fixed = specimen.rules.growth == Growth::Fixed;
        assert!(!fixed || unnoticed * 4 < tried * 3, "{unnoticed} of {tried} in {:?}", specimen.rules);
        assert_eq!(specimen.damaged(&mut random, |_, _| {}), Verdict::Passed);
    }
}

fn many_bytes_are_damaged_at_once(policy: PolicyKind) {
    let mut random = fastrand::Rng::with_seed(policy as u64);
    let specimens = Specimen::all(policy, &mut random);
    for round in 0..DAMAGES {
        let specimen = &specimens[round % specimens.len()];
        let kind = if round % 50 == 0 { overwrite } else { damage_several };
        specimen.damaged(&mut random, kind);
    }
}

fn damaged_heaps_are_recovered(policy: PolicyKind) {
    let mut random = fastrand::Rng::with_seed(policy as u64);
    let specimens = Specimen::all(policy, &mut random);
    for round in 0..DAMAGES / 4 {
        let specimen = &specimens[round % specimens.len()];
        let mut cells = specimen.cells.clone();
        let kind = if round % 50 == 0 { overwrite } else { damage_several };
        kind(&mut cells, &mut random);
        specimen.recover(&mut cells, &mut random);
    }
}

/// What a heap cannot do without: its end and its top, and where its blocks start.
fn what_matters_is_noticed(policy: PolicyKind) {
    let mut random = fastrand::Rng::with_seed(policy as u64);
    let counted = |specimen: &Specimen| specimen.rules.statistics == Statistics::Kept;
    for specimen in Specimen::all(policy, &mut random).into_iter().filter(counted) {
        let granules = specimen.cells[END] as usize;
        assert_eq!(specimen.cells[MAP] & 1, 1, "the map begins with granule 0, where a block starts");
        for bit in 0..64 {
            for cell in [END, TOP] {
                let flip = |cells: &mut [u64], _: &mut _| cells[cell] ^= 1 << bit;
                assert_ne!(specimen.damaged(&mut random, flip), Verdict::Passed, "bit {bit} of cell {cell}");
            }
        }
        for granule in 0..=granules {
            let flip = |cells: &mut [u64], _: &mut _| cells[MAP + granule / 64 * 2] ^= 1 << (granule % 64);
            assert_ne!(specimen.damaged(&mut random, flip), Verdict::Passed, "granule {granule} of {granules}");
        }
    }
}

/// The tests for one policy.
macro_rules! tests_of {
    ($($policy:ident $name:ident),*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn bytes_are_damaged_one_by_one() {
                super::bytes_are_damaged_one_by_one(PolicyKind::$policy);
            }

            #[test]
            fn many_bytes_are_damaged_at_once() {
                super::many_bytes_are_damaged_at_once(PolicyKind::$policy);
            }

            #[test]
            fn damaged_heaps_are_recovered() {
                super::damaged_heaps_are_recovered(PolicyKind::$policy);
            }

            #[test]
            #[cfg_attr(miri, ignore = "says nothing about undefined behaviour")]
            fn what_matters_is_noticed() {
                super::what_matters_is_noticed(PolicyKind::$policy);
            }
        }
    )*};
}

tests_of!(First first, Next next, Best best, Worst worst, Random random, Buddy buddy, Good good);
