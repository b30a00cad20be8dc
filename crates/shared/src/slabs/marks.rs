//! The marks by which blocks of the engine are slabs: made to agree with the engine, passed on, verified.

use std::sync::atomic::Ordering::Relaxed;

use heapwright_placement::Engine;

use super::parts::slab_in;
use crate::format::slab::{SLAB, Tenure};
use crate::mapped::engine::Placer;
use crate::mapped::sections::Sections;
use crate::terms::error::Error;

/// Makes the marks of slabs agree with the engine's blocks, after the engine was put in order: of a slab that was just
/// beginning or ending, the block is free.
pub(crate) fn reconcile(sections: &Sections, engine: &Placer) {
    for unit in 0..engine.heap_size() / SLAB {
        let Some(slab) = sections.slab(unit) else { break };
        if !slab.is_marked() {
            continue;
        }
        let block = engine.block_containing(unit * SLAB);
        let Some((slab, tenure)) = block.and_then(|block| slab_in(sections, block)) else {
            slab.end();
            continue;
        };
        let class = usize::from(tenure.class);
        slab.derive(class);
        // Only damage sets these bits.
        for at in 0..slab.word_count(class) {
            if let Some(words) = slab.words(at).filter(|words| words.used.load(Relaxed) & !slab.valid(class, at) != 0) {
                words.used.fetch_and(slab.valid(class, at), Relaxed);
            }
        }
    }
}

/// Gives the slabs of each number to the number at its place in `new`.
pub(crate) fn rename(sections: &Sections, size: usize, new: &[u8; 256]) {
    for unit in 0..size / SLAB {
        let Some(slab) = sections.slab(unit) else { break };
        if let Some(tenure) = slab.tenure()
            && new[usize::from(tenure.slot)] != tenure.slot
        {
            slab.pass_on(tenure, Tenure { slot: new[usize::from(tenure.slot)], adopted: true, ..tenure });
        }
    }
}

/// Verifies that what is marked as a slab is one, that its bitmaps say nothing of blocks that it does not have, and
/// that their numbers are found.
pub(crate) fn check(sections: &Sections, engine: &Placer) -> Result<(), Error> {
    for unit in 0..engine.heap_size() / SLAB {
        let Some(slab) = sections.slab(unit) else { break };
        if !slab.is_marked() {
            continue;
        }
        let corrupted = |what| Error::Corrupted { what, offset: (sections.layout.data + unit * SLAB) as u64 };
        let block = engine.block_containing(unit * SLAB);
        let Some((slab, tenure)) = block.and_then(|block| slab_in(sections, block)) else {
            return Err(corrupted("what is marked as a slab is none"));
        };
        let class = usize::from(tenure.class);
        let beyond = |at| slab.words(at).is_some_and(|words| words.used.load(Relaxed) & !slab.valid(class, at) != 0);
        if (0..slab.word_count(class)).any(beyond) {
            return Err(corrupted("a slab uses blocks that it does not have"));
        }
        if !slab.is_derived(class) {
            return Err(corrupted("a slab numbers its blocks wrongly"));
        }
    }
    Ok(())
}
