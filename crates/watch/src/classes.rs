//! The panels next to the map of the cached heap: what the heap consists of, and a table by size class.

use heapwright_placement::Counters;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};

use super::history::Rates;
use super::panels::{MISSING, framed, per_second, section};
use super::picture::QUIET;
use super::sample::Sample;
use super::slabs::{Class, Slabs};
use heapwright_show::number;

/// Columns that the table needs.
pub const TABLE: u16 = 40;

/// Returns the rows that the figures need, including their rule.
pub fn rows(slabs: &Slabs) -> u16 {
    11 + u16::from(has_mapped(slabs))
}

/// Returns whether there is a line for the blocks with mappings of their own.
fn has_mapped(slabs: &Slabs) -> bool {
    slabs.mapped.blocks != 0
}

/// What the heap consists of.
pub struct Parts<'p> {
    /// The sampled heap.
    pub sample: &'p Sample,
    /// Its slabs.
    pub slabs: &'p Slabs,
    /// Rates of slabs and longer blocks placed and removed; `None` for a heap at rest.
    pub rates: Option<&'p Rates>,
}

impl Widget for Parts<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Parts { sample, slabs, .. } = self;
        let inner = framed(section("heap"), area, buffer);
        let bytes = |count: Option<u64>| count.map_or(MISSING.to_owned(), number::bytes);
        let peak = sample.counters.map(|counters| counters.peak_heap_size);
        let mut lines = vec![
            line("live", bytes(sample.live()), String::new()),
            line("heap", bytes(sample.counters.map(|found| found.heap_size)), format!("of {}", bytes(peak))),
            line("slabs", number::grouped(slabs.count() as u64), number::bytes(slabs.resident_bytes())),
            line("idle in them", String::new(), number::bytes(slabs.idle_bytes())),
            line("in caches", String::new(), number::bytes(slabs.cached_bytes())),
            line("threads", number::grouped(slabs.heaps() as u64), String::new()),
            line("longer", count(sample.long_blocks()), bytes(sample.long_bytes())),
        ];
        if slabs.dissolved.slabs != 0 {
            let resident = number::bytes(slabs.dissolved.resident_bytes as u64);
            lines.push(line("dissolved", number::grouped(slabs.dissolved.slabs as u64), resident));
        }
        if has_mapped(slabs) {
            lines.push(line("mapped", number::grouped(slabs.mapped.blocks), number::bytes(slabs.mapped.bytes)));
        }
        lines.extend([
            self.event("placed", |counters| counters.mallocs),
            self.event("removed", |counters| counters.frees),
            line("holes", number::grouped(sample.holes.count as u64), number::bytes(sample.holes.total as u64)),
        ]);
        Paragraph::new(lines).render(inner, buffer);
    }
}

impl Parts<'_> {
    fn event(&self, name: &'static str, read: fn(&Counters) -> u64) -> Line<'static> {
        let rate = self.rates.map(|rates| rates.per_second(read).map_or(MISSING.to_owned(), per_second));
        line(name, count(self.sample.counters.as_ref().map(read)), rate.unwrap_or_default())
    }
}

fn count(count: Option<u64>) -> String {
    count.map_or(MISSING.to_owned(), number::grouped)
}

fn line(name: &'static str, value: String, beside: String) -> Line<'static> {
    Line::from(vec![
        Span::raw(format!("{name:<12}")),
        Span::from(format!("{value:>13}")).bold(),
        Span::styled(format!("{beside:>12}"), QUIET),
    ])
}

/// A line for each of the size classes that take most memory, as far as the rows suffice, in ascending order.
pub struct Classes<'c> {
    /// All size classes.
    pub classes: &'c [Class],
}

impl Widget for Classes<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let (shown, left_out) = largest(self.classes, usize::from(area.height).saturating_sub(2));
        let title = match left_out {
            0 => "size classes".to_owned(),
            _ => format!("size classes: {} of {}", shown.len(), self.classes.len()),
        };
        let inner = framed(section(&title), area, buffer);
        let head = format!("{:>5} {:>6} {:>9} {:>8} {:>8}", "bytes", "slabs", "used", "free", "idle");
        let mut lines = vec![Line::styled(head, QUIET)];
        lines.extend(shown.into_iter().map(row));
        Paragraph::new(lines).render(inner, buffer);
    }
}

fn row(class: &Class) -> Line<'static> {
    let Class { size, slabs, used, .. } = *class;
    let [free, idle] = [class.free_bytes, class.idle_bytes].map(|bytes| number::bytes(bytes as u64));
    let share = (used * size) as f64 / (class.blocks * size).max(1) as f64;
    let color = match share {
        share if share >= 0.9 => Color::Green,
        share if share >= 0.7 => Color::Cyan,
        share if share >= 0.4 => Color::Yellow,
        _ => Color::Red,
    };
    Line::from(vec![
        Span::raw(format!("{size:>5} {slabs:>6} ")),
        Span::styled(format!("{:>9}", number::grouped(used as u64)), Style::new().fg(color)),
        Span::raw(format!(" {free:>8} {idle:>8}")),
    ])
}

/// Returns the at most `rows` classes with most slabs in ascending order of size, and how many are left out.
fn largest(classes: &[Class], rows: usize) -> (Vec<&Class>, usize) {
    let mut chosen: Vec<&Class> = classes.iter().collect();
    chosen.sort_by_key(|class| (std::cmp::Reverse(class.slabs), class.size));
    chosen.truncate(rows);
    chosen.sort_by_key(|class| class.size);
    let left_out = classes.len() - chosen.len();
    (chosen, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_with_most_slabs_are_shown_in_the_order_of_their_sizes() {
        let class = |size, slabs| Class { size, slabs, ..Class::default() };
        let classes = [class(16, 1), class(32, 9), class(48, 2), class(64, 9)];
        let sizes = |rows| largest(&classes, rows).0.iter().map(|class| class.size).collect::<Vec<_>>();
        assert_eq!(sizes(9), [16, 32, 48, 64]);
        assert_eq!((sizes(3), largest(&classes, 3).1), (vec![32, 48, 64], 1));
        assert_eq!(sizes(0), [0; 0]);
    }
}
