//! A heap and what it must hold: every block's bytes are written when it is allocated and verified when it goes.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;

use heapwright::{FixedHeap, Policy};

struct Shadowed {
    layout: Layout,
    block: NonNull<u8>,
    fill: u8,
}

/// The live blocks of a heap by address.
#[derive(Default)]
pub struct Shadow {
    blocks: BTreeMap<usize, Shadowed>,
    last_fill: u8,
}

impl Shadow {
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The `nth` live block, counted from the lowest.
    fn nth(&self, nth: usize) -> Option<usize> {
        self.blocks.keys().nth(nth % self.len().max(1)).copied()
    }

    fn admit<P: Policy>(&mut self, heap: &FixedHeap<'_, P>, block: NonNull<u8>, layout: Layout) {
        let address = block.addr().get();
        assert!(address.is_multiple_of(layout.align()), "{layout:?} at {address:#x}");
        assert!(heap.contains(block) && heap.contains(block.map_addr(|a| a.saturating_add(layout.size() - 1))));
        let before = self.blocks.range(..=address).next_back();
        assert!(before.is_none_or(|(start, b)| start + b.layout.size() <= address), "overlaps the block before");
        let after = self.blocks.range(address..).next();
        assert!(after.is_none_or(|(start, _)| address + layout.size() <= *start), "overlaps the block behind");
        assert!(heap.usable_size(block).is_some_and(|usable| usable >= layout.size()));
        self.last_fill = self.last_fill.wrapping_add(1);
        // SAFETY: the heap granted these bytes.
        unsafe { block.write_bytes(self.last_fill, heap.usable_size(block).unwrap_or(0)) };
        self.blocks.insert(address, Shadowed { layout, block, fill: self.last_fill });
    }

    fn dismiss(&mut self, address: usize) -> Shadowed {
        let shadowed = self.blocks.remove(&address).expect("a live block");
        shadowed.verify(shadowed.layout.size());
        shadowed
    }

    pub fn allocate<P: Policy>(&mut self, heap: &mut FixedHeap<'_, P>, layout: Layout) -> bool {
        let Ok(block) = heap.allocate(layout) else { return false };
        assert_eq!(block.len(), layout.size());
        self.admit(heap, block.cast(), layout);
        true
    }

    pub fn free_nth<P: Policy>(&mut self, heap: &mut FixedHeap<'_, P>, nth: usize) {
        let Some(address) = self.nth(nth) else { return };
        let Shadowed { layout, block, .. } = self.dismiss(address);
        // SAFETY: the block goes, and the refused frees change nothing.
        unsafe {
            let usable = heap.usable_size(block).unwrap_or(0);
            let interior = block.map_addr(|a| a.saturating_add(usable / 2));
            assert!(usable == 1 || heap.deallocate_unsized(interior).is_err());
            let longer = Layout::from_size_align(usable + 1, 1).expect("a layout");
            assert!(heap.deallocate(block, longer).is_err());
            let freed =
                if nth.is_multiple_of(2) { heap.deallocate(block, layout) } else { heap.deallocate_unsized(block) };
            assert_eq!(freed, Ok(()));
            assert!(heap.deallocate(block, layout).is_err(), "freed twice");
        }
    }

    pub fn resize_nth<P: Policy>(&mut self, heap: &mut FixedHeap<'_, P>, nth: usize, new: Layout) {
        let Some(address) = self.nth(nth) else { return };
        let Shadowed { layout, block, fill } = self.dismiss(address);
        // SAFETY: the block was allocated for `layout` and is only used where it is afterwards.
        let resized = unsafe {
            if new.size() >= layout.size() { heap.grow(block, layout, new) } else { heap.shrink(block, layout, new) }
        };
        match resized {
            Ok(moved) => {
                Shadowed { layout: new, block: moved.cast(), fill }.verify(layout.size().min(new.size()));
                self.admit(heap, moved.cast(), new);
            }
            Err(_) => {
                let same = Shadowed { layout, block, fill };
                same.verify(layout.size());
                self.blocks.insert(address, same);
            }
        }
    }

    /// Verifies every live block, and that the heap walks over exactly these.
    pub fn verify<P: Policy>(&self, heap: &FixedHeap<'_, P>) {
        heap.check().unwrap_or_else(|violation| panic!("{violation}"));
        self.blocks.values().for_each(|b| b.verify(b.layout.size()));
        let used = heap.blocks().filter(|block| block.state == heapwright::BlockState::Used);
        assert_eq!(used.count(), self.len());
        assert_eq!(heap.blocks().map(|block| block.size).sum::<usize>(), heap.capacity());
    }

    pub fn free_all<P: Policy>(&mut self, heap: &mut FixedHeap<'_, P>) {
        while self.len() > 0 {
            self.free_nth(heap, self.len() / 2);
        }
    }
}

impl Shadowed {
    fn verify(&self, bytes: usize) {
        // SAFETY: the block is live and was filled up to at least this.
        let held = unsafe { std::slice::from_raw_parts(self.block.as_ptr(), bytes) };
        assert!(held.iter().all(|&byte| byte == self.fill), "the contents of {:?} changed", self.block);
    }
}
