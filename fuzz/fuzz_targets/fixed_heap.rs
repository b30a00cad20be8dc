//! Random operations on a fixed heap in any region: blocks are aligned, do not overlap and keep their contents.
#![no_main]

use std::alloc::Layout;
use std::mem::MaybeUninit;

use arbitrary::{Arbitrary, Result, Unstructured};
use heapwright::{Chosen, FixedHeap, Growth, PolicyKind, Rules, Statistics};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/heapwright/tests/heaps/shadow.rs"]
mod shadow;

use shadow::Shadow;

/// Returns rules, which may be invalid.
fn rules(u: &mut Unstructured<'_>) -> Result<Rules> {
    let granule = if u.ratio(1, 20)? { u.arbitrary()? } else { 1u32 << u.int_in_range(0..=8)? };
    Ok(Rules {
        granule,
        header: if u.ratio(1, 2)? { 0 } else { granule.saturating_mul(u.int_in_range(0..=4)?) },
        min_remainder: u.int_in_range(0..=300)?,
        growth: *u.choose(&[Growth::Fixed, Growth::Append, Growth::Extend, Growth::Pages(256)])?,
        phase: u.arbitrary()?,
        statistics: if u.arbitrary()? { Statistics::Kept } else { Statistics::Off },
    })
}

fn layout(u: &mut Unstructured<'_>) -> Result<Layout> {
    let size = if u.ratio(1, 8)? { u.int_in_range(1..=30_000)? } else { u.int_in_range(1..=200)? };
    let align = if u.ratio(1, 4)? { 1 << u.int_in_range(0..=14)? } else { 1 };
    Ok(Layout::from_size_align(size, align).expect("the alignment is a power of two"))
}

fn perform(u: &mut Unstructured<'_>, heap: &mut FixedHeap<'_, Chosen>, shadow: &mut Shadow) -> Result<()> {
    match u.int_in_range(0..=9)? {
        0 => shadow.verify(heap),
        1..=3 => shadow.free_nth(heap, usize::from(u8::arbitrary(u)?)),
        4 | 5 => shadow.resize_nth(heap, usize::from(u8::arbitrary(u)?), layout(u)?),
        _ => {
            shadow.allocate(heap, layout(u)?);
        }
    }
    Ok(())
}

fn play(u: &mut Unstructured<'_>) -> Result<()> {
    let (policy, rules) = (*u.choose(&PolicyKind::ALL)?, rules(u)?);
    let (length, misalignment) = (u.int_in_range(0..=32_768)?, u.int_in_range(0..=63)?);
    let mut memory = vec![MaybeUninit::new(u.arbitrary::<u8>()?); length + misalignment];
    let Ok(mut heap) = FixedHeap::with(policy, &mut memory[misalignment..], &rules) else { return Ok(()) };
    let mut shadow = Shadow::default();
    while !u.is_empty() && perform(u, &mut heap, &mut shadow).is_ok() {}
    shadow.verify(&heap);
    shadow.free_all(&mut heap);
    shadow.verify(&heap);
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    // An input that does not define a heap is skipped.
    let _ = play(&mut Unstructured::new(bytes));
});
