//! The tables that describe the pages. Each grows with what it describes, and takes no memory before.

use core::sync::atomic::Ordering;

use heapwright_os::{Refused, Reservation, page_size};

use crate::classes::SLAB;
use crate::links::SideTable;
use crate::platform::{AtomicU32, AtomicUsize, make_atomic};
use crate::slab::SlabMeta;
use crate::slab::dissolved::GrainMap;

/// The number of threads that may have heaps at the same time. The blocks of further threads are placed by the page
/// heap.
pub const MAX_HEAPS: usize = 1 << 14;

/// The bytes of each heap in the table of heaps: a page, so that no two threads share one.
pub(crate) const HEAP_STEP: usize = 4 << 10;

/// The tables for a given number of slabs.
pub(crate) struct Tables {
    /// The page map: for each slab, its owner and its class.
    entries: Reservation,
    /// For each slab, its metadata.
    slabs: Reservation,
    /// For each KiB of the pages, a link or the mark of a long block.
    side_table: Reservation,
    /// For each slab, room for its map when it is dissolved.
    grain_maps: Reservation,
    /// The threads' heaps.
    heaps: Reservation,
}

impl Tables {
    /// The least number of slabs by which the tables grow.
    const STEP: usize = 32;

    /// Returns the bytes of addresses that the tables of `slabs` slabs take.
    pub(crate) fn length(slabs: usize) -> usize {
        Tables::lengths(slabs).iter().sum()
    }

    /// The short tables first, so that all but the last two begin near to each other.
    fn lengths(slabs: usize) -> [usize; 5] {
        let bytes = [
            MAX_HEAPS * HEAP_STEP,
            slabs * size_of::<AtomicU32>(),
            slabs * size_of::<SlabMeta>(),
            SideTable::length(slabs * SLAB),
            slabs * size_of::<GrainMap>(),
        ];
        bytes.map(|bytes| bytes.next_multiple_of(page_size()))
    }

    /// Makes the tables of `slabs` slabs out of addresses of that length.
    pub(crate) fn of(slabs: usize, mut space: Reservation) -> Result<Tables, Refused> {
        let [heaps, entries, of_slabs, side_table, grain_maps] = Tables::lengths(slabs);
        Ok(Tables {
            heaps: space.cut_table(heaps)?,
            entries: space.cut_table(entries)?,
            slabs: space.cut_table(of_slabs)?,
            side_table: space.cut_table(side_table)?,
            grain_maps: space.cut_table(grain_maps)?,
        })
    }

    pub(crate) fn entries(&self) -> *mut AtomicU32 {
        self.entries.base().as_ptr().cast()
    }

    pub(crate) fn slabs(&self) -> *mut SlabMeta {
        self.slabs.base().as_ptr().cast()
    }

    pub(crate) fn grain_maps(&self) -> *mut GrainMap {
        self.grain_maps.base().as_ptr().cast()
    }

    pub(crate) fn side_table(&self) -> *mut u8 {
        self.side_table.base().as_ptr()
    }

    pub(crate) fn heaps(&self) -> *mut u8 {
        self.heaps.base().as_ptr()
    }

    /// Makes the tables long enough for `slabs` slabs, and for some more at once. `covered` is the number of slabs that
    /// they are long enough for.
    ///
    /// # Errors
    /// [`Refused`]; the tables are as long as before, or longer.
    #[inline]
    pub(crate) fn cover(&mut self, slabs: usize, covered: &AtomicUsize) -> Result<(), Refused> {
        if slabs <= covered.load(Ordering::Relaxed) { Ok(()) } else { self.grow(slabs, covered) }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, slabs: usize, covered: &AtomicUsize) -> Result<(), Refused> {
        let before = covered.load(Ordering::Relaxed);
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

    fn extend(&mut self, slabs: usize) -> Result<(), Refused> {
        extend(&mut self.entries, slabs * size_of::<AtomicU32>())?;
        extend(&mut self.slabs, slabs * size_of::<SlabMeta>())?;
        extend(&mut self.side_table, SideTable::length(slabs * SLAB))
    }

    /// Makes room for the maps of the first `slabs` slabs; returns for how many there is room.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn cover_grain_maps(&mut self, slabs: usize) -> Result<usize, Refused> {
        extend(&mut self.grain_maps, slabs * size_of::<GrainMap>())?;
        Ok(self.grain_maps.extent() / size_of::<GrainMap>())
    }

    /// Makes the table of heaps long enough for the heap of `owner`, and for some more at once. `covered` is the number
    /// of heaps that it is long enough for.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn cover_heap(&mut self, owner: u32, covered: &AtomicUsize) -> Result<(), Refused> {
        /// The number of heaps by which the table grows. `heapwright watch` reads that number at once.
        const TOGETHER: usize = 16;
        let wanted = (owner as usize + 1).next_multiple_of(TOGETHER);
        if wanted > MAX_HEAPS {
            return Err(Refused);
        }
        if wanted > covered.load(Ordering::Relaxed) {
            extend(&mut self.heaps, wanted * HEAP_STEP)?;
            covered.store(wanted, Ordering::Release);
        }
        Ok(())
    }
}

/// Makes a table at least `bytes` long.
#[inline(never)]
fn extend(table: &mut Reservation, bytes: usize) -> Result<(), Refused> {
    let end = bytes.next_multiple_of(page_size());
    if end <= table.extent() { Ok(()) } else { table.extend(end) }
}
