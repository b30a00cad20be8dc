//! Services of the operating system: files, memory, clocks, signals, threads.

pub mod child;
pub mod clock;
pub mod descriptors;
pub mod destination;
pub mod dispositions;
pub mod draft;
pub mod files;
pub mod futex;
pub mod identity;
pub mod imports;
pub mod interruption;
pub mod lazy;
pub mod locked_folder;
pub mod machine;
pub mod memory;
pub mod names;
pub mod out_of_memory;
pub mod own_memory;
pub mod parallel;
pub mod process;
pub mod shown_time;
pub mod target;
pub mod temporary;
pub mod terminal;
pub mod threads;
pub mod timer;
