//! Classes of C++ objects, by the run-time type information in front of their vtables. No symbols are needed.
//!
//! Source: Itanium C++ ABI, 2.5.2 (virtual table components) and 2.9.5 (RTTI layout). A vtable begins two words in
//! front of what objects point to: the offset to the top of the object, and the type information. Its second word
//! points to the type's name, which is mangled.

use std::collections::HashMap;

use heapwright_names::class;

use super::Statics;
use crate::mappings::Mapping;

/// The longest name that is read.
const LONGEST_NAME: usize = 1024;

/// The most that an object can lie behind the top of the object that it is a part of.
const LARGEST_OFFSET: u64 = 1 << 20;

/// Vtables that are remembered: damaged memory could contain any number.
const MOST_VTABLES: usize = 1 << 16;

/// Finds classes.
pub struct Classes<'p> {
    mappings: &'p [Mapping],
    statics: &'p dyn Statics,
    known: HashMap<u64, Option<String>>,
}

impl<'p> Classes<'p> {
    /// Returns a finder for the process with these `mappings`.
    pub fn new(mappings: &'p [Mapping], statics: &'p dyn Statics) -> Classes<'p> {
        Classes { mappings, statics, known: HashMap::new() }
    }

    /// Returns the class of objects that begin with this pointer, if it points to a vtable.
    pub fn class(&mut self, vtable: u64) -> Option<String> {
        self.file(vtable).filter(|_| vtable.is_multiple_of(8))?;
        if let Some(known) = self.known.get(&vtable) {
            return known.clone();
        }
        let class = self.read_class(vtable);
        if self.known.len() < MOST_VTABLES {
            self.known.insert(vtable, class.clone());
        }
        class
    }

    /// Returns the name, without its folders, of the file that `address` is mapped from.
    pub fn file(&self, address: u64) -> Option<&'p str> {
        let behind = self.mappings.partition_point(|mapping| mapping.range.start <= address);
        let mapping = self.mappings.get(behind.checked_sub(1)?)?;
        let is_file = mapping.range.contains(&address) && mapping.name.starts_with('/');
        is_file.then(|| mapping.name.rsplit('/').next())?
    }

    fn read_class(&self, vtable: u64) -> Option<String> {
        let offset_to_top = self.word(vtable.checked_sub(16)?)?;
        if offset_to_top.wrapping_neg() > LARGEST_OFFSET {
            return None;
        }
        let information = self.word(vtable - 8)?;
        // Type information is an object with a vtable itself.
        let own_vtable = self.word(self.in_file(information)?)?;
        self.in_file(own_vtable)?;
        let name = self.word(information.checked_add(8)?)?;
        let name = self.text(self.in_file(name)?)?;
        // A star marks types that are compared by address.
        class(name.strip_prefix('*').unwrap_or(&name)).map(|class| class.escape_debug().to_string())
    }

    fn in_file(&self, address: u64) -> Option<u64> {
        self.file(address).map(|_| address)
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.statics.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    /// Returns the text at `address`, up to its zero.
    fn text(&self, address: u64) -> Option<String> {
        let mut text = Vec::new();
        while text.len() < LONGEST_NAME {
            // Never beyond a multiple of the step: what lies behind the name need not be known.
            let at = address.checked_add(text.len() as u64)?;
            let mut part = [0; 16];
            let part = &mut part[..16 - (at % 16) as usize];
            if !self.statics.read(at, part) {
                return None;
            }
            let end = part.iter().position(|byte| *byte == 0);
            text.extend_from_slice(&part[..end.unwrap_or(part.len())]);
            if end.is_some() {
                return String::from_utf8(text).ok().filter(|text| !text.is_empty());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;
    use crate::memory::Memory;

    impl Statics for Image {
        fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
            Memory::read(self, address, bytes)
        }
    }

    fn program(words: &[u64], name: &[u8]) -> (Image, [Mapping; 1]) {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        let bytes: Vec<u8> = words.chain(name.iter().copied()).chain([1; 16]).collect();
        let mut image = Image::default();
        image.push(0x10000, bytes);
        let name = "/usr/lib/libshapes.so".to_owned();
        (image, [Mapping { range: 0x10000..0x11000, name, ..Mapping::default() }])
    }

    #[test]
    fn vtables_lead_to_names() {
        // Offset to the top, type information, the vtable; the type information; its name.
        let words = [0, 0x10018, 0x1234, 0x10010, 0x10028];
        let (image, mappings) = program(&words, b"N6shapes6CircleE\0");
        let mut classes = Classes::new(&mappings, &image);
        assert_eq!(classes.class(0x10010).as_deref(), Some("shapes::Circle"));
        assert_eq!(classes.file(0x10010), Some("libshapes.so"));
        for other in [0, 8, 0x10000, 0x10008, 0x10011, 0x10018, 0x11000, u64::MAX] {
            assert_eq!(classes.class(other), None, "{other:#x}");
        }
    }

    #[test]
    fn what_is_no_vtable_is_not_one() {
        let good = [0, 0x10018, 0x1234, 0x10010, 0x10028];
        for (at, wrong) in [(0, 7), (0, 1 << 40), (1, 0), (1, u64::MAX), (3, 0x5000), (4, 0x10ff8), (4, u64::MAX)] {
            let mut words = good;
            words[at] = wrong;
            let (image, mappings) = program(&words, b"6Circle\0");
            assert_eq!(Classes::new(&mappings, &image).class(0x10010), None, "{at} {wrong:#x}");
        }
        for name in [&b"not mangled\0"[..], b"\0", b"\xff\xff\0", b"999999999999a\0", &[b'1'; 3000]] {
            let (image, mappings) = program(&good, name);
            assert_eq!(Classes::new(&mappings, &image).class(0x10010), None, "{name:?}");
        }
    }
}
