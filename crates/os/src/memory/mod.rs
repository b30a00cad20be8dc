//! Memory in whole pages: mapped, guarded, purged, backed by huge pages, reserved as a range of addresses.

pub(crate) mod arena;
pub(crate) mod barrier;
pub(crate) mod clear;
pub(crate) mod huge_pages;
pub(crate) mod pages;
pub(crate) mod platform;
pub(crate) mod purge_batch;
pub(crate) mod ranges;
pub(crate) mod reservation;
pub(crate) mod table_below;
