//! Tables of allocations and stacks: sorted by any column, filtered, a page at a time however many there are.

use egui::{Align2, Rect, RichText, ScrollArea, Sense, Ui, pos2, vec2};
use vramscope_engine::{Filter, Page, Request, Response, Scope, Sort, Source};
use vramscope_format::{bytes, count};

use crate::app::App;
use crate::color;
use crate::desk::Slot;
use crate::theme::{self, Palette};
use crate::view::duration;
use crate::views::lower::choice;
use crate::views::tree::ROW;

/// Rows that are fetched around those that are seen.
const AROUND: u32 = 200;

/// Which allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum When {
    #[default]
    All,
    Cursor,
    Shown,
    Selected,
}

/// What the tables keep.
#[derive(Default)]
pub(crate) struct Tables {
    /// Only allocations of a stack.
    pub(crate) stack: Option<u32>,
    pub(crate) by_stack: bool,
    pub(crate) when: When,
    text: String,
    sort: Sort,
    ascending: bool,
    first: u32,
}

/// A column: what it says, where it begins, whether numbers stand at its right edge, what it sorts by.
struct Column(&'static str, f32, bool, Sort);

const ALLOCATIONS: [Column; 7] = [
    Column("requested", 0.0, true, Sort::Requested),
    Column("block", 90.0, true, Sort::Size),
    Column("born at", 180.0, true, Sort::Opened),
    Column("lived", 270.0, true, Sort::Lifetime),
    Column("bytes × events", 360.0, true, Sort::Pressure),
    Column("address", 480.0, false, Sort::Addr),
    Column("line", 610.0, false, Sort::Place),
];

const STACKS: [Column; 4] = [
    Column("requested", 0.0, true, Sort::Requested),
    Column("count", 90.0, true, Sort::Count),
    Column("largest", 180.0, true, Sort::Size),
    Column("line", 290.0, false, Sort::Place),
];

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let Some((of, summary)) = app.device() else { return };
    let palette = app.palette();
    let mut changed = false;
    ui.horizontal(|ui| {
        let tables = &mut app.parts.tables;
        changed |= choice(ui, &mut tables.by_stack, &[(false, "allocations"), (true, "stacks")]);
        ui.add_space(8.0);
        let whens = [
            (When::All, "all"),
            (When::Cursor, "live at the cursor"),
            (When::Shown, "in the view"),
            (When::Selected, "while the selection lives"),
        ];
        changed |= choice(ui, &mut tables.when, &whens);
        ui.add_space(8.0);
        let edit = egui::TextEdit::singleline(&mut tables.text)
            .hint_text("filter: function, file, 0x…")
            .desired_width(180.0);
        changed |= ui.add(edit).changed();
        if tables.stack.is_some() && ui.button("× one stack").on_hover_text("Show all stacks again").clicked()
        {
            tables.stack = None;
            changed = true;
        }
    });
    if changed {
        app.parts.tables.first = 0;
    }
    let filter = filter(app, summary.events);
    if app.parts.tables.by_stack {
        stacks(app, ui, of, filter, &palette);
    } else {
        allocations(app, ui, of, filter, &palette);
    }
}

fn filter(app: &App, events: u32) -> Filter {
    let tables = &app.parts.tables;
    let scope = match tables.when {
        When::All => Scope::All,
        When::Cursor => Scope::LiveAt(app.cursor),
        When::Shown => shown_moments(app).map_or(Scope::All, |(from, to)| Scope::Overlap(from, to)),
        When::Selected => selected_life(app)
            .map_or(Scope::All, |(from, to)| Scope::Overlap(from, to.min(events.saturating_add(1)))),
    };
    Filter { scope, text: tables.text.trim().to_owned(), stack: tables.stack }
}

/// The first moment that the timeline shows and the one after the last, once it is sharp.
pub(crate) fn shown_moments(app: &App) -> Option<(u32, u32)> {
    let answer = app.desk.look(Slot::Timeline)?;
    let Response::Tile(tile) = &*answer.response else { return None };
    let known = || tile.shown.iter().copied().filter(|&at| at != u32::MAX);
    Some((known().min()?, known().max()?.saturating_add(1)))
}

/// From when to when the selection lives.
pub(crate) fn selected_life(app: &App) -> Option<(u32, u32)> {
    let answer = app.desk.look(Slot::Details)?;
    let Response::Details(details) = &*answer.response else { return None };
    (app.selected == Some(details.alloc)).then_some((details.opened, details.closed))
}

/// Names of columns; a click sorts by one.
fn heading(app: &mut App, ui: &mut Ui, columns: &[Column], palette: &Palette) {
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 22.0), Sense::hover());
    for Column(name, left, right, sort) in columns {
        let on = app.parts.tables.sort == *sort;
        let arrow = match (on, app.parts.tables.ascending) {
            (true, true) => " ▴",
            (true, false) => " ▾",
            _ => "",
        };
        let cell = Rect::from_min_size(
            pos2(rect.left() + left, rect.top()),
            vec2(if *right { 84.0 } else { 120.0 }, 22.0),
        );
        let response = ui.interact(cell, egui::Id::unique(("column", *name)), Sense::click());
        let color = if on || response.hovered() { palette.text } else { palette.dim };
        let (at, align) = if *right {
            (cell.right_center(), Align2::RIGHT_CENTER)
        } else {
            (cell.left_center(), Align2::LEFT_CENTER)
        };
        ui.painter().text(at, align, format!("{name}{arrow}"), theme::small(), color);
        if response.clicked() {
            let tables = &mut app.parts.tables;
            tables.ascending = on && !tables.ascending;
            tables.sort = *sort;
        }
    }
    ui.painter().hline(rect.x_range(), rect.bottom(), palette.hairline());
}

/// Rows that can be seen, out of a page that is fetched when they leave it.
fn body<Row>(app: &mut App, ui: &mut Ui, page: &Page<Row>, mut draw: impl FnMut(&mut App, &mut Ui, &Row)) {
    let palette = app.palette();
    let text = format!("{} rows, {} in all", count(page.total), bytes(page.bytes as i64));
    ui.spacing_mut().item_spacing.y = 0.0;
    let room = ui.available_height() - 18.0;
    let mut seen = 0..0;
    ScrollArea::vertical().max_height(room).auto_shrink([false, false]).show_rows(
        ui,
        ROW,
        page.total as usize,
        |ui, range| {
            seen = range.clone();
            for at in range {
                match (at as u32).checked_sub(page.first).and_then(|at| page.rows.get(at as usize)) {
                    Some(row) => draw(app, ui, row),
                    None => {
                        ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
                    }
                }
            }
        },
    );
    let (first, last) = (page.first as usize, page.first as usize + page.rows.len());
    if seen.start < first || seen.end > last {
        app.parts.tables.first = (seen.start as u32).saturating_sub(AROUND / 4);
        ui.ctx().request_repaint();
    }
    ui.label(RichText::new(text).font(theme::small()).color(palette.dim));
}

fn allocations(app: &mut App, ui: &mut Ui, of: Source, filter: Filter, palette: &Palette) {
    heading(app, ui, &ALLOCATIONS, palette);
    let tables = &app.parts.tables;
    let (sort, descending, first) = (tables.sort, !tables.ascending, tables.first);
    let request = Request::Allocations { of, filter, sort, descending, first, count: AROUND };
    let Some(answer) = app.desk.want(Slot::Allocations, request) else { return };
    let Response::Allocations(page) = &*answer.response else { return };
    let events = app.device().map_or(0, |(_, summary)| summary.events);
    body(app, ui, page, |app, ui, row| {
        let owner = &row.owner;
        let lived = owner.closed.min(events).saturating_sub(owner.opened);
        let cells = [
            bytes(owner.requested as i64),
            bytes(row.size as i64),
            if owner.opened == 0 { "before".into() } else { count(owner.opened - 1) },
            row.lived_us.map_or_else(|| count(lived), duration),
            count(owner.requested.saturating_mul(lived.into()) >> 20) + " M",
            format!("{:#x}", row.addr),
            row.place.clone(),
        ];
        let color = color::of_line(owner.line, owner.alloc);
        if cells_of(app, ui, &ALLOCATIONS, &cells, color, app.selected == Some(owner.alloc)) {
            app.select_and_show(owner.alloc);
        }
    });
}

fn stacks(app: &mut App, ui: &mut Ui, of: Source, filter: Filter, palette: &Palette) {
    heading(app, ui, &STACKS, palette);
    let tables = &app.parts.tables;
    let (sort, descending, first) = (tables.sort, !tables.ascending, tables.first);
    let request = Request::Stacks { of, filter, sort, descending, first, count: AROUND };
    let Some(answer) = app.desk.want(Slot::Stacks, request) else { return };
    let Response::Stacks(page) = &*answer.response else { return };
    body(app, ui, page, |app, ui, row| {
        let place = if row.operator.is_empty() || row.place.contains(&row.operator) {
            row.place.clone()
        } else {
            format!("{}   in {}", row.place, row.operator)
        };
        let cells = [bytes(row.bytes as i64), count(row.count), bytes(row.largest_bytes as i64), place];
        if cells_of(app, ui, &STACKS, &cells, color::of_line(row.line, 1), false) {
            app.select_and_show(row.largest);
        }
    });
}

/// One row; says whether it was clicked.
fn cells_of(
    app: &App,
    ui: &mut Ui,
    columns: &[Column],
    cells: &[String],
    chip: egui::Color32,
    chosen: bool,
) -> bool {
    let palette = app.palette();
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
    let painter = ui.painter_at(rect);
    if response.hovered() || chosen {
        painter.rect_filled(rect, 2.0, palette.raised);
    }
    if chosen {
        painter.rect_filled(Rect::from_min_size(rect.min, vec2(2.0, ROW)), 1.0, palette.select);
    }
    for (Column(name, left, right, _), text) in columns.iter().zip(cells) {
        let mut at = pos2(rect.left() + left, rect.center().y);
        let align = if *right { Align2::RIGHT_CENTER } else { Align2::LEFT_CENTER };
        if *right {
            at.x += 84.0;
        }
        if *name == "line" {
            painter.rect_filled(Rect::from_center_size(pos2(at.x + 4.0, at.y), vec2(7.0, 7.0)), 2.0, chip);
            at.x += 14.0;
        }
        let color = if matches!(*name, "requested" | "line") { palette.text } else { palette.dim };
        painter.text(at, align, text, theme::mono(), color);
    }
    response.clicked()
}
