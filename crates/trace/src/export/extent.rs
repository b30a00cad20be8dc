//! The extent of a trace.

use std::collections::HashMap;

use crate::error::ReadError;
use crate::event::Event;
use crate::reader::Reader;

/// The extent of a trace, which some formats store in their header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The number of blocks. A resized block counts once.
    pub blocks: u64,
    /// The number of allocations, resizes and frees of live blocks.
    pub operations: u64,
    /// The peak of the requested bytes of all live blocks.
    pub peak: u64,
}

impl Extent {
    /// Computes the extent of a trace, of a damaged one up to the damage. Memory: proportional to the blocks live at
    /// one time.
    ///
    /// # Errors
    /// [`ReadError::Io`].
    pub fn of(reader: &mut Reader<'_>) -> Result<Extent, ReadError> {
        let (mut extent, mut sizes, mut live) = (Extent::default(), HashMap::new(), 0u64);
        while let Some(event) = until_damage(reader.next_event())? {
            let (old, new) = match event {
                Event::Allocate { block, size, .. } => (None, Some((block, size))),
                Event::Resize { block, becomes, size } => (Some(block), Some((becomes, size))),
                Event::Free { block } => (Some(block), None),
                Event::Failed { .. } | Event::Thread { .. } => continue,
            };
            let freed = old.map(|block| sizes.remove(&block));
            if freed == Some(None) {
                continue;
            }
            extent.operations += 1;
            extent.blocks += u64::from(old.is_none());
            // The sizes in a malicious trace may overflow.
            live = live.saturating_sub(freed.flatten().unwrap_or(0));
            if let Some((block, size)) = new {
                live = live.saturating_add(size);
                sizes.insert(block, size);
            }
            extent.peak = extent.peak.max(live);
        }
        Ok(extent)
    }
}

/// Treats damage as the end of the trace.
pub(super) fn until_damage(read: Result<Option<Event>, ReadError>) -> Result<Option<Event>, ReadError> {
    match read {
        Err(ReadError::Damaged { .. }) => Ok(None),
        read => read,
    }
}
