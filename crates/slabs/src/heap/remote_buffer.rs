//! The remote-free buffers: blocks of other heaps that a thread has freed, to be sent to their owners in batches.

use core::ptr::{NonNull, null_mut};

use super::front::Front;
use crate::arena::ARENA;
use crate::carrier::Room;
use crate::inbox::weight_of;
use crate::links::{Chain, Key, Links};
use crate::origin::Origin;
use crate::platform::{BATCH_WEIGHT, batch_blocks};

/// The number of buffers, and thus of owners that have one at the same time.
pub(super) const REMOTE_BUFFERS: usize = 4;

/// A batch of blocks of another heap: at most 32 of them, and at most 32 KiB, in a list of carriers.
pub(super) struct RemoteBuffer {
    /// The carrier that was begun last; null for none.
    pub(super) first: *mut u8,
    /// The carrier that was begun first.
    last: *mut u8,
    owner: u32,
    /// The blocks' weight, see [`weight_of`].
    weight: u32,
    /// The number of blocks.
    pub(super) count: u32,
    /// The room in `first`.
    room: Room,
    /// The class of `last`.
    last_class: u8,
}

/// The result of adding a block.
pub(super) enum Added {
    /// The block was added last already.
    AlreadyFree,
    /// The block is in the buffer; `overdue` is a heap to reclaim for, to which a batch was sent.
    Buffered { overdue: Option<u32> },
}

impl RemoteBuffer {
    pub(super) const EMPTY: RemoteBuffer = RemoteBuffer {
        first: null_mut(),
        last: null_mut(),
        owner: 0,
        weight: 0,
        count: 0,
        room: Room::NONE,
        last_class: 0,
    };

    /// Adds a block. Sends the buffer's blocks first if they are of another owner, and sends a full batch.
    ///
    /// # Safety
    /// The block is of that origin, free and in no list; the links are its class's, and the key is the process's.
    #[inline(always)]
    pub(super) unsafe fn add(&mut self, origin: &Origin, block: NonNull<u8>, links: Links, key: Key) -> Added {
        let mut overdue = None;
        if self.owner != origin.entry.owner() {
            overdue = self.flush();
            self.owner = origin.entry.owner();
        }
        let block = block.as_ptr();
        // SAFETY: the caller's promise; the room is that in the first carrier.
        unsafe {
            if self.room.latest(self.first, key) == block {
                return Added::AlreadyFree;
            }
            if !self.room.load(self.first, key, block) {
                self.begin(block, origin.class, links, key);
            }
        }
        self.count += 1;
        self.weight += weight_of(origin.class) as u32;
        if self.count == batch_blocks() || self.weight as usize >= BATCH_WEIGHT {
            overdue = self.flush().or(overdue);
        }
        Added::Buffered { overdue }
    }

    /// Makes a block the first carrier.
    ///
    /// # Safety
    /// As [`RemoteBuffer::add`].
    #[inline(always)]
    unsafe fn begin(&mut self, block: *mut u8, class: usize, links: Links, key: Key) {
        // SAFETY: the caller's promise.
        unsafe {
            links.link(block, self.first);
            self.room = Room::of(block, class, key);
        }
        if self.first.is_null() {
            (self.last, self.last_class) = (block, class as u8);
        }
        self.first = block;
    }

    /// Sends the blocks to their owner; returns it if this thread has to reclaim for it.
    #[inline(never)]
    pub(super) fn flush(&mut self) -> Option<u32> {
        let RemoteBuffer { first, last, owner, weight, count, last_class, .. } =
            core::mem::replace(self, RemoteBuffer { owner: self.owner, ..Self::EMPTY });
        let chain = Chain { first, last, count, end: ARENA.links(last_class.into()) };
        // SAFETY: the blocks are free, and in no list but this.
        (count != 0 && unsafe { Front::of(owner).receive(&chain, weight as usize) }).then_some(owner)
    }
}
