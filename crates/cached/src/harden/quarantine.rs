//! Queues in which freed blocks wait: first in, first out, of limited length.

/// What waits in a queue.
pub(super) trait Waiting: Copy {
    /// Fills the places that are not used.
    const NOTHING: Self;

    /// Returns the number of bytes of the block.
    fn bytes(self) -> usize;
}

/// A queue of at most `N`. All zeros is an empty one, if [`Waiting::NOTHING`] is zeros.
pub(super) struct Queue<W, const N: usize> {
    first: usize,
    count: usize,
    bytes: usize,
    waiting: [W; N],
}

impl<W: Waiting, const N: usize> Queue<W, N> {
    pub(super) const EMPTY: Self = Queue { first: 0, count: 0, bytes: 0, waiting: [W::NOTHING; N] };

    /// Adds a block at the end. There must be room: fewer than `N` wait.
    #[inline(always)]
    pub(super) fn add(&mut self, waiting: W) {
        self.waiting[(self.first + self.count) % N] = waiting;
        self.count += 1;
        self.bytes += waiting.bytes();
    }

    /// Takes the first out if there is no room for another of `bytes` bytes, where `most` may wait.
    #[inline(always)]
    pub(super) fn make_room(&mut self, bytes: usize, most: usize) -> Option<W> {
        if self.count == N || self.bytes.saturating_add(bytes) > most { self.take() } else { None }
    }

    /// Takes the first out of a full queue and adds a block at the end, if no more than `most` bytes wait then.
    #[inline(always)]
    pub(super) fn exchange(&mut self, waiting: W, most: usize) -> Option<W> {
        if self.count != N {
            return None;
        }
        let place = &mut self.waiting[self.first % N];
        let bytes = self.bytes - place.bytes() + waiting.bytes();
        if bytes > most {
            return None;
        }
        self.bytes = bytes;
        self.first = (self.first + 1) % N;
        Some(core::mem::replace(place, waiting))
    }

    /// Takes the first out.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<W> {
        self.count = self.count.checked_sub(1)?;
        let waiting = self.waiting[self.first];
        self.first = (self.first + 1) % N;
        self.bytes -= waiting.bytes();
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Block {
        number: usize,
        bytes: usize,
    }

    impl Waiting for Block {
        const NOTHING: Block = Block { number: 0, bytes: 0 };

        fn bytes(self) -> usize {
            self.bytes
        }
    }

    #[test]
    fn the_first_goes_first_and_no_more_wait_than_may() {
        let mut queue = Queue::<Block, 4>::EMPTY;
        let mut gone = std::vec::Vec::new();
        for number in 1..=9 {
            let bytes = if number == 8 { 100 } else { 10 };
            match queue.exchange(Block { number, bytes }, 105) {
                Some(waiting) => gone.push(waiting.number),
                None => {
                    while let Some(waiting) = queue.make_room(bytes, 105) {
                        gone.push(waiting.number);
                    }
                    queue.add(Block { number, bytes });
                }
            }
        }
        // The eighth is alone with its hundred bytes, and the ninth is too much beside it.
        assert_eq!(gone, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((queue.take().map(|block| block.number), queue.take().is_none(), queue.bytes), (Some(9), true, 0));
    }
}
