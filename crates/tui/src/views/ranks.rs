//! All files that were named: the ranks of a run one below the other; of many, those that stand out and a heat map.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_engine::{Figures, Fleet};
use vramscope_format::{Units, bytes, change, elide_place, fit, fit_end, plural, printable, width, words};

use super::bars::EIGHTHS;
use super::{heat, put, row_of, select};
use crate::ranks::{Progress, Ranks};
use crate::theme::{Role, Theme};

/// Lines above the list: how many, and the names of the columns.
const HEAD: u16 = 2;
/// Lines below the list: the path, and why a rank stands out.
const FOOT: u16 = 5;
/// Lines that a rank takes at most: its figures, and its curve.
const MOST_LINES: u16 = 5;
/// Screens that are at least this wide show the heat map beside the list.
const WIDE: u16 = 150;
/// Columns of the list beside it: all figures and the verdict.
const LIST: u16 = 96;

/// Where the parts of the view are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) list: Rect,
    /// Lines that each rank of the list takes.
    pub(crate) lines: u16,
    /// The heat map of many ranks.
    pub(crate) map: Rect,
}

impl Places {
    pub(crate) fn new(area: Rect, ranks: &Ranks) -> Self {
        let room = area.height.saturating_sub(HEAD + FOOT);
        let list = Rect { y: area.y + HEAD, height: room, ..area };
        if !ranks.is_many() {
            let ranks = u16::try_from(ranks.rows.len().max(1)).unwrap_or(u16::MAX);
            return Self { list, lines: (room / ranks).clamp(1, MOST_LINES), map: Rect::default() };
        }
        if area.width >= WIDE {
            let map =
                Rect { x: area.x + LIST + 2, width: area.width - LIST - 2, height: room + HEAD, ..area };
            return Self { list: Rect { width: LIST, ..list }, lines: 1, map };
        }
        let list = Rect { height: (room * 2 / 5).max(room.min(3)), ..list };
        let map = Rect { y: list.bottom() + 1, height: room.saturating_sub(list.height + 1), ..area };
        Self { list, lines: 1, map }
    }

    /// Rows and columns of the heat map.
    pub(crate) fn cells(&self) -> Option<(usize, usize)> {
        heat::room(self.map)
    }
}

/// Between columns: a narrow screen has room for the verdict beside how far a rank is off.
fn gap(area: Rect) -> &'static str {
    if area.width < 84 { " " } else { "  " }
}

/// The columns of numbers, from left to right, with their widths.
const COLUMNS: [(&str, usize); 5] = [("peak", 10), ("end", 10), ("reserved", 10), ("gap", 10), ("oom", 4)];
/// The same by what says most: the first that fit are shown.
const BY_WORTH: [usize; 5] = [0, 2, 4, 1, 3];

/// The numbers that there is room for, each in its column, and two spaces before the verdict.
fn row_of_numbers(cells: [&str; 5], area: Rect, names: usize, odd: bool) -> String {
    let gap = gap(area);
    // Before the numbers: the mark, the name, and a space; after them how far a rank is off, or a short verdict.
    let beside = if odd { 14 } else { 7 };
    let mut room = usize::from(area.width + 1).saturating_sub(names + 3 + beside);
    let mut is_shown = [false; 5];
    for column in BY_WORTH {
        let wide = COLUMNS[column].1 + width(gap);
        if wide > room {
            break;
        }
        is_shown[column] = true;
        room -= wide;
    }
    let shown = COLUMNS.iter().zip(cells).zip(is_shown).filter(|(_, is_shown)| *is_shown);
    let shown: Vec<String> =
        shown.map(|(((_, wide), cell), _)| format!("{cell:>wide$}", wide = *wide)).collect();
    shown.join(gap) + "  "
}

/// Bytes, where the file has them.
fn stated(n: Option<i64>) -> String {
    n.map_or_else(|| "–".into(), bytes)
}

/// The curve of a run on the scale of all of them, the most of each stretch in an eighth of a cell, in some rows from
/// the top.
fn curve(levels: &[i64], highest: i64, room: usize, rows: u16) -> Vec<String> {
    let most = |column: usize| {
        let (from, to) = (column * levels.len() / room, (column + 1) * levels.len() / room);
        levels.get(from..to.max(from + 1)).unwrap_or_default().iter().max().copied().unwrap_or(0)
    };
    let cell = |column: usize, below: usize| {
        let all = (most(column).max(0) as f64 / highest as f64 * f64::from(rows) * 8.0).round() as usize;
        // Something is seen where there is something.
        let all = if most(column) > 0 { all.max(1) } else { 0 };
        EIGHTHS[all.saturating_sub(below * 8).min(8)]
    };
    let row = |below: usize| (0..room).map(|column| cell(column, below)).collect();
    (0..usize::from(rows)).rev().map(row).collect()
}

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, ranks: &Ranks, open: &[&std::path::Path], theme: &Theme) {
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let places = Places::new(area, ranks);
    let fleet = &ranks.fleet;
    let odd = match fleet.odd().len() {
        0 => String::new(),
        1 => " · 1 stands out".into(),
        n => format!(" · {} stand out", vramscope_format::count(n)),
    };
    put(buffer, area, area.x, area.y, &format!("{}{odd}", ranks.how_many()), text);
    let names = ranks.rows.iter().map(|row| width(&row.label)).max().unwrap_or_default();
    let names = names.clamp(8, usize::from(places.list.width / 4).max(8));
    let has_odd = !fleet.odd().is_empty();
    let titles = row_of_numbers(COLUMNS.map(|(title, _)| title), places.list, names, has_odd);
    let header = format!("  {:names$} {titles}verdict", ranks.noun());
    let head = Rect { y: area.y + 1, height: 1, ..places.list };
    put(buffer, head, head.x, head.y, &header, dim);
    let highest = fleet.all_figures().map(|(_, figures)| figures.digest.peak).max().unwrap_or(1).max(1);
    for number in 0..places.list.height / places.lines {
        let Some(at) = ranks.list.at(number, ranks.shown.len()) else { break };
        let Some((file, row)) = ranks.shown.get(at).and_then(|&file| Some((file, ranks.rows.get(file)?)))
        else {
            break;
        };
        let line = row_of(places.list, number * places.lines);
        let is_open = open.contains(&row.input.path.as_path());
        let mark = if is_open { "● " } else { "  " };
        let x = put(buffer, line, line.x, line.y, mark, theme.style(Role::Accent));
        let x = put(buffer, line, x, line.y, &format!("{:names$} ", fit_end(&row.label, names)), text);
        match (&row.progress, fleet.figures(file)) {
            (Progress::Failed(why), _) => {
                let room = line.right().saturating_sub(x).into();
                put(buffer, line, x, line.y, &fit(why, room), theme.style(Role::Danger));
            }
            (_, Some(figures)) => {
                let line = Rect { height: places.lines, ..line };
                draw_rank(buffer, (line, names), (figures, file, highest), fleet, theme);
            }
            (_, None) => {
                put(buffer, line, x, line.y, "…", dim);
            }
        }
        if at == ranks.list.selected {
            select(buffer, line, theme);
        }
    }
    if let Some(map) = &ranks.heat {
        let rank = |file: usize| fleet.figures(file).and_then(|figures| figures.digest.rank);
        let odd: Vec<_> = fleet.odd().iter().map(|&file| rank(file)).collect();
        heat::draw(buffer, places.map, map, (ranks.selected().and_then(rank), &odd), theme);
    }
    draw_foot(buffer, area, ranks, theme);
}

/// The figures of a rank; in the lines below, its curve.
fn draw_rank(
    buffer: &mut Buffer,
    (area, names): (Rect, usize),
    (figures, file, highest): (&Figures, usize, i64),
    fleet: &Fleet,
    theme: &Theme,
) {
    let (text, dim, warm) = (theme.style(Role::Text), theme.style(Role::Dim), theme.style(Role::Warm));
    let line = Rect { height: 1, ..area };
    let digest = &figures.digest;
    let outlier = fleet.outlier(file);
    let off = outlier.map(|outlier| format!("▲ {}", change(outlier.bytes.saturating_sub(outlier.median))));
    let [peak, end] = [digest.peak, digest.end].map(bytes);
    let has_odd = !fleet.odd().is_empty();
    let (reserved, gap) = (stated(figures.reserved_peak()), stated(figures.gap()));
    let numbers = row_of_numbers([&peak, &end, &reserved, &gap, ""], area, names, has_odd);
    let from = area.x + names as u16 + 3;
    let style = if off.is_some() { warm } else { text };
    let x = put(buffer, line, from, line.y, &numbers, style);
    // How many times memory ran out stands over the last column of numbers.
    let ooms = row_of_numbers(["", "", "", "", &figures.ooms.to_string()], area, names, has_odd);
    let oom = if figures.ooms > 0 { theme.style(Role::Danger) } else { dim };
    let at = ooms.len() - ooms.trim_start().len();
    put(buffer, line, from + at as u16, line.y, ooms.trim(), oom);
    // How far it is off stands at the right; the verdict has the room that is left.
    let off = off.unwrap_or_default();
    let right = line.right().saturating_sub(width(&off) as u16);
    let verdict = words(&figures.verdict);
    let room = usize::from(right.saturating_sub(x + 1));
    let x = put(buffer, line, x, line.y, &fit(&verdict, room), dim);
    if area.height > 1 || fleet.len() > Fleet::MANY {
        put(buffer, line, right, line.y, &off, warm);
    } else {
        let x = x + 18_u16.saturating_sub(width(&verdict) as u16);
        let room = usize::from(line.right().saturating_sub(x + 14)).min(40);
        for row in curve(&figures.curve, highest, room, 1) {
            put(buffer, line, x, line.y, &row, theme.style(Role::Bar));
        }
        put(buffer, line, right, line.y, &off, warm);
    }
    if area.height < 2 {
        return;
    }
    // What differs stands beside the curve, where there is room for both.
    let differs =
        outlier.filter(|_| area.width >= 110).map(|outlier| outlier.lines.as_slice()).unwrap_or_default();
    let beside = if area.width >= 110 { 46 } else { 0 };
    let room = usize::from(area.right().saturating_sub(from + beside));
    let rows = area.height - 1;
    for (number, row) in curve(&figures.curve, highest, room, rows).iter().enumerate() {
        let line = row_of(area, number as u16 + 1);
        put(buffer, line, from, line.y, row, theme.style(Role::Bar));
        if let Some(off) = differs.get(number) {
            let x = area.right().saturating_sub(beside) + 2;
            let by = format!("{:>11} ", change(off.bytes.saturating_sub(off.median)));
            let x = put(buffer, line, x, line.y, &by, text);
            let room = usize::from(line.right().saturating_sub(x));
            put(buffer, line, x, line.y, &elide_place(&printable(&off.line.short()), room), dim);
        }
    }
}

/// The selected file, and why it stands out.
fn draw_foot(buffer: &mut Buffer, area: Rect, ranks: &Ranks, theme: &Theme) {
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let foot = Rect { y: area.bottom().saturating_sub(FOOT), height: FOOT.min(area.height), ..area };
    let Some((file, row)) = ranks.selected().and_then(|file| Some((file, ranks.rows.get(file)?))) else {
        return;
    };
    let device = match ranks.fleet.figures(file) {
        Some(figures) if figures.devices > 1 => {
            format!("  ({}, one of {})", printable(&figures.device_name), plural(figures.devices, "device"))
        }
        _ => String::new(),
    };
    let room = usize::from(area.width).saturating_sub(width(&device));
    let about = format!("{}{device}", fit_end(&row.title(), room));
    put(buffer, foot, foot.x, foot.y, &about, dim);
    let Some(outlier) = ranks.fleet.outlier(file) else { return };
    let line = row_of(foot, 1);
    put(buffer, line, line.x, line.y, &outlier.words(Units::Binary), theme.style(Role::Warm));
    for (number, off) in outlier.lines.iter().enumerate() {
        let line = row_of(foot, number as u16 + 2);
        let by = format!("{:>12}  ", change(off.bytes.saturating_sub(off.median)));
        let x = put(buffer, line, line.x, line.y, &by, text);
        let room = usize::from(line.right().saturating_sub(x));
        put(buffer, line, x, line.y, &elide_place(&printable(&off.line.short()), room), text);
    }
}
