//! Other processes: their identities, whether they live, and a lock that survives their death.

pub(crate) mod announcement;
pub(crate) mod deaths;
pub(crate) mod identity;
pub(crate) mod pidfd;
pub(crate) mod shared_lock;
