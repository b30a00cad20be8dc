//! The optional parts of a call's record: its time, and for sampled calls the thread's stack.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use heapwright_os::{each_mapping, map, page_size, thread_number, ticks, unmap, variable};
use heapwright_stream::{ALWAYS_SAMPLED_FROM, Buffer, Packed, Paths, Recording, SITES, TIMES};

use crate::marked;
use crate::python;

/// Whether calls are recorded with their times.
static TIMED: AtomicBool = AtomicBool::new(false);

/// The sampling interval: one of this number of requests is recorded with its stack; 0 for none.
static EVERY: AtomicU32 = AtomicU32::new(0);

/// The paths of the stream; null while there is none.
static PATHS: AtomicPtr<Paths> = AtomicPtr::new(null_mut());

/// The optional parts of a call's record.
#[derive(Clone, Copy)]
pub(crate) struct Detail {
    ticks: Option<u64>,
    with_stack: bool,
}

/// What may be recorded besides calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    None,
    /// The stacks of requests.
    Stacks,
    /// The times of all calls; or only marked blocks are recorded.
    Any,
}

impl Detail {
    /// Neither a time nor a stack.
    pub(crate) const NONE: Detail = Detail { ticks: None, with_stack: false };

    /// Returns what may be recorded besides calls: for some of it threads take the slower code path.
    pub(crate) fn kind() -> Kind {
        if TIMED.load(Ordering::Relaxed) || marked::is_enabled() {
            Kind::Any
        } else if records_stacks() {
            Kind::Stacks
        } else {
            Kind::None
        }
    }

    /// Decides on the parts of the next call of the thread that owns this buffer.
    pub(crate) fn of(record: Packed, buffer: &Buffer) -> Detail {
        let every = EVERY.load(Ordering::Relaxed);
        let is_chosen = || record.size() >= ALWAYS_SAMPLED_FROM || buffer.sampler().choose(every);
        // A resize to no bytes has freed its block: by the program, or because it is outside of marked blocks.
        let has_freed = record.is_resized() && record.address() == 0 && record.size() == 0;
        let has_site = record.is_request() && !has_freed;
        let with_stack = every != 0 && has_site && is_chosen();
        Detail { ticks: ticks_if_timed(), with_stack }
    }

    /// Adds the call; returns `false` when there is no room.
    ///
    /// # Safety
    /// As for [`Buffer::append`]: the buffer is open, and the calling thread may write to it.
    // Inlined, as each frame of the recorder's own is one more to follow for each stack.
    #[inline(always)]
    pub(crate) unsafe fn append(self, buffer: &Buffer, record: Packed) -> bool {
        // SAFETY: the buffer is open and the calling thread may write to it, as this function requires.
        unsafe {
            if self.with_stack {
                // The paths stay mapped until a child of this process creates a stream of its own, which detaches them
                // first.
                let paths = NonNull::new(PATHS.load(Ordering::Acquire)).map(|paths| paths.as_ref());
                if paths.is_some_and(|paths| !python::add_frames(buffer, paths)) {
                    return false;
                }
                buffer.append_with_stack(record, self.ticks, paths)
            } else {
                buffer.append_at(record, self.ticks)
            }
        }
    }
}

pub(crate) fn ticks_if_timed() -> Option<u64> {
    TIMED.load(Ordering::Relaxed).then(ticks)
}

/// Reads the settings from the environment.
pub(crate) fn read_settings() {
    TIMED.store(variable(TIMES, |_| ()).is_some(), Ordering::Relaxed);
    let every = variable(SITES, |every| every.to_str().ok()?.parse().ok()).flatten();
    EVERY.store(every.unwrap_or(0), Ordering::Relaxed);
    marked::read_setting();
}

/// Whether stacks are recorded.
pub(crate) fn records_stacks() -> bool {
    EVERY.load(Ordering::Relaxed) != 0
}

/// Recognises stacks by these paths from now on.
pub(crate) fn attach(paths: Option<&Paths>) {
    PATHS.store(paths.map_or(null_mut(), |paths| core::ptr::from_ref(paths).cast_mut()), Ordering::Release);
}

/// Follows no known path until the collector has settled that code was unloaded.
pub(crate) fn note_unloaded() {
    if let Some(paths) = NonNull::new(PATHS.load(Ordering::Acquire)) {
        // SAFETY: the paths stay mapped until a child of this process creates a stream of its own, which detaches them
        // first.
        unsafe { paths.as_ref() }.note_unloaded();
    }
}

/// Forgets the paths: the child of a fork does not use its parent's.
pub(crate) fn detach() {
    PATHS.store(null_mut(), Ordering::Relaxed);
}

/// Adds the mappings of code to the recording, if stacks are recorded: they are needed to unwind and name them.
pub(crate) fn add_mappings(recording: &mut Recording) {
    /// The room for a line with the longest path.
    const ROOM: usize = 8 << 10;
    if !records_stacks() {
        return;
    }
    let length = ROOM.next_multiple_of(page_size());
    // Mapped, as the thread's stack may be too short for it.
    let Ok(room) = map(length) else { return };
    // SAFETY: the mapping was just made, is all zero and used by nothing else, and is unmapped after the last use of
    // the slice.
    unsafe {
        let lines = core::slice::from_raw_parts_mut(room.as_ptr(), length);
        // Without such a list, the collector reads the mappings itself.
        let _ = each_mapping(lines, |mapping| {
            // Code in no file is that of just-in-time compilers.
            if mapping.is_executable && (mapping.path.starts_with(b"/") || mapping.path.is_empty()) {
                recording.add_mapping(thread_number(), &mapping);
            }
        });
        // A mapping that cannot be unmapped leaks.
        let _ = unmap(room, length);
    }
}
