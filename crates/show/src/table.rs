//! Tables and bar charts for a terminal or a file.

use std::borrow::Cow;
use std::fmt;

use anstyle::Style;
use heapwright_host::names::Shown;
use unicode_width::UnicodeWidthStr;

use crate::{number, terminal};
use heapwright_stats as stats;

/// The style of headings.
pub const HEADING: Style = Style::new().bold();

/// Between two columns, in characters.
const GAP: usize = 2;

/// In place of a figure that is not known.
const MISSING: &str = "-";

/// The side to which the cells of a column are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// What a cell holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Known,
    Missing,
}

/// A cell of a table.
#[derive(Clone)]
pub struct Cell {
    text: String,
    style: Style,
    mark: &'static str,
    content: Content,
}

impl Cell {
    /// A text in a style. Control characters in it are replaced: names have any.
    pub fn styled(text: impl Into<String>, style: Style) -> Cell {
        Cell { text: text.into().shown().into_owned(), style, mark: "", content: Content::Known }
    }

    /// A figure that is not known. Columns that hold nothing else are left out, and then rows.
    pub fn missing() -> Cell {
        Cell { content: Content::Missing, ..Cell::styled(MISSING, Style::new()) }
    }

    /// Sets the mark behind the cell. Marks have a column of their own: the figures in front of them stay aligned.
    pub fn marked(self, mark: &'static str) -> Cell {
        Cell { mark, ..self }
    }

    fn is_missing(&self) -> bool {
        self.content == Content::Missing
    }

    /// Returns its text in lines of at most `width` characters.
    fn lines(&self, width: usize) -> Vec<Cow<'_, str>> {
        if self.text.width() <= width { vec![self.text.as_str().into()] } else { textwrap::wrap(&self.text, width) }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::styled(text, Style::new())
    }
}

/// A column: its heading, and the side to which it is aligned.
struct Column {
    heading: Cell,
    side: Side,
}

/// How wide a column is, in characters.
struct Extent {
    column: usize,
    text: usize,
    /// For the marks behind the figures.
    marks: usize,
}

impl Extent {
    fn whole(&self) -> usize {
        self.text + self.marks
    }
}

/// What surrounds the rows of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// A rule under the headings.
    Ruled,
    /// Indented under the heading of a section, without a rule.
    Indented,
}

/// A table under construction: the first columns name the rows, the others hold figures.
///
/// A table that is too wide is cut between columns into parts, each with the names of the rows. Texts are wrapped only
/// where the names and one column do not fit side by side.
pub struct Table {
    columns: Vec<Column>,
    names: usize,
    rows: Vec<Vec<Cell>>,
    look: Look,
}

impl Table {
    /// A table with these column headings: names at the left, then figures.
    pub fn new<T: ToString>(headings: impl IntoIterator<Item = T>) -> Table {
        let sides = [Side::Left].into_iter().chain(std::iter::repeat(Side::Right));
        Table::aligned(headings.into_iter().zip(sides))
    }

    /// A table with these column headings, each with the side to which its column is aligned.
    pub fn aligned<T: ToString>(columns: impl IntoIterator<Item = (T, Side)>) -> Table {
        let column = |(heading, side): (T, Side)| Column { heading: Cell::styled(heading.to_string(), HEADING), side };
        Table { columns: columns.into_iter().map(column).collect(), names: 1, rows: Vec::new(), look: Look::Ruled }
    }

    /// Sets the number of columns that name the rows (one by default). Every part of the table has them.
    pub fn named_by(self, columns: usize) -> Table {
        Table { names: columns, ..self }
    }

    /// Indents the table under the heading of a section, and leaves out the rule.
    pub fn indented(self) -> Table {
        Table { look: Look::Indented, ..self }
    }

    /// Adds a row.
    pub fn row<T: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut row: Vec<Cell> = cells.into_iter().map(T::into).collect();
        debug_assert!(row.len() <= self.columns.len(), "a cell without a column");
        row.resize(self.columns.len(), Cell::from(""));
        self.rows.push(row);
    }

    /// Returns how wide the whole table is, in characters.
    pub fn width(&self) -> usize {
        let extents = self.extents();
        let figures: usize = self.figures().map(|column| GAP + extents[column].whole()).sum();
        self.width_of_names(&extents) + figures
    }

    /// Returns the table in parts of at most `width` characters (one column at least), each with the names of the rows.
    pub fn parts(&self, width: usize) -> Vec<String> {
        let extents = self.fitted(width);
        let mut parts: Vec<(usize, Vec<usize>)> = Vec::new();
        for column in self.figures() {
            let needed = GAP + extents[column].whole();
            match parts.last_mut().filter(|(used, _)| used + needed <= width) {
                Some((used, columns)) => {
                    *used += needed;
                    columns.push(column);
                }
                None => parts.push((self.width_of_names(&extents) + needed, vec![column])),
            }
        }
        parts.iter().map(|(_, columns)| self.part(columns, &extents)).collect()
    }

    /// The columns of figures that are known of some row.
    fn figures(&self) -> impl Iterator<Item = usize> + '_ {
        let is_known = |&column: &usize| self.rows.is_empty() || self.rows.iter().any(|row| !row[column].is_missing());
        (self.names..self.columns.len()).filter(is_known)
    }

    fn width_of_names(&self, extents: &[Extent]) -> usize {
        let names: usize = extents[..self.names].iter().map(|extent| GAP + extent.whole()).sum();
        self.indentation() + names.saturating_sub(GAP)
    }

    fn indentation(&self) -> usize {
        match self.look {
            Look::Ruled => 0,
            Look::Indented => GAP,
        }
    }

    /// The cells of a column, the heading among them.
    fn cells(&self, column: usize) -> impl Iterator<Item = &Cell> {
        self.rows.iter().map(move |row| &row[column]).chain([&self.columns[column].heading])
    }

    /// Measures all columns. Time: proportional to the number of cells.
    fn extents(&self) -> Vec<Extent> {
        let extent = |column| {
            let most = |width: fn(&Cell) -> usize| self.cells(column).map(width).max().unwrap_or(0);
            Extent { column, text: most(|cell| cell.text.width()), marks: most(|cell| cell.mark.width()) }
        };
        (0..self.columns.len()).map(extent).collect()
    }

    /// Measures all columns, and narrows them until the names and any other one are no wider than `width`: the names to
    /// half of it at least.
    fn fitted(&self, width: usize) -> Vec<Extent> {
        let mut extents = self.extents();
        let widest = self.figures().map(|column| GAP + extents[column].whole()).max().unwrap_or(0);
        let names = self.width_of_names(&extents);
        if names.saturating_add(widest) <= width {
            return extents;
        }
        let room = names.min((width / 2).max(width.saturating_sub(widest)));
        for _ in room..names {
            if let Some(name) = extents[..self.names].iter_mut().max_by_key(|extent| extent.text) {
                name.text = name.text.saturating_sub(1).max(1);
            }
        }
        let room = width.saturating_sub(room + GAP);
        for extent in &mut extents[self.names..] {
            extent.text = extent.text.min(room.saturating_sub(extent.marks).max(1));
        }
        extents
    }

    /// The names of the rows, and these columns; rows of which none of them is known are left out.
    fn part(&self, figures: &[usize], extents: &[Extent]) -> String {
        let columns: Vec<&Extent> =
            (0..self.names).chain(figures.iter().copied()).map(|column| &extents[column]).collect();
        let headings: Vec<&Cell> = columns.iter().map(|extent| &self.columns[extent.column].heading).collect();
        let mut text = String::new();
        let width = self.line(&mut text, &columns, &headings);
        if self.look == Look::Ruled {
            text.push_str(&"─".repeat(width));
            text.push('\n');
        }
        for row in self.rows.iter().filter(|row| !figures.iter().all(|&column| row[column].is_missing())) {
            let cells: Vec<&Cell> = columns.iter().map(|extent| &row[extent.column]).collect();
            self.line(&mut text, &columns, &cells);
        }
        text
    }

    /// Adds the lines of a row, without spaces at their ends, and returns how wide they are.
    fn line(&self, text: &mut String, columns: &[&Extent], cells: &[&Cell]) -> usize {
        let wrapped: Vec<Vec<Cow<'_, str>>> =
            columns.iter().zip(cells).map(|(extent, cell)| cell.lines(extent.text)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        let mut widest = 0;
        for number in 0..height {
            let (mut written, mut start) = (0, self.indentation());
            for ((extent, cell), lines) in columns.iter().zip(cells).zip(&wrapped) {
                if let Some(line) = lines.get(number).filter(|line| !line.is_empty()) {
                    let at = match self.columns[extent.column].side {
                        Side::Left => start,
                        Side::Right => start + extent.text.saturating_sub(line.width()),
                    };
                    let mark = if number + 1 == lines.len() { cell.mark } else { "" };
                    let (space, style) = (" ".repeat(at - written), cell.style);
                    text.push_str(&format!("{space}{style}{line}{mark}{style:#}"));
                    written = at + line.width() + mark.width();
                }
                start += extent.whole() + GAP;
            }
            text.push('\n');
            widest = widest.max(written);
        }
        widest
    }
}

impl fmt::Display for Table {
    /// Writes the table for the terminal that standard output is, its parts apart from each other by an empty line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts(terminal::columns().unwrap_or(usize::MAX)).join("\n"))
    }
}

/// Number of characters of the longest bar.
const BAR: f64 = 40.0;

/// The longest bar, over the median one. A longer bar would shrink all others to nothing: it is cut, and marked as cut.
const LONGEST: f64 = 8.0;

/// Returns a bar chart: a bar per named value, each followed by its value as `show` formats it.
pub fn bar_chart<'a>(values: impl IntoIterator<Item = (&'a str, f64)>, show: impl Fn(f64) -> String) -> String {
    let values: Vec<(Cow<'_, str>, f64)> = values.into_iter().map(|(name, value)| (name.shown(), value)).collect();
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

/// Returns a bar of a length in characters, to an eighth of one; it is never empty.
fn bar(length: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = ((length * 8.0).round() as usize).max(1);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// Formats a ratio, as in "0.08x".
pub fn ratio(ratio: f64) -> String {
    format!("{}x", number::short(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEST: Style = Style::new().underline();

    fn grid() -> Table {
        let mut table = Table::new(["name", "time", "memory", "nothing"]);
        let (best, other) = (Cell::styled("10 ms", BEST).marked("*"), Cell::from("12 ms"));
        table.row(["first".into(), best, "5".into(), Cell::missing()]);
        table.row(["b".into(), other, Cell::missing(), Cell::missing()]);
        table
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    /// Would not end if each line took time in proportion to the number of lines.
    #[test]
    fn a_table_may_be_long() {
        let mut table = Table::new(["block", "size"]);
        (0..300_000).for_each(|row: u32| table.row([row.to_string(), (row * 16).to_string()]));
        let [part] = &table.parts(80)[..] else { panic!("one part") };
        assert_eq!(part.lines().count(), 300_002);
    }

    #[test]
    fn a_table_that_fits_is_one() {
        assert_eq!(grid().width(), 5 + 8 + 8);
        let parts = grid().parts(80);
        assert_eq!(parts.len(), 1);
        let expected = "\
name    time   memory
─────────────────────
first  10 ms*       5
b      12 ms        -
";
        assert_eq!(plain(&parts[0]), expected);
        assert!(parts[0].contains(&format!("{BEST}10 ms*{BEST:#}")));
    }

    #[test]
    fn a_table_that_does_not_fit_is_cut_between_columns_and_rows_without_figures_go() {
        let parts = grid().parts(15);
        assert_eq!(parts.len(), 2);
        assert!(plain(&parts[1]).ends_with("first       5\n"), "{}", parts[1]);
        assert!(parts.iter().all(|part| plain(part).lines().all(|line| line.chars().count() <= 15)));
    }

    #[test]
    fn names_and_texts_are_wrapped_where_they_do_not_fit() {
        let mut table = Table::aligned([("what would help", Side::Left), ("why", Side::Left), ("bytes", Side::Right)]);
        table.row(["another setting of a name", "a reason of many words, which\nis too long", "12"]);
        table.row(["none", "", "3"]);
        let parts: Vec<String> = table.parts(24).iter().map(|part| plain(part)).collect();
        let expected = "\
what would    why
help
─────────────────
another       a reason
setting of a  of many
name          words,
              which�is
              too long
none
";
        assert_eq!(parts[0], expected);
        assert!(parts[1].ends_with("another          12\nsetting of a\nname\nnone              3\n"), "{}", parts[1]);
        for width in [1, 3, 10, 24, 40] {
            let is_short = |part: &String| part.lines().all(|line| plain(line).width() <= width.max(4));
            assert!(table.parts(width).iter().all(is_short), "{width}");
        }
    }

    #[test]
    fn columns_line_up_whatever_is_styled() {
        let columns = [("name", Side::Left), ("size", Side::Right), ("state", Side::Left)];
        let mut table = Table::aligned(columns).indented();
        table.row(["ä".into(), Cell::styled("12", HEADING), "in use".into()]);
        table.row(["長い", "3", "dead"]);
        table.row(["longer", "", ""]);
        table.row(["last"]);
        let text = "  name    size  state\n  ä         12  in use\n  長い       3  dead\n  longer\n  last\n";
        assert_eq!(plain(&table.to_string()), text);
    }

    #[test]
    fn every_part_has_all_names() {
        let mut table = Table::new(["row", "of", "one", "two"]).named_by(2);
        table.row(["a", "b", "1", "2"]);
        let parts: Vec<String> = table.parts(12).iter().map(|part| plain(part)).collect();
        assert_eq!(parts, ["row  of  one\n────────────\na     b    1\n", "row  of  two\n────────────\na     b    2\n"]);
    }

    #[test]
    fn a_table_without_rows_has_its_headings() {
        assert_eq!(plain(&Table::new(["", "one"]).to_string()), "  one\n─────\n");
    }

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
