//! The cached heap by size class: counts, where they are kept, and current blocks.

use heapwright_cached as cached;

/// The blocks of one size class, or (last) the blocks outside the classes.
pub(crate) struct ClassLine {
    /// Block size in bytes; `None` for blocks outside the classes, whose sizes differ.
    pub(crate) size: Option<usize>,
    /// Blocks allocated so far; `None` if not counted.
    pub(crate) allocated: Option<u64>,
    /// Blocks freed so far; `None` if not counted.
    pub(crate) freed: Option<u64>,
    /// Live blocks.
    pub(crate) blocks: u64,
    /// Slabs of this class; `None` outside the classes.
    pub(crate) slabs: Option<usize>,
    /// Bytes of free blocks in the slabs; `None` outside the classes.
    pub(crate) free: Option<usize>,
}

/// Returns a line per size class that ever had a block, as far as is known, shortest first.
pub(crate) fn lines(census: &cached::Census) -> impl Iterator<Item = ClassLine> + '_ {
    cached::sizes().filter_map(|size| line(census, size)).chain(long_line(census))
}

fn line(census: &cached::Census, size: usize) -> Option<ClassLine> {
    let slabs = census.classes().find(|class| class.size == size);
    let count = count_of(Some(size));
    if slabs.is_none() && count.is_none() {
        return None;
    }
    // A class whose blocks were all freed may have no slab any more.
    let slabs = slabs.unwrap_or(cached::ClassSlabs::none_of(size));
    Some(ClassLine {
        size: Some(size),
        allocated: count.map(|count| count.allocated),
        freed: count.map(|count| count.freed),
        // Blocks in thread caches can be excluded exactly only if everything is counted.
        blocks: count.map_or(slabs.used as u64, |count| count.allocated.saturating_sub(count.freed)),
        slabs: Some(slabs.slabs),
        free: Some(slabs.free() * size),
    })
}

fn long_line(census: &cached::Census) -> Option<ClassLine> {
    let (count, blocks) = (count_of(None), census.long_blocks() as u64);
    (count.is_some() || blocks != 0).then(|| ClassLine {
        size: None,
        allocated: count.map(|count| count.allocated),
        freed: count.map(|count| count.freed),
        blocks,
        slabs: None,
        free: None,
    })
}

fn count_of(size: Option<usize>) -> Option<cached::ClassCount> {
    cached::class_counts().find(|count| count.size == size)
}
