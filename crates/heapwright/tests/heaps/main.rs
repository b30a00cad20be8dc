//! Heaps against a shadow: what every block must hold, where it may lie, and what each error leaves alone.

mod edges;
mod global;
mod random;
mod shadow;
