//! Everything that Heapwright asks of the operating system, and the only place where it is asked.
//!
//! Nothing here allocates, and no call for memory changes `errno`, so that all of it can be used inside `malloc`. From the bottom up:
//!
//! - [`page_size`], [`map`], [`unmap`], [`remap`]: memory in whole OS pages; [`guard`], [`forbid`]: pages that nobody may touch.
//! - [`Reservation`]: a long range of address space that becomes memory as it is committed and can be purged again.
//! - [`Lock`]: mutual exclusion by a futex, usable in `malloc` and across `fork`.
//! - [`Segment`], [`SegmentFile`]: files as memory that processes share; [`Window`]: a part of one. Not for use in `malloc`: they leave the system's `errno`.
//! - [`Identity`], [`life`]: which process it is and whether it lives; [`SharedLock`]: mutual exclusion among processes that
//!   survives their death.
//! - [`read_foreign`]: the memory of another process. [`each_mapping`]: what is mapped into this one.
//! - [`here`], [`copy_stack`]: the calling thread's stack, for whoever unwinds it elsewhere.
//! - [`at_fork`], [`Output`], [`Line`], [`variable`], [`secret_word`]: what a library that replaces `malloc` needs of its process.
#![no_std]

#[cfg(any(test, feature = "refusals"))]
extern crate std;

mod barrier;
mod errno;
mod file_error;
mod foreign;
mod forks;
mod identity;
mod lock;
mod mappings;
mod objects;
mod output;
mod pages;
mod process;
#[cfg(feature = "refusals")]
pub mod refusals;
mod reservation;
mod secret;
mod segment;
mod shared_lock;
mod stack;
mod thread_number;
mod thread_slot;
mod threads;
mod ticks;
mod unnamed;
mod waiting;
mod window;

pub use barrier::{forbid, guard, permit, unguard};
pub use errno::{errno_kept, set_errno};
pub use file_error::FileError;
pub use foreign::{ForeignError, read_foreign};
pub use forks::fork_count;
pub use identity::{Identity, Life, life, pid_namespace};
pub use lock::{Lock, Locked};
pub use mappings::{Mapping, each_mapping};
pub use objects::{are_in_one_object, next_symbol};
pub use output::{Line, Output, Stream};
pub use pages::{Refused, map, map_aligned, page_size, populate, purge, remap, resident, round_to_pages, unmap};
pub use process::{
    abort, at_fork, current_directory, exit_at_once, has_thread, has_variable_with, parent_process_id, peak_resident,
    process_id, program_name, thread_id, variable,
};
pub use reservation::Reservation;
pub use secret::secret_word;
pub use segment::{FileStatus, Segment, SegmentFile, effective_user, unlink};
pub use shared_lock::{SharedLock, Taken, TimedOut};
pub use stack::{Place, copy_stack, here, own_stack};
pub use thread_number::{set_thread_word, thread_number, thread_word};
pub use thread_slot::ThreadEnd;
pub use threads::is_single_threaded;
pub use ticks::{now_nanoseconds, ticks};
pub use waiting::{sleep_for_a_millisecond, uncancelled, undisturbed};
pub use window::Window;
