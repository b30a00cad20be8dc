//! What is told of a call besides itself, when somebody asks for it: its time, and for some of them the thread's stack.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use heapwright_os::{each_mapping, map, page_size, thread_number, ticks, unmap, variable};
use heapwright_stream::{Buffer, Packed, Recording, SITES, TIMES};

/// Whether calls are recorded with their times.
static TIMED: AtomicBool = AtomicBool::new(false);

/// Of how many requests one is recorded with its stack; 0 for none.
static EVERY: AtomicU32 = AtomicU32::new(0);

/// What is told of a call.
#[derive(Clone, Copy)]
pub(crate) struct Detail {
    ticks: Option<u64>,
    with_stack: bool,
}

impl Detail {
    /// Nothing.
    pub(crate) const NONE: Detail = Detail { ticks: None, with_stack: false };

    /// Whether anything is to be told of any call.
    pub(crate) fn is_asked_for() -> bool {
        TIMED.load(Ordering::Relaxed) || EVERY.load(Ordering::Relaxed) != 0
    }

    /// What is told of the next call of the thread that has this buffer.
    pub(crate) fn of(record: Packed, buffer: &Buffer) -> Detail {
        let every = EVERY.load(Ordering::Relaxed);
        let with_stack = every != 0 && record.is_request() && buffer.sampler().choose(every);
        Detail { ticks: ticks_if_timed(), with_stack }
    }

    /// Adds the call; `false` when there is no room.
    ///
    /// # Safety
    /// As for [`Buffer::append`].
    pub(crate) unsafe fn append(self, buffer: &Buffer, record: Packed) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            if self.with_stack {
                buffer.append_with_stack(record, self.ticks)
            } else {
                buffer.append_at(record, self.ticks)
            }
        }
    }
}

pub(crate) fn ticks_if_timed() -> Option<u64> {
    TIMED.load(Ordering::Relaxed).then(ticks)
}

/// Learns what is asked for.
pub(crate) fn ask() {
    TIMED.store(variable(TIMES, |_| ()).is_some(), Ordering::Relaxed);
    let every = variable(SITES, |every| every.to_str().ok()?.parse().ok()).flatten();
    EVERY.store(every.unwrap_or(0), Ordering::Relaxed);
}

/// Tells where code is mapped, if somebody will need it to make something of stacks.
pub(crate) fn tell_mappings(recording: &mut Recording) {
    /// Holds a line of the longest path.
    const ROOM: usize = 8 << 10;
    if EVERY.load(Ordering::Relaxed) == 0 {
        return;
    }
    let length = ROOM.next_multiple_of(page_size());
    // The thread's stack may be too short for it.
    let Ok(room) = map(length) else { return };
    // SAFETY: the mapping is ours alone, all zero, and goes when nothing refers to it any more.
    unsafe {
        let lines = core::slice::from_raw_parts_mut(room.as_ptr(), length);
        // Where there is no such list the collector looks for itself.
        let _ = each_mapping(lines, |mapping| {
            if mapping.is_executable && mapping.path.starts_with(b"/") {
                recording.tell_mapping(thread_number(), &mapping);
            }
        });
        // A mapping that stays is in nobody's way.
        let _ = unmap(room, length);
    }
}
