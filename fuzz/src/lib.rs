//! What the fuzz targets for traces share: files made of frames whose checksums are right, so that what is in them is reached, and what
//! must hold of everything that can be read.

pub mod exporting;
pub mod frames;
pub mod importing;
pub mod memory;
pub mod reading;

#[global_allocator]
static MEMORY: memory::Limited = memory::Limited;
