//! SQL over the files that are open: a query, ready-made ones, and the rows that come of it.

use std::sync::Arc;

use egui::{Align2, Id, Key, Modifiers, Rect, RichText, ScrollArea, Sense, Ui, UiBuilder, pos2, vec2};
use vramscope_analysis::{AllocIdx, Moment};
use vramscope_engine::{
    AskSql, AskSqlCatalog, AskSqlRows, SqlCatalog, SqlColumn, SqlResult, SqlRows, SqlView,
};
use vramscope_format::{duration, elide_place, fit, fit_end, plural};

use crate::app::App;
use crate::requests::Slot;
use crate::theme;
use crate::views::lower::nothing;
use crate::views::ranks;
use crate::views::tree::ROW;

/// Rows that are fetched at once.
const PAGE: u32 = 400;
/// A narrower pane has the query above its rows.
const BOTH: f32 = 400.0;
/// Letters that a column has at most, unless it is the last one.
const WIDEST: u32 = 44;
/// Letters that the last column has at least.
const LEAST: f32 = 18.0;
/// Air between two columns.
const GAP: f32 = 20.0;
/// Rows of the field for the query, where it stands above the result.
const LINES: f32 = 62.0;

/// What the view keeps.
#[derive(Default)]
pub(crate) struct Query {
    /// What was asked last.
    asked: Option<AskSql>,
    run: u32,
    /// When it was asked.
    since: f64,
    is_cancelled: bool,
    /// The first row that is fetched.
    first: u32,
    /// The value whose menu is open, with its row.
    menu: Option<(String, Vec<String>)>,
}

/// Where SQL is not built in.
const NONE: &str = "SQL is not built into this vramscope; the wheel and the released programs have it";

pub(crate) fn show(app: &mut App, ui: &mut Ui, body: Rect) {
    let Some((_, summary)) = app.device() else { return };
    if !summary.has_sql {
        return nothing(app, ui, body, NONE);
    }
    let catalog = app.requests.want(Slot::SqlCatalog, AskSqlCatalog {}).map(|answer| answer.value);
    let catalog = catalog.unwrap_or_default();
    let both = body.width() >= BOTH;
    let (left, right) = if both {
        let middle = body.left() + (body.width() * 0.36).clamp(180.0, 460.0).round();
        let line = middle.round() + 0.5;
        ui.painter().vline(line, body.y_range(), app.palette().hairline());
        (body.with_max_x(middle - 12.0), body.with_min_x(middle + 12.0))
    } else {
        let middle = body.top() + 28.0 + LINES + 8.0;
        (body.with_max_y(middle), body.with_min_y(middle + 4.0))
    };
    let part = |ui: &mut Ui, name: &str, rect: Rect| {
        let mut part = ui.new_child(UiBuilder::new().id_salt(name).max_rect(rect));
        part.set_clip_rect(rect.expand(2.0).intersect(ui.clip_rect()));
        part
    };
    let mut above = part(ui, "query", left);
    tools(app, &mut above, &catalog);
    let field = Rect::from_min_max(pos2(left.left(), above.min_rect().bottom() + 4.0), left.max);
    query(app, &mut part(ui, "field", field), field);
    result(app, &mut part(ui, "result", right), right, &catalog);
}

/// Runs what is typed.
fn run(app: &mut App) {
    let query = app.settings.sql.trim().to_owned();
    if query.is_empty() {
        return app.say("Type a query, or choose a view".into());
    }
    let now = app.now;
    let parts = &mut app.parts.sql;
    parts.run += 1;
    parts.asked = Some(AskSql { query, run: parts.run });
    (parts.since, parts.is_cancelled, parts.first) = (now, false, 0);
    if let Some(ask) = parts.asked.clone() {
        app.requests.want(Slot::Sql, ask);
    }
}

fn run_view(app: &mut App, view: &SqlView) {
    app.settings.sql.clone_from(&view.sql);
    run(app);
}

/// Whether a query is under way.
fn is_running(app: &App) -> bool {
    let parts = &app.parts.sql;
    parts.asked.is_some() && !parts.is_cancelled && !app.requests.is_fresh(Slot::Sql)
}

/// Views and tables to choose from; run and cancel.
fn tools(app: &mut App, ui: &mut Ui, catalog: &SqlCatalog) {
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 6.0;
        if is_running(app) {
            if ui.button("Cancel").on_hover_text("Stop the query").clicked() {
                app.parts.sql.is_cancelled = true;
                // Another request for its place ends the one that is under way.
                app.requests.want(Slot::Sql, AskSqlCatalog {});
            }
        } else if ui.button("Run").on_hover_text("Ctrl+Enter").clicked() {
            run(app);
        }
        ui.menu_button("views ▾", |ui| {
            for view in &catalog.views {
                if ui.button(&view.name).on_hover_text(&view.about).clicked() {
                    run_view(app, view);
                    ui.close();
                }
            }
        });
        ui.menu_button("tables ▾", |ui| {
            for (table, columns) in &catalog.tables {
                if ui.button(table).on_hover_text(columns.join(", ")).clicked() {
                    app.settings.sql = format!("select *\nfrom {table}\nlimit 1000");
                    run(app);
                    ui.close();
                }
            }
        });
    });
}

/// The field that the query is typed into.
fn query(app: &mut App, ui: &mut Ui, rect: Rect) {
    let id = Id::unique("sql");
    let has_focus = ui.memory(|memory| memory.has_focus(id));
    // What was typed before the key may have come in the same frame: the field takes it in before the query runs.
    let runs = has_focus && ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter));
    ScrollArea::vertical().id_salt("sql").auto_shrink([false, false]).show(ui, |ui| {
        let paper = app.palette().panel;
        let edit = egui::TextEdit::multiline(&mut app.settings.sql)
            .id(id)
            .code_editor()
            .background_color(paper)
            .font(theme::mono())
            .hint_text("select * from allocations\norder by requested desc\nlimit 100")
            .desired_width(f32::INFINITY)
            .min_size(rect.size() - vec2(2.0, 4.0));
        let response = ui.add(edit);
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::MultilineTextInput, true, "SQL query"));
    });
    if runs {
        run(app);
    }
}

/// What came of the query.
fn result(app: &mut App, ui: &mut Ui, rect: Rect, catalog: &SqlCatalog) {
    let palette = app.palette();
    let parts = &app.parts.sql;
    let (asked, since, is_cancelled) = (parts.asked.clone(), parts.since, parts.is_cancelled);
    let Some(asked) = asked else { return offer(app, ui, catalog) };
    if is_cancelled {
        return nothing(app, ui, rect, "Canceled");
    }
    let Some(answer) = app.requests.want(Slot::Sql, asked.clone()) else {
        return running(app, ui, rect, since);
    };
    if !answer.fresh {
        return running(app, ui, rect, since);
    }
    let found = answer.value;
    if let Some(problem) = &found.problem {
        ui.add(egui::Label::new(RichText::new(problem).color(palette.danger)).wrap().selectable(true));
        return;
    }
    status(app, ui, &found);
    if found.total == 0 {
        return nothing(app, ui, rect, "No row");
    }
    rows(app, ui, &found);
}

/// Says how long it has taken so far.
fn running(app: &App, ui: &Ui, rect: Rect, since: f64) {
    let micros = ((app.now - since).max(0.0) * 10.0).floor() * 1e5;
    let words = match micros {
        micros if micros > 0.0 => format!("Running for {}…", duration(micros as i64)),
        _ => "Running…".to_owned(),
    };
    nothing(app, ui, rect, &words);
    ui.ctx().request_repaint_after_secs(0.1);
}

/// Before the first query: all that are ready.
fn offer(app: &mut App, ui: &mut Ui, catalog: &SqlCatalog) {
    let palette = app.palette();
    ranks::heading(app, ui, "QUERIES THAT ARE READY");
    ui.spacing_mut().item_spacing.y = 0.0;
    ScrollArea::vertical().id_salt("views").auto_shrink([false, false]).show(ui, |ui| {
        for view in &catalog.views {
            let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
            response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &view.name));
            let painter = ui.painter_at(rect);
            if response.hovered() {
                painter.rect_filled(rect, 2.0, palette.raised);
            }
            let y = rect.center().y;
            let name_at = pos2(rect.left() + 4.0, y);
            painter.text(name_at, Align2::LEFT_CENTER, &view.name, theme::mono(), palette.accent);
            let left = rect.left() + 190.0;
            let letters = ((rect.right() - left) / 6.4).max(0.0) as usize;
            let about = fit(&view.about, letters);
            painter.text(pos2(left, y), Align2::LEFT_CENTER, about, theme::body(), palette.dim);
            if response.on_hover_text(&view.about).clicked() {
                run_view(app, view);
            }
        }
    });
}

/// How much came, of how much, in which time; and a way to save it.
fn status(app: &mut App, ui: &mut Ui, found: &SqlResult) {
    let palette = app.palette();
    ui.horizontal(|ui| {
        let files = plural(found.files, "open file");
        let took = duration(i64::from(found.millis) * 1000);
        let words = format!("{} · {files} · {took}", plural(found.total, "row"));
        ui.label(RichText::new(words).font(theme::small()).color(palette.dim));
        if found.is_cut {
            let words = "▲ there are more";
            let hint =
                "Only as many rows are kept as memory allows. vramscope sql writes all of them to a file.";
            ui.label(RichText::new(words).font(theme::small()).color(palette.select)).on_hover_text(hint);
        }
        let layout = egui::Layout::right_to_left(egui::Align::Center);
        ui.with_layout(layout, |ui| {
            if ui.small_button("save CSV").on_hover_text("All rows, without units (Ctrl+E)").clicked() {
                app.save_query();
            }
        });
    });
}

/// Where a column begins, and how wide it is.
fn places(columns: &[SqlColumn], letter: f32, room: f32) -> Vec<(f32, f32)> {
    let mut left = 4.0;
    let mut places: Vec<(f32, f32)> = columns
        .iter()
        .map(|column| {
            let place = (left, column.width.clamp(3, WIDEST) as f32 * letter);
            left += place.1 + GAP;
            place
        })
        .collect();
    // The last text has the room that is left.
    if let (Some(last), Some(column)) = (places.last_mut(), columns.last())
        && column.is_text
    {
        last.1 = (column.width as f32 * letter).min((room - last.0 - 4.0).max(LEAST * letter));
    }
    places
}

/// The rows, of which only those that are seen are fetched.
fn rows(app: &mut App, ui: &mut Ui, found: &Arc<SqlResult>) {
    let palette = app.palette();
    let letter = ui.painter().layout_no_wrap("0".into(), theme::mono(), palette.text).size().x;
    let places = places(&found.columns, letter, ui.available_width() - 10.0);
    let wide = places.last().map_or(0.0, |(left, width)| left + width + 4.0);
    let (heading, _) = ui.allocate_exact_size(vec2(ui.available_width(), 20.0), Sense::hover());
    ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
    let ask = AskSqlRows { result: found.result, first: app.parts.sql.first, count: PAGE };
    let answer = app.requests.want(Slot::SqlRows, ask);
    let page = answer.filter(|answer| answer.request.result == found.result).map(|answer| answer.value);
    if page.is_none() && app.requests.is_fresh(Slot::SqlRows) {
        let text = "This result is not kept any more: run the query again.";
        ui.label(RichText::new(text).color(palette.dim));
        return;
    }
    let mut seen = 0..0;
    let area = ScrollArea::both().id_salt(("rows", found.result)).auto_shrink([false, false]);
    let shown = area.show_rows(ui, ROW, found.total as usize, |ui, range| {
        seen = range.clone();
        for at in range {
            let row = page
                .as_deref()
                .and_then(|page: &SqlRows| page.rows.get((at as u32).checked_sub(page.first)? as usize));
            line(app, ui, found, row, &places, wide);
        }
    });
    let painter = ui.painter_at(heading);
    for (column, &(left, width)) in found.columns.iter().zip(&places) {
        let x = heading.left() + left - shown.state.clamped_offset().x;
        let (x, align) = aligned(column, x, width, Align2::LEFT_CENTER, Align2::RIGHT_CENTER);
        painter.text(pos2(x, heading.center().y), align, &column.name, theme::small(), palette.dim);
    }
    painter.hline(heading.x_range(), heading.bottom() - 0.5, palette.hairline());
    let has = page.as_deref().map_or(0..0, |page| page.first as usize..page.first as usize + page.rows.len());
    if seen.start < has.start || seen.end > has.end {
        app.parts.sql.first = (seen.start as u32).saturating_sub(PAGE / 3);
        ui.ctx().request_repaint();
    }
}

/// Numbers stand at the right edge of their column.
fn aligned(column: &SqlColumn, x: f32, width: f32, left: Align2, right: Align2) -> (f32, Align2) {
    if column.is_text { (x, left) } else { (x + width, right) }
}

/// One row. A click on an event or an allocation goes there.
fn line(
    app: &mut App,
    ui: &mut Ui,
    found: &SqlResult,
    row: Option<&Vec<String>>,
    places: &[(f32, f32)],
    wide: f32,
) {
    let palette = app.palette();
    let wide = wide.max(ui.available_width());
    let (rect, response) = ui.allocate_exact_size(vec2(wide, ROW), Sense::click());
    let Some(row) = row else { return };
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Row, true, row.join(", ")));
    if !ui.is_rect_visible(rect) {
        return;
    }
    let painter = ui.painter_at(rect);
    let pointer = response.hover_pos().map(|at| at.x - rect.left());
    if pointer.is_some() {
        painter.rect_filled(rect, 2.0, palette.raised);
    }
    let mut under = None;
    for (at, (text, (column, &(left, width)))) in row.iter().zip(found.columns.iter().zip(places)).enumerate()
    {
        let is_under = pointer.is_some_and(|x| x >= left - GAP / 2.0 && x < left + width + GAP / 2.0);
        let letters = theme::columns(&painter, &theme::mono(), width + 1.0);
        // What tells paths apart is at their end.
        let is_path = text.contains('/') && !text.contains(' ');
        let shown = if is_path { fit_end(text, letters) } else { elide_place(text, letters) };
        let is_cut = shown != *text;
        let goes = is_under && target(app, found, row, at).is_some();
        let color = match text.as_str() {
            _ if goes => palette.accent,
            "–" => palette.dim,
            _ => palette.text,
        };
        let (x, align) =
            aligned(column, rect.left() + left, width, Align2::LEFT_CENTER, Align2::RIGHT_CENTER);
        painter.text(pos2(x, rect.center().y), align, shown, theme::mono(), color);
        if is_under {
            under = Some((at, is_cut, goes));
        }
    }
    act(app, ui, found, row, response, under);
}

/// What the pointer does with the value under it: its place in the row, whether it is cut, and whether it leads
/// somewhere.
fn act(
    app: &mut App,
    ui: &Ui,
    found: &SqlResult,
    row: &[String],
    response: egui::Response,
    under: Option<(usize, bool, bool)>,
) {
    let Some((at, is_cut, goes)) = under else {
        menu(app, &response);
        return;
    };
    let value = row.get(at).cloned().unwrap_or_default();
    if goes {
        ui.ctx().set_cursor_icon(egui::CursorIcon::PointingHand);
    }
    if response.clicked()
        && let Some(target) = target(app, found, row, at)
    {
        go(app, target);
    }
    if response.secondary_clicked() {
        app.parts.sql.menu = Some((value.clone(), row.to_vec()));
    }
    let response = if is_cut { response.on_hover_text(value) } else { response };
    menu(app, &response);
}

fn menu(app: &App, response: &egui::Response) {
    let Some((value, row)) = app.parts.sql.menu.clone() else { return };
    response.context_menu(|ui| {
        if ui.button("Copy value").clicked() {
            ui.ctx().copy_text(value.clone());
            ui.close();
        }
        if ui.button("Copy row").clicked() {
            ui.ctx().copy_text(row.join("\t"));
            ui.close();
        }
    });
}

/// Where a value leads: an event or an allocation of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Event(usize, Moment),
    Allocation(usize, AllocIdx),
}

/// What a value of a row is about, if its name and the keys in the row say so.
fn target(app: &App, found: &SqlResult, row: &[String], at: usize) -> Option<Target> {
    let column = found.columns.get(at).filter(|column| !column.is_text)?;
    let number: u32 = row.get(at)?.parse().ok()?;
    let is_event = column.name == "event" || column.name.ends_with("_event");
    if !is_event && column.name != "allocation" {
        return None;
    }
    let key = |name: &str| {
        let at = found.columns.iter().position(|column| column.name == name)?;
        row.get(at)?.parse::<i64>().ok()
    };
    let (rank, device) = (key("rank"), key("device"));
    let is_it = |of: &&(usize, Arc<vramscope_engine::Summary>)| {
        let summary = &of.1;
        let own: Option<i64> = summary.rank.rsplit(' ').next().and_then(|number| number.parse().ok());
        let number: Option<i64> =
            summary.device.rsplit([':', ' ']).next().and_then(|number| number.parse().ok());
        rank.is_none_or(|rank| own.unwrap_or(-1) == rank)
            && device.is_none_or(|device| number.unwrap_or(-1) == device)
    };
    let known = app.files.devices.iter().enumerate();
    let known: Vec<_> = known.filter_map(|(at, device)| Some((at, device.summary.clone()?))).collect();
    let mut those = known.iter().filter(is_it);
    // Where the row does not say which of several it is about, it leads nowhere.
    let (Some((place, summary)), None) = (those.next(), those.next()) else { return None };
    match is_event {
        true if number < summary.events => Some(Target::Event(*place, Moment(number + 1))),
        false if number < summary.allocations => Some(Target::Allocation(*place, AllocIdx(number))),
        _ => None,
    }
}

fn go(app: &mut App, target: Target) {
    let (Target::Event(device, _) | Target::Allocation(device, _)) = target;
    if device != app.files.current {
        app.focus(device);
    }
    match target {
        Target::Event(_, at) => app.jump(at, None),
        Target::Allocation(_, alloc) => app.select_and_show(alloc),
    }
}

impl App {
    /// Saves the result of the query that is shown.
    pub(crate) fn save_query(&mut self) {
        let found = self.requests.look::<AskSql>(Slot::Sql).filter(|answer| answer.value.problem.is_none());
        self.save_result(found.map(|answer| answer.value.result));
    }
}
