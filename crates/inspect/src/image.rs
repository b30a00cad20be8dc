//! A copy of what an analysis needs of a process's memory. The process may go on while the copy is analysed.

use std::ops::Range;

use crate::glibc;
use crate::mappings::Mapping;
use crate::memory::{HEAD, Memory, PAGE, PageState, page_count};

/// Pages that are looked at in mappings of which little is in memory: sanitizers and runtimes reserve terabytes.
const MOST_PAGES: usize = 1 << 26;

/// A part of a process's memory.
struct Part {
    start: u64,
    /// Where its pages are.
    states: Vec<PageState>,
    contents: Contents,
}

enum Contents {
    /// All bytes; those of pages that are not in memory are 0.
    Whole(Vec<u8>),
    /// Of every page its first bytes; 0 where they are not known.
    Heads(Vec<[u8; HEAD]>),
    /// Nothing of this number of bytes: the program has no access to them.
    Closed(u64),
}

impl Part {
    fn end(&self) -> u64 {
        self.start.saturating_add(match &self.contents {
            Contents::Whole(bytes) => bytes.len() as u64,
            Contents::Heads(heads) => heads.len() as u64 * PAGE,
            Contents::Closed(bytes) => *bytes,
        })
    }

    fn page(&self, address: u64) -> usize {
        (address / PAGE - self.start / PAGE) as usize
    }

    /// Returns what is known from `address` on.
    fn known(&self, address: u64) -> Option<&[u8]> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        match &self.contents {
            Contents::Whole(bytes) => bytes.get(offset..),
            Contents::Heads(heads) => heads.get(offset / PAGE as usize)?.get(offset % PAGE as usize..),
            Contents::Closed(_) => None,
        }
    }
}

/// A copy of parts of a process's memory.
#[derive(Default)]
pub struct Image {
    /// In address order, without overlaps.
    parts: Vec<Part>,
}

impl Image {
    /// Copies from `memory` what the analysis of a heap of glibc's malloc needs. Returns the bytes in memory that were
    /// copied too; `None` when they are more than `budget`.
    pub fn copy(memory: &impl Memory, mappings: &[Mapping], budget: u64) -> Option<(Image, u64)> {
        let ranges = glibc::ranges(memory, mappings);
        let (mut image, mut copied, mut looked_at) = (Image::default(), 0, 0);
        for mapping in mappings.iter().filter(|mapping| mapping.may_have_blocks() && mapping.rss + mapping.swap > 0) {
            if !mapping.is_readable() {
                looked_at += image.push_closed(memory, &mapping.range);
                continue;
            }
            let in_mapping = |range: &Range<u64>| {
                range.start.max(mapping.range.start) / PAGE * PAGE
                    ..range.end.min(mapping.range.end).div_ceil(PAGE) * PAGE
            };
            let mut whole: Vec<Range<u64>> = ranges.iter().map(in_mapping).filter(|range| !range.is_empty()).collect();
            whole.sort_by_key(|range| range.start);
            let mut at = mapping.range.start;
            for range in whole {
                let range = range.start.max(at)..range.end;
                if range.is_empty() {
                    continue;
                }
                looked_at += image.push_heads(memory, at..range.start);
                copied += image.push_whole(memory, range.clone(), budget.checked_sub(copied)?)?;
                at = range.end;
            }
            if looked_at < MOST_PAGES {
                looked_at += image.push_heads(memory, at..mapping.range.end);
            }
        }
        Some((image, copied))
    }

    /// Adds all bytes of a range behind all others; returns how many are in memory. `None` when they are more than
    /// `budget`.
    fn push_whole(&mut self, memory: &impl Memory, range: Range<u64>, budget: u64) -> Option<u64> {
        let states = memory.pages(range.start, page_count(&range));
        let present = states.iter().filter(|state| **state == PageState::Present).count() as u64 * PAGE;
        if present > budget {
            return None;
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        memory.read(range.start, &mut bytes);
        self.parts.push(Part { start: range.start, states, contents: Contents::Whole(bytes) });
        Some(present)
    }

    /// Adds the heads of the pages of a range behind all others; returns the number of pages.
    fn push_heads(&mut self, memory: &impl Memory, range: Range<u64>) -> usize {
        let count = page_count(&range).min(MOST_PAGES);
        if range.is_empty() {
            return 0;
        }
        let states = memory.pages(range.start, count);
        let pages = states.iter().zip(0..).filter(|(state, _)| **state == PageState::Present);
        let starts: Vec<u64> = pages.map(|(_, page)| range.start + page * PAGE).collect();
        let mut heads = vec![[0; HEAD]; count];
        for (start, head) in memory.heads(&starts) {
            heads[((start - range.start) / PAGE) as usize] = head;
        }
        self.parts.push(Part { start: range.start, states, contents: Contents::Heads(heads) });
        count
    }

    /// Adds where the pages of a range are behind all others; returns the number of pages.
    fn push_closed(&mut self, memory: &impl Memory, range: &Range<u64>) -> usize {
        let count = page_count(range).min(MOST_PAGES);
        let contents = Contents::Closed(count as u64 * PAGE);
        self.parts.push(Part { start: range.start, states: memory.pages(range.start, count), contents });
        count
    }

    /// Adds a part that is in memory, behind all others.
    pub fn push(&mut self, address: u64, bytes: Vec<u8>) {
        debug_assert!(self.parts.last().is_none_or(|part| part.end() <= address));
        let states = vec![PageState::Present; page_count(&(address..address + bytes.len() as u64))];
        self.parts.push(Part { start: address, states, contents: Contents::Whole(bytes) });
    }

    /// Returns the part that contains `address`.
    fn part(&self, address: u64) -> Option<&Part> {
        let behind = self.parts.partition_point(|part| part.start <= address);
        self.parts.get(behind.checked_sub(1)?).filter(|part| address < part.end())
    }

    /// Returns what is known from `address` on, up to the end of its part.
    fn known(&self, address: u64) -> Option<&[u8]> {
        let part = self.part(address)?;
        let is_present = part.states.get(part.page(address)) == Some(&PageState::Present);
        part.known(address).filter(|rest| is_present && !rest.is_empty())
    }
}

impl Memory for Image {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let (mut done, mut complete) = (0, true);
        while done < bytes.len() {
            let Some(at) = address.checked_add(done as u64) else { return false };
            let to_next_page = (PAGE - at % PAGE) as usize;
            let left = to_next_page.min(bytes.len() - done);
            match self.known(at) {
                Some(known) => {
                    let length = known.len().min(left);
                    bytes[done..done + length].copy_from_slice(&known[..length]);
                    complete &= length == left;
                }
                None => complete = false,
            }
            done += left;
        }
        complete
    }

    fn pages(&self, address: u64, count: usize) -> Vec<PageState> {
        let state = |page: u64| {
            let at = (address / PAGE * PAGE).saturating_add(page * PAGE);
            let part = self.part(at)?;
            part.states.get(part.page(at)).copied()
        };
        (0..count as u64).map(|page| state(page).unwrap_or(PageState::Absent)).collect()
    }
}

/// A copy, and the memory that it was made of for what it does not contain whole.
pub struct Backed<'m, M> {
    image: &'m Image,
    memory: &'m M,
}

impl<'m, M> Backed<'m, M> {
    /// Returns the memory behind `image`, a copy of parts of `memory`.
    pub fn new(image: &'m Image, memory: &'m M) -> Backed<'m, M> {
        Backed { image, memory }
    }

    fn is_copied(&self, address: u64) -> bool {
        self.image.part(address).is_some_and(|part| matches!(part.contents, Contents::Whole(_)))
    }
}

impl<M: Memory> Memory for Backed<'_, M> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        if self.is_copied(address) { self.image.read(address, bytes) } else { self.memory.read(address, bytes) }
    }

    fn pages(&self, address: u64, count: usize) -> Vec<PageState> {
        if self.is_copied(address) { self.image.pages(address, count) } else { self.memory.pages(address, count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_follow_each_other_are_read_as_one() {
        let mut image = Image::default();
        image.push(4096, vec![1; 4096]);
        image.push(8192, vec![2; 4096]);
        image.push(20480, vec![3; 100]);
        let mut bytes = [0; 4];
        assert!(image.read(8190, &mut bytes));
        assert_eq!(bytes, [1, 1, 2, 2]);
        assert!(!image.read(12286, &mut bytes));
        assert_eq!(bytes, [2, 2, 2, 2]);
        assert!(!image.read(20578, &mut bytes) && !image.read(u64::MAX - 1, &mut bytes));
        use PageState::{Absent, Present};
        assert_eq!(image.pages(4097, 5), [Present, Present, Absent, Absent, Present]);
    }

    #[test]
    fn of_other_mappings_the_heads_of_pages_are_kept() {
        let mut process = Image::default();
        process.push(4096, (0..8192).map(|at| (at / 16) as u8).collect());
        let range = 4096..12288;
        let mapping = Mapping { range, access: "rw-p".to_owned(), rss: 8192, ..Mapping::default() };
        let (image, copied) = Image::copy(&process, &[mapping], 0).unwrap();
        assert_eq!((image.word(8192), image.word(8208), copied), (process.word(8192), None, 0));
        assert_eq!(image.heads(&[4096, 8192]), process.heads(&[4096, 8192]));
    }
}
