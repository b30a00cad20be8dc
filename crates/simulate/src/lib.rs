//! Commands that simulate heaps for a trace: the shortest region (`fit`), the smallest trace that still shows something
//! (`minimize`), every combination of policies, rules and regions (`sweep`), and the shortest calls on which one policy
//! fails and another does not (`counterexample`).

pub mod choice;
pub mod counterexample;
pub mod fit;
pub mod minimize;
pub mod sweep;
