//! What the operation does to each block, learned by doing it once without a kill; and what a survivor may find, then.

use heapwright_shared::{Offset, SharedHeap, SmallBlocks};

use crate::census::{Census, verify};
use crate::words;

/// A block that the test filled, before the operation and after it.
#[derive(Clone, Copy, Debug)]
pub struct Fate {
    /// What it is filled with.
    pub tag: u64,
    /// Where it is before the operation, and how many of its bytes are filled.
    pub before: (Offset, usize),
    /// The same after the operation; nowhere when that frees it.
    pub after: Option<(Offset, usize)>,
}

/// The heap before the operation and after it.
#[derive(Clone, Debug)]
pub struct Fates {
    pub before: Census,
    pub after: Census,
    pub blocks: Vec<Fate>,
    /// How many more blocks the operation allocates on its way.
    pub passing: usize,
}

impl Fates {
    /// Says whether a heap is as a process that was killed in the middle of the operation may leave it.
    ///
    /// # Errors
    /// What is lost, or was not there and is not the block in flight.
    pub fn allow(&self, heap: &SharedHeap) -> Result<(), String> {
        let found = Census::take(heap)?;
        for fate in &self.blocks {
            self.allow_block(heap, &found, fate)?;
        }
        let mut passing = 0;
        for (offset, used) in &found.used {
            let known = [&self.before, &self.after]
                .iter()
                .any(|census| census.used.get(offset).is_some_and(|expected| expected.size == used.size));
            passing += usize::from(!known);
            if passing > self.passing {
                return Err(format!("a used block of {} bytes at {offset:#x} that no process asked for", used.size));
            }
            if !self.before.used.contains_key(offset) && !used.left_behind {
                return Err(format!("the block in flight at {offset:#x} is not listed as left behind"));
            }
        }
        if let Some(lost) = self.stays().find(|offset| !found.used.contains_key(offset)) {
            return Err(format!("the block at {lost:#x}, which the operation does not touch, is lost"));
        }
        self.allow_roots(&found)?;
        let sizes = self.before.size..=self.after.size;
        if !sizes.contains(&found.size) {
            return Err(format!("the heap has {} bytes, not {sizes:?}", found.size));
        }
        Ok(())
    }

    /// Blocks that are there before and after.
    fn stays(&self) -> impl Iterator<Item = &u64> {
        self.before.used.keys().filter(|offset| self.after.used.contains_key(offset))
    }

    /// The block is where it was or where it comes to be, with its contents; only one that is freed may be gone.
    fn allow_block(&self, heap: &SharedHeap, found: &Census, fate: &Fate) -> Result<(), String> {
        let (place, bytes) = fate.before;
        let Some((new_place, new_bytes)) = fate.after else {
            let still = found.used.contains_key(&place.get());
            return if still { verify(heap, place, bytes, fate.tag) } else { Ok(()) };
        };
        let held = |place: Offset| found.used.get(&place.get()).map(|used| bytes.min(new_bytes).min(used.size));
        match (held(place), held(new_place)) {
            (Some(held), _) => verify(heap, place, held, fate.tag),
            (None, Some(held)) => verify(heap, new_place, held, fate.tag),
            (None, None) => Err(format!("block {} is lost: it is neither at {place:?} nor at {new_place:?}", fate.tag)),
        }
    }

    fn allow_roots(&self, found: &Census) -> Result<(), String> {
        let names = self.before.roots.keys().chain(self.after.roots.keys()).chain(found.roots.keys());
        for name in names {
            let now = found.roots.get(name);
            if now != self.before.roots.get(name) && now != self.after.roots.get(name) {
                return Err(format!("the root {name:?} points at {now:x?}"));
            }
        }
        Ok(())
    }
}

/// Frees all that is there and looks whether the heap is as good as new.
///
/// # Errors
/// What a free said, or what is left.
pub fn empty(heap: &SharedHeap) -> Result<(), String> {
    for root in heap.roots().map_err(words("roots"))? {
        heap.replace_root(&root.name, Some(root.offset), None).map_err(words("replace_root"))?;
    }
    heap.reclaim_dead().map_err(words("reclaim_dead"))?;
    let rest = Census::take(heap)?;
    if let Some((offset, _)) = rest.used.iter().find(|(_, used)| used.left_behind) {
        return Err(format!("the block at {offset:#x} was not reclaimed"));
    }
    for &offset in rest.used.keys() {
        let offset = Offset::new(offset).ok_or("a block at offset 0")?;
        heap.deallocate(offset).map_err(words("deallocate"))?;
    }
    heap.check().map_err(words("check, of the emptied heap"))?;
    let blocks = heap.blocks().map_err(words("blocks"))?;
    if heap.small_blocks() == SmallBlocks::Slabs {
        // Slabs may be kept, empty.
        return Ok(());
    }
    // Free neighbours that did not become one hole: only buddies may stay apart, and those only when of different
    // orders.
    let apart = blocks.windows(2).find(|pair| {
        let same = pair[0].size == pair[1].size;
        if heap.policy() == heapwright_shared::PolicyKind::Buddy { same } else { true }
    });
    match apart {
        Some(pair) => {
            Err(format!("the emptied heap has separate holes at {:?} and {:?}", pair[0].offset, pair[1].offset))
        }
        None => Ok(()),
    }
}
