//! A heap that is kept to a reach places blocks as one that is not, and accesses no metadata beyond its reach.

use heapwright_placement::{AllocateError, AnyEngine, Engine, Growth, PolicyKind, Reach, ResizeError, Rules};

const CAPACITY: usize = 64 << 20;
/// A multiple of what heaps grow by: a limit elsewhere would end the growth early, and change the free tail.
const STEP: usize = 3 << 16;

/// What lies in metadata that is not mapped, in a manner of speaking.
const UNMAPPED: u64 = 0xDEAD_BEEF_0BAD_CAFE;

/// The growth rules of heaps that grow.
const GROWTHS: [Growth; 3] = [Growth::Pages(65536), Growth::Extend, Growth::Append];

fn growing(growth: Growth) -> Rules {
    Rules { growth, ..Rules::default() }
}

fn rules() -> Rules {
    growing(GROWTHS[0])
}

/// A small generator: the same numbers everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound
    }

    /// Mostly longer than the longest short block, which has 1024 bytes.
    fn size(&mut self) -> usize {
        match self.below(8) {
            0 => 1 + self.below(1024),
            1 => 1000 + self.below(300),
            _ => 1025 + self.below(100_000),
        }
    }

    /// What no region of this capacity has room for.
    fn refused_size(&mut self) -> usize {
        [CAPACITY + 1, 1 << 33, isize::MAX as usize, usize::MAX - 100, usize::MAX][self.below(5)]
    }
}

/// A heap whose metadata becomes valid as its reach is extended.
struct Kept {
    metadata: Vec<u64>,
    policy: PolicyKind,
    rules: Rules,
    reach: Reach,
    engine: AnyEngine<'static>,
}

impl Kept {
    fn new(policy: PolicyKind, rules: Rules) -> Kept {
        let cells = AnyEngine::metadata_cells(policy, CAPACITY, &rules).unwrap();
        let mut metadata = vec![UNMAPPED; cells];
        let start = std::ptr::NonNull::from(&mut metadata[..]).cast();
        let reach = Reach::whole(0);
        AnyEngine::each_part(policy, CAPACITY, &rules, reach, &mut |part| {
            metadata[part.start..part.start + part.used].fill(0);
        })
        .unwrap();
        // SAFETY: the vector is as long as the metadata, is not moved, and is accessed otherwise only where the engine
        // may not look; what an empty heap uses is zero, and the heap is kept to its reach at once.
        let mut engine = unsafe { AnyEngine::create_zeroed(policy, start, CAPACITY, &rules) }.unwrap();
        engine.set_limit(reach);
        Kept { metadata, policy, rules, reach, engine }
    }

    /// Makes the metadata valid that a longer reach takes.
    fn extend(&mut self, reach: Reach) {
        let start = self.metadata.as_mut_ptr();
        let mut before = Vec::new();
        let (policy, rules, kept) = (self.policy, self.rules, self.reach);
        AnyEngine::each_part(policy, CAPACITY, &rules, kept, &mut |part| before.push(part.used)).unwrap();
        let mut parts = before.into_iter();
        AnyEngine::each_part(policy, CAPACITY, &rules, reach, &mut |part| {
            for cell in part.start + parts.next().unwrap()..part.start + part.used {
                // SAFETY: the cell lies in the vector and beyond what the engine accesses.
                unsafe {
                    assert_eq!(start.add(cell).read(), UNMAPPED, "written before it was mapped");
                    start.add(cell).write(0);
                }
            }
        })
        .unwrap();
        self.reach = reach;
        self.engine.set_limit(reach);
    }

    /// Extends the reach by what the refused request lacked: metadata for short blocks, or a longer heap.
    fn extend_as_needed(&mut self) {
        let missing = self.engine.missing();
        let Reach { end, short } = self.reach;
        if missing != 0 && missing <= end {
            assert!(missing > short);
            self.extend(Reach { end, short: missing });
        } else {
            assert!(end < CAPACITY);
            let end = (end + STEP).min(CAPACITY);
            self.extend(Reach { end, short: if missing == 0 { short } else { end } });
        }
    }

    fn allocate(&mut self, bytes: usize, align: usize) -> Result<usize, AllocateError> {
        loop {
            match self.engine.allocate(bytes, align) {
                Err(AllocateError::RegionFull) => self.extend_as_needed(),
                result => return result,
            }
        }
    }

    fn resize(&mut self, offset: usize, old: usize, new: usize) -> Result<(), ResizeError> {
        match (self.engine.resize(offset, old, new), self.engine.missing()) {
            (Err(ResizeError::NoRoom), missing @ 1..) => {
                self.extend(Reach { short: missing, ..self.reach });
                self.engine.resize(offset, old, new)
            }
            (result, _) => result,
        }
    }

    /// Checks the heap, and that nothing was written beyond its reach.
    fn check(&self) {
        self.engine.check().unwrap();
        let start = self.metadata.as_ptr();
        AnyEngine::each_part(self.policy, CAPACITY, &self.rules, self.reach, &mut |part| {
            for cell in part.start + part.used..part.start + part.length {
                // SAFETY: the cell lies in the vector and beyond what the engine accesses.
                assert_eq!(unsafe { start.add(cell).read() }, UNMAPPED, "cell {cell}");
            }
        })
        .unwrap();
    }
}

fn placements_are_the_same(policy: PolicyKind, rules: Rules, seed: u64) {
    let name = format!("{policy:?} {:?} {seed}", rules.growth);
    let mut whole_metadata = vec![0; AnyEngine::metadata_cells(policy, CAPACITY, &rules).unwrap()];
    let mut whole = AnyEngine::create(policy, &mut whole_metadata, CAPACITY, &rules).unwrap();
    let (mut kept, mut numbers, mut live) = (Kept::new(policy, rules), Numbers(seed), Vec::new());
    for operation in 0..4000 {
        match numbers.below(5) {
            0..3 if live.len() < 300 => {
                let (bytes, align) = (numbers.size(), 16 << [0, 0, 0, 2, 8][numbers.below(5)]);
                let offset = whole.allocate(bytes, align).unwrap();
                assert_eq!(kept.allocate(bytes, align), Ok(offset), "{name} {operation}");
                live.push((offset, bytes));
            }
            3 if !live.is_empty() => {
                let at = numbers.below(live.len());
                let (offset, old) = live[at];
                let new = if numbers.below(2) == 0 { numbers.size() } else { (old + numbers.below(64)).max(33) - 32 };
                // Beyond its end the heap that is kept is extended where the other has grown already.
                if offset + old < whole.top() && offset + new < kept.reach.end {
                    let resized = whole.resize(offset, old, new);
                    assert_eq!(kept.resize(offset, old, new), resized, "{name} {operation}");
                    if resized.is_ok() {
                        live[at].1 = new;
                    }
                }
            }
            _ if !live.is_empty() => {
                let (offset, bytes) = live.swap_remove(numbers.below(live.len()));
                assert_eq!(whole.deallocate_sized(offset, bytes).unwrap().offset, offset);
                assert_eq!(kept.engine.deallocate_sized(offset, bytes).unwrap().offset, offset);
            }
            _ => {}
        }
        if numbers.below(50) == 0 {
            refuse(&mut whole, &mut kept, &mut numbers, &live);
        }
        if operation % 100 == 0 {
            kept.check();
        }
    }
    kept.check();
    assert!(
        kept.engine
            .blocks()
            .filter(|block| block.offset < kept.engine.top())
            .eq(whole.blocks().filter(|block| block.offset < whole.top())),
        "{name}"
    );
}

/// Asks both heaps for what they have no room for. Then, as a heap does that the system refuses memory, makes both as
/// short as they can be.
fn refuse(whole: &mut AnyEngine<'_>, kept: &mut Kept, numbers: &mut Numbers, live: &[(usize, usize)]) {
    let (bytes, align) = (numbers.refused_size(), 16 << numbers.below(10));
    expect_refusal(whole, bytes, align, live);
    expect_refusal(&mut kept.engine, bytes, align, live);
    let page = if let Growth::Pages(step) = kept.rules.growth { step as usize } else { 4096 };
    let end = (whole.top() + 1).next_multiple_of(page);
    assert_eq!(kept.engine.move_end(end), whole.move_end(end));
}

fn expect_refusal(engine: &mut AnyEngine<'_>, bytes: usize, align: usize, live: &[(usize, usize)]) {
    assert_eq!(engine.allocate(bytes, align), Err(AllocateError::RegionFull));
    assert_eq!(engine.allocate_soon(bytes, align), Err(AllocateError::RegionFull));
    if let Some(&(offset, old)) = live.last() {
        assert_eq!(engine.resize(offset, old, bytes), Err(ResizeError::NoRoom));
    }
}

#[test]
fn a_reach_changes_no_placement() {
    for policy in PolicyKind::ALL {
        for growth in GROWTHS {
            let seeds = if cfg!(miri) {
                1
            } else if growth == GROWTHS[0] {
                8
            } else {
                3
            };
            for seed in 0..seeds {
                placements_are_the_same(policy, growing(growth), seed);
            }
        }
    }
}

#[test]
fn long_blocks_need_little_metadata() {
    for policy in [PolicyKind::Best, PolicyKind::Good] {
        let mut kept = Kept::new(policy, rules());
        let blocks: Vec<usize> = (0..40).map(|_| kept.allocate(1 << 20, 16).unwrap()).collect();
        for &offset in blocks.iter().step_by(2) {
            kept.engine.deallocate(offset).unwrap();
        }
        assert_eq!(kept.reach.short, 0, "{policy:?}");
        kept.check();
        // A short block is what needs more: the end of the hole that it is cut from.
        let offset = kept.allocate(100, 16).unwrap();
        assert_eq!((offset, kept.reach.short), (0, 1 << 20), "{policy:?}");
        // So does a hole that would become short.
        let end = kept.allocate((1 << 20) - 96, 16).unwrap();
        assert_eq!((end, kept.reach.short), (2 << 20, 3 << 20), "{policy:?}");
        kept.check();
    }
}

/// Returns how many cells of the metadata a heap of `end` bytes uses.
fn cells_used(policy: PolicyKind, capacity: usize, end: usize) -> usize {
    let mut used = 0;
    AnyEngine::each_part(policy, capacity, &rules(), Reach::whole(end), &mut |part| used += part.used).unwrap();
    used
}

#[test]
fn a_long_region_costs_little_until_it_is_used() {
    for policy in PolicyKind::ALL {
        for capacity in [1 << 40, policy.most_granules() * 16] {
            let [empty, used] = [0, 100 << 20].map(|end| cells_used(policy, capacity, end));
            assert!(empty * 8 < 128 << 10, "{policy:?} {empty}");
            assert!((used - empty) * 8 < 5 << 20, "{policy:?} {used}");
        }
    }
}
