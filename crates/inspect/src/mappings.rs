//! The mappings of a process, as `smaps` describes them.

use std::ops::Range;

/// A mapping.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// Its access, as in `rw-p`.
    pub access: String,
    /// Where in its file it begins.
    pub offset: u64,
    /// The file, or the name that the kernel gives; empty when it has none.
    pub name: String,
    /// Bytes in memory.
    pub rss: u64,
    /// Bytes in memory, each divided by the number of processes that share it.
    pub pss: u64,
    /// Bytes in memory that other processes share.
    pub shared: u64,
    /// Bytes in swap.
    pub swap: u64,
    /// Bytes in memory that the program has released by `MADV_FREE`: the kernel takes them when it needs memory.
    pub purgeable: u64,
}

impl Mapping {
    /// Whether it is private, anonymous, writable and without a name.
    pub fn is_plain(&self) -> bool {
        self.is_nameless() && self.is_data()
    }

    /// Whether it is private, anonymous and without a name. The program may have taken itself the access.
    pub fn is_nameless(&self) -> bool {
        self.name.is_empty() && self.access.ends_with('p')
    }

    /// Whether it is private and writable.
    pub fn is_data(&self) -> bool {
        self.access.starts_with("rw") && self.access.ends_with('p')
    }

    /// Whether the program may read it.
    pub fn is_readable(&self) -> bool {
        self.access.starts_with('r')
    }

    /// Whether blocks may lie in it: it is private and writable, or was, and has contents.
    pub fn may_have_blocks(&self) -> bool {
        let was_written = (self.is_nameless() || self.name == "[heap]") && self.rss + self.swap > 0;
        self.is_data() || was_written
    }

    /// Whether it may be a part of a heap: of a page that the program took the access to before it was touched nothing
    /// else is known.
    fn may_be_of_heap(&self) -> bool {
        self.is_data() || self.is_nameless() || self.name == "[heap]" && self.access.ends_with('p')
    }

    fn of_line(line: &str) -> Option<Mapping> {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let (access, offset) = (fields.next()?, fields.next().and_then(|text| u64::from_str_radix(text, 16).ok()));
        // Behind access, offset, device and inode: a name that may contain spaces.
        let mut name = rest;
        for _ in 0..4 {
            name = name.trim_start().split_once(' ').map_or("", |(_, behind)| behind);
        }
        let is_forward = range.start <= range.end;
        let (access, name) = (access.to_owned(), without_huge_pages(name.trim()).to_owned());
        is_forward.then(|| Mapping { range, access, name, offset: offset.unwrap_or(0), ..Mapping::default() })
    }
}

/// Returns the mapping that contains `address`, with its neighbours of the same name: in a child that was forked,
/// memory that a heap had before and memory that it got since are two mappings; and a program may take the access to a
/// page from itself.
pub fn neighbours(mappings: &[Mapping], address: u64) -> Option<Range<u64>> {
    let at = mappings.iter().position(|mapping| mapping.range.contains(&address))?;
    let is_next = |pair: &[Mapping]| {
        pair[0].range.end == pair[1].range.start
            && pair[0].name == pair[1].name
            && pair.iter().all(Mapping::may_be_of_heap)
    };
    let in_front = mappings[..=at].windows(2).rev().take_while(|pair| is_next(pair)).count();
    let behind = mappings[at..].windows(2).take_while(|pair| is_next(pair)).count();
    Some(mappings[at - in_front].range.start..mappings[at + behind].range.end)
}

/// Returns the name of a mapping; none for anonymous memory in reserved huge pages, which has that of a deleted file.
pub fn without_huge_pages(name: &str) -> &str {
    if name == "/anon_hugepage (deleted)" { "" } else { name }
}

/// Parses `smaps`. Lines of an unknown form are passed over.
pub fn parse(smaps: &str) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in smaps.lines() {
        let Some((key, value)) = line.split_once(':').filter(|(key, _)| !key.contains([' ', '-'])) else {
            mappings.extend(Mapping::of_line(line));
            continue;
        };
        let (Some(mapping), Some(bytes)) = (mappings.last_mut(), kilobytes(value)) else { continue };
        match key {
            "Rss" => mapping.rss = bytes,
            "Pss" => mapping.pss = bytes,
            "Shared_Clean" | "Shared_Dirty" => mapping.shared = mapping.shared.saturating_add(bytes),
            "Swap" => mapping.swap = bytes,
            // Neither of the sums in front counts these. How many processes share them is not said.
            "Private_Hugetlb" => {
                mapping.rss = mapping.rss.saturating_add(bytes);
                mapping.pss = mapping.pss.saturating_add(bytes);
            }
            "Shared_Hugetlb" => {
                mapping.rss = mapping.rss.saturating_add(bytes);
                mapping.shared = mapping.shared.saturating_add(bytes);
            }
            "LazyFree" => mapping.purgeable = bytes,
            _ => {}
        }
    }
    mappings
}

fn kilobytes(text: &str) -> Option<u64> {
    text.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the mapping that contains `address`.
pub fn mapping_of(mappings: &[Mapping], address: u64) -> Option<Range<u64>> {
    mappings.iter().find(|mapping| mapping.range.contains(&address)).map(|mapping| mapping.range.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_huge_pages_count_as_anonymous_memory() {
        let text = "\
7fc000000000-7fc000400000 rw-p 00000000 00:10 9          /anon_hugepage (deleted)
Rss:                   0 kB
Pss:                   0 kB
Shared_Hugetlb:     2048 kB
Private_Hugetlb:    2048 kB
";
        let mapping = &parse(text)[0];
        assert!(mapping.is_plain());
        assert_eq!((mapping.rss, mapping.pss, mapping.shared), (4 << 20, 2 << 20, 2 << 20));
    }

    #[test]
    fn mappings_have_their_names_and_sizes() {
        let text = "\
1000-3000 rw-p 00000000 00:00 0                          [heap]
Rss:                   8 kB
Pss:                   4 kB
Shared_Clean:          2 kB
Shared_Dirty:          1 kB
Swap:                 12 kB
LazyFree:              4 kB
VmFlags: rd wr
4000-5000 r--p 0000a000 fe:00 18500                      /a file: with (deleted)
6000-7000 rw-p 00000000 00:00 0
";
        let mappings = parse(text);
        let names: Vec<&str> = mappings.iter().map(|mapping| mapping.name.as_str()).collect();
        assert_eq!(names, ["[heap]", "/a file: with (deleted)", ""]);
        let heap = &mappings[0];
        assert_eq!((heap.rss, heap.pss, heap.shared, heap.swap, heap.purgeable), (8192, 4096, 3072, 12288, 4096));
        assert_eq!((mappings[0].offset, mappings[1].offset), (0, 0xa000));
        assert!(mappings[2].is_plain() && !heap.is_plain());
        assert!(parse("x\n-:\n9-1 r\nRss: 9999999999999999999 kB").is_empty());
    }
}
