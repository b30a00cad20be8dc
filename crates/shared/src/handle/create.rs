//! Making segments.

use heapwright_os::{Segment, fork_count, unlink};
use std::sync::atomic::Ordering::Relaxed;

use crate::format::fixed::Fixed;
use crate::format::layout::{Layout, Plan};
use crate::handle::heap::SharedHeap;
use crate::handle::open;
use crate::mapped::engine;
use crate::mapped::mapping::Mapping;
use crate::order::processes;
use crate::order::view::View;
use crate::terms::error::Error;
use crate::terms::place::Place;
use crate::terms::settings::{Access, Settings};

/// How often [`SharedHeap::open_or_create`] begins anew when others make and remove the segment meanwhile.
const ATTEMPTS: usize = 100;

impl SharedHeap {
    /// Makes a segment and attaches to it.
    ///
    /// It gets its name when all is in it: a process that dies on the way leaves nothing, and of many that create the
    /// same one, exactly one succeeds. Its memory is taken from the system at once.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::BadSettings`], [`Error::NoDirectory`], [`Error::NoSpace`], or what else the system
    /// says.
    pub fn create(place: &Place, settings: &Settings) -> Result<SharedHeap, Error> {
        let layout = Layout::of(&Plan::of(settings)?)?;
        let forks = fork_count();
        let refused = |reason| match Error::refused(place, layout.length(), reason) {
            Error::NotFound { place } => Error::NoDirectory { place },
            error => error,
        };
        let segment = Segment::create_unnamed(&place.directory(), settings.mode, layout.length()).map_err(refused)?;
        let mut mapping = Mapping::of(place, segment, layout);
        let view = furnish(&mapping, settings.seed)?;
        mapping.segment.publish(place.c_path()).map_err(refused)?;
        // Where there is no `/proc`, the process can announce itself only now that the file has a name.
        let me = mapping.identify()?;
        if let Some(slot) = mapping.slots().get(usize::from(view.slot)) {
            slot.rename(me);
        }
        Ok(SharedHeap::new(mapping, settings.patience, forks, me, view))
    }

    /// Opens the segment, or makes it if it is not there.
    ///
    /// # Errors
    /// As [`SharedHeap::open`] and [`SharedHeap::create`]; [`Error::Exists`] only when others keep making and removing
    /// it.
    pub fn open_or_create(place: &Place, settings: &Settings) -> Result<SharedHeap, Error> {
        let access = Access { patience: settings.patience, ..Access::default() };
        let mut outcome = Err(Error::Exists { place: place.clone() });
        for _ in 0..ATTEMPTS {
            outcome = match Self::open_with(place, &access) {
                Err(Error::NotFound { .. }) => Self::create(place, settings),
                opened => return opened,
            };
            if !matches!(outcome, Err(Error::Exists { .. })) {
                break;
            }
        }
        outcome
    }

    /// Removes the segment's name. Processes that are attached keep it; no other process can open it any more.
    ///
    /// # Errors
    /// [`Error::NotASegment`] for a file that does not begin like one, and for whatever is no regular file;
    /// [`Error::NotFound`], or what else the system says, also about reading it: what cannot be read may be anything.
    pub fn unlink(place: &Place) -> Result<(), Error> {
        match open::recognize(place) {
            // It begins like a segment, whatever else is wrong with it.
            Ok(()) | Err(Error::OtherVersion { .. } | Error::Corrupted { .. }) => {}
            Err(error) => return Err(error),
        }
        unlink(place.c_path()).map_err(|reason| Error::refused(place, 0, reason))
    }
}

/// Fills a new segment, which no other process can open yet.
fn furnish(mapping: &Mapping, seed: u64) -> Result<View, Error> {
    let layout = &mapping.layout;
    let size = layout.plan.size;
    // The data first, as in `Mapping::back`.
    layout.backed(size, size)?.into_iter().rev().try_for_each(|(from, to)| mapping.back_range(from, to))?;
    let header = mapping.header();
    let fixed = Fixed::of(layout).encode();
    header.fixed.iter().zip(fixed).for_each(|(word, value)| word.store(value, Relaxed));
    header.set_our_namespace();
    header.live.set_capacity(size);
    let engine = engine::create(mapping, seed)?;
    let slot = processes::enter(mapping, &engine, mapping.identify()?)?;
    Ok(View::new(engine, header.live.begin_epoch(), slot))
}
