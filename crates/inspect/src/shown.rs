//! The picture as text: a paragraph, then tables.

use heapwright_show::number::{bytes, grouped};
use heapwright_show::table::{Cell, Side, Table};
use heapwright_show::terminal;

use crate::allocators::UNKNOWN;
use crate::bounds::{MOST, ROWS, TOUCHED};
use crate::own;
use crate::peek::{Contents, Figures};
use crate::picture::{Glibc, Picture};

/// Returns the picture as text for the terminal.
pub fn text(picture: &Picture) -> String {
    format!("{}\n{}", lead(picture), tables(picture))
}

/// Returns its verdict for the terminal.
pub fn lead(picture: &Picture) -> String {
    terminal::wrapped(paragraph(picture).trim_end(), terminal::width()) + "\n"
}

/// Returns its tables.
pub fn tables(picture: &Picture) -> String {
    let mut parts = vec![origins(picture)];
    if let Some(heap) = &picture.heapwright {
        parts.extend(own::tables(picture, heap));
    }
    if let Some(glibc) = &picture.glibc {
        parts.push(arenas(glibc));
        parts.extend(threads(glibc));
        parts.extend(pins(glibc));
        parts.push(remedies(glibc));
        parts.push(sizes(glibc));
        parts.extend(holes(glibc));
        parts.extend(largest(glibc));
    }
    if let Some(contents) = &picture.contents {
        parts.push(kinds(contents));
        parts.extend(texts(contents));
    }
    parts.join("\n")
}

/// Returns its verdict.
pub fn paragraph(picture: &Picture) -> String {
    let mut text = format!("{} [{}]: {} in memory. ", picture.program, picture.pid, bytes(picture.rss));
    match (&picture.heapwright, &picture.glibc) {
        (Some(heap), _) => text += &own::verdict(picture, heap),
        (None, Some(glibc)) => text += &verdict(picture, glibc),
        (None, None) => text += &without_glibc(picture),
    }
    if let Some(reason) = picture.contents_unread {
        text = format!("{} What its blocks contain is not known: {reason}.", text.trim_end());
    }
    if picture.missing > 0 {
        text += &format!(" The core file is truncated: {} are missing.", bytes(picture.missing));
    }
    if let Some(times) = picture.times.filter(|_| picture.stopped) {
        let (stopped, copying) = (times.stopped * 1000.0, times.copying * 1000.0);
        text += &format!(" It was stopped for {stopped:.0} ms: {copying:.0} ms to copy {}.", bytes(times.copied));
    }
    text += "\n";
    text
}

fn verdict(picture: &Picture, glibc: &Glibc) -> String {
    let (live, free) = (glibc.live(), glibc.resident_free());
    let touched = glibc.resident_live();
    // Headers and rounding are no difference that matters.
    let of_them = match (touched as f64) < live as f64 * TOUCHED {
        true => format!(", {} of them in memory", bytes(touched)),
        false => String::new(),
    };
    let unknown = unknown_parts(glibc);
    let least = if unknown.is_empty() { "" } else { "at least " };
    let (live, free) = (bytes(live), bytes(free));
    let mut text =
        format!("Its blocks are {least}{live}{of_them}. malloc has {least}{free} of free memory in memory. {unknown}");
    if glibc.heaps() > 1 {
        text += &format!(
            "It has {} copies of the C library, each with a heap: figures are sums, and malloc_trim(0) reaches only \
             the heap of its own copy. ",
            glibc.heaps()
        );
    }
    text += &remedy(picture, glibc);
    text += &inconsistencies(picture, glibc);
    let foreign: u64 = glibc.arenas.iter().map(|arena| arena.foreign).sum();
    if foreign > 0 {
        text += &format!("{} between the blocks are the program's own, from sbrk. ", bytes(foreign));
    }
    text += &torn_caches(picture, glibc);
    if picture.allocator != "glibc" {
        text += &format!("{} is loaded too: its own memory is not glibc's. ", picture.allocator);
        if let Some(reason) = &picture.unread {
            text += &format!("What it keeps is not known: {reason}. ");
        }
    }
    text.trim_end().to_owned()
}

/// Describes the parts of the heap that are not in the figures, with the reason.
fn unknown_parts(glibc: &Glibc) -> String {
    let mut text = String::new();
    let unread: u64 = glibc.arenas.iter().map(|arena| arena.unread).sum();
    if unread > 0 {
        text += &format!(
            "{} are not known: what describes them is in swap, and reading would bring it back. ",
            bytes(unread)
        );
    }
    let closed: u64 = glibc.arenas.iter().map(|arena| arena.closed).sum();
    if closed > 0 {
        text += &format!(
            "{} are not known: what describes them cannot be read, because the program has taken the access to it from \
             itself (mprotect). ",
            bytes(closed)
        );
    }
    let elsewhere = elsewhere(glibc);
    if elsewhere > 0 {
        text += &format!(
            "{} of the main arena are not looked into: something is in the way of the program break, or it is not \
             used, and they lie elsewhere. ",
            bytes(elsewhere)
        );
    }
    text
}

/// Says what reduces the memory most.
fn remedy(picture: &Picture, glibc: &Glibc) -> String {
    let (touched, free) = (glibc.resident_live(), glibc.resident_free());
    let share = |part: u64| part as f64 / picture.rss.max(1) as f64;
    let text = if picture.missing + elsewhere(glibc) > 0 {
        "What brings it down is not known. "
    } else if glibc.trim as f64 >= free as f64 * MOST && share(glibc.trim) > 0.1 {
        return format!("malloc_trim(0) would give back {}. ", bytes(glibc.trim));
    } else if share(touched) >= MOST {
        "Most of this is the program's own live memory: no setting of malloc brings it down. "
    } else if share(free) > 0.2 {
        "Most free memory lies in pages that blocks share: blocks must be freed before it can be given back. "
    } else if share(touched + free) < 1.0 - MOST {
        "Most of it is not malloc's: see the table of origins. "
    } else {
        ""
    };
    text.to_owned()
}

/// Counts the places at which the heap contradicts itself, with the likely cause.
fn inconsistencies(picture: &Picture, glibc: &Glibc) -> String {
    let damaged: u64 = glibc.arenas.iter().map(|arena| arena.inconsistencies).sum();
    let unknown: u64 = glibc.arenas.iter().map(|arena| arena.unknown).sum();
    let places = match damaged {
        0 => return String::new(),
        1 => "1 place contradicts itself".to_owned(),
        _ => format!("{} places contradict themselves", grouped(damaged)),
    };
    let cause = if picture.stopped { "the heap may be damaged" } else { "the program ran meanwhile" };
    format!("{places}, {} are not known: {cause}. ", bytes(unknown))
}

/// Counts the arenas whose thread caches could not be read.
fn torn_caches(picture: &Picture, glibc: &Glibc) -> String {
    let arenas = match glibc.arenas.iter().filter(|arena| arena.cached.is_none()).count() {
        0 => return String::new(),
        1 => "an arena".to_owned(),
        torn => format!("{torn} arenas"),
    };
    let what = match (glibc.arenas.iter().any(|arena| arena.unread > 0), picture.stopped) {
        (true, _) => "are in swap or changed while they were read",
        (false, true) => "contradict themselves (the heap may be damaged)",
        (false, false) => "changed while they were read",
    };
    format!("Thread caches of {arenas} {what}: their blocks count as live. ")
}

fn without_glibc(picture: &Picture) -> String {
    if let Some(reason) = &picture.unread {
        return format!("What its malloc keeps is not known: {reason}.");
    }
    match picture.allocator.as_str() {
        UNKNOWN => "No heap of glibc's malloc was found. What its malloc keeps is not known.".to_owned(),
        other => format!("Its malloc is {other}'s, not glibc's. What it keeps is not known."),
    }
}

fn origins(picture: &Picture) -> String {
    let mut table = Table::new(["origin", "resident", "purgeable", "proportional", "shared", "swapped", "mapped"]);
    for origin in picture.origins.iter().take(ROWS) {
        let figures = [origin.rss, origin.purgeable, origin.pss, origin.shared, origin.swap, origin.mapped];
        table.row([origin.name.clone()].into_iter().chain(figures.map(bytes)));
    }
    table.to_string()
}

fn arenas(glibc: &Glibc) -> String {
    let headings =
        ["arena", "from system", "blocks", "live", "bins", "fast bins", "tcache", "top", "resident", "free in memory"];
    let mut table = Table::new(headings);
    for arena in &glibc.arenas {
        let name = glibc.name_of(arena.number);
        let first = [name, bytes(arena.system_bytes), grouped(arena.blocks)].map(Cell::from);
        let cached = arena.cached.map_or_else(Cell::missing, |cached| bytes(cached).into());
        let lists = [arena.live, arena.bins, arena.fast].map(|size| bytes(size).into());
        let rest = [arena.top, arena.resident, arena.resident_free].map(|size| bytes(size).into());
        table.row(first.into_iter().chain(lists).chain([cached]).chain(rest));
    }
    if let Some(parameters) = glibc.parameters.filter(|parameters| parameters.mmapped_blocks > 0) {
        let own = bytes(parameters.mmapped_bytes);
        let known: [Cell; 4] =
            ["own mappings".into(), own.clone().into(), grouped(parameters.mmapped_blocks).into(), own.into()];
        table.row(known.into_iter().chain((0..6).map(|_| Cell::missing())));
    }
    table.to_string()
}

/// Returns the threads with the most in their caches.
fn threads(glibc: &Glibc) -> Option<String> {
    let mut known: Vec<_> =
        glibc.threads.iter().filter(|thread| thread.arena.or(thread.cached.map(|_| 0)).is_some()).collect();
    known.sort_by_key(|thread| std::cmp::Reverse(thread.cached));
    let columns = [("thread", Side::Right), ("name", Side::Left), ("arena", Side::Left), ("tcache", Side::Right)];
    let mut table = Table::aligned(columns);
    for thread in known.iter().take(ROWS) {
        let arena = thread.arena.map_or_else(Cell::missing, |number| glibc.name_of(number).into());
        let cached = thread.cached.map_or_else(Cell::missing, |cached| bytes(cached).into());
        table.row([thread.id.to_string().into(), thread.name.clone().into(), arena, cached]);
    }
    (!known.is_empty()).then(|| table.to_string())
}

fn pins(glibc: &Glibc) -> Option<String> {
    let columns =
        [("top of arena", Side::Left), ("pinned by", Side::Left), ("of", Side::Right), ("free before it", Side::Right)];
    let mut table = Table::aligned(columns);
    let pinned = glibc.arenas.iter().filter_map(|arena| Some((arena, arena.pin.filter(|_| arena.before_pin > 0)?)));
    let mut count = 0;
    for (arena, pin) in pinned.take(ROWS) {
        let name = glibc.name_of(arena.number);
        table.row([name, format!("{:#x}", pin.address), bytes(pin.bytes), bytes(arena.before_pin)]);
        count += 1;
    }
    (count > 0).then(|| table.to_string())
}

fn elsewhere(glibc: &Glibc) -> u64 {
    glibc.arenas.iter().map(|arena| arena.elsewhere).sum()
}

fn remedies(glibc: &Glibc) -> String {
    let mut table = Table::aligned([("what would help", Side::Left), ("gives back", Side::Right), ("", Side::Left)]);
    let least = if elsewhere(glibc) > 0 { "at least" } else { "" };
    table.row(["malloc_trim(0), now".to_owned(), bytes(glibc.trim), least.to_owned()]);
    for (limit, bound) in &glibc.arena_max_bounds {
        table.row([format!("MALLOC_ARENA_MAX={limit}, from the start"), bytes(*bound), "at most".to_owned()]);
    }
    if glibc.trim_threshold_bound > 0 {
        let bound = bytes(glibc.trim_threshold_bound);
        table.row(["M_TRIM_THRESHOLD of 128 KiB, from the start".to_owned(), bound, "at most".to_owned()]);
    }
    if glibc.mmap_threshold_estimate > 0 {
        let estimate = bytes(glibc.mmap_threshold_estimate);
        let condition = "if the holes of 128 KiB and longer were such blocks".to_owned();
        table.row(["M_MMAP_THRESHOLD of 128 KiB, from the start".to_owned(), estimate, condition]);
    }
    table.row(["compaction".to_owned(), bytes(glibc.compaction_bound), "at most; glibc has none".to_owned()]);
    let mut text = table.to_string();
    if let Some(parameters) = glibc.parameters {
        let (trim, mmap) = (bytes(parameters.trim_threshold), bytes(parameters.mmap_threshold));
        let now = format!("Thresholds now: M_TRIM_THRESHOLD {trim}, M_MMAP_THRESHOLD {mmap}.");
        text += &format!("\n{}\n", terminal::wrapped(&now, terminal::width()));
    }
    text
}

fn sizes(glibc: &Glibc) -> String {
    let mut rows: Vec<_> = glibc.sizes.iter().filter(|(_, class)| class.blocks > 0).collect();
    rows.sort_by_key(|(_, class)| std::cmp::Reverse(class.bytes));
    let mut table = Table::new(["blocks of", "number", "bytes"]);
    for (&size, class) in rows.into_iter().take(ROWS) {
        let name = if size <= 1024 { format!("{size} B") } else { format!("up to {}", bytes(size)) };
        table.row([name, grouped(class.blocks), bytes(class.bytes)]);
    }
    table.to_string()
}

fn holes(glibc: &Glibc) -> Option<String> {
    let mut table = Table::new(["holes up to", "number", "bytes"]);
    for (&size, class) in &glibc.holes {
        table.row([bytes(size), grouped(class.blocks), bytes(class.bytes)]);
    }
    (!glibc.holes.is_empty()).then(|| table.to_string())
}

fn largest(glibc: &Glibc) -> Option<String> {
    let mut table = Table::new(["largest blocks", "bytes"]);
    for block in &glibc.largest {
        table.row([format!("{:#x}", block.address), grouped(block.bytes)]);
    }
    (!glibc.largest.is_empty()).then(|| table.to_string())
}

/// Rows of what blocks contain.
const KINDS: usize = 24;

fn kinds(contents: &Contents) -> String {
    let mut text = contents_table("contents of blocks", &contents.kinds, KINDS);
    if contents.looked_at < contents.blocks {
        let (looked_at, blocks) = (grouped(contents.looked_at), grouped(contents.blocks));
        let estimated = format!("Estimated: {looked_at} of {blocks} blocks were looked at.");
        text += &format!("\n{}\n", terminal::wrapped(&estimated, terminal::width()));
    }
    text
}

fn texts(contents: &Contents) -> Option<String> {
    (!contents.texts.is_empty()).then(|| contents_table("texts that begin with", &contents.texts, ROWS))
}

fn contents_table(heading: &str, figures: &[Figures], rows: usize) -> String {
    let mut table = Table::aligned([(heading, Side::Left), ("number", Side::Right), ("bytes", Side::Right)]);
    for figures in figures.iter().take(rows) {
        table.row([figures.name.clone(), grouped(figures.size.blocks), bytes(figures.size.bytes)]);
    }
    if figures.len() > rows {
        let rest = &figures[rows..];
        let (blocks, all) =
            rest.iter().fold((0, 0), |(blocks, all), one| (blocks + one.size.blocks, all + one.size.bytes));
        table.row([format!("{} others", grouped(rest.len() as u64)), grouped(blocks), bytes(all)]);
    }
    table.to_string()
}
