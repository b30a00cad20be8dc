//! The memory of an engine's metadata, which is as long as the region could need and is mapped as far as the heap uses
//! it.
//!
//! The metadata is a sequence of parts, each of which grows with the heap. A long part is the last of a *front*, a range
//! of whole pages that is extended on its own; short parts between long ones are always mapped.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use heapwright_os::{Refused, Reservation, map, page_size, round_to_pages, unmap};
use heapwright_placement::{Part, Reach, Rules, RulesError};

use super::CreateError;
use crate::policy::Policy;

/// The most fronts. Buddies have the most long parts: 33 in the longest region.
const MOST_FRONTS: usize = 64;

/// Parts of up to this many bytes are short.
const SHORT: usize = 64 << 10;

/// What determines the layout of the metadata.
#[derive(Clone, Copy)]
pub(super) struct Design<P: Policy> {
    pub(super) choice: P::Choice,
    pub(super) capacity: usize,
    pub(super) rules: Rules,
}

pub(super) struct Metadata {
    /// One behind the other, without a gap.
    fronts: Fronts,
    length: usize,
}

/// Places for fronts in a mapping of their own, so that heaps are short values: a program may allocate for the first
/// time on a signal stack.
///
/// Invariant: the pointer is to places that were mapped for this value and are initialized.
struct Fronts(NonNull<[Option<Reservation>; MOST_FRONTS]>);

impl Fronts {
    fn length() -> Result<usize, Refused> {
        round_to_pages(size_of::<[Option<Reservation>; MOST_FRONTS]>()).ok_or(Refused)
    }

    fn new() -> Result<Fronts, Refused> {
        let places: NonNull<Option<Reservation>> = map(Self::length()?)?.cast();
        for number in 0..MOST_FRONTS {
            // SAFETY: the mapping was just made, and has this place.
            unsafe { places.add(number).write(None) };
        }
        Ok(Fronts(places.cast()))
    }
}

impl Deref for Fronts {
    type Target = [Option<Reservation>; MOST_FRONTS];

    fn deref(&self) -> &Self::Target {
        // SAFETY: by the type's invariant, the places are mapped and initialized; `self` is borrowed.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Fronts {
    fn deref_mut(&mut self) -> &mut Self::Target {
        // SAFETY: as in `deref`; `self` is borrowed exclusively.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Fronts {
    fn drop(&mut self) {
        // The last first, so that all addresses can be claimed again.
        self.iter_mut().rev().for_each(|front| *front = None);
        if let Ok(length) = Self::length() {
            // SAFETY: the mapping was made for this value, which ends here.
            let _ = unsafe { unmap(self.0.cast(), length) };
        }
    }
}

// SAFETY: the value owns the places, which are not tied to a thread.
unsafe impl Send for Fronts {}

/// A front, in bytes from the start of the metadata.
#[derive(Clone, Copy, Default)]
struct Front {
    start: usize,
    /// Where the bytes end that are used.
    used_to: usize,
}

/// Calls a function with each part of the metadata of a design, as far as a heap with this reach uses it.
type EachPart<'d> = &'d dyn Fn(Reach, &mut dyn FnMut(Part)) -> Result<(), RulesError>;

impl<P: Policy> Design<P> {
    fn each_part(&self) -> impl Fn(Reach, &mut dyn FnMut(Part)) -> Result<(), RulesError> {
        |reach, visit| P::each_part(self.choice, self.capacity, &self.rules, reach, visit)
    }
}

/// Calls `visit` with the fronts in their order, as a heap with this reach uses them.
fn each_front(each_part: EachPart<'_>, reach: Reach, visit: &mut dyn FnMut(Front)) -> Result<(), RulesError> {
    let (mut front, mut count, mut after_long) = (Front::default(), 1, false);
    let mut add = |part: Part| {
        let [start, length, used] = [part.start, part.length, part.used].map(|cells| cells * size_of::<u64>());
        let (page, is_long) = (start & !(page_size() - 1), length > SHORT);
        if (is_long || after_long) && page > front.start && count < MOST_FRONTS {
            visit(front);
            (front, count) = (Front { start: page, used_to: 0 }, count + 1);
        }
        front.used_to = start + if is_long { used } else { length };
        after_long = is_long;
    };
    each_part(reach, &mut add)?;
    visit(front);
    Ok(())
}

impl Metadata {
    /// Claims the metadata's addresses and maps what an empty heap uses.
    pub(super) fn new<P: Policy>(design: &Design<P>) -> Result<Metadata, CreateError> {
        let cells = P::metadata_cells(design.choice, design.capacity, &design.rules)?;
        Self::of_parts(cells, &design.each_part())
    }

    fn of_parts(cells: usize, each_part: EachPart<'_>) -> Result<Metadata, CreateError> {
        let length = cells.checked_mul(size_of::<u64>()).and_then(round_to_pages).ok_or(RulesError::Capacity)?;
        let mut rest = Some(Reservation::claim_table(length).map_err(|Refused| CreateError::Refused)?);
        let mut fronts = Fronts::new().map_err(|Refused| CreateError::Refused)?;
        let (mut at, mut count) = (0, 0);
        each_front(each_part, Reach::whole(0), &mut |front| {
            if front.start > 0
                && let Some(mut before) = rest.take()
            {
                rest = before.split_off(front.start - at).ok();
                fronts[count] = Some(before);
                (at, count) = (front.start, count + 1);
            }
        })?;
        fronts[count] = rest;
        let mut metadata = Metadata { fronts, length };
        metadata.reach_parts(each_part, Reach::whole(0)).map_err(|Refused| CreateError::Refused)?;
        Ok(metadata)
    }

    /// Maps what a heap with this reach uses.
    ///
    /// # Errors
    /// [`Refused`]: more than before may be mapped, but not all.
    pub(super) fn reach<P: Policy>(&mut self, design: &Design<P>, reach: Reach) -> Result<(), Refused> {
        self.reach_parts(&design.each_part(), reach)
    }

    fn reach_parts(&mut self, each_part: EachPart<'_>, reach: Reach) -> Result<(), Refused> {
        let mut result = Ok(());
        let mut fronts = self.fronts.iter_mut();
        let visited = each_front(each_part, reach, &mut |front| {
            let used = round_to_pages(front.used_to - front.start);
            let reached = match (fronts.next(), used) {
                (Some(Some(space)), Some(used)) => space.extend(used.min(space.length())),
                _ => Err(Refused),
            };
            result = result.and(reached);
        });
        visited.map_err(|_| Refused).and(result)
    }

    /// The first cell.
    pub(super) fn cells(&self) -> NonNull<u64> {
        self.fronts[0].as_ref().map_or(NonNull::dangling(), |front| front.base().cast())
    }

    /// The length of the metadata in bytes, mapped or not.
    pub(super) fn length(&self) -> usize {
        self.length
    }
}
