//! The one heap of a process, as the malloc family sees it.
//!
//! The preload library exports names and nothing else; what they do is here. From the bottom up:
//!
//! - `settings`: what the environment asks for, read once, before the first allocation.
//! - `heap`: which heap there is; `exact`: a growing one under any policy, or one mapping per allocation, behind one set of verbs.
//! - `state`: that heap behind one lock, made by whoever comes first; fork and exit.
//! - `front`: the way to it, past the lock where it needs none.
//! - `complaint`: what is said about a pointer that is not a block.
//! - `beacon`: where a watcher finds the heap, and the last state that is left for one.
//! - `inspect` and `information`: what a program can ask about its heap.
//! - `classes` and `statistics`: the table and the JSON that are written at exit.
//! - the functions of this page: the malloc family, without its names.
//!
//! Nothing here calls a function of the malloc family, and nothing here allocates.
#![no_std]

mod beacon;
mod calls;
mod classes;
mod complaint;
mod exact;
mod front;
mod heap;
mod information;
mod inspect;
mod settings;
mod state;
mod statistics;

pub use calls::{
    allocate, allocate_aligned, allocate_aligned_loosely, allocate_aligned_strictly, allocate_into, allocate_pages,
    allocate_whole_pages, allocate_zeroed, free, free_sized, reallocate, reallocate_array, usable_size,
};
pub use information::write_information;
pub use inspect::{Pieces, Summary, print_statistics, summary, trim};
pub use state::{finish, start};
