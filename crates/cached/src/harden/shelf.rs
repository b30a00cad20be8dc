//! The slabs of each class, behind a lock per class.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use heapwright_os::{Lock, Refused, Reservation, round_to_pages};

use super::draw::Draw;
use super::slab::Slab;
use super::span::{self, Kind};
use super::{Measures, slack};
use crate::classes::CLASSES;
use crate::ground::GROUND;
use crate::mode::measures;
use crate::slab::NO_SLAB;

/// The slabs of a class.
struct Shelf {
    /// The first of those that have blocks to give.
    first: u32,
    /// How many slabs there are, and how many of their pages are in memory for nothing.
    slabs: u32,
    idle: u32,
    draw: Draw,
}

/// Where there is one for each class; not in the library's own data, which every program has in memory.
static SHELVES: AtomicPtr<Lock<Shelf>> = AtomicPtr::new(null_mut());

/// Makes them.
pub(super) fn lay() -> Result<(), Refused> {
    let bytes = round_to_pages(CLASSES * size_of::<Lock<Shelf>>()).ok_or(Refused)?;
    let mut room = Reservation::claim_table(bytes)?;
    room.extend(bytes)?;
    let shelves = room.base().cast::<Lock<Shelf>>();
    for class in 0..CLASSES {
        let shelf = Shelf { first: NO_SLAB, slabs: 0, idle: 0, draw: Draw::new() };
        // SAFETY: the room is long enough and nobody else's yet.
        unsafe { shelves.add(class).write(Lock::new(shelf)) };
    }
    SHELVES.store(shelves.as_ptr(), Ordering::Release);
    // They are needed for as long as the process.
    core::mem::forget(room);
    Ok(())
}

fn shelves() -> &'static [Lock<Shelf>] {
    let shelves = SHELVES.load(Ordering::Acquire);
    // SAFETY: where there are any, there is one for each class, for as long as the process.
    if shelves.is_null() { &[] } else { unsafe { core::slice::from_raw_parts(shelves, CLASSES) } }
}

/// Takes a block of a class: the number of its slab, and its own there. `None` when there is no memory.
pub(super) fn take(class: usize) -> Option<(u32, usize)> {
    let mut shelf = shelves().get(class)?.lock();
    if shelf.first == NO_SLAB {
        shelf.acquire(class)?;
    }
    let number = shelf.first;
    let Shelf { draw, idle, .. } = &mut *shelf;
    // SAFETY: the slab is of this class, whose lock is held.
    let slab = unsafe { &mut (*span::span(number)).slab };
    let block = slab.take(draw, idle);
    if !slab.has_room() {
        shelf.unshelve(number);
    }
    Some((number, block))
}

/// Puts a block back that nobody uses any more.
pub(super) fn put(class: usize, number: u32, block: usize) {
    let Some(shelf) = shelves().get(class) else { return };
    let mut shelf = shelf.lock();
    // SAFETY: the slab is of this class, whose lock is held.
    let slab = unsafe { &mut (*span::span(number)).slab };
    slab.put(block, &mut shelf.idle);
    if !slab.shelved {
        shelf.shelve(number);
    } else if slab.is_unused() && shelf.slabs > 1 {
        return shelf.release(number);
    }
    if shelf.has_much_idle() {
        shelf.return_idle();
    }
}

/// Gives back to the system what is kept for nothing; returns how many bytes.
pub(super) fn trim() -> usize {
    let trimmed = shelves().iter().map(|shelf| {
        let mut shelf = shelf.lock();
        let returned = shelf.return_idle();
        shelf.release_unused();
        returned
    });
    trimmed.sum()
}

/// Takes all locks for a fork.
pub(super) fn hold() {
    shelves().iter().for_each(Lock::hold_for_fork);
}

/// Frees them after the fork.
///
/// # Safety
/// This thread, or the one that it is a copy of, called [`hold`].
pub(super) unsafe fn let_go() {
    // SAFETY: this thread, or the one that it is a copy of, called `hold`, as this function requires.
    shelves().iter().for_each(|shelf| unsafe { shelf.let_go_after_fork() });
}

impl Shelf {
    /// Gets a new slab.
    #[cold]
    fn acquire(&mut self, class: usize) -> Option<()> {
        let length = span::length_of_slabs();
        let has_canaries = measures().have(Measures::CANARY);
        let slot = if has_canaries { slack::take_slot(class)? } else { 0 };
        let placed = GROUND.shared().and_then(|mut shared| span::place(&mut shared, length, 1));
        let Some(number) = placed else {
            if has_canaries {
                slack::give_slot(class, slot);
            }
            return None;
        };
        // SAFETY: the span is new, so nobody looks at its slab.
        unsafe {
            (*span::span(number)).slot = slot;
            (&raw mut (*span::span(number)).slab).write(Slab::new(class, length));
        }
        span::set_kind(number, Kind::Slab(class));
        self.slabs += 1;
        self.shelve(number);
        Some(())
    }

    /// Puts a slab in front.
    fn shelve(&mut self, number: u32) {
        let next = core::mem::replace(&mut self.first, number);
        // SAFETY: slabs on the shelf are behind its lock, and these are two.
        unsafe {
            let slab = &mut (*span::span(number)).slab;
            (slab.next, slab.previous, slab.shelved) = (next, NO_SLAB, true);
            if next != NO_SLAB {
                (*span::span(next)).slab.previous = number;
            }
        }
    }

    fn unshelve(&mut self, number: u32) {
        // SAFETY: as above.
        unsafe {
            let slab = &mut (*span::span(number)).slab;
            slab.shelved = false;
            match slab.previous {
                NO_SLAB => self.first = slab.next,
                previous => (*span::span(previous)).slab.next = slab.next,
            }
            if slab.next != NO_SLAB {
                (*span::span(slab.next)).slab.previous = slab.previous;
            }
        }
    }

    /// Gives up a slab of which nothing is in use.
    fn release(&mut self, number: u32) {
        self.unshelve(number);
        self.slabs -= 1;
        if measures().have(Measures::CANARY)
            && let Kind::Slab(class) = span::kind(number)
        {
            slack::give_slot(class, span::slot(number));
        }
        // SAFETY: the slab is behind the lock, and no block of it is in use.
        unsafe {
            self.idle = self.idle.saturating_sub((*span::span(number)).slab.idle_pages());
            if let Some(mut shared) = GROUND.shared() {
                span::remove(&mut shared, number);
            }
        }
    }

    fn release_unused(&mut self) {
        let mut number = self.first;
        while number != NO_SLAB {
            // SAFETY: slabs on the shelf are behind its lock.
            let (next, is_unused) = unsafe {
                let slab = &(*span::span(number)).slab;
                (slab.next, slab.is_unused())
            };
            if is_unused {
                self.release(number);
            }
            number = next;
        }
    }

    /// Whether pages are in memory for nothing that are worth a look at every slab: a sixteenth, and 32 KiB.
    fn has_much_idle(&self) -> bool {
        self.idle > 8.max(self.slabs)
    }

    /// Gives the pages of slabs back that are in memory for nothing; returns how many bytes.
    #[cold]
    fn return_idle(&mut self) -> usize {
        let (mut number, mut returned) = (self.first, 0);
        while number != NO_SLAB {
            // SAFETY: slabs on the shelf are behind its lock.
            unsafe {
                let slab = &mut (*span::span(number)).slab;
                if let Some(start) = NonNull::new(GROUND.start_of(number)) {
                    returned += slab.return_idle(start);
                }
                number = slab.next;
            }
        }
        self.idle = 0;
        returned
    }
}
