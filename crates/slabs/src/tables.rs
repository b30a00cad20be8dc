//! The tables that describe the pages. Each grows with what it describes, and takes no memory before.

use core::sync::atomic::Ordering;

use heapwright_heaps::Room;
use heapwright_os::{Refused, Reservation, TableBelow, page_size};

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

/// The tables for a given number of slabs. Two of them grow downwards, each from the beginning of another: what is used
/// of the two shares a mapping and a page table.
pub(crate) struct Tables {
    /// The page map: for each slab, its owner and its class.
    entries: Reservation,
    /// For each slab, its metadata, downwards from the metadata of the page heap.
    slabs: TableBelow,
    /// For each KiB of the pages, a link or the mark of a long block.
    side_table: Reservation,
    /// For each slab, room for its map when it is dissolved.
    grain_maps: Reservation,
    /// The threads' heaps, downwards from the page map.
    heaps: TableBelow,
    /// The number of slabs.
    most: usize,
}

/// The lengths of tables, in bytes of addresses.
struct Lengths {
    heaps: usize,
    entries: usize,
    slabs: usize,
    side_table: usize,
    grain_maps: usize,
}

impl Lengths {
    fn of(slabs: usize) -> Lengths {
        /// The bytes by which the metadata of slabs ends behind a multiple of a power of two, so that what is used
        /// first of it lies in one page table.
        const BEHIND: usize = 64 << 10;
        /// The addresses of a page table of the second level on most processors.
        const MOST: usize = 1 << 30;
        let pages = |bytes: usize| bytes.next_multiple_of(page_size());
        let of_slabs = pages(slabs * size_of::<SlabMeta>());
        Lengths {
            heaps: MAX_HEAPS * HEAP_STEP,
            entries: pages(slabs * size_of::<AtomicU32>()),
            slabs: of_slabs.next_multiple_of(of_slabs.next_power_of_two().min(MOST)) + BEHIND,
            side_table: pages(SideTable::length(slabs * SLAB)),
            grain_maps: pages(slabs * size_of::<GrainMap>()),
        }
    }
}

impl Tables {
    /// The least number of slabs by which the tables grow.
    const STEP: usize = 32;

    /// Returns the addresses that the tables of `slabs` slabs take beside those of the page heap.
    pub(crate) fn room(slabs: usize) -> Room {
        let Lengths { heaps, entries, slabs, side_table, grain_maps } = Lengths::of(slabs);
        Room { before: slabs, after: heaps + entries + side_table + grain_maps }
    }

    /// Makes the tables of `slabs` slabs out of such addresses.
    #[cold]
    pub(crate) fn of(slabs: usize, mut before: Reservation, mut after: Reservation) -> Result<Tables, Refused> {
        let lengths = Lengths::of(slabs);
        Ok(Tables {
            slabs: before.cut_table_below(lengths.slabs)?,
            heaps: after.cut_table_below(lengths.heaps)?,
            entries: after.cut_table(lengths.entries)?,
            side_table: after.cut_table(lengths.side_table)?,
            grain_maps: after.cut_table(lengths.grain_maps)?,
            most: slabs,
        })
    }

    pub(crate) fn entries(&self) -> *mut AtomicU32 {
        self.entries.base().as_ptr().cast()
    }

    /// The metadata of the first slab; that of the next one lies below.
    pub(crate) fn slabs(&self) -> *mut SlabMeta {
        // SAFETY: the table has room for a slab.
        unsafe { self.slabs.end().as_ptr().cast::<SlabMeta>().sub(1) }
    }

    pub(crate) fn grain_maps(&self) -> *mut GrainMap {
        self.grain_maps.base().as_ptr().cast()
    }

    pub(crate) fn side_table(&self) -> *mut u8 {
        self.side_table.base().as_ptr()
    }

    /// The end of the page of the first heap; that of the next one lies below.
    pub(crate) fn heaps(&self) -> *mut u8 {
        self.heaps.end().as_ptr()
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
        let generous = slabs.max(before + before / 8 + Self::STEP).min(self.most);
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
        extend_below(&mut self.slabs, slabs * size_of::<SlabMeta>())?;
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
        let wanted = (owner as usize).next_multiple_of(TOGETHER);
        if wanted > MAX_HEAPS {
            return Err(Refused);
        }
        if wanted > covered.load(Ordering::Relaxed) {
            extend_below(&mut self.heaps, wanted * HEAP_STEP)?;
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

/// Makes a table that grows downwards at least `bytes` long.
#[inline(never)]
fn extend_below(table: &mut TableBelow, bytes: usize) -> Result<(), Refused> {
    table.extend(bytes.next_multiple_of(page_size()))
}
