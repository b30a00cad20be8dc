//! How far the purging of idle pages has come.

use crate::slab_list::NO_SLAB;

/// How far the purging of a heap's idle pages has come. Each list of slabs is gone through from its end, where the
/// slabs are that have served nothing for the longest time.
pub(super) struct Purging {
    /// The list that is gone through, by its number: those of the classes come before those of dissolved slabs.
    pub(super) list: u8,
    /// The slab of it that is next; [`NO_SLAB`] where another list is to be begun.
    pub(super) next: u32,
    /// Whether there were more idle pages than are retained: all are purged, some at a time.
    pub(super) is_under_way: bool,
    /// The refaulted pages when that began.
    pub(super) refaulted: u32,
    /// The idle pages when the system last refused to purge any, as it does in a process that has locked its memory; 0
    /// when it did not.
    pub(super) refused: u32,
}

impl Purging {
    pub(super) const NONE: Purging = Purging { list: 0, next: NO_SLAB, is_under_way: false, refaulted: 0, refused: 0 };

    /// Goes on with the slab before one that has left the list.
    #[inline]
    pub(super) fn leave(&mut self, number: u32, before: u32) {
        if self.next == number {
            self.next = before;
        }
    }
}
