//! Commands that simulate heaps for a trace: the shortest region (`fit`), the smallest trace that still shows something
//! (`minimize`), and every combination of policies, rules and regions (`sweep`).

pub mod choice;
pub mod fit;
pub mod minimize;
pub mod sweep;
