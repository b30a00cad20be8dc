//! Minimizes a trace while a condition holds.

use std::ops::Range;
use std::sync::Arc;

use heapwright_trace::{Event, Kind};

/// The life of a block: its allocation, its resizes and its free. The unit that minimization leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Life {
    kind: Kind,
    align: u64,
    /// Time and requested bytes of the allocation, then of every resize.
    sizes: Vec<(usize, u64)>,
    /// The time of the free; `None` if the block is never freed.
    end: Option<usize>,
}

/// A trace as the lives of its blocks, each of which can be left out.
///
/// Threads and requests that failed in the program are left out from the start.
///
/// ```
/// use heapwright_replay::Lives;
/// use heapwright_trace::{Event, Kind};
/// let request = |block, size| Event::Allocate { block, kind: Kind::Malloc, size, align: 16 };
/// let trace = [request(0, 1), request(1, 9000), Event::Free { block: 0 }, request(2, 9), Event::Free { block: 1 }];
/// let is_large = |event: &Event| matches!(event, Event::Allocate { size, .. } if *size > 100);
/// let small = Lives::of(trace).minimize(|lives| Ok::<_, ()>(Some(lives.events().iter().any(is_large))))?;
/// assert_eq!(small.lives.events(), [request(0, 101)]);
/// assert!(small.is_minimal);
/// # Ok::<(), ()>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lives {
    lives: Vec<Arc<Life>>,
}

/// The result of minimization.
#[derive(Clone, Debug)]
pub struct Minimized {
    /// The remaining blocks.
    pub lives: Lives,
    /// Whether the condition fails if any further block is left out; `false` if time ran out first.
    pub is_minimal: bool,
    /// The number of evaluations of the condition.
    pub asked: u64,
}

impl Lives {
    /// Returns the lives of the blocks of a trace, which must be numbered as in a file.
    #[must_use]
    pub fn of(events: impl IntoIterator<Item = Event>) -> Lives {
        let mut lives: Vec<Life> = Vec::new();
        // The life that each block number belongs to.
        let mut owners: Vec<Option<usize>> = Vec::new();
        for (time, event) in events.into_iter().enumerate() {
            match event {
                Event::Allocate { kind, size, align, .. } => {
                    owners.push(Some(lives.len()));
                    lives.push(Life { kind, align, sizes: vec![(time, size)], end: None });
                }
                Event::Resize { block, size, .. } => {
                    let owner = take(&mut owners, block);
                    owners.push(owner);
                    if let Some(owner) = owner {
                        lives[owner].sizes.push((time, size));
                    }
                }
                Event::Free { block } => {
                    if let Some(owner) = take(&mut owners, block) {
                        lives[owner].end = Some(time);
                    }
                }
                _ => {}
            }
        }
        Lives { lives: lives.into_iter().map(Arc::new).collect() }
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lives.len()
    }

    /// Returns whether there are no blocks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }

    /// Returns the events of the blocks, in order.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let mut steps: Vec<(usize, usize, Step)> = Vec::new();
        for (owner, life) in self.lives.iter().enumerate() {
            for (at, &(time, size)) in life.sizes.iter().enumerate() {
                steps.push((time, owner, if at == 0 { Step::Begin(size) } else { Step::Resize(size) }));
            }
            steps.extend(life.end.map(|time| (time, owner, Step::End)));
        }
        steps.sort_unstable_by_key(|&(time, ..)| time);
        let mut numbers = vec![0; self.lives.len()];
        let mut next = 0;
        let mut new_block = |number: &mut u64| {
            *number = next;
            next += 1;
            *number
        };
        let event = |(_, owner, step): (usize, usize, Step)| {
            let (life, number) = (&self.lives[owner], &mut numbers[owner]);
            match step {
                Step::Begin(size) => {
                    Event::Allocate { block: new_block(number), kind: life.kind, size, align: life.align }
                }
                Step::Resize(size) => Event::Resize { block: *number, becomes: new_block(number), size },
                Step::End => Event::Free { block: *number },
            }
        };
        steps.into_iter().map(event).collect()
    }

    /// Minimizes the trace: leaves out blocks and reduces sizes while the condition `holds` is true. The caller must
    /// have checked that it is true for `self`.
    ///
    /// Blocks are left out by delta debugging (A. Zeller and R. Hildebrandt, Simplifying and isolating failure-inducing
    /// input, IEEE Trans. Software Eng. 28 (2002)): halves first, then quarters, and so on, until no single block can
    /// be left out. Then frees and resizes are left out, each size is reduced by bisection, and blocks are tried again.
    /// The search is deterministic if `holds` is. `holds` returns `None` when time has run out; the answer is then the
    /// smallest trace found so far.
    ///
    /// Evaluates `holds` `O(b²)` times in the worst case for `b` blocks, `O(k log b)` times if `k` blocks matter.
    ///
    /// # Errors
    /// The errors of `holds`.
    pub fn minimize<E>(self, holds: impl FnMut(&Lives) -> Result<Option<bool>, E>) -> Result<Minimized, E> {
        let mut search = Search { best: self, holds, asked: 0, in_time: true };
        search.run()?;
        Ok(Minimized { lives: search.best, is_minimal: search.in_time, asked: search.asked })
    }

    fn without(&self, left_out: &Range<usize>) -> Lives {
        let lives = &self.lives;
        Lives { lives: [&lives[..left_out.start], &lives[left_out.end..]].concat() }
    }
}

#[derive(Clone, Copy)]
enum Step {
    Begin(u64),
    Resize(u64),
    End,
}

/// Takes the life of a block that is resized or freed.
fn take(owners: &mut [Option<usize>], block: u64) -> Option<usize> {
    owners.get_mut(usize::try_from(block).ok()?)?.take()
}

struct Search<H> {
    best: Lives,
    holds: H,
    asked: u64,
    in_time: bool,
}

impl<E, H: FnMut(&Lives) -> Result<Option<bool>, E>> Search<H> {
    fn run(&mut self) -> Result<(), E> {
        self.leave_out(self.best.len())?;
        while self.in_time && self.simplify()? {
            self.leave_out(1)?;
        }
        Ok(())
    }

    /// Evaluates the condition for `lives`; if it is true, they become the best.
    fn improves(&mut self, lives: Lives) -> Result<bool, E> {
        if !self.in_time {
            return Ok(false);
        }
        let holds = (self.holds)(&lives)?;
        self.in_time = holds.is_some();
        self.asked += u64::from(self.in_time);
        if holds == Some(true) {
            self.best = lives;
        }
        Ok(holds == Some(true))
    }

    /// Leaves out runs of `run` blocks, of half that length, and so on down to single blocks, until none can be left
    /// out.
    fn leave_out(&mut self, mut run: usize) -> Result<(), E> {
        while run > 0 && self.in_time {
            let reduced = self.leave_out_runs(run)?;
            // A block that was needed may no longer be, now that another has been left out.
            run = if reduced && run == 1 { 1 } else { run / 2 };
        }
        Ok(())
    }

    /// Tries each run once, from the last, because the end of a trace matters least; returns whether any was left out.
    fn leave_out_runs(&mut self, run: usize) -> Result<bool, E> {
        let (mut end, mut reduced) = (self.best.len(), false);
        while end > 0 && self.in_time {
            let start = end.saturating_sub(run);
            reduced |= self.improves(self.best.without(&(start..end)))?;
            end = start;
        }
        Ok(reduced)
    }

    /// Simplifies the remaining blocks one by one; returns whether any changed.
    fn simplify(&mut self) -> Result<bool, E> {
        let mut simpler = false;
        for at in 0..self.best.len() {
            simpler |= self.change(at, |life| life.end = None)?;
            for resize in (1..self.best.lives[at].sizes.len()).rev() {
                simpler |= self.change(at, |life| {
                    life.sizes.remove(resize);
                })?;
            }
            for place in 0..self.best.lives[at].sizes.len() {
                simpler |= self.shrink(at, place)?;
            }
        }
        Ok(simpler)
    }

    /// Changes one life if the condition stays true; returns whether it did.
    fn change(&mut self, at: usize, change: impl FnOnce(&mut Life)) -> Result<bool, E> {
        let mut life = Life::clone(&self.best.lives[at]);
        change(&mut life);
        if life == *self.best.lives[at] {
            return Ok(false);
        }
        let mut lives = self.best.clone();
        lives.lives[at] = Arc::new(life);
        self.improves(lives)
    }

    /// Reduces one size by bisection between 0 and its value; returns whether it changed.
    fn shrink(&mut self, at: usize, place: usize) -> Result<bool, E> {
        let (mut fails, mut smaller) = (None, false);
        loop {
            let size = self.best.lives[at].sizes[place].1;
            let low = fails.map_or(0, |fails: u64| fails + 1);
            if low >= size || !self.in_time {
                return Ok(smaller);
            }
            let middle = if fails.is_none() { 0 } else { low + (size - low) / 2 };
            if self.change(at, |life| life.sizes[place].1 = middle)? {
                smaller = true;
            } else {
                fails = Some(middle);
            }
        }
    }
}
