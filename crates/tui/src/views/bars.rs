//! The bars of the timeline: stacked by category where the terminal has colors, and fainter the less often there is so
//! much; two to a cell. Above them what the colors mean, and the whole run where a part of it is shown.

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
        let is_stacked = is_stacked(self.counter, theme) && self.has_categories;
        let palette = if is_stacked { Palette::of_categories(theme) } else { Palette::of_bars(theme) };
        let mut before = None;
        for (number, column) in self.timeline.columns().iter().enumerate().take(self.area.width.into()) {
            let x = self.area.x + number as u16;
            let held = self.held(column);
            self.draw_held(buffer, x, (before, held), theme);
            before = held;
            if cursor == Some(number) {
                if self.is_active {
                    self.draw_cursor(buffer, x, column, theme);
                }
                self.draw_cursor_bar(buffer, x, column, theme);
                continue;
            }
            // ASCII has nothing for half a cell.
            let halves = self.timeline.halves(number).filter(|_| !theme.ascii).unwrap_or([column, column]);
            self.draw_halves(buffer, x, &halves.map(|half| self.pile(half, is_stacked)), &palette);
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

    /// The bar under the cursor, in its color.
    fn draw_cursor_bar(&self, buffer: &mut Buffer, x: u16, column: &Column, theme: &Theme) {
        let style = theme.style(Role::Cursor);
        let most = (self.height)(column.max[self.counter]);
        for row in 0..self.area.height {
            let mut eighths = ((most - f64::from(row)) * 8.0).round().clamp(0.0, 8.0) as usize;
            // A spike is seen, however low.
            if row == 0 && eighths == 0 && most > 0.0 {
                eighths = 1;
            }
            let Some(cell) = buffer.cell_mut((x, self.area.bottom() - 1 - row)) else { continue };
            if eighths == 0 {
                continue;
            }
            cell.reset();
            if eighths == 8 && theme.colors == Colors::None {
                // A dotted line in the bar, as above it.
                cell.set_symbol("┊").set_style(style.add_modifier(Modifier::REVERSED));
            } else {
                cell.set_symbol(EIGHTHS[eighths]).set_style(style);
            }
        }
    }

    /// What lies one above the other in half a column.
    fn pile(&self, column: &Column, is_stacked: bool) -> Pile {
        let height = |bytes: u64| (self.height)(i64::try_from(bytes).unwrap_or(i64::MAX));
        let mut sum = 0_u64;
        let tops = match is_stacked {
            true => column
                .parts
                .iter()
                .map(|bytes| {
                    sum = sum.saturating_add(*bytes);
                    height(sum)
                })
                .collect(),
            false => vec![(self.height)(column.max[self.counter])],
        };
        let least = (self.height)(column.min[self.counter]);
        let mean = column.mean.map_or(least, |mean| (self.height)(mean[self.counter as usize] as i64));
        Pile { tops, least, mean }
    }

    /// The two halves of a column, cell by cell. A cell has one shape in two colors: the one that is wrong in the fewest
    /// places.
    fn draw_halves(&self, buffer: &mut Buffer, x: u16, halves: &[Pile; 2], palette: &Palette) {
        let most = halves[0].most().max(halves[1].most());
        for row in 0..self.area.height {
            let base = f64::from(row);
            if base >= most && row > 0 {
                break;
            }
            // Most halves of a cell have one color.
            let whole = halves.each_ref().map(|pile| pile.one_color(base, palette));
            let shape = match whole {
                [Some(left), Some(right)] => shape_of_halves(left, right),
                _ => {
                    let mut colors: Parts = [None; 16];
                    for (pile, colors) in halves.iter().zip(colors.chunks_mut(8)) {
                        pile.color(base, palette, colors);
                        // A spike is seen, however low.
                        if row == 0 && colors[0].is_none() && pile.most() > 0.0 {
                            let tone = if pile.least > 0.0 { Tone::Always } else { Tone::AtTimes };
                            colors[0] = Some(palette.of(0, tone));
                        }
                    }
                    shape(&colors)
                }
            };
            let Some((symbol, front, behind)) = shape else { continue };
            // Of few colors none is fainter: how often there is so much is a pattern.
            let tone = halves[0].tone(base + 0.5).max(halves[1].tone(base + 0.5));
            let symbol = match tone {
                Tone::Mostly if !palette.has_faint && symbol == "█" => "▓",
                Tone::AtTimes if !palette.has_faint && symbol == "█" => "░",
                _ => symbol,
            };
            if let Some(cell) = buffer.cell_mut((x, self.area.bottom() - 1 - row)) {
                // What was there before leaves nothing behind.
                cell.reset();
                cell.set_symbol(symbol).set_fg(front).set_bg(behind.unwrap_or(Color::Reset));
            }
        }
    }
}

/// How often there is so much in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tone {
    /// Below the least.
    Always,
    /// Below the mean.
    Mostly,
    /// Up to the most.
    AtTimes,
}

/// What lies one above the other in half a column: how high each reaches, in rows.
struct Pile {
    tops: Vec<f64>,
    least: f64,
    mean: f64,
}

impl Pile {
    fn most(&self) -> f64 {
        self.tops.last().copied().unwrap_or(0.0)
    }

    fn tone(&self, level: f64) -> Tone {
        match level {
            level if level <= self.least => Tone::Always,
            level if level <= self.mean => Tone::Mostly,
            _ => Tone::AtTimes,
        }
    }

    fn color_at(&self, level: f64, palette: &Palette) -> Option<Color> {
        let band = self.tops.iter().position(|top| level < *top)?;
        Some(palette.of(band, self.tone(level)))
    }

    /// The color of a row that has only one, or that it has none.
    fn one_color(&self, base: f64, palette: &Palette) -> Option<Option<Color>> {
        let is_within = |border: f64| border > base && border < base + 1.0;
        let has_border = self.tops.iter().any(|top| is_within(*top));
        let is_one = !has_border && !is_within(self.least) && !is_within(self.mean);
        is_one.then(|| self.color_at(base + 0.5, palette))
    }

    /// The color of each eighth of a row, from below.
    fn color(&self, base: f64, palette: &Palette, colors: &mut [Option<Color>]) {
        for (eighth, color) in colors.iter_mut().enumerate() {
            *color = self.color_at(base + (eighth as f64 + 0.5) / 8.0, palette);
        }
    }
}

/// A shape with the color in front and the one behind.
type Shape = (&'static str, Color, Option<Color>);

/// The shape of a cell with one color in each half.
fn shape_of_halves(left: Option<Color>, right: Option<Color>) -> Option<Shape> {
    match (left, right) {
        (Some(left), Some(right)) if left == right => Some(("█", left, None)),
        (Some(left), right) => Some(("▌", left, right)),
        (None, Some(right)) => Some(("▐", right, None)),
        (None, None) => None,
    }
}

/// The eighths of the left half of a cell from below, and those of the right half.
type Parts = [Option<Color>; 16];

/// Shapes and the parts that they fill: eighths from below, halves and quarters.
const SHAPES: [(&str, u16); 20] = [
    ("█", 0xffff),
    ("▁", 0x0101),
    ("▂", 0x0303),
    ("▃", 0x0707),
    ("▄", 0x0f0f),
    ("▅", 0x1f1f),
    ("▆", 0x3f3f),
    ("▇", 0x7f7f),
    ("▌", 0x00ff),
    ("▐", 0xff00),
    ("▖", 0x000f),
    ("▗", 0x0f00),
    ("▘", 0x00f0),
    ("▝", 0xf000),
    ("▙", 0x0fff),
    ("▟", 0xff0f),
    ("▛", 0xf0ff),
    ("▜", 0xfff0),
    ("▚", 0x0ff0),
    ("▞", 0xf00f),
];

/// The shape in two colors that is nearest to what a cell has in its parts; none if it has nothing.
fn shape(parts: &Parts) -> Option<Shape> {
    // Which parts have each color: rarely more than three.
    let mut colors: Vec<(Option<Color>, u16)> = Vec::with_capacity(4);
    for (part, color) in parts.iter().enumerate() {
        match colors.iter_mut().find(|(known, _)| known == color) {
            Some((_, mask)) => *mask |= 1 << part,
            None => colors.push((*color, 1 << part)),
        }
    }
    if let [(color, _)] = colors.as_slice() {
        return color.map(|color| ("█", color, None));
    }
    let most = |mask: u16, is_front: bool| {
        let fits = colors.iter().filter(|(color, _)| !is_front || color.is_some());
        fits.map(|(color, parts)| ((parts & mask).count_ones(), *color)).max_by_key(|(count, _)| *count)
    };
    let candidates = SHAPES.iter().filter_map(|&(symbol, mask)| {
        let (right, front) = most(mask, true).filter(|(count, _)| *count > 0)?;
        let (right_behind, behind) = most(!mask, false)?;
        let behind = if mask == 0xffff { None } else { behind };
        Some((right + right_behind, (symbol, front?, behind)))
    });
    // Of shapes that are equally near, the first.
    candidates.rev().max_by_key(|(right, _)| *right).map(|(_, shape)| shape)
}

/// The colors of what is stacked, worked out once for all columns.
struct Palette {
    /// For each band by how often there is so much.
    colors: Vec<[Color; 3]>,
    /// Whether colors tell how often there is so much.
    has_faint: bool,
}

impl Palette {
    fn of_categories(theme: &Theme) -> Self {
        let color = |category| [0, 1, 2].map(|steps| theme.category(category, steps));
        Self {
            colors: (0..DEFAULT_CATEGORIES.len()).map(color).collect(),
            has_faint: theme.colors > Colors::Sixteen,
        }
    }

    fn of_bars(theme: &Theme) -> Self {
        let has_faint = theme.colors > Colors::Sixteen;
        let color = |role| theme.style(role).fg.unwrap_or(Color::Reset);
        let roles = if has_faint { [Role::Bar, Role::Mostly, Role::Range] } else { [Role::Bar; 3] };
        Self { colors: vec![roles.map(color)], has_faint }
    }

    fn of(&self, band: usize, tone: Tone) -> Color {
        self.colors.get(band).map_or(Color::Reset, |colors| colors[tone as usize])
    }
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
        x = put(buffer, area, x, area.y, "■ ", Style::new().fg(theme.category(entry.0, 0)));
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
