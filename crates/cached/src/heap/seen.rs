//! A thread's heap as its bytes show it.

use core::mem::offset_of;

use super::{Chain, Heap, List, Local, OUTGOING, Outgoing};
use crate::classes::{CLASSES, size_of_class};

/// The heap of a thread, seen from outside the process. Nothing here trusts the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapGlance {
    /// How many blocks lie in the list of each class.
    lists: [u16; CLASSES],
    /// How many blocks of other heaps its thread has freed and not sent yet.
    pub outgoing: usize,
}

impl HeapGlance {
    /// How many bytes there are for each heap.
    pub const LENGTH: usize = Heap::STEP;

    /// What a heap has; `None` when there is none yet at that place, nor behind it.
    #[must_use]
    pub fn of(bytes: &[u8; Self::LENGTH]) -> Option<HeapGlance> {
        let word = |at: usize| u32::from_ne_bytes(core::array::from_fn(|byte| bytes[at + byte]));
        if word(Heap::AT + offset_of!(Heap, owner)) == 0 {
            return None;
        }
        let local = Heap::AT + offset_of!(Heap, local);
        let lists = core::array::from_fn(|class| {
            let list = local + offset_of!(Local, lists) + class * size_of::<List>();
            List::length_in(&core::array::from_fn(|byte| bytes[list + byte]))
        });
        let outgoing = (0..OUTGOING).map(|number| {
            let gathered = local + offset_of!(Local, outgoing) + number * size_of::<Outgoing>();
            word(gathered + offset_of!(Outgoing, chain) + offset_of!(Chain, count)) as usize
        });
        Some(HeapGlance { lists, outgoing: outgoing.sum() })
    }

    /// The length of blocks, and how many of them lie in a list, for each list that is not empty.
    pub fn lists(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let lists = self.lists.into_iter().enumerate().filter(|&(_, count)| count != 0);
        lists.map(|(class, count)| (size_of_class(class), count.into()))
    }
}
