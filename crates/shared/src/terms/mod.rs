//! What callers say, and what they are answered.
//!
//! From the bottom up: `limits`, `offset`, `place`, `error`, `name` (the place of a name), `settings`.

pub(crate) mod error;
pub(crate) mod limits;
mod name;
pub(crate) mod offset;
pub(crate) mod place;
pub(crate) mod settings;
