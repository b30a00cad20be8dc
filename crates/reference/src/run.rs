//! The blocks of the list.

use heapwright_placement::BlockState;

/// A run of granules, used or free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) state: BlockState,
}

impl Run {
    pub(super) fn used(start: usize, len: usize) -> Run {
        Run { start, len, state: BlockState::Used }
    }

    pub(super) fn hole(start: usize, len: usize) -> Run {
        Run { start, len, state: BlockState::Free }
    }

    pub(super) fn end(&self) -> usize {
        self.start + self.len
    }

    pub(super) fn is_hole(&self) -> bool {
        self.state == BlockState::Free
    }
}
