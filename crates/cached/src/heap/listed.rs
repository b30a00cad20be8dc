//! What lies in a heap's lists: for who wants to know how much of a slab the program has.

use super::{Entry, GROUND, Heap};

use core::ptr::NonNull;

impl Heap {
    /// Tells of the blocks that were freed and are not back in their slabs: the entry of the slab, and how many.
    ///
    /// # Safety
    /// This is the calling thread's heap, or an idle one and the caller has the ground for himself.
    pub(crate) unsafe fn each_listed(&self, mut see: impl FnMut(Entry, u32)) {
        // SAFETY: the caller's promise.
        let local = unsafe { &*self.local() };
        for (class, list) in local.lists.iter().enumerate() {
            see(Entry::new(self.owner, class), list.length());
        }
        let ways = local.outgoing.iter().map(|gathered| gathered.chain.first);
        for first in ways.chain([self.inbox.first()]) {
            // SAFETY: what is gathered is this heap's; what has come to it stays until its owner takes it, which nobody does now.
            unsafe { each_on_its_way(first, |entry| see(entry, 1)) };
        }
    }
}

/// Follows a list of blocks of any slabs, as far as it leads from slab to slab.
///
/// # Safety
/// Its blocks are free, and nobody changes the list.
unsafe fn each_on_its_way(mut block: *mut u8, mut see: impl FnMut(Entry)) {
    while let Some(entry) = NonNull::new(block).and_then(entry_of) {
        see(entry);
        // SAFETY: the caller's promise; the block lies in a slab.
        block = unsafe { GROUND.links(entry.class()).next(block) };
    }
}

/// The entry of the slab that a block lies in.
fn entry_of(block: NonNull<u8>) -> Option<Entry> {
    let number = GROUND.number_of(block.addr().get())?;
    Some(GROUND.entry(number)).filter(|&entry| entry != Entry::NONE)
}
