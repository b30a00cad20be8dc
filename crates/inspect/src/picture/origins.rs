//! What the memory of a process is for.

use std::collections::BTreeMap;
use std::ops::Range;

use heapwright_host::names::printable;
use serde::Serialize;

use super::heaps::{Heaps, overlaps};
use crate::mappings::Mapping;
use crate::memory::{Memory, PAGE, PageState};
use crate::threads::Threads;

/// Memory of one origin.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Origin {
    /// What it is.
    pub name: String,
    /// Bytes of addresses.
    pub mapped: u64,
    /// Bytes in memory.
    pub rss: u64,
    /// Bytes in memory, each divided by the number of processes that share it.
    pub pss: u64,
    /// Bytes in memory that other processes share.
    pub shared: u64,
    /// Bytes in swap.
    pub swap: u64,
    /// Bytes in memory that were released by `MADV_FREE`: the kernel takes them when it needs memory.
    pub purgeable: u64,
}

/// Returns all memory by origin, most resident first.
pub(super) fn origins(
    memory: &impl Memory,
    mappings: &[Mapping],
    threads: &Threads,
    heaps: &Heaps,
    own: &[Range<u64>],
) -> Vec<Origin> {
    let mut found: BTreeMap<String, Origin> = BTreeMap::new();
    for mapping in mappings {
        let name = origin(mapping, threads, heaps);
        let mut left = mapping.clone();
        for block in own_parts(own, &mapping.range) {
            let pages = memory.pages(block.start, ((block.end - block.start) / PAGE) as usize);
            let is_in = |state| pages.iter().filter(|one| **one == state).count() as u64 * PAGE;
            let rss = is_in(PageState::Present).min(left.rss);
            let swap = is_in(PageState::Swapped).min(left.swap);
            let entry = found.entry("blocks with mappings of their own".to_owned()).or_default();
            entry.mapped += block.end - block.start;
            entry.rss += rss;
            entry.pss += rss.min(left.pss);
            entry.swap += swap;
            left.range.end = left.range.end.saturating_sub(block.end - block.start);
            left.rss -= rss;
            left.pss -= rss.min(left.pss);
            left.swap -= swap;
        }
        let entry = found.entry(name).or_default();
        entry.mapped += left.range.end.saturating_sub(left.range.start);
        entry.rss += left.rss;
        entry.pss += left.pss;
        entry.shared += left.shared;
        entry.swap += left.swap;
        entry.purgeable += left.purgeable;
    }
    let named = found.into_iter().map(|(name, origin)| Origin { name, ..origin });
    let mut all: Vec<Origin> = named.filter(|origin| origin.rss + origin.swap > 0).collect();
    all.sort_by_key(|origin| std::cmp::Reverse(origin.rss));
    all
}

/// Returns what of the blocks `own`, in address order, lies in `range`.
fn own_parts(own: &[Range<u64>], range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let first = own.partition_point(|block| block.end <= range.start);
    let inside = own[first..].iter().take_while(|block| block.start < range.end);
    inside.map(|block| block.start.max(range.start)..block.end.min(range.end))
}

fn origin(mapping: &Mapping, threads: &Threads, heaps: &Heaps) -> String {
    let name = mapping.name.as_str();
    // Core files do not name the program break.
    if overlaps(&heaps.main, &mapping.range) || (name == "[heap]" && heaps.are_known) {
        return "main arena (program break)".to_owned();
    }
    if name == "[heap]" {
        return "program break".to_owned();
    }
    if overlaps(&heaps.others, &mapping.range) {
        return "other arenas".to_owned();
    }
    if threads.has_stack(mapping) {
        return "stacks".to_owned();
    }
    if name.starts_with("[anon:") || name.starts_with("/memfd:") || name.starts_with("/dev/shm/") {
        return printable(name.as_bytes());
    }
    match name.chars().next() {
        Some('/') => "files".to_owned(),
        Some(_) => "kernel".to_owned(),
        None => "other anonymous".to_owned(),
    }
}
