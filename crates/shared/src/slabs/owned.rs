//! What a process keeps of the slabs that it owns: hints by which it finds free blocks, of which nothing is lost with
//! it.

use super::ledger::{Ledger, lasting};
use super::owned_class::{FreeBlock, FreedIn, OwnedClass};
use crate::format::slab::SLAB;
use crate::mapped::sections::Sections;

/// What the owner of slabs knows of them.
pub(crate) struct Owned {
    pub(crate) classes: Vec<OwnedClass>,
    ledger: Ledger,
    latest: Latest,
    /// How often a slab was wanted, from the segment.
    pub(crate) refills: usize,
    /// The place where the next search for slabs of processes that left begins.
    pub(crate) cursor: usize,
    /// When the system may be asked again which processes live, in nanoseconds of its clock.
    pub(crate) next_look: u64,
    /// What had happened to slabs when a search for more found none; 0 after one that did.
    pub(crate) fruitless: u64,
    /// Whether a slab that is empty and not needed was not given back, because another process had the lock.
    pub(crate) has_spare: bool,
}

/// Where the block lies that was taken last, and its class, which has the block's bit. It is often freed next, and
/// found without the metadata of its slab: what follows from its address would take longer than all else.
#[derive(Clone, Copy)]
struct Latest {
    place: usize,
    class: usize,
}

impl Owned {
    /// No slabs yet.
    ///
    /// # Safety
    /// Nothing is asked of this when the sections are no longer mapped.
    pub(super) unsafe fn new(sections: &Sections, slot: u8) -> Owned {
        let (Some(shape), Some(counts)) = (sections.layout.shape, sections.slab_counts(slot)) else {
            return Owned::nothing();
        };
        // SAFETY: the caller's promise.
        let (counts, ledger) = unsafe { (lasting(counts), Ledger::of(sections, slot, shape)) };
        let classes = (0..shape.classes()).map(|class| OwnedClass::new(&shape, class, counts)).collect();
        Owned { classes, ledger, ..Owned::nothing() }
    }

    /// No classes: in a heap without slabs, and for a handle that has left.
    pub(super) fn nothing() -> Owned {
        let latest = Latest { place: usize::MAX, class: 0 };
        Owned {
            classes: Vec::new(),
            ledger: Ledger::nothing(),
            latest,
            refills: 0,
            cursor: 0,
            next_look: 0,
            fruitless: 0,
            has_spare: false,
        }
    }

    /// As [`Owned::take`], for `bytes`.
    #[inline(always)]
    pub(crate) fn take_for(&mut self, bytes: usize) -> Option<usize> {
        self.take(self.ledger.granule.class_for(bytes)?)
    }

    /// Takes a block from the current word of `class`, and returns its place; `None` when that has none.
    #[inline(always)]
    pub(crate) fn take(&mut self, class: usize) -> Option<usize> {
        let place = self.classes.get_mut(class)?.take(&self.ledger)?;
        self.latest = Latest { place, class };
        Some(place)
    }

    /// Finds a word of a slab of `class` with free blocks.
    pub(crate) fn find_room(&mut self, sections: &Sections, class: usize) -> bool {
        self.classes[class].find_room(sections, self.ledger.slot)
    }

    /// Returns the block of `class` that the process takes next; `None` when no slab is known to have one.
    pub(crate) fn choose(&mut self, sections: &Sections, class: usize) -> Option<FreeBlock> {
        let (class, slot) = (&mut self.classes[class], self.ledger.slot);
        class.next(&self.ledger).or_else(|| class.find_room(sections, slot).then(|| class.next(&self.ledger))?)
    }

    /// The block of `class` that was chosen last is taken.
    pub(crate) fn count_taken(&mut self, class: usize, taken: &FreeBlock) {
        self.classes[class].count_taken(taken);
    }

    /// Returns whether a slab of `class` is worth its memory. Called for each block for which no slab has room.
    pub(crate) fn is_worth_a_slab(&mut self, class: usize) -> bool {
        self.classes[class].is_worth_a_slab()
    }

    /// The heap is known to have `size` bytes of data, and never becomes shorter.
    pub(crate) fn set_reach(&mut self, size: usize) {
        self.ledger.set_reach(size);
    }

    /// Frees the live block at `place` in a slab of one's own. Returns the class, and which slab it is; `None` for any
    /// other block.
    #[inline(always)]
    pub(crate) fn put_back(&mut self, place: usize) -> Option<(usize, FreedIn)> {
        if place == self.latest.place && self.classes.get_mut(self.latest.class)?.put_back_latest().is_ok() {
            return Some((self.latest.class, FreedIn::Current));
        }
        let unit = place / SLAB;
        let slab = self.ledger.slab(unit)?;
        let number = slab.class_if_of(self.ledger.tenures)?;
        let class = self.classes.get_mut(number)?;
        // SAFETY: the class is one of the shape that the ledger's slabs have.
        let (words, bit) = unsafe { slab.words_at(place % SLAB, class.cut) }?;
        Some((number, class.clear_counted(words, bit, unit).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::Small;
    use super::*;
    use crate::format::publication::Published;
    use crate::slabs::lane::tests::heap_with_slabs;
    use crate::slabs::marks::reconcile;
    use crate::slabs::parts::redo;
    use crate::terms::error::Error;
    use crate::terms::offset::Offset;

    /// How many blocks are live is counted when a slab is no longer the current one.
    #[test]
    fn slabs_that_become_empty_are_given_back() {
        let heap = heap_with_slabs("empty");
        let blocks: Vec<Offset> = (0..160).map(|_| heap.allocate(2048).unwrap()).collect();
        assert_eq!(heap.counters().unwrap().live, 10 * SLAB as u64);
        blocks.into_iter().for_each(|block| heap.deallocate(block).unwrap());
        assert!(heap.counters().unwrap().live <= 3 * SLAB as u64);
    }

    /// The 64th block of 64 bytes is the last of its word, and has the bit that the last one of the next word has.
    #[test]
    fn the_block_that_was_taken_last_is_freed_and_no_other() {
        let heap = heap_with_slabs("latest");
        let head: Offset<Option<Offset>> = heap.allocate_value(None).unwrap();
        let latest = (1..64).map(|_| heap.allocate(64).unwrap()).last().unwrap();
        // SAFETY: the word serves this test only, and stays.
        let shown: Vec<Offset> = (0..64).map(|_| unsafe { heap.allocate_into(head, 64, |_, _| {}) }.unwrap()).collect();
        heap.deallocate(latest).unwrap();
        assert_eq!(heap.deallocate(latest), Err(Error::AlreadyFree { offset: latest.get() }));
        assert!(shown.iter().all(|&block| heap.usable_size(block) == Ok(64)));
    }

    #[test]
    fn the_block_that_was_taken_last_is_freed_once() {
        let heap = heap_with_slabs("once");
        let place = |block: Offset| block.get() as usize - heap.mapping.layout.data;
        let block = heap.allocate(64).unwrap();
        heap.deallocate(block).unwrap();
        assert_eq!(heap.deallocate(block), Err(Error::AlreadyFree { offset: block.get() }));
        assert_eq!(heap.allocate(64), Ok(block));
        let small = Small::at(&heap.mapping, place(block)).unwrap().unwrap();
        small.give(&heap.mapping, heap.lane.slot()).unwrap();
        assert_eq!(heap.deallocate(block), Err(Error::AlreadyFree { offset: block.get() }));
        assert!((0..1000).filter(|_| heap.allocate(64) == Ok(block)).count() <= 1);
    }

    #[test]
    fn what_follows_from_a_slabs_class_is_derived_anew_by_recovery() {
        let heap = heap_with_slabs("derived");
        // The last one would be found without its number.
        let blocks: Vec<Offset> = (0..5).map(|_| heap.allocate(600).unwrap()).collect();
        let unit = (blocks[3].get() as usize - heap.mapping.layout.data) / SLAB;
        let data = heap.mapping.layout.data as u64;
        heap.mapping.slab(unit).unwrap().derive(0);
        assert!(heap.deallocate(blocks[3]).is_err());
        let mut section = heap.enter().unwrap();
        reconcile(&heap.mapping, section.engine());
        drop(section);
        heap.deallocate(blocks[3]).unwrap();
        let end = blocks[0].get() - (blocks[0].get() - data) % SLAB as u64 + (SLAB / 640 * 640) as u64;
        assert_eq!(heap.deallocate(Offset::new(end).unwrap()), Err(Error::NotABlock { offset: end }));
    }

    #[test]
    fn a_check_finds_wrong_reciprocals() {
        let heap = heap_with_slabs("reciprocal");
        let block = heap.allocate(600).unwrap();
        let unit = (block.get() as usize - heap.mapping.layout.data) / SLAB;
        heap.check().unwrap();
        heap.mapping.slab(unit).unwrap().derive(0);
        let offset = (heap.mapping.layout.data + unit * SLAB) as u64;
        assert_eq!(heap.check(), Err(Error::Corrupted { what: "a slab numbers its blocks wrongly", offset }));
    }

    /// Only damage sets bits behind a slab's last block. A free there that finds one must not lead out of the slab.
    #[test]
    fn what_lies_behind_a_slabs_last_block_is_never_taken() {
        let heap = heap_with_slabs("behind");
        let block = heap.allocate(640).unwrap();
        let unit = (block.get() as usize - heap.mapping.layout.data) / SLAB;
        let words = heap.mapping.slab(unit).unwrap().words(0).unwrap();
        words.take(1 << 51);
        let behind = (heap.mapping.layout.data + unit * SLAB + 51 * 640) as u64;
        assert_eq!(heap.deallocate(Offset::new(behind).unwrap()), Err(Error::NotABlock { offset: behind }));
        assert!((0..100).all(|_| heap.allocate(640).unwrap().get() != behind));
    }

    /// Another process died after it had freed a block from a word, before its record was cleared.
    #[test]
    fn a_block_whose_free_is_on_record_is_left_alone() {
        let heap = heap_with_slabs("spared");
        let blocks: Vec<Offset> = (0..16).map(|_| heap.allocate(2048).unwrap()).collect();
        let (freed, publication) = (blocks[5], &heap.mapping.header().publication);
        publication.write(Published { freed: freed.get(), ..Published::of(blocks[0].get(), None) });
        let small = Small::at(&heap.mapping, freed.get() as usize - heap.mapping.layout.data).unwrap().unwrap();
        small.give(&heap.mapping, heap.lane.slot()).unwrap();
        let another = heap.allocate(2048).unwrap();
        assert_ne!(another, freed);
        redo(&heap.mapping, heap.size().unwrap(), &publication.read().unwrap()).unwrap();
        assert!(!small.is_live());
        publication.clear();
        let next: Vec<Offset> = (0..16).map(|_| heap.allocate(2048).unwrap()).collect();
        assert!(next.contains(&freed) && !next.contains(&another));
        heap.check().unwrap();
    }
}
