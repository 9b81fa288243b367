//! Tables of allocations and stacks: sorted by any column, filtered, a page at a time however many there are.

use egui::{Align2, Rect, RichText, Sense, Ui, pos2, vec2};
use vramscope_analysis::Moment;
use vramscope_analysis::query::FILTER_GRAMMAR;
use vramscope_engine::{
    AskAllocations, AskStacks, AskTile, Group, Listing, Page, Scope, Sort, Source, Which,
};
use vramscope_format::{count, duration, elide_place, fit, plural, size};
use vramscope_snapshot::StackId;

use crate::app::App;
use crate::requests::Slot;
use crate::theme::{self, Palette};
use crate::views::long::Long;
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
    pub(crate) stack: Option<StackId>,
    pub(crate) by_stack: bool,
    pub(crate) when: When,
    text: String,
    sort: Sort,
    ascending: bool,
    first: u32,
}

impl Tables {
    /// A table without a limit but these.
    pub(crate) fn of(stack: Option<StackId>, when: When) -> Self {
        Self { stack, when, ..Self::default() }
    }
}

/// A column: what it says, where it begins, whether numbers stand at its right edge, what it sorts by.
#[derive(Clone, Copy)]
struct Column(&'static str, f32, bool, Sort);

const ALLOCATIONS: [Column; 9] = [
    Column("requested", 0.0, true, Sort::Requested),
    Column("block", 90.0, true, Sort::Size),
    Column("event", 180.0, true, Sort::Opened),
    Column("lived", 270.0, true, Sort::Lifetime),
    Column("bytes × events", 360.0, true, Sort::Pressure),
    Column("address", 480.0, false, Sort::Addr),
    Column("category", 610.0, false, Sort::Category),
    Column("module", 760.0, false, Sort::Module),
    Column("line", 900.0, false, Sort::Place),
];

/// What goes where there is less room than this, the least important first: the line stays.
const DISPENSABLE: [(f32, Sort); 7] = [
    (1100.0, Sort::Module),
    (1100.0, Sort::Category),
    (800.0, Sort::Addr),
    (660.0, Sort::Pressure),
    (540.0, Sort::Size),
    (440.0, Sort::Lifetime),
    (340.0, Sort::Opened),
];

/// The columns of allocations that there is room for.
fn allocation_columns(width: f32) -> Vec<Column> {
    let goes = |sort: Sort| DISPENSABLE.iter().any(|&(least, which)| which == sort && width < least);
    let ends = ALLOCATIONS.iter().skip(1).map(|Column(_, left, ..)| *left);
    let wide = ALLOCATIONS.iter().zip(ends).map(|(column, end)| end - column.1).chain([0.0]);
    let mut left = 0.0;
    let kept = ALLOCATIONS.into_iter().zip(wide).filter(|(Column(.., sort), _)| !goes(*sort));
    let mut after_number = false;
    let place = |(mut column, wide): (Column, f32)| {
        // Words keep off numbers, which stand at the right of their column.
        let gap = if after_number && !column.2 && wide == 0.0 { 12.0 } else { 0.0 };
        after_number = column.2;
        column.1 = left + gap;
        left += wide;
        column
    };
    kept.map(place).collect()
}

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
    ui.horizontal_wrapped(|ui| {
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
        let label = ui.label(RichText::new("filter").color(palette.dim));
        let edit = egui::TextEdit::singleline(&mut tables.text)
            .hint_text("size>=20MiB pool=0,1 regex")
            .desired_width(190.0);
        changed |= ui.add(edit).labelled_by(label.id).on_hover_text(FILTER_GRAMMAR).changed();
        if tables.stack.is_some() && ui.button("× one stack").on_hover_text("Show all stacks again").clicked()
        {
            tables.stack = None;
            changed = true;
        }
    });
    if changed {
        app.parts.tables.first = 0;
    }
    let list = listing(app);
    if app.parts.tables.by_stack {
        stacks(app, ui, of, list, &palette);
    } else {
        allocations(app, ui, of, list, summary.last(), &palette);
    }
}

fn listing(app: &App) -> Listing {
    let tables = &app.parts.tables;
    let overlap = |(from, to)| Scope::Overlap(from, to);
    let scope = match tables.when {
        When::All => Scope::All,
        When::Cursor => Scope::LiveAt(app.selection.cursor),
        When::Shown => shown_moments(app).map_or(Scope::All, overlap),
        When::Selected => selected_life(app).map_or(Scope::All, overlap),
    };
    let which = Which { scope, text: tables.text.trim().to_owned(), group: tables.stack.map(Group::Stack) };
    Listing { which, sort: tables.sort, descending: !tables.ascending, first: tables.first, count: AROUND }
}

/// The first moment that the timeline shows and the one after the last, once it is sharp.
pub(crate) fn shown_moments(app: &App) -> Option<(Moment, Moment)> {
    let (first, last) = app.requests.look::<AskTile>(Slot::Timeline)?.value.moments()?;
    Some((first, Moment(last.0.saturating_add(1))))
}

/// From when to when the selection lives.
pub(crate) fn selected_life(app: &App) -> Option<(Moment, Moment)> {
    let owner = app.selected_details()?.owner;
    Some((owner.opened, owner.closed.unwrap_or(Moment::NEVER)))
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
        response.widget_info(|| egui::WidgetInfo::selected(egui::Role::ColumnHeader, true, on, *name));
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
    let text = page
        .problem
        .clone()
        .unwrap_or_else(|| format!("{}, {}", plural(page.total, "row"), size(page.bytes)));
    ui.spacing_mut().item_spacing.y = 0.0;
    let room = ui.available_height() - 18.0;
    let mut seen = 0..0;
    let list = Long { name: "rows", total: page.total as usize, height: room, to: None };
    list.show(ui, |ui, range| {
        seen = range.clone();
        for at in range {
            match (at as u32).checked_sub(page.first).and_then(|at| page.rows.get(at as usize)) {
                Some(row) => draw(app, ui, row),
                None => {
                    ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
                }
            }
        }
    });
    let (first, last) = (page.first as usize, page.first as usize + page.rows.len());
    if seen.start < first || seen.end > last {
        app.parts.tables.first = (seen.start as u32).saturating_sub(AROUND / 4);
        ui.ctx().request_repaint();
    }
    ui.label(RichText::new(text).font(theme::small()).color(palette.dim));
}

fn allocations(app: &mut App, ui: &mut Ui, of: Source, list: Listing, last: Moment, palette: &Palette) {
    let columns = allocation_columns(ui.available_width());
    heading(app, ui, &columns, palette);
    let Some(answer) = app.requests.want(Slot::Allocations, AskAllocations { of, list }) else { return };
    body(app, ui, &answer.value, |app, ui, row| {
        let owner = &row.owner;
        let lived = owner.events(last);
        let cells = [
            size(owner.requested),
            size(row.size),
            owner.opened.event().map_or_else(|| "before".into(), |event| count(event.0)),
            match (owner.closed, row.lived_us) {
                (None, _) => "to the end".into(),
                (Some(_), Some(lived_us)) => duration(lived_us),
                (Some(_), None) => count(lived),
            },
            size(owner.requested.saturating_mul(lived.into())),
            format!("{:#x}", row.addr),
            row.known_by.beside(&row.category),
            row.module.clone(),
            row.place.clone(),
        ];
        let shown = |Column(name, ..): &Column| {
            let at = ALLOCATIONS.iter().position(|Column(known, ..)| known == name);
            at.and_then(|at| cells.get(at)).cloned().unwrap_or_default()
        };
        let cells: Vec<String> = columns.iter().map(shown).collect();
        let color = palette.of_line(owner.line, owner.alloc.0);
        if cells_of(app, ui, &columns, &cells, color, app.selection.alloc == Some(owner.alloc)) {
            app.select_and_show(owner.alloc);
        }
    });
}

fn stacks(app: &mut App, ui: &mut Ui, of: Source, list: Listing, palette: &Palette) {
    heading(app, ui, &STACKS, palette);
    let Some(answer) = app.requests.want(Slot::Stacks, AskStacks { of, list }) else { return };
    body(app, ui, &answer.value, |app, ui, row| {
        let place = if row.operator.is_empty() || row.place.contains(&row.operator) {
            row.place.clone()
        } else {
            format!("{}   in {}", row.place, row.operator)
        };
        let cells = [size(row.sum.bytes), count(row.sum.count), size(row.largest_bytes), place];
        if cells_of(app, ui, &STACKS, &cells, palette.of_line(row.line, 1), false) {
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
    response.widget_info(|| egui::WidgetInfo::selected(egui::Role::Row, true, chosen, cells.join(", ")));
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
        // The last column has the room that is left.
        let text = match *name {
            "line" => elide_place(text, theme::columns(&painter, &theme::mono(), rect.right() - at.x)),
            "category" | "module" => fit(text, theme::columns(&painter, &theme::mono(), 136.0)),
            _ => text.clone(),
        };
        painter.text(at, align, text, theme::mono(), color);
    }
    response.clicked()
}
