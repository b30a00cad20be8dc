//! The panels next to a heap's map: counters, holes by size, and history.

use heapwright_placement::{Counters, HoleStats};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline, Widget};

use super::history::{History, Point, Rates};
use super::picture::QUIET;
use heapwright_show::number;

/// Placeholder for an unknown figure.
pub const MISSING: &str = "-";

/// Returns a rule with a title, for the top of a section.
pub fn section(title: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).border_style(QUIET).title(format!(" {title} ").bold())
}

/// Lists keys and their effects.
pub fn keys(keys: &[(&'static str, &'static str)]) -> Line<'static> {
    let parts =
        keys.iter().map(|&(key, does)| [Span::from(format!(" {key} ")).bold().reversed(), format!(" {does} ").into()]);
    Line::from_iter(parts.flatten())
}

/// Columns that the counters need.
pub const COUNTERS: u16 = 38;

/// Rows that the figures need, including their rule.
pub const FIGURES: u16 = 10;

/// The counters and their rates.
pub struct Figures<'f> {
    /// The counters; `None` if they are unknown.
    pub counters: Option<Counters>,
    /// The rates; `None` for a heap that changes only on request.
    pub rates: Option<&'f Rates>,
}

/// Reads one counter.
type Read = fn(&Counters) -> u64;

/// The counters of events.
const EVENTS: [(&str, Read); 7] = [
    ("mallocs", |counters| counters.mallocs),
    ("frees", |counters| counters.frees),
    ("reuses", |counters| counters.reuses),
    ("grows", |counters| counters.grows),
    ("splits", |counters| counters.splits),
    ("coalesces", |counters| counters.coalesces),
    ("resizes", |counters| counters.resizes),
];

impl Widget for Figures<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let inner = framed(section("counters"), area, buffer);
        let mut lines: Vec<Line> = EVENTS.into_iter().map(|(name, read)| self.event(name, read)).collect();
        lines.push(self.sizes("live", |counters| counters.live, |counters| counters.peak_live));
        lines.push(self.sizes("heap", |counters| counters.heap_size, |counters| counters.peak_heap_size));
        Paragraph::new(lines).render(inner, buffer);
    }
}

impl Figures<'_> {
    fn event(&self, name: &'static str, read: Read) -> Line<'static> {
        let count = self.counters.as_ref().map_or(MISSING.to_owned(), |counters| number::grouped(read(counters)));
        let mut spans = vec![Span::raw(format!("{name:<10}")), Span::from(format!("{count:>15}")).bold()];
        if let Some(rates) = self.rates {
            let rate = rates.per_second(read).map_or(MISSING.to_owned(), per_second);
            spans.push(Span::styled(format!("{rate:>12}"), QUIET));
        }
        Line::from(spans)
    }

    fn sizes(&self, name: &'static str, now: Read, peak: Read) -> Line<'static> {
        let bytes = |read: Read| self.counters.as_ref().map_or(MISSING.to_owned(), |found| number::bytes(read(found)));
        Line::from(vec![
            Span::raw(format!("{name:<10}")),
            Span::from(format!("{:>15}", bytes(now))).bold(),
            Span::styled(format!("{:>12}", format!("of {}", bytes(peak))), QUIET),
        ])
    }
}

/// Formats a rate per second.
pub fn per_second(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{} M/s", number::short(rate / 1e6)),
        rate if rate >= 1e3 => format!("{} k/s", number::short(rate / 1e3)),
        rate => format!("{rate:.0} /s"),
    }
}

/// The holes of a heap by size.
pub struct Holes {
    /// The holes.
    pub holes: HoleStats,
}

impl Widget for Holes {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let title = format!("holes: {}", number::grouped(self.holes.count as u64));
        let inner = framed(section(&title), area, buffer);
        let rows = grouped(&self.holes, usize::from(inner.height));
        let most = rows.iter().map(|&(_, count)| count).max().unwrap_or(0);
        for ((size, count), row) in rows.into_iter().zip(inner.rows()) {
            let (size, count_text) = (number::bytes(size), number::grouped(count as u64));
            let room = usize::from(row.width).saturating_sub(10 + count_text.len() + 2);
            let bar = bar(count, most, room);
            Line::from(vec![
                Span::styled(format!("{size:>9} "), QUIET),
                Span::styled(bar, Style::new().fg(Color::Red)),
                Span::raw(format!(" {count_text}")),
            ])
            .render(row, buffer);
        }
    }
}

/// Groups the holes by least size into at most `rows` rows; each row spans a factor of two, or of four, and so on.
fn grouped(holes: &HoleStats, rows: usize) -> Vec<(u64, usize)> {
    let taken = |&power: &usize| holes.histogram[power] != 0;
    let (Some(first), Some(last)) = ((0..48).find(taken), (0..48).rfind(taken)) else { return Vec::new() };
    let step = (last - first + 1).div_ceil(rows.max(1));
    let group = |from: usize| holes.histogram[from..(from + step).min(48)].iter().sum();
    (first..=last).step_by(step).map(|from| (1 << from, group(from))).collect()
}

/// Returns a bar of at most `room` characters, to an eighth of one; never empty unless `count` is 0.
fn bar(count: usize, most: usize, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (count as u128 * room as u128 * 8).div_ceil(most.max(1) as u128) as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// The history of a heap.
pub struct Past<'p> {
    /// The points.
    pub history: &'p History,
}

impl Widget for Past<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let inner = framed(section("over time"), area, buffer);
        let parts: [Rect; 3] = Layout::vertical([Constraint::Fill(1); 3]).areas(inner);
        let width = usize::from(inner.width);
        let curve = |read: fn(&Point) -> u64| self.history.columns(width, read);
        let now = self.history.last();
        let bytes = |read: fn(&Point) -> u64| now.map_or(MISSING.to_owned(), |point| number::bytes(read(&point)));
        // Blocks with mappings of their own are live, but not in the heap.
        let most = curve(|point| point.heap.max(point.live)).into_iter().max().unwrap_or(0);
        let external = now.and_then(|point| point.external);
        let percent = external.map_or(MISSING.to_owned(), |share| format!("{:.1} %", 100.0 * share));
        curve_under(&format!("heap {}", bytes(|point| point.heap)), &curve(|p| p.heap), most, parts[0], buffer);
        curve_under(&format!("live {}", bytes(|point| point.live)), &curve(|p| p.live), most, parts[1], buffer);
        let shares = curve(|point| point.external.map_or(0, |share| (1000.0 * share) as u64));
        curve_under(&format!("fragmented {percent}"), &shares, 1000, parts[2], buffer);
    }
}

fn curve_under(title: &str, values: &[u64], most: u64, area: Rect, buffer: &mut Buffer) {
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    Line::from(title).render(head, buffer);
    Sparkline::default().data(values).max(most.max(1)).style(Style::new().fg(Color::Cyan)).render(body, buffer);
}

/// Draws a section's frame; returns the area inside.
pub fn framed(block: Block, area: Rect, buffer: &mut Buffer) -> Rect {
    let inner = block.inner(area);
    block.render(area, buffer);
    inner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_grouped_into_the_rows_that_there_are() {
        let mut holes = HoleStats::default();
        [16, 17, 40, 5000, 1 << 20].into_iter().for_each(|bytes| holes.add(bytes));
        assert_eq!(grouped(&holes, 100).len(), 17);
        assert_eq!(
            grouped(&holes, 9),
            [(16, 3), (64, 0), (256, 0), (1024, 0), (4096, 1), (16384, 0), (65536, 0), (262_144, 0), (1 << 20, 1)]
        );
        assert_eq!(grouped(&holes, 1), [(16, 5)]);
        assert_eq!(grouped(&HoleStats::default(), 9), []);
    }

    #[test]
    fn bars_are_in_proportion_and_never_quite_nothing() {
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 10, 4), "██");
        assert_eq!(bar(1, 1_000_000, 4), "▏");
        assert_eq!(bar(0, 10, 4), "");
        assert_eq!(bar(0, 0, 4), "");
    }
}
