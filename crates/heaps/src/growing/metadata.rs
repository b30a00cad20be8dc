//! The memory of an engine's metadata, which is as long as the region could need and is mapped as far as the heap uses
//! it.
//!
//! The metadata is a sequence of parts, each of which grows with the heap. A long part is the last of a *front*, a
//! range of whole pages that is extended on its own; short parts between long ones are always mapped.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use heapwright_os::{Refused, Reservation, page_size, round_to_pages};
use heapwright_placement::{Part, Reach, Rules, RulesError};

use super::settings::CreateError;
use crate::policy::Policy;

/// The most fronts. Buddies have the most long parts: 33 in the longest region.
const MOST_FRONTS: usize = 64;

/// Parts of up to this many bytes are short: mapping all of one costs less than a call for a part of it. Buddies have
/// dozens of parts, so that limits on memory would count much more.
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

/// Places for fronts, at the beginning of the first, so that heaps are short values: a program may allocate for the
/// first time on a signal stack.
///
/// Invariant: the pointer is to places that are initialized, in a page that is mapped for as long as the first of them
/// is not taken.
struct Fronts(NonNull<[Option<Reservation>; MOST_FRONTS]>);

/// The bytes in front of the first cell: the places of the fronts, and what is missing to a line of the processor's
/// cache.
const BEFORE_CELLS: usize = size_of::<[Option<Reservation>; MOST_FRONTS]>().next_multiple_of(64);

// The least page has room for them.
const _: () = assert!(BEFORE_CELLS < 4096);

impl Fronts {
    /// Makes the whole space the first front.
    fn new(mut space: Reservation) -> Result<Fronts, Refused> {
        space.extend(page_size())?;
        let places: NonNull<Option<Reservation>> = space.base().cast();
        let mut first = Some(space);
        for number in 0..MOST_FRONTS {
            // SAFETY: the page was just mapped, and has this place.
            unsafe { places.add(number).write(first.take()) };
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
        // The last first, so that all addresses can be claimed again; the first is no place in its own pages then.
        let [first, others @ ..] = &mut **self;
        others.iter_mut().rev().for_each(|front| *front = None);
        drop(first.take());
    }
}

// SAFETY: the value owns the places, which are not tied to a thread.
unsafe impl Send for Fronts {}

/// A front, in bytes from the start of the first.
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
        let start = BEFORE_CELLS + start;
        let (page, is_long) = (start & !(page_size() - 1), length > SHORT);
        if after_long && page > front.start && count < MOST_FRONTS {
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
    /// Returns the bytes of addresses that the metadata of a design takes, whole pages.
    pub(super) fn length_of<P: Policy>(design: &Design<P>) -> Result<usize, RulesError> {
        let cells = P::metadata_cells(design.choice, design.capacity, &design.rules)?;
        let bytes = cells.checked_mul(size_of::<u64>()).and_then(|bytes| bytes.checked_add(BEFORE_CELLS));
        bytes.and_then(round_to_pages).ok_or(RulesError::Capacity)
    }

    /// Maps what an empty heap uses, in a table of that length.
    pub(super) fn new<P: Policy>(design: &Design<P>, space: Reservation) -> Result<Metadata, CreateError> {
        Self::of_parts(space, &design.each_part())
    }

    fn of_parts(space: Reservation, each_part: EachPart<'_>) -> Result<Metadata, CreateError> {
        let length = space.length() - BEFORE_CELLS;
        let mut fronts = Fronts::new(space).map_err(|Refused| CreateError::Refused)?;
        let (mut at, mut count) = (0, 0);
        each_front(each_part, Reach::whole(0), &mut |front| {
            if front.start > 0
                && let Some(before) = &mut fronts[count]
            {
                fronts[count + 1] = before.split_off(front.start - at).ok();
                (at, count) = (front.start, count + 1);
            }
        })?;
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
        // SAFETY: the first cell lies behind the fronts.
        unsafe { self.fronts.0.byte_add(BEFORE_CELLS).cast() }
    }

    /// The length of the metadata in bytes, mapped or not.
    pub(super) fn length(&self) -> usize {
        self.length
    }
}
