//! Which malloc a process has.

use std::collections::HashSet;
use std::io::Read;

use crate::mappings::Mapping;

/// The most bytes of a program that are searched.
const LONGEST_PROGRAM: u64 = 1 << 30;

/// Bytes of a program that are searched at a time.
const PART: usize = 1 << 20;

/// Another malloc than glibc's.
struct Other {
    name: &'static str,
    /// The start of its library's file name.
    library: &'static str,
    /// Text that a program contains when it is linked in: the start of its messages.
    text: Option<&'static str>,
}

const fn other(name: &'static str, library: &'static str, text: Option<&'static str>) -> Other {
    Other { name, library, text }
}

const OTHERS: [Other; 4] = [
    other("jemalloc", "libjemalloc", Some("<jemalloc>: ")),
    other("mimalloc", "libmimalloc", Some("mimalloc: warning")),
    other("tcmalloc", "libtcmalloc", Some("tcmalloc: large alloc")),
    other("musl", "ld-musl", None),
];

/// The name of a malloc that is not recognised.
pub const UNKNOWN: &str = "not known";

/// Returns the name of the malloc of a process, whose program contains `linked`.
pub fn allocator(mappings: &[Mapping], linked: Option<&'static str>, is_glibc: bool) -> &'static str {
    let files: HashSet<&str> = mappings.iter().filter_map(|mapping| mapping.name.rsplit('/').next()).collect();
    let is_loaded = |other: &&Other| files.iter().any(|file| file.starts_with(other.library));
    match OTHERS.iter().find(is_loaded).map(|other| other.name).or(linked) {
        Some(name) => name,
        None if is_glibc => "glibc",
        None => UNKNOWN,
    }
}

/// Whether data of the program's files is in swap, so that an arena in it may not have been found.
pub fn is_data_in_swap(mappings: &[Mapping]) -> bool {
    mappings.iter().any(|mapping| mapping.is_data() && mapping.name.starts_with('/') && mapping.swap > 0)
}

/// Returns the malloc that is linked into a program.
pub fn linked(program: impl Read) -> Option<&'static str> {
    let mut program = program.take(LONGEST_PROGRAM);
    let (mut bytes, mut kept) = (vec![0; PART], 0);
    loop {
        let read = program.read(&mut bytes[kept..]).ok().filter(|read| *read > 0)?;
        let known = &bytes[..kept + read];
        let is_inside = |other: &&Other| other.text.is_some_and(|text| contains(known, text.as_bytes()));
        if let Some(other) = OTHERS.iter().find(is_inside) {
            return Some(other.name);
        }
        // A text may lie on both sides of the border.
        let start = known.len().saturating_sub(64);
        kept = known.len() - start;
        bytes.copy_within(start..start + kept, 0);
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == text[0]) {
        if rest[at..].starts_with(text) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_malloc_is_recognised_wherever_its_text_lies() {
        for at in [0, 100, PART - 70, PART - 5, 3 * PART] {
            let mut program = vec![b'<'; at];
            program.extend(b"<jemalloc>: error\0");
            program.extend(vec![1; 1000]);
            assert_eq!(linked(&program[..]), Some("jemalloc"), "{at}");
        }
        assert_eq!(linked(&b"libjemalloc.so and <jemalloc>"[..]), None);
        assert_eq!(allocator(&[], Some("mimalloc"), true), "mimalloc");
        let loaded = Mapping { name: "/usr/lib/libtcmalloc.so.4".to_owned(), ..Mapping::default() };
        assert_eq!(allocator(&[loaded], None, true), "tcmalloc");
        assert_eq!((allocator(&[], None, true), allocator(&[], None, false)), ("glibc", "not known"));
    }
}
