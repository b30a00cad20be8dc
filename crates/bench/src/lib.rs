//! The small process in which `heapwright bench malloc` measures mallocs. The command itself is a large program: a
//! child that it starts directly would inherit its peak of resident memory (the kernel keeps it across `execve`), and a
//! workload inside it would include megabytes that do not belong to the measured heap.
//!
//! Modules from the bottom up: `heap` (the malloc of the process), `resident` (resident memory), `setup`, `notes` and
//! `stopwatch` (parameters and figures of a workload), `table` (its blocks), `workloads`, `workload` (their list),
//! `work` (runs and measures one), `count` (calls for a tool that counts instructions) and `launch` (starts and
//! measures a program). The command links the list of workloads and embeds the program.

mod count;
mod heap;
mod launch;
mod notes;
mod resident;
mod setup;
mod stopwatch;
mod table;
mod work;
mod workload;
mod workloads;

pub use count::{CALLS_FREE, CALLS_MALLOC, COUNT, count};
pub use launch::{LAUNCH, Spent, launch};
pub use stopwatch::{CPU, ELAPSED};
pub use work::{MALLOC, WORK, work};
pub use workload::{Counts, WORKLOADS, Workload};
pub use workloads::kept::{LIVE_PAGES, PEAK, SAMPLES};
pub use workloads::tails::SLOW_CALL;
