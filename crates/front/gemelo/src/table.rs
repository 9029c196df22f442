//! Tables as text. The first column is aligned to the left, all others to the right.

use gemelo_base::units::format_line;

/// Rows of cells. Each column is as wide as its widest cell.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

/// The space between two columns.
const GAP: &str = "  ";

impl Table {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a row. Line ends in cells are escaped.
    pub(crate) fn row<Cell: Into<String>>(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().map(|cell| format_line(&cell.into())).collect());
    }

    /// Returns the rows as lines, each indented by `indent` spaces.
    pub(crate) fn render(&self, indent: usize) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    line += &format!("{cell:<width$}");
                } else {
                    line += &format!("{GAP}{cell:>width$}");
                }
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new();
        table.row(["a", "1", ""]);
        table.row(["long", "22", "µ"]);
        assert_eq!(table.render(1), " a      1\n long  22  µ\n");
    }
}
