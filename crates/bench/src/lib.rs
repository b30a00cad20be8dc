//! The small process in which `heapwright bench malloc` measures mallocs. The command itself is a large program: what it started directly
//! would inherit its high water of memory (the kernel carries it over `execve`), and a workload inside it would hold megabytes that are not its heap's.
//!
//! From the bottom up: `heap` (the process' malloc), `resident` (how much memory is held), `setup` and `notes` (what a workload is given and says),
//! `workloads`, `workload` (their list), `work` (one of them, measured), `count` (calls for a tool that counts instructions) and `launch` (a program,
//! started and measured).
//! The command links the list of workloads and carries the program inside.

mod count;
mod heap;
mod launch;
mod notes;
mod resident;
mod setup;
mod work;
mod workload;
mod workloads;

pub use count::{CALLS_FREE, CALLS_MALLOC, COUNT, count};
pub use launch::{LAUNCH, Spent, launch};
pub use work::{CPU, ELAPSED, MALLOC, WORK, work};
pub use workload::{Counts, WORKLOADS, Workload};
pub use workloads::scattered::{LIVE_PAGES, PEAK, SAMPLES};
