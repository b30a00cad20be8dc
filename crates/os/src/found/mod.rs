//! What is found out about processes and the machine: mappings, stacks, names, usage, limits of groups.

pub(crate) mod foreign;
pub(crate) mod groups;
pub(crate) mod mappings;
pub(crate) mod program;
pub(crate) mod stack;
pub(crate) mod usage;
pub(crate) mod users;
