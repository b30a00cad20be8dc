//! This process: its number, environment, limits and secret.

pub(crate) mod limits;
pub(crate) mod process;
pub(crate) mod secret;
