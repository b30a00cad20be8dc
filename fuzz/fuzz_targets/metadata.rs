//! Damaged metadata: the engine rejects it, `check` reports it, or it is safe to use; and recovery never panics.
#![no_main]

use std::ptr::NonNull;

use arbitrary::{Arbitrary, Result, Unstructured};
use heapwright_placement::{AnyEngine, Change, Engine, Growth, PolicyKind, Rules, Statistics};
use libfuzzer_sys::fuzz_target;

struct Subject {
    policy: PolicyKind,
    rules: Rules,
    capacity: usize,
}

impl Subject {
    fn draw(u: &mut Unstructured<'_>) -> Result<Subject> {
        let granules = *u.choose(&[16, 300, 1030, 2000, 5000, 17_000])?;
        Ok(Subject {
            policy: *u.choose(&PolicyKind::ALL)?,
            rules: Rules {
                header: 16 * u.int_in_range(0..=2)?,
                min_remainder: *u.choose(&[1, 100])?,
                growth: *u.choose(&[Growth::Fixed, Growth::Extend, Growth::Pages(4096)])?,
                statistics: if u.arbitrary()? { Statistics::Kept } else { Statistics::Off },
                ..Rules::default()
            },
            capacity: 16 * granules,
        })
    }
}

fn size(u: &mut Unstructured<'_>) -> Result<usize> {
    if u.ratio(1, 4)? { u.int_in_range(1..=20_000) } else { u.int_in_range(1..=200) }
}

/// Allocates, frees and resizes, mostly with the offsets of blocks.
fn exercise(u: &mut Unstructured<'_>, heap: &mut AnyEngine<'_>, operations: u8) -> Result<()> {
    let mut offsets = Vec::new();
    for _ in 0..operations {
        let known = if offsets.is_empty() { size(u)? } else { *u.choose(&offsets)? };
        match u.int_in_range(0..=4)? {
            0 => {
                let _ = heap.deallocate(known);
            }
            1 => {
                let _ = heap.resize(known, 1, size(u)?);
            }
            _ => offsets.extend(heap.allocate(size(u)?, 1 << u.int_in_range(0..=8)?)),
        }
    }
    Ok(())
}

/// Overwrites some cells anywhere in the metadata.
fn damage(u: &mut Unstructured<'_>, cells: &mut [u64]) -> Result<()> {
    for _ in 0..u.int_in_range(0..=6)? {
        let at = u.choose_index(cells.len())?;
        let from = u.choose_index(cells.len())?;
        match u.int_in_range(0..=4)? {
            0 => cells[at] = u.arbitrary()?,
            1 => cells[at] = u64::from(u16::arbitrary(u)?),
            2 => cells[at] ^= 1 << u.int_in_range(0..=63)?,
            3 => cells[at] = cells[from],
            _ => cells.swap(at, from),
        }
    }
    Ok(())
}

fn walk(heap: &AnyEngine<'_>) {
    let end = heap.blocks().fold(0, |at, block| {
        assert!(block.offset == at && block.size > 0, "{block:?} follows {at}");
        at + block.size
    });
    assert_eq!(end, heap.heap_size());
    assert!(heap.holes().total <= end);
    for offset in (0..heap.capacity()).step_by(1008) {
        assert!(heap.usable_size(offset).is_none_or(|usable| usable <= end));
        assert!(heap.block_containing(offset).is_none_or(|block| block.offset <= offset));
    }
}

fn change(u: &mut Unstructured<'_>, capacity: usize) -> Result<Option<Change>> {
    if u.arbitrary()? {
        return Ok(None);
    }
    let mut bounds = [0; 4];
    for bound in &mut bounds {
        *bound = u.int_in_range(0..=capacity)? & !15;
    }
    bounds.sort_unstable();
    let [start, used_start, used_end, end] = bounds;
    Ok(Some(Change { start, end, used_start, used_end }))
}

fn play(u: &mut Unstructured<'_>) -> Result<()> {
    let subject = Subject::draw(u)?;
    let Subject { policy, rules, capacity } = &subject;
    let cells = AnyEngine::metadata_cells(*policy, *capacity, rules).expect("the rules are valid");
    let mut metadata = vec![0; cells];
    let mut heap = AnyEngine::create(*policy, &mut metadata, *capacity, rules).expect("the rules are valid");
    let operations = u.arbitrary()?;
    exercise(u, &mut heap, operations)?;
    damage(u, &mut metadata)?;
    let base = NonNull::from(&mut metadata[..]).cast();
    let grows = rules.growth != Growth::Fixed;
    let recovers = u.arbitrary()?;
    let attached = if recovers {
        let change = change(u, *capacity)?;
        // SAFETY: the metadata outlives the heap, and nothing else accesses it while the heap exists.
        unsafe { AnyEngine::recover(*policy, base, cells, *capacity, rules, change) }.ok()
    } else {
        // SAFETY: the metadata outlives the heap, and nothing else accesses it while the heap exists. An engine of this
        // version created it, and `check` must accept the damaged cells before any operation changes them.
        unsafe { AnyEngine::attach(base, cells) }.ok()
    };
    let Some(mut heap) = attached else { return Ok(()) };
    walk(&heap);
    // Only recovery clears the metadata beyond the end of a growing heap.
    if heap.check().is_ok() && (recovers || !grows) {
        exercise(u, &mut heap, 20)?;
        heap.check().expect("a heap that passed the check stays valid");
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    // An input that ends early ends the run.
    let _ = play(&mut Unstructured::new(bytes));
});
