//! A heap and what it must hold: every block's bytes are written when it is allocated and verified when it goes.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;

use heapwright::{Block, BlockState, FixedHeap, FreeError, Policy, Violation};

/// What a shadow asks of a heap.
pub trait Heap {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>>;

    /// # Safety
    /// If a used block starts at `block`, it is not used any more.
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Option<Layout>) -> Result<(), FreeError>;

    /// # Safety
    /// If a used block starts at `block`, what is cut off is not used any more, nor is the block once it has moved.
    unsafe fn reallocate(&mut self, block: NonNull<u8>, old: Layout, new: Layout) -> Option<NonNull<u8>>;

    fn usable_size(&self, block: NonNull<u8>) -> Option<usize>;

    fn check(&self) -> Result<(), Violation>;

    /// All blocks and the address that their offsets count from.
    fn walk(&self) -> (NonNull<u8>, Vec<Block>);
}

impl<P: Policy> Heap for FixedHeap<'_, P> {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let block = self.allocate(layout).ok()?;
        assert_eq!(block.len(), layout.size());
        assert!(self.contains(block.cast()));
        Some(block.cast())
    }

    unsafe fn free(&mut self, block: NonNull<u8>, layout: Option<Layout>) -> Result<(), FreeError> {
        // SAFETY: the caller's promise.
        unsafe {
            match layout {
                Some(layout) => self.deallocate(block, layout),
                None => self.deallocate_unsized(block),
            }
        }
    }

    unsafe fn reallocate(&mut self, block: NonNull<u8>, old: Layout, new: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the caller's promise.
        let moved =
            unsafe { if new.size() >= old.size() { self.grow(block, old, new) } else { self.shrink(block, old, new) } };
        moved.ok().map(NonNull::cast)
    }

    fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        (**self).usable_size(block)
    }

    fn check(&self) -> Result<(), Violation> {
        (**self).check()
    }

    fn walk(&self) -> (NonNull<u8>, Vec<Block>) {
        (self.base(), self.blocks().collect())
    }
}

#[cfg(feature = "os")]
impl<P: Policy> Heap for heapwright::GrowingHeap<P> {
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.allocate(layout).ok()
    }

    unsafe fn free(&mut self, block: NonNull<u8>, layout: Option<Layout>) -> Result<(), FreeError> {
        // SAFETY: the caller's promise.
        unsafe {
            match layout {
                Some(layout) => self.deallocate(block, layout),
                None => self.deallocate_unsized(block),
            }
        }
    }

    unsafe fn reallocate(&mut self, block: NonNull<u8>, old: Layout, new: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the caller's promise.
        let moved =
            unsafe { if new.size() >= old.size() { self.grow(block, old, new) } else { self.shrink(block, old, new) } };
        moved.ok()
    }

    fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        (**self).usable_size(block)
    }

    fn check(&self) -> Result<(), Violation> {
        self.check()
    }

    fn walk(&self) -> (NonNull<u8>, Vec<Block>) {
        (self.base(), self.blocks().collect())
    }
}

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

    fn admit(&mut self, heap: &impl Heap, block: NonNull<u8>, layout: Layout) {
        let address = block.addr().get();
        assert!(address.is_multiple_of(layout.align()), "{layout:?} at {address:#x}");
        let usable = heap.usable_size(block).expect("a used block");
        assert!(usable >= layout.size());
        let before = self.blocks.range(..=address).next_back();
        assert!(before.is_none_or(|(start, b)| start + b.layout.size() <= address), "overlaps the block before");
        let after = self.blocks.range(address..).next();
        assert!(after.is_none_or(|(start, _)| address + usable <= *start), "overlaps the block behind");
        self.last_fill = self.last_fill.wrapping_add(1);
        // SAFETY: the heap granted these bytes.
        unsafe { block.write_bytes(self.last_fill, usable) };
        self.blocks.insert(address, Shadowed { layout, block, fill: self.last_fill });
    }

    fn dismiss(&mut self, address: usize) -> Shadowed {
        let shadowed = self.blocks.remove(&address).expect("a live block");
        shadowed.verify(shadowed.layout.size());
        shadowed
    }

    pub fn allocate(&mut self, heap: &mut impl Heap, layout: Layout) -> bool {
        let Some(block) = heap.allocate(layout) else { return false };
        self.admit(heap, block, layout);
        true
    }

    pub fn free_nth(&mut self, heap: &mut impl Heap, nth: usize) {
        let Some(address) = self.nth(nth) else { return };
        let Shadowed { layout, block, .. } = self.dismiss(address);
        let usable = heap.usable_size(block).expect("a used block");
        let interior = block.map_addr(|a| a.saturating_add(usable / 2));
        let longer = Layout::from_size_align(usable + 1, 1).expect("a layout");
        // SAFETY: the block goes, and the refused frees change nothing.
        unsafe {
            assert!(usable == 1 || heap.free(interior, None).is_err());
            assert!(heap.free(block, Some(longer)).is_err());
            assert_eq!(heap.free(block, nth.is_multiple_of(2).then_some(layout)), Ok(()));
            assert!(heap.free(block, Some(layout)).is_err(), "freed twice");
        }
    }

    pub fn resize_nth(&mut self, heap: &mut impl Heap, nth: usize, new: Layout) {
        let Some(address) = self.nth(nth) else { return };
        let Shadowed { layout, block, fill } = self.dismiss(address);
        // SAFETY: the block was allocated for `layout` and is only used where it is afterwards.
        match unsafe { heap.reallocate(block, layout, new) } {
            Some(moved) => {
                Shadowed { layout: new, block: moved, fill }.verify(layout.size().min(new.size()));
                self.admit(heap, moved, new);
            }
            None => {
                assert!(heap.usable_size(block).is_some_and(|usable| usable >= layout.size()));
                let same = Shadowed { layout, block, fill };
                same.verify(layout.size());
                self.blocks.insert(address, same);
            }
        }
    }

    /// Verifies every live block, and that the heap's walk is over exactly these, without gaps.
    pub fn verify(&self, heap: &impl Heap) {
        heap.check().unwrap_or_else(|violation| panic!("{violation}"));
        self.blocks.values().for_each(|b| b.verify(b.layout.size()));
        let (base, blocks) = heap.walk();
        assert!(blocks.first().is_none_or(|block| block.offset == 0));
        assert!(blocks.windows(2).all(|pair| pair[0].offset + pair[0].size == pair[1].offset));
        let mut used = blocks.iter().filter(|block| block.state == BlockState::Used);
        assert_eq!(used.clone().count(), self.len());
        assert!(self.blocks.keys().all(|&address| used.next().is_some_and(|block| {
            let start = base.addr().get() + block.offset;
            (start..start + block.size).contains(&address)
        })));
    }

    pub fn free_all(&mut self, heap: &mut impl Heap) {
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
