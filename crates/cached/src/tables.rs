//! What is known of the pages, in tables beside them: each grows with what it describes, and costs nothing before.

use core::sync::atomic::Ordering;

use heapwright_os::{Refused, Reservation, page_size};

use crate::heap::Heap;
use crate::heaps::HEAPS;
use crate::links::Beside;
use crate::slab::{Known, SLAB};
use crate::world::{AtomicU32, AtomicUsize, make_atomic};

/// The tables of a heap of pages that may have so many slabs.
pub(crate) struct Tables {
    /// For each slab, its owner and its class.
    entries: Reservation,
    /// For each slab, what is known of it.
    slabs: Reservation,
    /// For each KiB of the pages, a link or the mark of a long block.
    beside: Reservation,
    /// The threads' heaps.
    heaps: Reservation,
}

impl Tables {
    /// Chooses where the tables of `slabs` slabs will be.
    pub(crate) fn of(slabs: usize) -> Result<Tables, Refused> {
        let claim = |bytes: usize| Reservation::claim_table(bytes.next_multiple_of(page_size()));
        Ok(Tables {
            entries: claim(slabs * size_of::<AtomicU32>())?,
            slabs: claim(slabs * size_of::<Known>())?,
            beside: claim(Beside::length(slabs * SLAB))?,
            heaps: claim(HEAPS * Heap::STEP)?,
        })
    }

    pub(crate) fn entries(&self) -> *mut AtomicU32 {
        self.entries.base().as_ptr().cast()
    }

    pub(crate) fn slabs(&self) -> *mut Known {
        self.slabs.base().as_ptr().cast()
    }

    pub(crate) fn beside(&self) -> *mut u8 {
        self.beside.base().as_ptr()
    }

    pub(crate) fn heaps(&self) -> *mut Heap {
        self.heaps.base().as_ptr().cast()
    }

    /// Makes the tables long enough for `slabs` slabs, and for some more at once; `covered` is how many they are long
    /// enough for.
    ///
    /// # Errors
    /// [`Refused`]; the tables are as long as before, or longer.
    pub(crate) fn cover(&mut self, slabs: usize, covered: &AtomicUsize) -> Result<(), Refused> {
        let before = covered.load(Ordering::Relaxed);
        if slabs <= before {
            return Ok(());
        }
        let most = self.entries.length() / size_of::<AtomicU32>();
        let generous = slabs.max(before + before / 8 + Self::STEP).min(most);
        let reached = if self.extend(generous).is_ok() {
            generous
        } else {
            self.extend(slabs)?;
            slabs
        };
        // SAFETY: this part of the table is new, and zero.
        unsafe { make_atomic(self.entries().add(before), reached - before) };
        covered.store(reached, Ordering::Release);
        Ok(())
    }

    /// Makes the tables longer by at least so many slabs.
    const STEP: usize = 32;

    fn extend(&mut self, slabs: usize) -> Result<(), Refused> {
        extend(&mut self.entries, slabs * size_of::<AtomicU32>())?;
        extend(&mut self.slabs, slabs * size_of::<Known>())?;
        extend(&mut self.beside, Beside::length(slabs * SLAB))
    }

    /// Makes room for the heap of `owner`, and for some more at once; `covered` is how many there is room for.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn cover_heap(&mut self, owner: u32, covered: &AtomicUsize) -> Result<(), Refused> {
        /// Heaps that get room at once. A watcher outside of the process reads as many at once.
        const TOGETHER: usize = 16;
        let wanted = (owner as usize + 1).next_multiple_of(TOGETHER);
        if wanted > HEAPS {
            return Err(Refused);
        }
        if wanted > covered.load(Ordering::Relaxed) {
            extend(&mut self.heaps, wanted * Heap::STEP)?;
            covered.store(wanted, Ordering::Release);
        }
        Ok(())
    }
}

/// Makes a table at least `bytes` long.
fn extend(table: &mut Reservation, bytes: usize) -> Result<(), Refused> {
    let end = bytes.next_multiple_of(page_size());
    if end <= table.extent() { Ok(()) } else { table.extend(end) }
}
