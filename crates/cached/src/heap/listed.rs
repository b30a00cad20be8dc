//! What lies in a heap's lists: for who wants to know how much of a slab the program has.

use super::{Entry, GROUND, Heap, Owned};

use core::ptr::NonNull;

impl Owned {
    /// Calls `see` for the blocks of the calling thread's heap that were freed and are not back in their slabs: with the entry
    /// of the slab, and their number.
    pub(crate) fn each_listed(mut self, mut see: impl FnMut(Entry, u32)) {
        let (heap, local) = (self.heap(), self.local());
        for (class, list) in local.lists.iter().enumerate() {
            see(Entry::new(heap.owner, class), list.length());
        }
        for gathered in &local.outgoing {
            // SAFETY: what is gathered is this thread's.
            unsafe { each_on_its_way(gathered.chain.first, |entry| see(entry, 1)) };
        }
    }
}

impl Heap {
    /// Calls `see` for the blocks that wait in the inbox, with the entry of the slab; for none while a thread is at work on
    /// the slabs.
    pub(crate) fn each_waiting(&self, see: impl FnMut(Entry)) {
        if let Some(_kept) = self.visit() {
            // SAFETY: what has come stays until it is taken by the thread that holds the lock, which this one does.
            unsafe { each_on_its_way(self.inbox.first(), see) };
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
