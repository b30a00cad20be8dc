//! Where the heaps of glibc's malloc lie.

use std::ops::Range;

use crate::glibc::{self, Arena};

/// Where the arenas of glibc's malloc lie.
#[derive(Default)]
pub(super) struct Heaps {
    /// Whether there are any.
    pub(super) are_known: bool,
    pub(super) main: Vec<Range<u64>>,
    pub(super) others: Vec<Range<u64>>,
}

impl Heaps {
    pub(super) fn of(arenas: Option<&glibc::Arenas>) -> Heaps {
        let Some(found) = arenas else { return Heaps::default() };
        let (main, others): (Vec<&Arena>, _) = found.arenas.iter().partition(|arena| arena.is_main);
        let ranges = |arenas: Vec<&Arena>| {
            let segments = arenas.into_iter().flat_map(|arena| &arena.segments);
            segments.map(|segment| segment.range.clone()).collect()
        };
        Heaps { are_known: true, main: ranges(main), others: ranges(others) }
    }

    pub(super) fn overlap(&self, range: &Range<u64>) -> bool {
        overlaps(&self.main, range) || overlaps(&self.others, range)
    }
}

/// Returns whether any of these segments overlaps `range`.
pub(super) fn overlaps(segments: &[Range<u64>], range: &Range<u64>) -> bool {
    segments.iter().any(|segment| segment.start < range.end && range.start < segment.end)
}
