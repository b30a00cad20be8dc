//! Tables that are cut where they would not fit.

use anstyle::Style;

use super::marks::Mark;
use crate::table::HEADING;

/// Between two columns.
const GAP: usize = 2;

/// The best of a column.
const BEST: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Green)));

/// As good as the best, for all that is known.
const TIE: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Green)));

/// A column: its heading and a cell for each row.
pub struct Column {
    /// What stands above it.
    pub heading: String,
    /// A cell and its mark, per row.
    pub cells: Vec<(String, Mark)>,
}

impl Column {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|(cell, _)| cell.chars().count());
        cells.chain([self.heading.chars().count()]).max().unwrap_or(0) + self.mark_width()
    }

    /// How many characters behind the figures are for marks.
    fn mark_width(&self) -> usize {
        usize::from(self.cells.iter().any(|(_, mark)| *mark != Mark::None))
    }

    /// Whether nothing is known of any row.
    fn is_empty(&self) -> bool {
        self.cells.iter().all(|(cell, _)| cell == MISSING)
    }
}

/// In place of a figure that is not known.
pub const MISSING: &str = "-";

/// A table whose first column names the rows. Columns of which nothing is known are left out, then rows.
pub struct Grid<'a> {
    /// The heading of the names.
    pub heading: &'a str,
    /// The names of the rows.
    pub names: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
}

impl Grid<'_> {
    /// How wide the whole table is, in characters.
    pub fn width(&self) -> usize {
        self.known().iter().map(|column| GAP + column.width()).sum::<usize>() + self.name_width()
    }

    /// The table, in parts of at most `width` characters (one column at least), each with the names.
    pub fn parts(&self, width: usize) -> Vec<String> {
        let mut parts: Vec<(usize, Vec<&Column>)> = Vec::new();
        for column in self.known() {
            let needed = GAP + column.width();
            match parts.last_mut().filter(|(used, _)| used + needed <= width) {
                Some((used, columns)) => {
                    *used += needed;
                    columns.push(column);
                }
                None => parts.push((self.name_width() + needed, vec![column])),
            }
        }
        parts.iter().map(|(_, columns)| self.part(columns)).collect()
    }

    fn known(&self) -> Vec<&Column> {
        self.columns.iter().filter(|column| !column.is_empty()).collect()
    }

    fn name_width(&self) -> usize {
        self.names.iter().map(String::as_str).chain([self.heading]).map(|name| name.chars().count()).max().unwrap_or(0)
    }

    fn part(&self, columns: &[&Column]) -> String {
        let names = self.name_width();
        let mut heading = format!("{:names$}", self.heading);
        for column in columns {
            let marks = column.mark_width();
            heading.push_str(&format!("{:>width$}{:marks$}", column.heading, "", width = GAP + column.width() - marks));
        }
        let heading = heading.trim_end();
        let rule = "─".repeat(heading.chars().count());
        let mut text = format!("{HEADING}{heading}{HEADING:#}\n{rule}\n");
        for (at, name) in self.names.iter().enumerate() {
            if columns.iter().all(|column| column.cells[at].0 == MISSING) {
                continue;
            }
            let cells: String = columns.iter().map(|column| aligned(column, at)).collect();
            text.push_str(format!("{name:names$}{cells}").trim_end());
            text.push('\n');
        }
        text
    }
}

/// A cell at the right of its column, with its mark behind it.
fn aligned(column: &Column, at: usize) -> String {
    let (cell, mark) = &column.cells[at];
    let sign = format!("{:width$}", mark.sign(), width = column.mark_width());
    let space = " ".repeat(GAP + column.width() - cell.chars().count() - column.mark_width());
    match mark {
        Mark::Best => format!("{space}{BEST}{cell}{sign}{BEST:#}"),
        Mark::Tie => format!("{space}{TIE}{cell}{sign}{TIE:#}"),
        Mark::None => format!("{space}{cell}{sign}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(heading: &str, cells: [(&str, Mark); 2]) -> Column {
        Column { heading: heading.to_owned(), cells: cells.map(|(cell, mark)| (cell.to_owned(), mark)).to_vec() }
    }

    fn grid() -> Grid<'static> {
        let columns = vec![
            column("time", [("10 ms", Mark::Best), ("12 ms", Mark::None)]),
            column("memory", [("5", Mark::None), ("-", Mark::None)]),
            column("nothing", [("-", Mark::None), ("-", Mark::None)]),
        ];
        Grid { heading: "who", names: vec!["first".to_owned(), "b".to_owned()], columns }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_table_that_fits_is_one() {
        assert_eq!(grid().width(), 5 + 8 + 8);
        let parts = grid().parts(80);
        assert_eq!(parts.len(), 1);
        let expected = "\
who     time   memory
─────────────────────
first  10 ms*       5
b      12 ms        -
";
        assert_eq!(plain(&parts[0]), expected);
    }

    #[test]
    fn a_table_that_does_not_fit_is_cut_between_columns_and_rows_without_figures_go() {
        let parts = grid().parts(15);
        assert_eq!(parts.len(), 2);
        assert!(plain(&parts[1]).ends_with("first       5\n"), "{}", parts[1]);
        assert!(parts.iter().all(|part| plain(part).lines().all(|line| line.chars().count() <= 15)));
    }
}
