//! Tables on a terminal: columns as wide as what is in them, and a last one that takes the rest.

use std::borrow::Cow;
use std::io::Write;

use serde::{Deserialize, Serialize};
use vramscope_format::{elide_place, width};

use crate::layout::Piece;
use crate::style::{self, Role};

/// A table with numbers to the right and one column of words at the end.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Table {
    headings: Vec<Column>,
    label: Cow<'static, str>,
    rows: Vec<(Vec<String>, String, Role)>,
    /// Whether the headings are not shown.
    is_bare: bool,
}

#[derive(Clone, Serialize, Deserialize)]
struct Column {
    heading: Cow<'static, str>,
    /// Of a narrow terminal the columns with the highest number go first; 0 stays.
    drop: u8,
    is_left: bool,
}

/// Columns that are left for the words at the end before a number goes.
const LEAST_LABEL: usize = 24;

impl Table {
    /// A table whose last column has this heading.
    pub(crate) fn new(label: &'static str) -> Self {
        Self { headings: Vec::new(), label: label.into(), rows: Vec::new(), is_bare: false }
    }

    /// Adds a column of numbers.
    pub(crate) fn column(self, heading: &'static str) -> Self {
        self.optional(heading, 0)
    }

    /// Adds a column that goes where there is no room; of several the highest `drop` goes first.
    pub(crate) fn optional(mut self, heading: &'static str, drop: u8) -> Self {
        self.headings.push(Column { heading: heading.into(), drop, is_left: false });
        self
    }

    /// Adds a column of words or bars.
    pub(crate) fn left(mut self, heading: &'static str, drop: u8) -> Self {
        self.headings.push(Column { heading: heading.into(), drop, is_left: true });
        self
    }

    /// Adds a row: a cell for each column, and the words at the end.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>, label: impl Into<String>) {
        self.rows.push((cells.into(), label.into(), Role::Plain));
    }

    /// The same in a color.
    pub(crate) fn painted<const N: usize>(
        &mut self,
        role: Role,
        cells: [String; N],
        label: impl Into<String>,
    ) {
        self.rows.push((cells.into(), label.into(), role));
    }

    /// Writes the table, as wide as the terminal.
    pub(crate) fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(self.text().as_bytes())
    }

    /// What [`Table::print`] writes.
    pub(crate) fn text(&self) -> String {
        Piece::Table(Cow::Borrowed(self)).print()
    }

    /// Writes the table without its headings.
    pub(crate) fn print_rows(self, out: &mut dyn Write) -> std::io::Result<()> {
        Self { is_bare: true, ..self }.print(out)
    }

    /// The table in a number of columns.
    pub(crate) fn laid_out(&self, columns: usize) -> String {
        let widths: Vec<usize> = (0..self.headings.len())
            .map(|at| {
                let cells = self.rows.iter().filter_map(|(cells, ..)| cells.get(at)).map(|cell| width(cell));
                cells.chain([width(&self.headings[at].heading)]).max().unwrap_or(0)
            })
            .collect();
        let longest = self.rows.iter().map(|(_, label, _)| width(label)).max().unwrap_or(0);
        let label = longest.max(width(&self.label)).min(LEAST_LABEL);
        let mut shown: Vec<usize> = (0..self.headings.len()).collect();
        let taken = |shown: &[usize]| shown.iter().map(|&at| widths[at] + 2).sum::<usize>() + 2;
        while taken(&shown) + label > columns {
            let Some(drop) = shown.iter().map(|&at| self.headings[at].drop).max().filter(|&drop| drop > 0)
            else {
                break;
            };
            let last = shown.iter().rposition(|&at| self.headings[at].drop == drop);
            last.map(|at| shown.remove(at));
        }
        let room = columns.saturating_sub(taken(&shown)).max(12);
        let line = |cells: &dyn Fn(usize) -> String, label: &str| {
            let mut line = String::from(" ");
            for &at in &shown {
                let cell = cells(at);
                let pad = " ".repeat(widths[at].saturating_sub(width(&cell)));
                match self.headings[at].is_left {
                    true => line.push_str(&format!(" {cell}{pad} ")),
                    false => line.push_str(&format!(" {pad}{cell} ")),
                }
            }
            line.push(' ');
            line.push_str(&elide_place(label, room));
            line.trim_end().to_owned()
        };
        let mut lines = Vec::new();
        if !self.is_bare {
            let heading = line(&|at| self.headings[at].heading.clone().into_owned(), &self.label);
            lines.push(style::paint(Role::Dim, &heading));
        }
        for (cells, label, role) in &self.rows {
            let row = line(&|at| cells.get(at).cloned().unwrap_or_default(), label);
            lines.push(style::paint(*role, &row));
        }
        lines.iter().fold(String::new(), |text, line| text + line + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Table {
        let mut table = Table::new("where").column("bytes").optional("count", 1);
        table.row(["4 279 452 896 B".into(), "15".into()], "modeling_llama.py:175 forward");
        table.row(["1 B".into(), "2".into()], "train.py:8 main");
        table
    }

    fn printed(columns: usize) -> String {
        example().laid_out(columns)
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        assert_eq!(
            printed(80),
            "            bytes  count  where
  4 279 452 896 B     15  modeling_llama.py:175 forward
              1 B      2  train.py:8 main
"
        );
    }

    #[test]
    fn on_a_narrow_terminal_a_column_goes_and_the_line_stays() {
        assert_eq!(
            printed(42),
            "            bytes  where
  4 279 452 896 B  modeling_llama.py:175
              1 B  train.py:8 main
"
        );
    }
}
