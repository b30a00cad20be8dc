//! Tables and bar charts for a terminal or a file.

use anstyle::Style;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table as Grid, TableStyle};
use terminal_size::Width;

use crate::number;
use crate::stats;

/// The style of headings.
pub const HEADING: Style = Style::new().bold();

/// A table under construction: the first column names the rows, the others hold figures.
pub struct Table {
    grid: Grid,
}

impl Table {
    /// A table with these column headings.
    pub fn new<T: ToString>(headings: impl IntoIterator<Item = T>) -> Table {
        let mut grid = Grid::new();
        grid.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
        grid.set_header(headings.into_iter().map(|heading| heading.to_string()));
        if let Some((Width(columns), _)) = terminal_size::terminal_size_of(std::io::stdout()) {
            grid.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
        }
        for column in grid.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        Table { grid }
    }

    /// Adds a row.
    pub fn row<T: ToString>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.grid.add_row(cells.into_iter().map(|cell| cell.to_string()));
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.grid.lines().try_for_each(|line| writeln!(f, "{}", line.trim_end()))
    }
}

/// How many characters the longest bar has.
const BAR: f64 = 40.0;

/// A bar that would be longer than so many times the middle one is cut short, and says so: it would shrink all others
/// to nothing.
const LONGEST: f64 = 8.0;

/// A bar per named value, each followed by its value as `show` writes it.
pub fn bar_chart<'a>(values: impl IntoIterator<Item = (&'a str, f64)>, show: impl Fn(f64) -> String) -> String {
    let values: Vec<(&str, f64)> = values.into_iter().collect();
    let figures: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    let middle = stats::median(&figures).unwrap_or(0.0);
    let longest = figures.into_iter().fold(0.0, f64::max).min(middle * LONGEST);
    let name_width = values.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut chart = String::new();
    for (name, value) in values {
        let share = if longest > 0.0 { value / longest } else { 0.0 };
        let cut = if share > 1.0 { " »" } else { "" };
        chart.push_str(&format!("  {name:<name_width$} {}{cut} {}\n", bar(share.min(1.0) * BAR), show(value)));
    }
    chart
}

/// A bar of so many characters, to an eighth of one; never quite nothing.
fn bar(length: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = ((length * 8.0).round() as usize).max(1);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// A ratio, as in "0.08x".
pub fn ratio(ratio: f64) -> String {
    format!("{}x", number::short(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion() {
        let chart = bar_chart([("a", 2.0), ("bb", 1.0), ("c", 0.0)], |value| value.to_string());
        let lengths: Vec<usize> =
            chart.lines().map(|line| line.chars().filter(|c| ('▉'..='▏').contains(c) || *c == '█').count()).collect();
        assert_eq!(lengths, [40, 20, 1]);
    }

    #[test]
    fn one_bar_out_of_all_proportion_is_cut_short() {
        let chart = bar_chart([("a", 1.0), ("b", 1.0), ("c", 1000.0)], |value| value.to_string());
        assert_eq!(chart.lines().map(|line| line.matches('█').count()).collect::<Vec<_>>(), [5, 5, 40]);
        assert!(chart.lines().nth(2).is_some_and(|line| line.contains('»')));
    }
}
