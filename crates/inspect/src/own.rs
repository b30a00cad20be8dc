//! The heap of a process under `libheapwright.so`, as text.

use heapwright_show::number::{bytes, grouped};
use heapwright_show::table::{Cell, Side, Table};
use heapwright_watch::figures::HeapFigures;

use crate::bounds::{MOST, ROWS, TOUCHED};
use crate::picture::Picture;

/// Returns the verdict.
pub fn verdict(picture: &Picture, heap: &HeapFigures) -> String {
    let mut text = format!("It runs under libheapwright.so, policy {}. ", heap.policy);
    let trim = gives_back(heap);
    match heap.live {
        Some(live) => {
            let touched = in_memory(picture, heap).unwrap_or(live);
            // Programs allocate more than they touch.
            let of_them = match ((touched as f64) < live as f64 * TOUCHED, picture.heapwright_mapped_resident) {
                (false, _) => String::new(),
                (true, None | Some(0)) => format!(", {} of them in memory", bytes(touched)),
                (true, Some(_)) => format!(", at most {} of them in memory", bytes(touched)),
            };
            text += &format!("Its blocks are {}{of_them}. ", bytes(live));
            if touched as f64 >= picture.rss as f64 * MOST {
                text += "Most of this is the program's own live memory: no setting of malloc brings it down. ";
            }
        }
        None => text += "The bytes of its blocks are not known. ",
    }
    text += &match trim {
        Some(trim) => format!("malloc_trim(0) would give back {} {}.", bound(heap), bytes(trim)),
        None => "What malloc_trim(0) would give back is not known.".to_owned(),
    };
    if !heap.sharp {
        text += " The program worked on its heap while it was read: the figures mix moments.";
    }
    text
}

/// Returns the bytes in memory of its blocks, where it is known: of those with mappings of their own, at most.
fn in_memory(picture: &Picture, heap: &HeapFigures) -> Option<u64> {
    Some(heap.resident_live? + picture.heapwright_mapped_resident.unwrap_or(0))
}

/// Returns the bytes of whole pages in memory that contain no block; `None` for a heap whose slabs cannot be read.
fn gives_back(heap: &HeapFigures) -> Option<u64> {
    heap.live?;
    Some(heap.whole_pages_of_holes + heap.idle.unwrap_or(0))
}

/// Returns what [`gives_back`] is of what a trim gives back. A trim also frees blocks in thread caches and on their way
/// to another thread: pages may have no others.
fn bound(heap: &HeapFigures) -> &'static str {
    if heap.cached.is_some() { "about" } else { "at most" }
}

/// Returns the tables.
pub fn tables(picture: &Picture, heap: &HeapFigures) -> Vec<String> {
    let mut parts = vec![figures(picture, heap), remedies(heap)];
    parts.extend(classes(heap));
    parts
}

fn figures(picture: &Picture, heap: &HeapFigures) -> String {
    let mut table = Table::new(["heap", "number", "bytes", "in memory"]);
    let size = |known: Option<u64>| known.map_or_else(Cell::missing, |known| bytes(known).into());
    let count = |known: Option<u64>| known.map_or_else(Cell::missing, |known| grouped(known).into());
    let mapped_resident = picture.heapwright_mapped_resident;
    let all = heap.heap_size.map(|size| size + heap.mapped_bytes.unwrap_or(0));
    let all_resident = heap.heap_size.map(|_| heap.resident + mapped_resident.unwrap_or(0));
    let rows = [
        ("all", None, all, all_resident),
        ("blocks", heap.blocks, heap.live, in_memory(picture, heap)),
        (
            "of them with mappings of their own",
            heap.mapped_blocks,
            heap.mapped_bytes,
            heap.mapped_bytes.and(mapped_resident),
        ),
        ("in thread caches", None, heap.cached, None),
        ("free in slabs", None, heap.free_in_slabs, None),
        ("pages of slabs without blocks", None, None, heap.idle),
        ("holes", Some(heap.holes), Some(heap.hole_bytes), Some(heap.resident_holes)),
    ];
    for (name, number, length, resident) in rows {
        table.row([name.into(), count(number), size(length), size(resident)]);
    }
    table.to_string()
}

fn remedies(heap: &HeapFigures) -> String {
    let mut table = Table::aligned([("what would help", Side::Left), ("gives back", Side::Right), ("", Side::Left)]);
    if let Some(trim) = gives_back(heap) {
        table.row([
            "malloc_trim(0), now".to_owned(),
            bytes(trim),
            format!("{}: holes and pages without blocks", bound(heap)),
        ]);
    }
    if let Some(live) = heap.resident_live.filter(|_| heap.resident > 0) {
        let bound = bytes(heap.resident.saturating_sub(live));
        table.row(["compaction".to_owned(), bound, "at most".to_owned()]);
    }
    table.to_string()
}

/// Returns the size classes with the most bytes.
fn classes(heap: &HeapFigures) -> Option<String> {
    let mut rows: Vec<_> = heap.classes.iter().collect();
    rows.sort_by_key(|class| std::cmp::Reverse(class.bytes_used()));
    let mut table = Table::new(["blocks of", "number", "bytes", "free", "pages without blocks"]);
    for class in rows.into_iter().take(ROWS) {
        let number = grouped(class.used as u64);
        let sizes = [class.bytes_used(), class.free_bytes, class.idle_bytes].map(|size| bytes(size as u64));
        table.row([format!("{} B", class.size), number].into_iter().chain(sizes));
    }
    (!heap.classes.is_empty()).then(|| table.to_string())
}
