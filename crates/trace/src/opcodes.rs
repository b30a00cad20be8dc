//! The codes of events in a frame.

pub(crate) const MALLOC: u8 = 0;
pub(crate) const CALLOC: u8 = 1;
pub(crate) const ALIGNED: u8 = 2;
pub(crate) const RESIZE: u8 = 3;
pub(crate) const FREE: u8 = 4;
pub(crate) const THREAD: u8 = 5;
pub(crate) const FAILED: u8 = 6;
