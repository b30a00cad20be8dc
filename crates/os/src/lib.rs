//! The operating system: every system call of Heapwright's libraries is made here.
//!
//! No function allocates, and those for memory leave `errno` unchanged, so that `malloc` can use them. From the bottom
//! up:
//!
//! - [`page_size`], [`map`], [`unmap`], [`remap`]: memory in whole OS pages; [`guard`], [`forbid`]: guard pages.
//! - [`Reservation`], [`TableBelow`]: a long range of addresses, which is mapped piecemeal as it is used and can be
//!   purged. [`platform`]: what the system supports, as far as calls have shown.
//! - [`Lock`]: mutual exclusion by a futex, usable in `malloc`. [`hold_across_forks`]: a lock that forks leave usable.
//! - [`Segment`], [`SegmentFile`]: files as memory that processes share; [`Window`]: one that is not kept open.
//!   Segments are not for use in `malloc`: they change `errno`.
//! - [`Identity`], [`life`]: identities of processes, and whether they live; [`SharedLock`]: mutual exclusion among
//!   processes, which survives their death.
//! - [`read_foreign`]: the memory of another process. [`each_mapping`]: the mappings of this one. [`object_at`],
//!   [`each_code`]: the program and its libraries.
//! - [`own_usage`], [`usage_of`]: memory, page faults and processor time of a process.
//! - [`MemoryGroups`]: the memory limits of control groups. [`MemoryLimit`]: those of a process, in words.
//! - [`start_background`]: a thread of the library's own.
//! - [`export_dlopen`]: libraries loaded later call the same malloc. [`export_reallocarray`]: ends in the program's.
//! - [`here`], [`copy_stack`]: the calling thread's registers and stack, to be unwound elsewhere.
//! - [`program_name`]: the program's file, whatever title the process shows.
//! - [`at_fork`], [`Output`], [`Line`], [`variable`], [`secret_word`]: the process, for a library that replaces
//!   `malloc`.
//! - [`spread`]: no system call, but what the hash tables of the libraries have in common.
#![no_std]

#[cfg(any(test, feature = "refusals"))]
extern crate std;

mod announcement;
#[doc(hidden)]
pub mod arch;
mod arena;
mod background;
mod barrier;
mod clear;
mod clock;
mod deaths;
mod descriptor;
mod effect;
mod errno;
mod file_error;
mod file_mapping;
mod foreign;
mod forks;
mod groups;
mod huge_pages;
mod identity;
mod interposed;
mod limits;
#[doc(hidden)]
pub mod loading;
mod lock;
mod mappings;
mod objects;
mod output;
mod own_file;
mod own_position;
mod page_size;
mod pages;
mod pidfd;
mod platform;
mod process;
mod program;
mod purge_batch;
mod ranges;
#[cfg(feature = "refusals")]
pub mod refusals;
mod refused;
mod reservation;
mod room;
mod secret;
mod segment;
mod segment_file;
mod shared_lock;
mod spread;
mod stack;
mod streams;
mod table_below;
mod thread_number;
mod thread_slot;
mod threads;
mod ticks;
mod unnamed;
mod usage;
mod users;
mod waiting;
mod window;

pub use announcement::{Announcement, Announcements};
pub use arch::{Place, prefetch, prefetch_to_write};
pub use background::{sleep_for, start_background, thread_count};
pub use barrier::{Guarded, forbid, guard, permit, unguard};
pub use clear::clear;
pub use clock::trust_the_clock_of_the_c_library;
pub use deaths::Deaths;
pub use errno::{errno_kept, set_errno};
pub use file_error::FileError;
pub use foreign::{ForeignError, read_foreign};
pub use forks::{ForkHandlers, HeldAcrossForks, at_fork, fork_count, fork_counter, hold_across_forks};
pub use groups::{GroupMemory, GroupsRoom, MemoryGroups};
pub use huge_pages::{
    HUGE_PAGE, back_by_huge_page, forbid_huge_pages, huge_page_size, split_all_huge_pages, split_some_huge_pages,
};
pub use identity::{Identity, Life, Numbers, life, pid_namespace};
pub use limits::MemoryLimit;
pub use loading::find_next_dlopen;
pub use lock::{ForkPass, Lock, Locked, sleep_while, wake_one};
pub use mappings::{Mapping, each_mapping};
pub use objects::{Object, are_in_one_object, each_code, next_symbol, object_at, operator_new, symbol};
pub use output::{Line, Output, Stream};
pub use page_size::{page_size, round_to_pages};
pub use pages::{map, map_aligned, page_seems_written, populate, remap, resident, resident_unless_filtered, unmap};
pub use platform::{Platform, platform};
pub use process::{
    NoDirectory, abort, current_directory, exit_at_once, has_thread, has_variable_with, parent_process_id,
    peak_resident, process_id, thread_id, variable,
};
pub use program::{FileName, LONGEST_NAME, executed_name, linked_program_name, program_name};
pub use purge_batch::PurgeBatch;
pub use ranges::{PageRange, purge};
pub use refused::Refused;
pub use reservation::{Reservation, give_addresses_back, take_addresses_back};
pub use secret::secret_word;
pub use segment::Segment;
pub use segment_file::{FileStatus, SegmentFile, unlink};
pub use shared_lock::{SharedLock, Taken, TimedOut};
pub use spread::{GOLDEN_RATIO, spread};
pub use stack::{copy_stack, here, own_stack};
pub use table_below::TableBelow;
pub use thread_number::{second_thread_word, set_second_thread_word, set_thread_word, thread_number, thread_word};
pub use thread_slot::ThreadEnd;
pub use threads::{SingleThreaded, is_single_threaded};
pub use ticks::{coarse_nanoseconds, now_nanoseconds, ticks, ticks_after_work};
pub use unnamed::create_empty;
pub use usage::{
    Usage, are_huge_pages_off, own_usage, peak_of_program, resident_files, stat_field, thread_usage, usage_by, usage_of,
};
pub use users::{effective_user, is_one_user};
pub use waiting::{sleep_for_a_millisecond, uncancelled, undisturbed};
pub use window::Window;
