//! The process table: the attached processes, and those that the blocks' owner bytes name.

use heapwright_os::{Identity, Life};

use crate::format::process_slot::{FORGOTTEN_CLOSED, FORGOTTEN_DEAD, ProcessSlot, ProcessState};
use crate::mapped::engine::Placer;
use crate::mapped::sections::Sections;
use crate::order::owners::{count_names, relabel};
use crate::terms::error::Error;

/// Returns whether a process is attached that lives, or may live.
pub(crate) fn any_alive(sections: &Sections) -> bool {
    one_alive(sections).is_some()
}

/// Returns the number of a process that is attached and lives, or may live.
pub(crate) fn one_alive(sections: &Sections) -> Option<u32> {
    let deaths = sections.deaths();
    let alive = sections.slots().iter().find(|slot| slot.state(deaths) == Some(ProcessState::Attached));
    alive.map(|slot| slot.identity().pid)
}

/// Returns the processes that have not closed the segment, dead or alive, with the numbers of their slots.
fn not_left(sections: &Sections) -> impl Iterator<Item = (u8, Identity)> {
    let numbered = sections.slots().iter().enumerate();
    let attached = numbered.filter(|(_, slot)| slot.is_attached());
    attached.map(|(number, slot)| (number as u8, slot.identity()))
}

/// Returns why it is not certain of a process that has not closed the segment whether it lives, in words that follow
/// "because"; `None` if it is certain of all.
pub(crate) fn doubt(sections: &Sections) -> Option<&'static str> {
    let deaths = sections.deaths();
    not_left(sections).find_map(|(_, process)| deaths.doubt_about(process))
}

/// Returns whether it is certain of a process that has not left, or of the lock's holder, that it lives.
pub(crate) fn is_any_certain(sections: &Sections) -> bool {
    let deaths = sections.deaths();
    let lives = |process| deaths.doubt_about(process).is_none() && deaths.life_of(process) == Life::Alive;
    let attached = not_left(sections).map(|(_, process)| process);
    attached.chain(sections.header().lock.holder()).any(lives)
}

/// Verifies that no slot counts fewer blocks than name it. Time: proportional to the heap.
pub(crate) fn check_counts(sections: &Sections, engine: &Placer) -> Result<(), Error> {
    let names = count_names(sections, engine);
    match sections.slots().iter().zip(names).position(|(slot, names)| slot.blocks() < names) {
        None => Ok(()),
        Some(number) => Err(Error::Corrupted {
            what: "more blocks name a process than are counted",
            offset: (sections.layout.slots + number * size_of::<ProcessSlot>()) as u64,
        }),
    }
}

/// Counts anew how many blocks name each slot. Blocks that name a free slot, which only damage leads to, are from now
/// on those of a dead process. Time: proportional to the heap.
pub(crate) fn count_anew(sections: &Sections, engine: &Placer) {
    let names = count_names(sections, engine);
    let mut ownerless = Vec::new();
    for (number, (slot, names)) in sections.slots().iter().zip(names).enumerate() {
        let is_free = slot.is_free();
        slot.set_blocks(if is_free { 0 } else { names });
        if is_free && names > 0 {
            ownerless.push((number as u8, FORGOTTEN_DEAD));
        }
    }
    if !ownerless.is_empty() {
        relabel(sections, engine, &ownerless);
    }
}

/// Returns the numbers of the slots of processes that have not closed the segment, and of which it is not certain
/// whether they live.
pub(crate) fn doubtful(sections: &Sections) -> Vec<u8> {
    let deaths = sections.deaths();
    let doubtful = not_left(sections).filter(|&(_, process)| deaths.doubt_about(process).is_some());
    doubtful.map(|(number, _)| number).collect()
}

/// Frees these slots. Their blocks become blocks of a dead process whose number is not known. Called with the lock
/// held, when the heap is in order. Time: proportional to the heap.
pub(crate) fn hold_for_dead(sections: &Sections, engine: &Placer, numbers: &[u8]) {
    if !numbers.is_empty() {
        let names: Vec<(u8, u8)> = numbers.iter().map(|&number| (number, FORGOTTEN_DEAD)).collect();
        relabel(sections, engine, &names);
        numbers.iter().for_each(|&number| sections.slots()[usize::from(number)].vacate());
    }
}

/// Enters `me` into the table and returns the number of its slot. Under the lock, the heap being in order.
pub(crate) fn enter(sections: &Sections, engine: &Placer, me: Identity) -> Result<u8, Error> {
    let slots = sections.slots();
    let number = match slots.iter().position(|slot| slot.is_free()) {
        Some(free) => free,
        None => vacate(sections, engine)?,
    };
    slots[number].take(me);
    Ok(number as u8)
}

/// Frees slots of a full table whose processes have left: all that no block names, or, if there are none, the half that
/// the fewest blocks name. Of those blocks it is known from then on that their owner left, but not which one it was.
///
/// Time: constant, or proportional to the heap in the second case, which makes room for several handles.
#[cold]
fn vacate(sections: &Sections, engine: &Placer) -> Result<usize, Error> {
    let (slots, deaths) = (sections.slots(), sections.deaths());
    let has_left = |number: usize| slots[number].state(deaths).filter(|&state| state != ProcessState::Attached);
    let gone: Vec<(usize, ProcessState)> =
        (0..slots.len()).filter_map(|number| has_left(number).map(|state| (number, state))).collect();
    if sections.layout.shape.is_some() {
        // Slabs that others adopted are still counted.
        let names = count_names(sections, engine);
        gone.iter().for_each(|&(number, _)| slots[number].set_blocks(names[number]));
    }
    let mut left: Vec<(u64, usize, ProcessState)> =
        gone.into_iter().map(|(number, state)| (slots[number].blocks(), number, state)).collect();
    left.sort_unstable_by_key(|&(blocks, number, _)| (blocks, number));
    let unnamed = left.partition_point(|&(blocks, ..)| blocks == 0);
    left.truncate(if unnamed > 0 { unnamed } else { left.len().div_ceil(2) });
    if unnamed == 0 {
        let forgotten = |state| if state == ProcessState::Closed { FORGOTTEN_CLOSED } else { FORGOTTEN_DEAD };
        let names: Vec<(u8, u8)> = left.iter().map(|&(_, number, state)| (number as u8, forgotten(state))).collect();
        relabel(sections, engine, &names);
    }
    left.iter().for_each(|&(_, number, _)| slots[number].vacate());
    left.first().map(|&(_, number, _)| number).ok_or(Error::TooManyProcesses { most: slots.len() })
}
