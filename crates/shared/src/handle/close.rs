//! Leaving segments.

use crate::handle::heap::SharedHeap;
use crate::order::processes;
use crate::order::seal;
use crate::terms::error::Error;

impl SharedHeap {
    /// Leaves the segment; the last to leave seals it, so that whatever is changed in it at rest is found out. Blocks
    /// stay.
    ///
    /// A handle that is dropped leaves as well; this tells whether it worked. In the child of a `fork` that has not
    /// used the handle, nothing is left.
    ///
    /// Time: constant, or proportional to the heap's metadata for the last.
    ///
    /// # Errors
    /// Those of every operation; the handle is gone even so, and counts as one that died once its process has ended.
    pub fn close(self) -> Result<(), Error> {
        self.leave()
    }

    /// Leaves once, whatever comes of it.
    fn leave(&self) -> Result<(), Error> {
        if !self.is_attached() {
            return Ok(());
        }
        let left = self.leave_attached();
        self.lane.clear();
        self.set_detached();
        left
    }

    fn leave_attached(&self) -> Result<(), Error> {
        self.leave_slabs()?;
        let mut section = self.enter()?;
        let (mapping, number) = (section.mapping(), section.view().slot);
        if let Some(slot) = mapping.slots().get(usize::from(number)) {
            slot.close();
        }
        if processes::any_alive(mapping) { Ok(()) } else { seal::set(mapping) }
    }
}

impl Drop for SharedHeap {
    fn drop(&mut self) {
        // What went wrong would have been told by `close`.
        let _ = self.leave();
    }
}
