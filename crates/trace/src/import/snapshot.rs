//! Snapshots: profiles that say how many blocks of which call sites are live at one moment, without a time line.
//!
//! The trace allocates these blocks, in the order of the source, and frees none. Blocks of a call site differ in size
//! by one byte at most, because the source has their sum only.

use std::io::Write;

use super::ImportError;
use super::ledger::Ledger;
use super::lines::Line;
use crate::event::Kind;
use crate::sites::SiteId;

/// The name of the text that says that a trace is a snapshot.
pub const NAME: &str = "snapshot";

/// The limit of blocks of all snapshots of a source.
const MOST_BLOCKS: u64 = if cfg!(fuzzing) { 1 << 12 } else { 1 << 28 };

/// The live blocks of a call site.
pub(super) struct Blocks {
    pub kind: Kind,
    pub count: u64,
    pub bytes: u64,
}

/// Writes the blocks of snapshots.
#[derive(Default)]
pub(super) struct Snapshot {
    blocks: u64,
}

impl Snapshot {
    /// Says in the trace what it is.
    pub(super) fn describe<W: Write>(tool: &str, ledger: &mut Ledger<'_, W>) -> Result<(), ImportError> {
        ledger.add_text(NAME, &format!("the live blocks of one moment, by {tool}: in no order, and none is freed"))
    }

    /// Allocates blocks.
    pub(super) fn add<W: Write>(
        &mut self,
        blocks: &Blocks,
        site: Option<SiteId>,
        ledger: &mut Ledger<'_, W>,
    ) -> Result<Line, ImportError> {
        let &Blocks { kind, count, bytes } = blocks;
        if count == 0 {
            return Ok(if bytes == 0 { Line::PassedOver } else { Line::NotUnderstood });
        }
        self.blocks = self.blocks.saturating_add(count);
        if self.blocks > MOST_BLOCKS {
            return Err(ImportError::TooMuch { what: "blocks" });
        }
        let longer = bytes % count;
        for index in 0..count {
            ledger.at_site(site)?;
            ledger.allocate_for_good(kind, bytes / count + u64::from(index < longer))?;
        }
        Ok(Line::Done)
    }
}
