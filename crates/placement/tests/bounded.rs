//! First fit with bounded aligned searches: exact where there is no alignment, and never blind where there is one.

use heapwright_placement::{Engine, FirstFit, Fit, Growth, Rules};

const PAGE: usize = 4 << 10;
const SLAB: usize = 64 << 10;
const CAPACITY: usize = 1 << 30;

fn rules() -> Rules {
    Rules { granule: PAGE as u32, growth: Growth::Pages(SLAB as u32), ..Rules::default() }
}

fn cells() -> Vec<u64> {
    vec![0; Fit::<FirstFit>::metadata_cells(CAPACITY, &rules()).unwrap()]
}

/// Places pairs of blocks and frees the first of each: holes of 17 pages, of which the first and every sixteenth begins
/// at a multiple of a slab.
fn scatter(engine: &mut impl Engine, pairs: usize) -> Vec<usize> {
    let blocks: Vec<usize> = (0..2 * pairs).map(|_| engine.allocate(17 * PAGE, 1).unwrap()).collect();
    let freed: Vec<usize> = blocks.into_iter().step_by(2).collect();
    freed.iter().for_each(|&block| assert!(engine.deallocate(block).is_ok()));
    freed
}

#[test]
fn without_an_alignment_it_is_first_fit() {
    let (mut one, mut other) = (cells(), cells());
    let mut exact = Fit::<FirstFit>::create(&mut one, CAPACITY, &rules()).unwrap();
    let mut bounded = Fit::<FirstFit>::create(&mut other, CAPACITY, &rules()).unwrap();
    let mut live = Vec::new();
    let mut random = 1u64;
    for _ in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = (random >> 33) as usize;
        if draw.is_multiple_of(2) || live.is_empty() {
            let bytes = draw % (40 * PAGE) + 1;
            let offset = exact.allocate(bytes, 1).unwrap();
            assert_eq!(bounded.allocate_soon(bytes, 1), Ok(offset));
            live.push(offset);
        } else {
            let offset = live.swap_remove(draw / 2 % live.len());
            assert_eq!(exact.deallocate(offset), bounded.deallocate(offset));
        }
    }
}

#[test]
fn an_aligned_place_among_the_lowest_holes_is_taken() {
    let mut cells = cells();
    let mut engine = Fit::<FirstFit>::create(&mut cells, CAPACITY, &rules()).unwrap();
    let freed = scatter(&mut engine, 2_000);
    let aligned = freed.into_iter().find(|offset| offset % SLAB == 0).unwrap();
    assert_eq!(engine.allocate_soon(SLAB, SLAB), Ok(aligned));
}

#[test]
fn after_a_few_misaligned_holes_one_is_taken_that_surely_fits() {
    let mut cells = cells();
    let mut engine = Fit::<FirstFit>::create(&mut cells, CAPACITY, &rules()).unwrap();
    engine.allocate(PAGE, 1).unwrap();
    // Behind one page, holes of 16 pages are never aligned as long as they lie 32 pages apart.
    let blocks: Vec<usize> = (0..10_000).map(|_| engine.allocate(SLAB, 1).unwrap()).collect();
    engine.allocate(15 * PAGE, 1).unwrap();
    let aligned = engine.allocate(SLAB, 1).unwrap();
    engine.allocate(PAGE, 1).unwrap();
    let long = engine.allocate(2 * SLAB, 1).unwrap();
    engine.allocate(PAGE, 1).unwrap();
    for block in blocks.into_iter().step_by(2).chain([aligned, long]) {
        engine.deallocate(block).unwrap();
    }
    // The policy takes the aligned one, after a walk over all that lie below.
    assert_eq!(engine.allocate(SLAB, SLAB), Ok(aligned));
    engine.deallocate(aligned).unwrap();
    let placed = engine.allocate_soon(SLAB, SLAB).unwrap();
    assert!(placed.is_multiple_of(SLAB) && (long..long + 2 * SLAB).contains(&placed), "{placed} {long}");
    engine.check().unwrap();
    // When nothing surely fits, the heap grows.
    let grown = engine.allocate_soon(SLAB, SLAB).unwrap();
    assert!(grown.is_multiple_of(SLAB) && grown > long, "{grown}");
    engine.check().unwrap();
}
