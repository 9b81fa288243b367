//! Ranks as a heat map: a row for each or for several, the peak of each step or part of the recording as a shade.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use vramscope_analysis::HeatMap;
use vramscope_format::{bytes, fit};

use super::{put, row_of};
use crate::theme::{Role, Theme};

/// Columns of the ranks of a row, and of a mark behind the cells.
const LABEL: u16 = 12;
const MARK: u16 = 2;
/// Lines above and below the cells: the title, the scale.
const AROUND: u16 = 2;

/// Rows and columns of cells that there is room for.
pub(super) fn room(area: Rect) -> Option<(usize, usize)> {
    let (rows, columns) = (area.height.checked_sub(AROUND)?, area.width.checked_sub(LABEL + MARK)?);
    (rows > 0 && columns > 3).then_some((rows.into(), columns.into()))
}

/// Columns of the screen that a cell takes.
fn wide(area: Rect, map: &HeatMap) -> u16 {
    let columns = map.rows.iter().map(|row| row.cells.len()).max().unwrap_or(1).max(1);
    (area.width.saturating_sub(LABEL + MARK) / columns as u16).max(1)
}

/// The file with the highest peak in the cell at a place.
pub(crate) fn file_at(area: Rect, map: &HeatMap, at: Position) -> Option<usize> {
    let row = map.rows.get(usize::from(at.y.checked_sub(area.y + 1)?))?;
    let column = at.x.checked_sub(area.x + LABEL)? / wide(area, map);
    Some(row.cells.get(usize::from(column)).copied()??.input)
}

/// `chosen` is the rank that is selected, `odd` are those that stand out.
pub(super) fn draw(
    buffer: &mut Buffer,
    area: Rect,
    map: &HeatMap,
    (chosen, odd): (Option<u64>, &[Option<u64>]),
    theme: &Theme,
) {
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    put(buffer, area, area.x, area.y, &fit(&map.title, area.width.into()), text);
    let wide = wide(area, map);
    for (number, row) in map.rows.iter().enumerate() {
        let line = row_of(area, number as u16 + 1);
        let style = theme.style(if row.has(chosen) { Role::Cursor } else { Role::Dim });
        let mark = if row.has(chosen) { "▸" } else { "" };
        put(buffer, line, line.x, line.y, &format!("{:>11}", format!("{mark}{}", row.label())), style);
        for (column, cell) in row.cells.iter().enumerate() {
            let Some(cell) = cell else { continue };
            let x = line.x + LABEL + column as u16 * wide;
            let shade = map.shade(cell.bytes).repeat(wide.into());
            put(buffer, line, x, line.y, &shade, theme.style(Role::Heat(map.share(cell.bytes))));
        }
        if odd.iter().any(|rank| row.has(*rank)) {
            let x = line.x + LABEL + row.cells.len() as u16 * wide + 1;
            put(buffer, line, x, line.y, "▲", theme.style(Role::Warm));
        }
    }
    let line = row_of(area, map.rows.len() as u16 + 1);
    let [lowest, .., highest] = HeatMap::SHADES;
    let (low, high) = map.range;
    let scale = format!("{lowest} {} … {highest} {} · ▲ stands out", bytes(low), bytes(high));
    put(buffer, line, line.x + LABEL, line.y, &scale, dim);
}
