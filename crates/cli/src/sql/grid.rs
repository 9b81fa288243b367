//! An answer as a table for people: numbers to the right, sizes with units, text elided to what fits.

use std::io::{self, Write};

use vramscope_format::{elide_place, width};
use vramscope_sql::{Cell, is_size};

use crate::style::{self, Role, units};
use crate::text;

/// Columns that text gets at least.
const LEAST: usize = 12;

pub(super) fn print(names: &[String], rows: &[Vec<Cell>], out: &mut dyn Write) -> io::Result<()> {
    let is_size: Vec<bool> = names.iter().map(|name| is_size(name)).collect();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().zip(&is_size).map(|(cell, is_size)| cell.words(*is_size, units())).collect())
        .collect();
    let is_text: Vec<bool> = (0..names.len())
        .map(|at| rows.iter().any(|row| matches!(row.get(at), Some(Cell::Text(_)))))
        .collect();
    let mut widths: Vec<usize> = (0..names.len())
        .map(|at| {
            let widest = cells.iter().filter_map(|row| row.get(at)).map(|cell| width(cell)).max();
            widest.unwrap_or(0).max(names.get(at).map_or(0, |name| width(name)))
        })
        .collect();
    shrink(&mut widths, &is_text, text::columns());
    let line = |row: &[String]| {
        let mut line = String::new();
        for ((cell, &room), is_text) in row.iter().zip(&widths).zip(&is_text) {
            let cell = if width(cell) > room { elide_place(cell, room) } else { cell.clone() };
            let pad = " ".repeat(room.saturating_sub(width(&cell)));
            let cell = if *is_text { format!("{cell}{pad}") } else { format!("{pad}{cell}") };
            line.push_str(&format!(" {cell} "));
        }
        line.trim_end().to_owned()
    };
    writeln!(out, "{}", style::paint(Role::Dim, &line(names)))?;
    cells.iter().try_for_each(|row| writeln!(out, "{}", line(row)))
}

/// Takes room from the widest texts until the line fits.
fn shrink(widths: &mut [usize], is_text: &[bool], columns: usize) {
    loop {
        let over = (widths.iter().sum::<usize>() + 2 * widths.len()).saturating_sub(columns);
        let texts = widths.iter_mut().zip(is_text).filter(|(width, is_text)| **is_text && **width > LEAST);
        let Some((widest, _)) = texts.max_by_key(|(width, _)| **width) else { return };
        if over == 0 {
            return;
        }
        *widest = widest.saturating_sub(over.min(*widest - LEAST).clamp(1, 8));
    }
}
