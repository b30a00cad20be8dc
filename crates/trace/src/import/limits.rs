//! Limits of what an import keeps of call sites.

/// The number of innermost stack frames of a call site that are kept.
pub(super) const DEEPEST: usize = 128;

/// The memory limit of what a source defines for its call sites: strings, instructions, stacks, mappings. In bytes.
pub(super) const LIMIT: usize = 256 << 20;
