//! What a process does with a segment that it has opened.
//!
//! From the bottom up: `heap` (a handle, and the critical section); `open`, `create`; `tenures` and `small` (how slabs
//! change hands, and their blocks); `operate`, `publish`, `grow`, `roots`, `mutex`, `reclaim`, `reachable`, `inspect`,
//! `close`.

pub(crate) mod close;
pub(crate) mod create;
pub(crate) mod grow;
pub(crate) mod heap;
pub(crate) mod inspect;
pub(crate) mod mutex;
pub(crate) mod open;
pub(crate) mod operate;
pub(crate) mod publish;
pub(crate) mod reachable;
pub(crate) mod reclaim;
pub(crate) mod roots;
pub(crate) mod small;
pub(crate) mod tenures;
