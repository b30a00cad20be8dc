//! The heap of a process, as the malloc family uses it.
//!
//! The preload library exports only names; this crate implements them. From the bottom up:
//!
//! - `plain`: text of others in messages, without control characters.
//! - `settings`: the settings from the environment, read once, before the first allocation.
//! - `exact`: one interface to a growing heap under any policy and to one mapping per allocation; `heap`: the process's
//!   heap; `summary`: that in a few figures; `route`: the way to it, through a lock or directly.
//! - `beacon`: leads a watcher to the heap; the heap's last state.
//! - `state`: the heap behind one lock, created by the first call; fork.
//! - `complaint`: the report about the free of an address that is not a live block.
//! - `front`: the dispatch to the heap, without the lock where none is needed.
//! - `inspect` and `information`: queries of a program about its heap.
//! - `decimal`, `classes` and `statistics`: the table and the JSON that are written at exit.
//! - `life`: when the library is loaded, and when the process exits.
//! - the functions of this page: the malloc family, without its exported names.
//!
//! No code here calls a function of the malloc family or allocates.
#![no_std]

#[cfg(test)]
extern crate std;

mod beacon;
mod calls;
mod classes;
mod complaint;
mod decimal;
mod exact;
mod front;
mod heap;
mod information;
mod inspect;
mod life;
#[cfg(test)]
mod order;
mod plain;
mod route;
mod ruled;
mod settings;
mod state;
mod statistics;
mod summary;

pub use calls::{
    ANY, allocate, allocate_aligned, allocate_aligned_loosely, allocate_aligned_strictly, allocate_into,
    allocate_pages, allocate_whole_pages, allocate_zeroed, free, free_aligned_sized, free_sized, free_sized_otherwise,
    give_sized, reallocate, reallocate_array, refuse, take, usable_size,
};
pub use information::write_information;
pub use inspect::{print_statistics, summary, trim};
pub use life::{finish, start};
pub use summary::{Pieces, Summary};
