//! The cached heap by size class: what was counted, as far as it was, and what there is.

use heapwright_cached as cached;

/// The blocks of one length, or (the last) those of no class.
pub(crate) struct ClassLine {
    /// How long the blocks are, in bytes; `None` for blocks that are each as long as they like.
    pub(crate) size: Option<usize>,
    /// Blocks allocated so far; `None` where that is not counted.
    pub(crate) allocated: Option<u64>,
    /// Blocks freed so far; the same.
    pub(crate) freed: Option<u64>,
    /// Blocks that the program has.
    pub(crate) blocks: u64,
    /// Slabs of such blocks; `None` for blocks of no class.
    pub(crate) slabs: Option<usize>,
    /// Bytes of their free blocks; the same.
    pub(crate) free: Option<usize>,
}

/// A line per size of which there was ever a block, as far as that is known, the shortest first.
pub(crate) fn lines(census: &cached::Census) -> impl Iterator<Item = ClassLine> + '_ {
    cached::sizes().filter_map(|size| line(census, size)).chain(long_line(census))
}

fn line(census: &cached::Census, size: usize) -> Option<ClassLine> {
    let slabs = census.classes().find(|class| class.size == size);
    let count = count_of(Some(size));
    if slabs.is_none() && count.is_none() {
        return None;
    }
    // Of a size whose blocks were all freed there may be no slab any more.
    let slabs = slabs.unwrap_or(cached::ClassSlabs::none_of(size));
    Some(ClassLine {
        size: Some(size),
        allocated: count.map(|count| count.allocated),
        freed: count.map(|count| count.freed),
        // What lies in lists is known for certain where everything is counted.
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
