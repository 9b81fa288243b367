//! The bars of the timeline: stacked by category where the terminal has colors, else by how certain they are. Above them
//! what the colors mean, and the whole run where a part of it is shown.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use vramscope_analysis::Counter;
use vramscope_analysis::categories::DEFAULT_CATEGORIES;
use vramscope_format::{size, width};

use super::put;
use super::timeline::{Column, Timeline, parts_at};
use crate::pane::Pane;
use crate::theme::{Colors, Role, Theme};

pub(super) const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// Whether the bars of a counter are stacked by category.
pub(crate) fn is_stacked(counter: Counter, theme: &Theme) -> bool {
    counter == Counter::Requested && theme.colors != Colors::None
}

/// Where the bars are, and what they show.
pub(crate) struct Chart<'a> {
    pub(crate) area: Rect,
    pub(crate) timeline: &'a Timeline,
    pub(crate) counter: Counter,
    /// Rows from the bottom that a number of bytes reaches.
    pub(crate) height: &'a dyn Fn(i64) -> f64,
    pub(crate) is_active: bool,
    /// Whether it is known what the bytes are.
    pub(crate) has_categories: bool,
}

impl Chart<'_> {
    pub(crate) fn draw(&self, buffer: &mut Buffer, theme: &Theme) {
        let cursor = self.timeline.cursor_column(self.area.width.into());
        let stacked = is_stacked(self.counter, theme) && self.has_categories;
        let colors = CategoryColors::new(theme);
        let mut before = None;
        for (number, column) in self.timeline.columns().iter().enumerate().take(self.area.width.into()) {
            let x = self.area.x + number as u16;
            let is_cursor = cursor == Some(number);
            let held = self.held(column);
            self.draw_held(buffer, x, (before, held), theme);
            before = held;
            if is_cursor && self.is_active {
                self.draw_cursor(buffer, x, column, theme);
            }
            match stacked && !is_cursor {
                true => self.draw_stack(buffer, x, column, &colors),
                false => self.draw_bar(buffer, x, column, is_cursor, theme),
            }
        }
    }

    /// The row that reserved memory reaches.
    fn held(&self, column: &Column) -> Option<u16> {
        if self.counter == Counter::Reserved {
            return None;
        }
        let row = (self.height)(column.max.reserved).ceil() as i64 - 1;
        u16::try_from(row).ok().filter(|row| *row < self.area.height)
    }

    /// The line of reserved memory, its steps joined.
    fn draw_held(
        &self,
        buffer: &mut Buffer,
        x: u16,
        (before, now): (Option<u16>, Option<u16>),
        theme: &Theme,
    ) {
        let Some(now) = now else { return };
        let dim = theme.style(Role::Dim);
        let from = before.unwrap_or(now);
        for row in from.min(now)..=from.max(now) {
            let symbol = match (row == now, row == from) {
                (true, true) => "─",
                (true, false) if now > from => "┌",
                (true, false) => "└",
                (false, true) if now > from => "┘",
                (false, true) => "┐",
                (false, false) => "│",
            };
            if let Some(cell) = buffer.cell_mut((x, self.area.bottom() - 1 - row)) {
                cell.set_symbol(symbol).set_style(dim);
            }
        }
    }

    fn draw_cursor(&self, buffer: &mut Buffer, x: u16, column: &Column, theme: &Theme) {
        let most = (self.height)(column.max[self.counter]);
        for row in (0..self.area.height).filter(|row| f64::from(*row) >= most) {
            if let Some(cell) = buffer.cell_mut((x, self.area.bottom() - 1 - row)) {
                cell.reset();
                cell.set_symbol("┊").set_style(theme.style(Role::Cursor));
            }
        }
    }

    /// One bar: solid up to the least of its column, lighter up to the most.
    fn draw_bar(&self, buffer: &mut Buffer, x: u16, column: &Column, is_cursor: bool, theme: &Theme) {
        let (bar, range) = (theme.style(Role::Bar), theme.style(Role::Range));
        let main = if is_cursor { theme.style(Role::Cursor) } else { bar };
        let has_colors = theme.colors != Colors::None;
        let (least, most) =
            ((self.height)(column.min[self.counter]), (self.height)(column.max[self.counter]));
        for row in 0..self.area.height {
            let base = f64::from(row);
            let eighths = |level: f64| ((level - base) * 8.0).round().clamp(0.0, 8.0) as usize;
            let (low, mut high) = (eighths(least), eighths(most));
            // A spike is seen, however low.
            if row == 0 && high == 0 && most > 0.0 {
                high = 1;
            }
            let Some(cell) = buffer.cell_mut((x, self.area.bottom() - 1 - row)) else { continue };
            if high == 0 {
                continue;
            }
            cell.reset();
            if is_cursor && high == 8 && !has_colors {
                // A dotted line in the bar, as above it.
                cell.set_symbol("┊").set_style(main.add_modifier(Modifier::REVERSED));
            } else if low == 8 {
                cell.set_symbol("█").set_style(main);
            } else if low == 0 && high == 8 && !has_colors {
                cell.set_symbol("▒").set_style(main);
            } else if low == 0 {
                cell.set_symbol(EIGHTHS[high]).set_style(if is_cursor { main } else { range });
            } else if high == 8 && has_colors && !is_cursor {
                // Both levels in one cell: the lower one in front of the upper.
                cell.set_symbol(EIGHTHS[low]).set_style(main);
                if let Some(behind) = range.fg {
                    cell.set_bg(behind);
                }
            } else {
                cell.set_symbol(EIGHTHS[high]).set_style(main);
            }
        }
    }

    /// The categories of a column one above the other, fainter above what the column has all the time. A cell has two
    /// colors: where more meet in it, the largest of the others is behind.
    fn draw_stack(&self, buffer: &mut Buffer, x: u16, column: &Column, theme: &CategoryColors) {
        let least = (self.height)(column.min[self.counter]);
        let mut sum = 0_u64;
        let tops: Vec<f64> = column
            .parts
            .iter()
            .map(|bytes| {
                sum = sum.saturating_add(*bytes);
                (self.height)(i64::try_from(sum).unwrap_or(i64::MAX))
            })
            .collect();
        let most = tops.last().copied().unwrap_or(0.0);
        for row in 0..self.area.height {
            let base = f64::from(row);
            if base >= most {
                break;
            }
            let color_at = |eighth: usize| -> Option<Color> {
                let level = base + (eighth as f64 + 0.5) / 8.0;
                let category = tops.iter().position(|top| level < *top)?;
                Some(theme.of(category, level > least))
            };
            // Most cells have one color: if both ends have the same, so has what is between.
            let is_one =
                (base + 1.0 <= least || base >= least) && color_at(0).is_some() && color_at(0) == color_at(7);
            let mut colors: [Option<Color>; 8] =
                if is_one { [color_at(0); 8] } else { std::array::from_fn(color_at) };
            // A spike is seen, however low.
            if row == 0 && colors[0].is_none() {
                colors[0] = tops.iter().position(|top| *top > 0.0).map(|category| theme.of(category, true));
            }
            let Some(lower) = colors[0] else { continue };
            let full = colors.iter().take_while(|color| **color == Some(lower)).count();
            let upper = most_common(&colors[full..]);
            // Of sixteen colors none is fainter: what a column has at times is half a block.
            let is_faint = !theme.has_faint && base + 0.5 > least && full == 8;
            let symbol = if is_faint { "▒" } else { EIGHTHS[full] };
            if let Some(cell) = buffer.cell_mut((x, self.area.bottom() - 1 - row)) {
                // What was there before leaves nothing behind.
                cell.reset();
                cell.set_symbol(symbol).set_fg(lower).set_bg(upper.unwrap_or(Color::Reset));
            }
        }
    }
}

/// The colors of categories, worked out once for all columns.
struct CategoryColors {
    solid: Vec<Color>,
    faint: Vec<Color>,
    /// Whether a color has a fainter one.
    has_faint: bool,
}

impl CategoryColors {
    fn new(theme: &Theme) -> Self {
        let all =
            |faded| (0..DEFAULT_CATEGORIES.len()).map(|category| theme.category(category, faded)).collect();
        Self { solid: all(false), faint: all(true), has_faint: theme.colors > Colors::Sixteen }
    }

    fn of(&self, category: usize, faint: bool) -> Color {
        let colors = if faint { &self.faint } else { &self.solid };
        colors.get(category).copied().unwrap_or(Color::Reset)
    }
}

/// The color that most of some eighths have; `None` if that is none at all.
fn most_common(colors: &[Option<Color>]) -> Option<Color> {
    let count = |color: &Option<Color>| colors.iter().filter(|other| *other == color).count();
    colors.iter().max_by_key(|color| count(color)).copied().flatten()
}

/// What the colors mean, with the bytes of each category at the cursor.
pub(crate) fn legend(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    if area.height == 0 {
        return;
    }
    if pane.subject().analysis().is_none() {
        put(buffer, area, area.x, area.y, "■ categories: analyzing…", theme.style(Role::Dim));
        return;
    }
    let parts = parts_at(pane.subject(), pane.timeline.at());
    let mut named: Vec<(usize, u64)> =
        parts.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0).collect();
    named.sort_by_key(|(category, bytes)| (std::cmp::Reverse(*bytes), *category));
    let words =
        |(category, bytes): &(usize, u64)| format!("{} {}", DEFAULT_CATEGORIES[*category], size(*bytes));
    // What has no room is added up.
    let rest = |from: usize| match &named[from..] {
        [] => String::new(),
        left => {
            let bytes = left.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
            format!("{} more {}", left.len(), size(bytes))
        }
    };
    let columns = |shown: usize| {
        let entries: usize = named[..shown].iter().map(|entry| width(&words(entry)) + 4).sum();
        (entries + width(&rest(shown))).saturating_sub(if shown == named.len() { 2 } else { 0 })
    };
    let shown = (0..=named.len()).rev().find(|&shown| columns(shown) <= area.width.into()).unwrap_or(0);
    let mut x = area.x;
    for entry in &named[..shown] {
        x = put(buffer, area, x, area.y, "■ ", Style::new().fg(theme.category(entry.0, false)));
        x = put(buffer, area, x, area.y, &words(entry), theme.style(Role::Text)) + 2;
    }
    put(buffer, area, x, area.y, &rest(shown), theme.style(Role::Dim));
}

/// The whole run in one row, with the part that is shown in color.
pub(crate) fn minimap(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    if area.height == 0 {
        return;
    }
    let (most, shown) = pane.timeline.whole(pane.subject());
    let highest = most.iter().copied().max().unwrap_or(1).max(1);
    for (number, level) in most.iter().enumerate().take(area.width.into()) {
        let eighths = (*level as f64 / highest as f64 * 8.0).round().clamp(0.0, 8.0) as usize;
        let is_shown = shown.contains(&number);
        let symbol = if eighths == 0 && is_shown { "▁" } else { EIGHTHS[eighths] };
        let style = theme.style(if is_shown { Role::Cursor } else { Role::Dim });
        if let Some(cell) = buffer.cell_mut((area.x + number as u16, area.y)) {
            cell.set_symbol(symbol).set_style(style);
        }
    }
}
