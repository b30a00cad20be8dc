//! The constants of a program and its libraries: in memory, or in their files.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use heapwright_host::target::Target;

use crate::core_file::Core;
use crate::mappings::Mapping;
use crate::memory::Memory;

/// What does not change while a process runs: the constants of its program and libraries.
pub trait Statics {
    /// Copies constants from `address` on; returns whether every byte was known.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;
}

impl Statics for Core {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        Memory::read(self, address, bytes)
    }
}

/// The constants of a live process. Pages that it has not touched are read from their files.
pub struct MappedFiles<'p> {
    target: &'p Target,
    mappings: &'p [Mapping],
    files: RefCell<HashMap<&'p str, Option<File>>>,
}

impl<'p> MappedFiles<'p> {
    /// Returns the constants of `target`, which has these `mappings`.
    pub fn new(target: &'p Target, mappings: &'p [Mapping]) -> MappedFiles<'p> {
        MappedFiles { target, mappings, files: RefCell::default() }
    }

    fn read_file(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let behind = self.mappings.partition_point(|mapping| mapping.range.start <= address);
        let mapping = self.mappings.get(behind.checked_sub(1)?)?;
        let left = mapping.range.end.checked_sub(address)?;
        let is_constant = mapping.name.starts_with('/') && !mapping.access.contains('w');
        if !is_constant || left < bytes.len() as u64 {
            return None;
        }
        let offset = mapping.offset.checked_add(address - mapping.range.start)?;
        let mut files = self.files.borrow_mut();
        let file = files.entry(&mapping.name).or_insert_with(|| self.target.mapped_file(&mapping.name));
        file.as_ref()?.read_exact_at(bytes, offset).ok()
    }
}

impl Statics for MappedFiles<'_> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.target.read(address, bytes) || self.read_file(address, bytes).is_some()
    }
}
