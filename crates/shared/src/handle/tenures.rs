//! How slabs begin, end and change hands, under the segment's lock.

use heapwright_os::{now_nanoseconds, spread};
use heapwright_placement::{AllocateError, Engine, Noted};

use crate::format::process_slot::{ProcessSlot, ProcessState};
use crate::format::slab::{SLAB, SlabCounts, Tenure};
use crate::handle::heap::Section;
use crate::mapped::sections::Sections;
use crate::slabs::owned::Owned;
use crate::terms::error::Error;

/// How many slabs change hands while the lock is held once.
const ADOPTED_AT_ONCE: usize = 64;

/// How far a look at all slabs of a process has come: the class, and the place in its list.
#[derive(Default)]
pub(crate) struct Sweep {
    class: usize,
    next: usize,
}

impl Sweep {
    /// Returns whether there are slabs that were not looked at.
    pub(crate) fn goes_on(&self, owned: &Owned) -> bool {
        self.class < owned.classes.len()
    }
}

/// After a search that found no slab, the next one, which asks the system again which processes live, begins when this
/// many times as long as it took have passed, or when slabs may have become free: in a full heap each request begins a
/// search, which looks at every slab, under the lock.
const REST: u64 = 10;

/// Slabs leave this part of what the heap may have, and one slab's length at least, to blocks that the policy places:
/// processes without slabs have room for small blocks, too.
const LEFT_TO_THE_POLICY: usize = 16;

/// The processes whose slabs may be adopted, by the numbers of their slots: all of which `left` says so, and numbers
/// that stand for no process.
fn departed(sections: &Sections, left: impl Fn(&ProcessSlot) -> bool) -> [bool; 256] {
    let mut departed = [true; 256];
    for (slot, departed) in sections.slots().iter().zip(&mut departed) {
        *departed = left(slot);
    }
    departed
}

/// Returns a hash of what can make slabs free for others than their owners: blocks freed by other processes, and
/// departures.
fn signs(sections: &Sections) -> u64 {
    let mut signs: u64 = 1;
    let mut note = |word: u64| signs = spread(signs.rotate_left(5) ^ word);
    for (number, slot) in (0..).zip(sections.slots()) {
        let (state, identity) = slot.words();
        note(identity ^ state);
        note(sections.slab_counts(number).map_or(0, SlabCounts::given));
    }
    signs | 1
}

impl Section<'_> {
    /// Makes a slab of this process; `None` when the heap has no room for one.
    ///
    /// The record undoes the engine's block until the slab is marked: recovery finds both or none.
    pub(crate) fn begin_slab(&mut self, class: usize) -> Result<Option<usize>, Error> {
        let most = self.mapping().layout.plan.max_size;
        let used = self.engine().counters().map_or(0, |counters| counters.live as usize);
        if used.saturating_add(SLAB + SLAB.max(most / LEFT_TO_THE_POLICY)) > most {
            return Ok(None);
        }
        let place = match self.place_slab(class) {
            Err(AllocateError::RegionFull) => match self.make_room(SLAB, SLAB) {
                Ok(()) => self.place_slab(class),
                Err(Error::Full { .. } | Error::NoSpace { .. } | Error::BeyondMaximum { .. }) => return Ok(None),
                Err(error) => return Err(error),
            },
            placed => placed,
        };
        Ok(place.ok().map(|place| place / SLAB))
    }

    fn place_slab(&mut self, class: usize) -> Result<usize, AllocateError> {
        let (mapping, record) = (self.mapping(), self.record());
        let view = self.view();
        let place = view.engine.allocate_noted(SLAB, SLAB, |change| record.write(change.undone()))?;
        let Some(slab) = mapping.slab(place / SLAB).filter(|_| place.is_multiple_of(SLAB)) else {
            // The engine places by its rules. If it did not, the record undoes the block when the lock is released.
            return Err(AllocateError::RegionFull);
        };
        mapping.count_of(view.slot, ProcessSlot::gain_block);
        slab.begin(Tenure { slot: view.slot, class: class as u8, adopted: false, turn: 0 });
        mapping.count_of_slabs(view.slot, SlabCounts::count_begun);
        record.clear();
        Ok(place)
    }

    /// Gives an empty slab of this process back to the engine. Returns whether it was empty.
    ///
    /// What is on record is the free: recovery completes it, and the slab's mark goes with it.
    pub(crate) fn end_slab(&mut self, unit: usize) -> Result<bool, Error> {
        let (mapping, record, number) = (self.mapping(), self.record(), self.view().slot);
        let Some(slab) = mapping.slab(unit) else { return Ok(false) };
        let Some(tenure) = slab.tenure().filter(|tenure| tenure.slot == number) else { return Ok(false) };
        let live = slab.collect_all(usize::from(tenure.class));
        slab.set_live_hint(live);
        if live != 0 {
            return Ok(false);
        }
        let freed = self.engine().deallocate_noted(unit * SLAB, |change| {
            record.write(change);
            slab.end();
        });
        record.clear();
        freed.map_err(|_| Error::Corrupted {
            what: "a slab is not a block",
            offset: (mapping.layout.data + unit * SLAB) as u64,
        })?;
        mapping.count_of_slabs(number, SlabCounts::count_ended);
        if !tenure.adopted {
            mapping.count_of(number, ProcessSlot::lose_block);
        }
        Ok(true)
    }

    /// Adopts slabs of processes that left, and makes free in all slabs what others freed, unless that was found to be
    /// of no use and nothing has happened since. Returns whether there was any.
    pub(crate) fn search_slabs(&mut self, owned: &mut Owned) -> Result<bool, Error> {
        if self.is_fruitless(owned) {
            return Ok(false);
        }
        let (begun, signs) = (now_nanoseconds(), signs(self.mapping()));
        let adopted = self.adopt_slabs(owned, usize::MAX)?;
        let found = adopted + self.end_empty_slabs(owned, &mut Sweep::default(), usize::MAX)? > 0;
        owned.fruitless = if found { 0 } else { signs };
        if begun >= owned.next_look && adopted == 0 {
            owned.next_look = begun + REST * (now_nanoseconds() - begun);
        }
        Ok(found)
    }

    /// Returns whether the last search found nothing, and nothing has happened since.
    pub(crate) fn is_fruitless(&self, owned: &Owned) -> bool {
        let mapping = self.mapping();
        owned.fruitless != 0
            && !owned.classes.iter().any(|class| class.has_empty(mapping))
            && now_nanoseconds() < owned.next_look
            && owned.fruitless == signs(mapping)
    }

    /// Adopts slabs of processes that left, looking at `most` places. Returns how many.
    pub(crate) fn adopt_slabs(&mut self, owned: &mut Owned, most: usize) -> Result<usize, Error> {
        let (mapping, number, size) = (self.mapping(), self.view().slot, self.engine().heap_size());
        owned.set_reach(size);
        let deaths = mapping.deaths();
        let departed = match now_nanoseconds() >= owned.next_look {
            true => departed(mapping, |slot| slot.state(deaths) != Some(ProcessState::Attached)),
            false => departed(mapping, ProcessSlot::has_left),
        };
        let mut adopted = 0;
        for _ in 0..most.min(size / SLAB) {
            let unit = owned.cursor % (size / SLAB);
            owned.cursor = unit + 1;
            let Some(slab) = mapping.slab(unit) else { break };
            let Some(before) = slab.tenure().filter(|tenure| departed[usize::from(tenure.slot)]) else { continue };
            mapping.count_of(number, ProcessSlot::gain_block);
            let turn = before.turn.wrapping_add(1);
            if !slab.pass_on(before, Tenure { slot: number, adopted: true, turn, ..before }) {
                continue;
            }
            let live = slab.collect_all(usize::from(before.class));
            if live > 0 || !self.end_slab(unit)? {
                owned.classes[usize::from(before.class)].add(slab, unit, live);
            }
            adopted += 1;
            if adopted == ADOPTED_AT_ONCE {
                break;
            }
        }
        Ok(adopted)
    }

    /// Gives the empty ones of the next `most` slabs of a sweep back to the engine, and finds the blocks that others
    /// freed in the rest. Returns in how many slabs blocks became free.
    pub(crate) fn end_empty_slabs(
        &mut self,
        owned: &mut Owned,
        sweep: &mut Sweep,
        mut most: usize,
    ) -> Result<usize, Error> {
        let (mapping, mut found) = (self.mapping(), 0);
        while let Some(class) = owned.classes.get_mut(sweep.class) {
            if sweep.next == 0 {
                class.store_hint(mapping);
            }
            while let Some(&unit) = class.slabs.get(sweep.next) {
                if most == 0 {
                    return Ok(found);
                }
                most -= 1;
                // The last one takes the place of one that goes.
                sweep.next += 1;
                let Some(slab) = mapping.slab(unit) else { continue };
                let before = slab.live_hint();
                if self.end_slab(unit)? {
                    class.remove(mapping, unit);
                    sweep.next -= 1;
                    found += 1;
                } else if slab.live_hint() < before {
                    class.wait_in_line(slab, unit);
                    found += 1;
                }
            }
            class.count_none_empty();
            (sweep.class, sweep.next) = (sweep.class + 1, 0);
        }
        Ok(found)
    }
}
