//! The slack of each block of a slab: how many of its bytes were not requested.
//!
//! There is a table for each doubling of the blocks' length, from 16 bytes on. A slab has a *slot* in the table of its class, with an
//! entry per block. Slots are handed out densely and reused, so that a table is as long as the slabs need that exist at the same time.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU16, Ordering};

use heapwright_os::{Lock, Refused};

use super::slab::MOST_BLOCKS;
use super::span;
use super::table::Table;
use crate::classes::{GRAIN, LARGEST, size_of_class};

const DOUBLINGS: usize = (LARGEST / GRAIN).ilog2() as usize + 1;

/// The slots of a table.
struct Slots {
    table: Table,
    /// How many were ever handed out.
    used: u32,
    /// The free one that was given back last, plus one; its first two entries are the one given back before.
    free: u32,
}

/// Behind the lock of a class or not in use: free during a fork.
static SLOTS: Lock<[Slots; DOUBLINGS]> =
    Lock::new([const { Slots { table: Table::NONE, used: 0, free: 0 } }; DOUBLINGS]);

static TABLES: [AtomicPtr<AtomicU16>; DOUBLINGS] = [const { AtomicPtr::new(null_mut()) }; DOUBLINGS];

const _: () = assert!(MOST_BLOCKS >> (DOUBLINGS - 1) >= 2, "a free slot has room for a link");

fn doubling(class: usize) -> usize {
    (size_of_class(class) / GRAIN).ilog2() as usize
}

/// Claims addresses for the tables of so many slabs.
pub(super) fn lay(room: usize) -> Result<(), Refused> {
    let mut slots = SLOTS.lock();
    for (doubling, (slots, table)) in slots.iter_mut().zip(&TABLES).enumerate() {
        let bytes = room * (MOST_BLOCKS >> doubling) * size_of::<AtomicU16>();
        table.store(slots.table.claim(bytes)?.cast(), Ordering::Release);
    }
    Ok(())
}

/// Returns the entry of a block in a slot of the table of its class.
fn entry(doubling: usize, slot: u32, block: usize) -> &'static AtomicU16 {
    let per_slab = MOST_BLOCKS >> doubling;
    // SAFETY: the slot was handed out, so that the table is mapped up to its end, for as long as the process; a slab of this class has
    // no more blocks.
    unsafe { &*TABLES[doubling].load(Ordering::Relaxed).add(slot as usize * per_slab + block) }
}

/// Hands out a slot for a slab of a class; `None` when there is no memory.
pub(super) fn take_slot(class: usize) -> Option<u32> {
    let doubling = doubling(class);
    let slots = &mut SLOTS.lock()[doubling];
    if let Some(slot) = slots.free.checked_sub(1) {
        let half = |at| u32::from(entry(doubling, slot, at).load(Ordering::Relaxed));
        slots.free = half(0) | half(1) << 16;
        return Some(slot);
    }
    let bytes = (slots.used as usize + 1) * (MOST_BLOCKS >> doubling) * size_of::<AtomicU16>();
    slots.table.cover(bytes).ok()?;
    slots.used += 1;
    Some(slots.used - 1)
}

/// Takes back the slot of a slab of a class.
pub(super) fn give_slot(class: usize, slot: u32) {
    let doubling = doubling(class);
    let slots = &mut SLOTS.lock()[doubling];
    entry(doubling, slot, 0).store(slots.free as u16, Ordering::Relaxed);
    entry(doubling, slot, 1).store((slots.free >> 16) as u16, Ordering::Relaxed);
    slots.free = slot + 1;
}

/// How many bytes a block of a slab has that were not asked for. The program has the block, or its slab is new.
pub(super) fn slack(number: u32, class: usize, block: usize) -> &'static AtomicU16 {
    entry(doubling(class), span::slot(number), block)
}
