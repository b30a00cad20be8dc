//! Columns of text in which every cell may have a style of its own.

use std::fmt;

use anstyle::Style;

use crate::table::HEADING;

/// A cell: what is in it, and how it looks.
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell that looks like `style`.
    pub fn styled(text: impl Into<String>, style: Style) -> Cell {
        Cell { text: text.into(), style }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::styled(text, Style::new())
    }
}

/// To which side the cells of a column keep.
#[derive(Clone, Copy)]
pub enum Side {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// Rows of cells under headings.
pub struct Grid {
    sides: Vec<Side>,
    rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// A grid with these headings.
    pub fn new<const N: usize>(headings: [(&str, Side); N]) -> Grid {
        let sides = headings.iter().map(|&(_, side)| side).collect();
        let titles = headings.iter().map(|&(title, _)| Cell::styled(title, HEADING)).collect();
        Grid { sides, rows: vec![titles] }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(Cell::width).max();
        let widths: Vec<usize> = (0..self.sides.len()).map(|column| width(column).unwrap_or(0)).collect();
        for row in &self.rows {
            let filled = row.iter().rposition(|cell| !cell.text.is_empty()).map_or(0, |last| last + 1);
            for (column, (cell, &side)) in row[..filled].iter().zip(&self.sides).enumerate() {
                let pad = widths[column] - cell.width();
                let (before, after) = match side {
                    Side::Left if column + 1 == filled => (0, 0),
                    Side::Left => (0, pad),
                    Side::Right => (pad, 0),
                };
                let style = cell.style;
                write!(f, "  {:before$}{style}{}{style:#}{:after$}", "", cell.text, "")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_is_styled() {
        let mut grid = Grid::new([("name", Side::Left), ("size", Side::Right), ("state", Side::Left)]);
        grid.row(["ä".into(), Cell::styled("12", HEADING), "in use".into()]);
        grid.row(["longer".into(), "3".into(), "dead".into()]);
        grid.row(["last".into(), "".into(), "".into()]);
        let text = anstream::adapter::strip_str(&grid.to_string()).to_string();
        assert_eq!(text, "  name    size  state\n  ä         12  in use\n  longer     3  dead\n  last\n");
    }
}
