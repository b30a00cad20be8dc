//! The picture as a page: heap maps, holes, and the tables. One file that loads nothing and runs no script.

use std::fmt::Write;

use heapwright_show::number::{bytes, grouped};

use crate::glibc::{ArenaMap, MapCell};
use crate::picture::{ArenaPicture, Glibc, Picture};
use crate::shown;

const STYLE: &str = include_str!("page.css");

/// The most arenas whose maps are drawn.
const MAPS: usize = 16;

/// Cells in a row of a map, and their size in the drawing.
const COLUMNS: usize = 128;
const CELL: usize = 8;

/// Width of the histogram's bars, at most, and height of its rows.
const BAR: f64 = 760.0;
const ROW: usize = 20;

/// Returns the page.
pub fn html(picture: &Picture) -> String {
    let title = escaped(&format!("{} [{}]: its memory", picture.program, picture.pid));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n<h1>{title}</h1>\n\
         <p class=\"lead\">{}</p>\n",
        escaped(&shown::paragraph(picture))
    );
    if let Some(glibc) = &picture.glibc {
        page += &maps(glibc);
        page += &holes(glibc);
    }
    let _ = write!(page, "<h2>Tables</h2>\n<pre>{}</pre>\n", escaped(&plain(&shown::tables(picture))));
    page
}

fn maps(glibc: &Glibc) -> String {
    let mut arenas: Vec<&ArenaPicture> = glibc.arenas.iter().collect();
    arenas.sort_by_key(|arena| std::cmp::Reverse(arena.resident));
    let mut text = "<h2>Heap map</h2>\n<p class=\"legend\">".to_owned();
    for (class, meaning) in [("used", "blocks"), ("free", "free, in memory"), ("absent", "not in memory")] {
        let _ = write!(text, "<span><i class=\"{class}\"></i>{meaning}</span>");
    }
    text += "</p>\n";
    for arena in arenas.iter().take(MAPS) {
        let figures = format!(
            "arena {}: {} in memory, {} of it free; a cell is {}",
            glibc.name_of(arena.number),
            bytes(arena.resident),
            bytes(arena.resident_free),
            bytes(arena.map.cell_bytes)
        );
        let _ = write!(text, "<figure>\n{}<figcaption>{figures}</figcaption>\n</figure>\n", map(&arena.map));
    }
    if arenas.len() > MAPS {
        let _ = writeln!(text, "<p>{} smaller arenas are not drawn.</p>", arenas.len() - MAPS);
    }
    text
}

/// Draws a map: each cell is filled from below, by blocks and then by what else is in memory.
fn map(map: &ArenaMap) -> String {
    let rows = map.cells.len().div_ceil(COLUMNS);
    let mut text =
        format!("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"heap map\">\n", COLUMNS * CELL, rows * CELL);
    for (number, cell) in map.cells.iter().enumerate() {
        let (x, y) = (number % COLUMNS * CELL, number / COLUMNS * CELL);
        let side = CELL - 1;
        let _ = write!(text, "<rect class=\"absent\" x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\"/>");
        let (used, resident) = heights(cell, map.cell_bytes, side as f64);
        for (class, height) in [("free", resident), ("used", used)] {
            if height > 0.0 {
                let top = y as f64 + side as f64 - height;
                let _ = write!(
                    text,
                    "<rect class=\"{class}\" x=\"{x}\" y=\"{top:.1}\" width=\"{side}\" height=\"{height:.1}\"/>"
                );
            }
        }
    }
    text + "\n</svg>\n"
}

/// Returns how high blocks and memory stand in a cell. Blocks may be out of memory.
fn heights(cell: &MapCell, cell_bytes: u64, side: f64) -> (f64, f64) {
    let height = |bytes: u64| side * (bytes as f64 / cell_bytes.max(1) as f64).min(1.0);
    (height(cell.used.min(cell.resident)), height(cell.resident))
}

fn holes(glibc: &Glibc) -> String {
    let most = glibc.holes.values().map(|class| class.bytes).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let mut text = format!(
        "<h2>Holes by size</h2>\n<figure>\n<svg viewBox=\"0 0 1100 {}\" role=\"img\" aria-label=\"holes by size\">\n",
        glibc.holes.len() * ROW
    );
    for (row, (size, class)) in glibc.holes.iter().enumerate() {
        let (y, width) = (row * ROW, (BAR * class.bytes as f64 / most as f64).max(1.0));
        let baseline = y + 14;
        let _ = writeln!(
            text,
            "<text x=\"90\" y=\"{baseline}\" text-anchor=\"end\">{}</text><rect class=\"free\" x=\"100\" y=\"{}\" \
             width=\"{width:.1}\" height=\"14\"/><text x=\"{:.1}\" y=\"{baseline}\">{} in {} holes</text>",
            bytes(*size),
            y + 3,
            108.0 + width,
            bytes(class.bytes),
            grouped(class.blocks)
        );
    }
    let caption = "free bytes between blocks, by the length of the hole, up to each power of two";
    text + &format!("</svg>\n<figcaption>{caption}</figcaption>\n</figure>\n")
}

/// Returns text without the escape sequences that style it in a terminal.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// Text as it stands in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_are_text() {
        assert_eq!(escaped("<script>\"a\" & b"), "&lt;script&gt;&quot;a&quot; &amp; b");
    }

    #[test]
    fn headings_are_plain() {
        assert_eq!(plain("\u{1b}[1morigin\u{1b}[0m  mapped"), "origin  mapped");
    }

    #[test]
    fn cells_are_filled_by_what_is_in_memory() {
        let half = MapCell { used: 1024, resident: 2048 };
        assert_eq!(heights(&half, 4096, 8.0), (2.0, 4.0));
        // Blocks in swap.
        assert_eq!(heights(&MapCell { used: 4096, resident: 0 }, 4096, 8.0), (0.0, 0.0));
        assert_eq!(heights(&MapCell { used: 1, resident: 9999 }, 0, 8.0), (8.0, 8.0));
    }
}
