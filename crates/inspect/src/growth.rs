//! What changed from picture to picture.

use std::collections::BTreeMap;

use heapwright_show::number::{bytes, grouped};
use heapwright_show::table::{Cell, Table};
use heapwright_show::terminal;
use serde::Serialize;

use crate::glibc::{Block, SizeClass};
use crate::picture::{Glibc, Picture};

/// The most sizes and arenas that are shown.
const ROWS: usize = 12;

/// A change of blocks of one size, or up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The change of the number of blocks.
    pub blocks: i64,
    /// The change of the bytes of their chunks.
    pub bytes: i64,
}

/// What changed between two pictures.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Growth {
    /// Change of bytes in memory.
    pub rss: i64,
    /// Change of the program's blocks in arenas by size.
    pub sizes: BTreeMap<u64, Change>,
    /// Change of the program's bytes in each arena.
    pub arenas: BTreeMap<usize, i64>,
    /// By size: blocks that were made after the first picture, and were in the picture before and are in this one;
    /// `None` where blocks cannot be told apart.
    pub kept: Option<BTreeMap<u64, SizeClass>>,
}

/// Compares pictures of one process.
#[derive(Default)]
pub struct History {
    first: Option<Vec<Block>>,
    last: Option<Picture>,
}

impl History {
    /// Takes the next picture; returns the change since the last one.
    pub fn add(&mut self, picture: Picture) -> Option<Growth> {
        let growth = self.last.as_ref().map(|last| self.growth(last, &picture));
        if self.first.is_none() {
            self.first = picture.glibc.as_ref().map(|glibc| glibc.blocks.clone());
        }
        self.last = Some(picture);
        growth
    }

    fn growth(&self, last: &Picture, picture: &Picture) -> Growth {
        let mut growth = Growth { rss: difference(picture.rss, last.rss), ..Growth::default() };
        let (sizes_before, sizes) = (last.sizes(), picture.sizes());
        for size in sizes_before.keys().chain(sizes.keys()) {
            let of = |sizes: &BTreeMap<u64, SizeClass>| sizes.get(size).copied().unwrap_or_default();
            let (before, now) = (of(&sizes_before), of(&sizes));
            let change =
                Change { blocks: difference(now.blocks, before.blocks), bytes: difference(now.bytes, before.bytes) };
            if change != Change::default() {
                growth.sizes.insert(*size, change);
            }
        }
        let Some((before, now)) = last.glibc.as_ref().zip(picture.glibc.as_ref()) else { return growth };
        let live = |glibc: &Glibc, number: usize| glibc.arenas.get(number).map_or(0, |arena| arena.live);
        for number in 0..before.arenas.len().max(now.arenas.len()) {
            growth.arenas.insert(number, difference(live(now, number), live(before, number)));
        }
        let first = self.first.as_deref().unwrap_or_default();
        let kept = growth.kept.insert(BTreeMap::new());
        for block in now.blocks.iter().filter(|block| is_in(&before.blocks, block) && !is_in(first, block)) {
            kept.entry(class_of(block.bytes)).or_default().add(block.bytes);
        }
        growth
    }
}

/// Whether a list by addresses contains a block of the same length.
fn is_in(blocks: &[Block], block: &Block) -> bool {
    let found = blocks.binary_search_by_key(&block.address, |one| one.address);
    found.is_ok_and(|at| blocks[at].bytes == block.bytes)
}

fn class_of(bytes: u64) -> u64 {
    if bytes <= 1024 { bytes } else { bytes.next_power_of_two() }
}

fn difference(now: u64, before: u64) -> i64 {
    i64::try_from(i128::from(now) - i128::from(before)).unwrap_or(0)
}

fn signed(change: i64) -> String {
    let sign = if change < 0 { "-" } else { "+" };
    format!("{sign}{}", bytes(change.unsigned_abs()))
}

/// Returns a picture and what changed as text.
pub fn text(picture: &Picture, growth: Option<&Growth>) -> String {
    let live = picture.live().map_or_else(|| "not known".to_owned(), bytes);
    let mut text = format!("{}: {} in memory, blocks {live}", picture.program, bytes(picture.rss));
    if let Some(growth) = growth {
        text += &format!("; in memory {}", signed(growth.rss));
    }
    text = terminal::wrapped(&text, terminal::width()) + "\n";
    let Some(growth) = growth else { return text };
    let mut sizes: Vec<_> = growth.sizes.iter().collect();
    sizes.sort_by_key(|(_, change)| std::cmp::Reverse(change.bytes.unsigned_abs()));
    let mut table = Table::new(["blocks of", "change", "bytes", "new and kept", "bytes"]);
    for (size, change) in sizes.into_iter().take(ROWS) {
        let kept = growth.kept.as_ref().map(|kept| kept.get(size).copied().unwrap_or_default());
        let [kept_blocks, kept_bytes] = match kept {
            Some(kept) => [grouped(kept.blocks).into(), bytes(kept.bytes).into()],
            None => [Cell::missing(), Cell::missing()],
        };
        let name = if *size <= 1024 { format!("{size} B") } else { format!("up to {}", bytes(*size)) };
        let sign = if change.blocks < 0 { "-" } else { "+" };
        let count = format!("{sign}{}", grouped(change.blocks.unsigned_abs()));
        table.row([name.into(), count.into(), signed(change.bytes).into(), kept_blocks, kept_bytes]);
    }
    if !growth.sizes.is_empty() {
        text += &format!("\n{table}");
    }
    let mut arenas: Vec<_> = growth.arenas.iter().filter(|(_, change)| **change != 0).collect();
    arenas.sort_by_key(|(_, change)| std::cmp::Reverse(change.unsigned_abs()));
    let mut table = Table::new(["arena", "blocks"]);
    for (number, change) in arenas.iter().take(ROWS) {
        let name = picture.glibc.as_ref().map_or_else(|| number.to_string(), |glibc| glibc.name_of(**number));
        table.row([name, signed(**change)]);
    }
    if !arenas.is_empty() {
        text += &format!("\n{table}");
    }
    text
}
