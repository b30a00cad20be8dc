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
//!
//! The folders, from the bottom up: `call`, `code`, `time`, `own`, `memory`, `file`, `found`, `thread`, `peer`.
#![no_std]

#[cfg(any(test, feature = "refusals"))]
extern crate std;

mod call;
mod code;
mod file;
mod found;
mod memory;
mod own;
mod peer;
mod spread;
mod thread;
mod time;

pub use call::errno::{errno_kept, set_errno};
pub use call::page_size::{page_size, round_to_pages};
#[cfg(feature = "refusals")]
pub use call::refusals;
pub use call::refused::Refused;
pub use call::waiting::{sleep_for_a_millisecond, uncancelled, undisturbed};
#[doc(hidden)]
pub use code::arch;
pub use code::arch::{Place, prefetch, prefetch_to_write};
#[doc(hidden)]
pub use code::loading;
pub use code::loading::find_next_dlopen;
pub use code::objects::{Object, are_in_one_object, each_code, next_symbol, object_at, operator_new, symbol};
pub use file::file_error::FileError;
pub use file::output::{Line, Output, Stream};
pub use file::segment::Segment;
pub use file::segment_file::{FileStatus, SegmentFile, unlink};
pub use file::unnamed::create_empty;
pub use file::window::Window;
pub use found::foreign::{ForeignError, read_foreign};
pub use found::groups::{GroupMemory, GroupsRoom, MemoryGroups};
pub use found::mappings::{Mapping, each_mapping};
pub use found::program::{FileName, LONGEST_NAME, executed_name, linked_program_name, program_name};
pub use found::stack::{copy_stack, here, own_stack};
pub use found::usage::{
    Usage, are_huge_pages_off, own_usage, peak_of_program, resident_files, stat_field, thread_usage, usage_by, usage_of,
};
pub use found::users::{effective_user, is_one_user};
pub use memory::barrier::{Guarded, forbid, guard, permit, unguard};
pub use memory::clear::clear;
pub use memory::huge_pages::{
    HUGE_PAGE, back_by_huge_page, forbid_huge_pages, huge_page_size, split_all_huge_pages, split_some_huge_pages,
};
pub use memory::pages::{
    map, map_aligned, page_seems_written, populate, remap, resident, resident_unless_filtered, unmap,
};
pub use memory::platform::{Platform, platform};
pub use memory::purge_batch::PurgeBatch;
pub use memory::ranges::{PageRange, purge};
pub use memory::reservation::{Reservation, give_addresses_back, take_addresses_back};
pub use memory::table_below::TableBelow;
pub use own::limits::MemoryLimit;
pub use own::process::{
    NoDirectory, abort, current_directory, exit_at_once, has_thread, has_variable_with, parent_process_id,
    peak_resident, process_id, thread_id, variable,
};
pub use own::secret::secret_word;
pub use peer::announcement::{Announcement, Announcements};
pub use peer::deaths::Deaths;
pub use peer::identity::{Identity, Life, Numbers, life, pid_namespace};
pub use peer::shared_lock::{SharedLock, Taken, TimedOut};
pub use spread::{GOLDEN_RATIO, spread};
pub use thread::background::{sleep_for, start_background, thread_count};
pub use thread::forks::{ForkHandlers, HeldAcrossForks, at_fork, fork_count, fork_counter, hold_across_forks};
pub use thread::lock::{ForkPass, Lock, Locked, sleep_while, wake_one};
pub use thread::thread_number::{
    second_thread_word, set_second_thread_word, set_thread_word, thread_number, thread_word,
};
pub use thread::thread_slot::ThreadEnd;
pub use thread::threads::{SingleThreaded, is_single_threaded};
pub use time::clock::trust_the_clock_of_the_c_library;
pub use time::ticks::{coarse_nanoseconds, now_nanoseconds, ticks, ticks_after_work};
