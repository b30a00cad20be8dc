//! Files: errors and descriptors, segments and windows, lines of output.

pub(crate) mod descriptor;
pub(crate) mod file_error;
pub(crate) mod file_mapping;
pub(crate) mod output;
pub(crate) mod own_file;
pub(crate) mod own_position;
pub(crate) mod room;
pub(crate) mod segment;
pub(crate) mod segment_file;
pub(crate) mod unnamed;
pub(crate) mod window;
