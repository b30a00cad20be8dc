//! Shared code of the fuzz targets for traces: generates files whose frames have valid checksums, so that fuzzing
//! reaches their contents, and checks the properties of everything that can be read.

pub mod exporting;
pub mod frames;
pub mod importing;
pub mod memory;
pub mod reading;

#[global_allocator]
static MEMORY: memory::Limited = memory::Limited;
