//! The engine over a segment's metadata: how it is made, taken up and put in order.

use heapwright_placement::{AnyEngine, Change, Engine, RecoverError};

use crate::mapped::sections::Sections;
use crate::terms::error::Error;

/// The engine as this process sees it; it holds addresses of this process.
pub(crate) type Placer = AnyEngine<'static>;

/// Makes the heap in a new segment, whose metadata is zero.
pub(crate) fn create(sections: &Sections, seed: u64) -> Result<Placer, Error> {
    let plan = &sections.layout.plan;
    // SAFETY: the metadata is new, hence zero, as long as the layout says, backed, and the segment has no name yet.
    let made =
        unsafe { AnyEngine::create_zeroed(plan.policy, sections.metadata(), plan.size, &sections.layout.rules()) };
    let mut engine = made.map_err(|_| Error::BadSettings { why: "the engine refuses these rules" })?;
    engine.seed(seed);
    Ok(engine)
}

/// Returns the engine of a heap that is in order, whether processes use it or not.
///
/// The engine's lifetime is the segment's; callers use it under the lock only and drop it before the sections.
pub(crate) fn attach(sections: &Sections) -> Result<Placer, Error> {
    let capacity = capacity(sections)?;
    let cells = sections.layout.cells(capacity)?;
    // SAFETY: these cells are backed, and engines of this version wrote them: processes that may write to the segment
    // are trusted like threads.
    let engine = unsafe { AnyEngine::attach(sections.metadata(), cells) };
    engine.map_err(|_| corrupted(sections)).and_then(|engine| fitting(sections, engine, capacity))
}

/// Returns the engine of a heap in which a process died, or whose capacity has changed: completes or undoes `change`,
/// and derives anew all that is derived. Whatever the metadata holds, the result is an error or a heap that is sound.
pub(crate) fn recover(sections: &Sections, change: Option<Change>) -> Result<Placer, Error> {
    let capacity = capacity(sections)?;
    let cells = sections.layout.cells(capacity)?;
    let (policy, rules) = (sections.layout.plan.policy, sections.layout.rules());
    // SAFETY: these cells are backed, and under the lock no other thread uses them.
    let engine = unsafe { AnyEngine::recover(policy, sections.metadata(), cells, capacity, &rules, change) };
    let engine = engine.map_err(|refused| match refused {
        RecoverError::Broken(violation) => Error::violated(violation, sections.layout.data),
        _ => corrupted(sections),
    })?;
    verify_end(sections, &engine)?;
    Ok(engine)
}

/// Returns the capacity that the metadata is, or is to be, laid out for.
pub(crate) fn capacity(sections: &Sections) -> Result<usize, Error> {
    let plan = &sections.layout.plan;
    let capacity = sections.header().live.capacity();
    capacity
        .filter(|&capacity| (plan.size..=plan.max_size).contains(&capacity) && capacity % plan.granule as usize == 0)
        .ok_or(Error::Corrupted { what: "the engine's capacity is not one that was stored", offset: 0 })
}

/// Returns whether a file for which the system holds `allocated` bytes can be a heap of the capacity that it claims, or
/// a sparse copy of one: putting a heap in order takes memory and time in proportion to its capacity.
pub(crate) fn believe_claim(sections: &Sections, allocated: u64) -> Result<(), Error> {
    /// Metadata of up to this length, in bytes, is put in order for any file.
    const ANY: u64 = 16 << 20;
    /// A copy leaves out zeros, which most of a heap's metadata may be.
    const PER_BYTE: u64 = 64;
    let claimed = sections.layout.cells(capacity(sections)?)? as u64 * 8;
    match claimed <= ANY + allocated.saturating_mul(PER_BYTE) {
        true => Ok(()),
        false => Err(Error::Corrupted { what: "it claims far more memory than its file holds", offset: 0 }),
    }
}

/// Verifies every invariant of the engine, and that it is the one of this segment.
pub(crate) fn check(sections: &Sections, engine: &Placer) -> Result<(), Error> {
    engine.check().map_err(|violation| Error::violated(violation, sections.layout.data))?;
    verify_rules(sections, engine)?;
    verify_end(sections, engine)
}

fn fitting(sections: &Sections, engine: Placer, capacity: usize) -> Result<Placer, Error> {
    if engine.policy() != sections.layout.plan.policy || engine.capacity() != capacity {
        return Err(corrupted(sections));
    }
    verify_rules(sections, &engine)?;
    verify_end(sections, &engine)?;
    Ok(engine)
}

/// The rules follow from the fixed header, which has a checksum.
fn verify_rules(sections: &Sections, engine: &Placer) -> Result<(), Error> {
    match engine.has_rules(&sections.layout.rules()) {
        true => Ok(()),
        false => Err(corrupted(sections)),
    }
}

/// Heaps do not become shorter than they were made.
fn verify_end(sections: &Sections, engine: &Placer) -> Result<(), Error> {
    let end = engine.heap_size();
    match end >= sections.layout.plan.size {
        true => Ok(()),
        false => Err(Error::Corrupted {
            what: "the heap ends before it did when it was made",
            offset: (sections.layout.data + end) as u64,
        }),
    }
}

fn corrupted(sections: &Sections) -> Error {
    Error::Corrupted { what: "the engine's metadata is not that of this heap", offset: sections.layout.metadata as u64 }
}
