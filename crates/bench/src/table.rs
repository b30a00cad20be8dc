//! The table in which a workload keeps its blocks: a mapping of its own, because memory of the heap would be measured,
//! and a static table would take its place in every process that links this crate.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

use crate::heap::Block;

/// A table of blocks, all of whose pages are resident.
pub struct Table {
    start: NonNull<Option<Block>>,
    length: usize,
}

impl Table {
    /// Returns a table of `length` empty places.
    ///
    /// # Errors
    /// A description, when the system refuses the memory.
    pub fn of(length: usize) -> Result<Table, String> {
        let bytes = length * size_of::<Option<Block>>();
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping replaces nothing.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(format!("no memory for a table of {length} blocks: {}", io::Error::last_os_error()));
        }
        let start = NonNull::new(start.cast::<Option<Block>>()).ok_or("the system mapped the address 0")?;
        // SAFETY: the mapping is `length` places long, aligned to a page, and nothing else refers to it. Writing a
        // place drops nothing.
        (0..length).for_each(|at| unsafe { start.add(at).write(None) });
        Ok(Table { start, length })
    }
}

impl Deref for Table {
    type Target = [Option<Block>];

    fn deref(&self) -> &[Option<Block>] {
        // SAFETY: `of` has initialised `length` places, which are mapped while this lives.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Table {
    fn deref_mut(&mut self) -> &mut [Option<Block>] {
        // SAFETY: as above; `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Table {
    /// Unmaps the table. Blocks in it have no destructor.
    fn drop(&mut self) {
        // SAFETY: `of` mapped exactly this, and nothing borrows it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length * size_of::<Option<Block>>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Heap;

    #[test]
    fn a_table_is_empty_and_keeps_blocks() {
        let (mut table, heap) = (Table::of(3000).unwrap(), Heap::of_this_process());
        assert!(table.len() == 3000 && table.iter().all(Option::is_none));
        table[2999] = Some(heap.allocate(10));
        assert_eq!(table.iter().flatten().map(Block::bytes).sum::<usize>(), 10);
        table[2999].take().into_iter().for_each(|block| heap.free(block));
    }

    #[test]
    fn a_table_without_room_is_refused() {
        assert!(Table::of(1 << 50).is_err_and(|error| error.contains("no memory for a table")));
    }
}
