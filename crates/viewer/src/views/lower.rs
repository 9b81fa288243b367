//! The lower half: a row of tabs, and the chosen view under it.

use egui::{Align2, CursorIcon, Id, Rect, Sense, Ui, UiBuilder, pos2, vec2};

use crate::app::App;
use crate::theme;
use crate::views::{
    Tab, breakdown, compare, events, flame, insights, lifetimes, segments, settings, sql, state, tables,
    tree, whatif,
};

pub(crate) const TABS: [(Tab, &str); 13] = [
    (Tab::Insights, "Insights"),
    (Tab::Segments, "Segments"),
    (Tab::State, "State"),
    (Tab::Events, "Events"),
    (Tab::Flame, "Flame"),
    (Tab::Tree, "Tree"),
    (Tab::Lifetimes, "Lifetimes"),
    (Tab::Tables, "Tables"),
    (Tab::Breakdown, "Breakdown"),
    (Tab::Compare, "Compare"),
    (Tab::Settings, "Settings"),
    (Tab::WhatIf, "What if"),
    (Tab::Sql, "SQL"),
];

/// Height of the row of tabs.
pub(crate) const ROW: f32 = 30.0;
/// Room for the menu of tabs that have no room.
const MORE: f32 = 66.0;
/// Lower views show nothing.
const LEAST_BODY: f32 = 40.0;
/// Narrower rows offer no second view beside the first.
const SPLIT: f32 = 320.0;
/// Room for the buttons at the end of the row.
const BUTTONS: f32 = 84.0;

/// The first pane, or the one beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pane {
    First,
    Second,
}

impl Pane {
    fn tab(self, app: &App) -> Tab {
        match self {
            Self::First => app.settings.tab,
            Self::Second => app.settings.side.unwrap_or(app.settings.tab),
        }
    }

    fn is_open(self, app: &App) -> bool {
        app.settings.lower_open && (self == Self::First || app.settings.side.is_some())
    }

    /// Shows a view here. If it is in the other pane, they change places.
    fn choose(self, app: &mut App, tab: Tab) {
        let settings = &mut app.settings;
        settings.lower_open = true;
        match (self, settings.side) {
            (Self::First, Some(side)) if side == tab => settings.side = Some(settings.tab),
            (Self::Second, Some(side)) if settings.tab == tab => settings.tab = side,
            _ => {}
        }
        match self {
            Self::First => settings.tab = tab,
            Self::Second => settings.side = Some(tab),
        }
    }
}

/// Whether there is somebody to ask SQL of.
fn has_sql(app: &App) -> bool {
    app.device().is_some_and(|(_, summary)| summary.has_sql)
}

/// Opens a second pane with the next view in the row, or closes it.
pub(crate) fn toggle_side(app: &mut App) {
    app.settings.side = match app.settings.side {
        Some(_) => None,
        None => {
            let at = TABS.iter().position(|(tab, _)| *tab == app.settings.tab).unwrap_or_default();
            let has_sql = has_sql(app);
            let mut next = TABS.iter().cycle().skip(at + 1).filter(|(tab, _)| has_sql || *tab != Tab::Sql);
            next.next().map(|(tab, _)| *tab)
        }
    };
    app.settings.lower_open = true;
}

pub(crate) fn show(app: &mut App, ui: &mut Ui, rect: Rect, whole: Rect) {
    handle(app, ui, Rect::from_min_size(rect.min, vec2(rect.width(), ROW)), whole);
    let panes = match app.settings.side {
        None => vec![(Pane::First, rect)],
        Some(_) => {
            let middle = (rect.left() + rect.width() * app.settings.split).round();
            divider(app, ui, rect, middle);
            let left = Rect::from_min_max(rect.min, pos2(middle - 8.0, rect.bottom()));
            let right = Rect::from_min_max(pos2(middle + 8.0, rect.top()), rect.max);
            vec![(Pane::First, left), (Pane::Second, right)]
        }
    };
    // What is chosen is known before anything is drawn, so that no view is drawn twice.
    for &(pane, rect) in &panes {
        tabs(app, ui, Rect::from_min_size(rect.min, vec2(rect.width(), ROW)), pane);
    }
    for (pane, rect) in panes {
        if pane.is_open(app) && rect.height() > ROW + LEAST_BODY {
            body(app, ui, Rect::from_min_max(pos2(rect.left(), rect.top() + ROW + 4.0), rect.max), pane);
        }
    }
}

fn body(app: &mut App, ui: &mut Ui, body: Rect, pane: Pane) {
    let tab = pane.tab(app);
    let mut ui = ui.new_child(UiBuilder::new().id_salt(("lower", tab)).max_rect(body));
    ui.set_clip_rect(body.expand(2.0).intersect(ui.clip_rect()));
    match tab {
        Tab::Segments => segments::show(app, &mut ui, body),
        Tab::State => state::show(app, &mut ui, body),
        Tab::Flame => flame::show(app, &mut ui, body),
        Tab::Tree => tree::show(app, &mut ui),
        Tab::Lifetimes => lifetimes::show(app, &mut ui, body),
        Tab::Tables => tables::show(app, &mut ui),
        Tab::Insights => insights::show(app, &mut ui),
        Tab::Compare => compare::show(app, &mut ui, body),
        Tab::WhatIf => whatif::show(app, &mut ui, body),
        Tab::Settings => settings::show(app, &mut ui),
        Tab::Events => events::show(app, &mut ui),
        Tab::Breakdown => breakdown::show(app, &mut ui),
        Tab::Sql => sql::show(app, &mut ui, body),
    }
}

/// The line between the panes.
fn divider(app: &mut App, ui: &Ui, rect: Rect, middle: f32) {
    let line = Rect::from_x_y_ranges(middle - 4.0..=middle + 4.0, rect.top() + 4.0..=rect.bottom());
    let response = ui.interact(line, Id::unique("divider"), Sense::drag());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Splitter, true, "Between the two views"));
    if response.hovered() || response.dragged() {
        ui.ctx().set_cursor_icon(CursorIcon::ResizeHorizontal);
    }
    if response.dragged() {
        let moved = response.drag_delta().x / rect.width().max(1.0);
        app.settings.split = (app.settings.split + moved).clamp(0.2, 0.8);
    }
    let palette = app.palette();
    let stroke = if response.dragged() { egui::Stroke::new(1.0, palette.accent) } else { palette.hairline() };
    ui.painter().vline(middle.round() + 0.5, rect.y_range(), stroke);
}

/// The line above the tabs moves the border between the halves.
fn handle(app: &mut App, ui: &Ui, row: Rect, whole: Rect) {
    let palette = app.palette();
    let line = Rect::from_x_y_ranges(row.x_range(), row.top() - 4.0..=row.top() + 3.0);
    let response = ui.interact(line, Id::unique("border"), Sense::drag());
    response.widget_info(|| {
        egui::WidgetInfo::labeled(egui::Role::Splitter, true, "Between the chart and the views")
    });
    if response.hovered() || response.dragged() {
        ui.ctx().set_cursor_icon(CursorIcon::ResizeVertical);
    }
    if response.dragged() {
        app.settings.lower = (app.settings.lower - response.drag_delta().y / whole.height()).clamp(0.12, 0.8);
    }
    let stroke = if response.dragged() { egui::Stroke::new(1.0, palette.accent) } else { palette.hairline() };
    ui.painter().hline(row.x_range(), row.top() + 0.5, stroke);
}

fn tabs(app: &mut App, ui: &mut Ui, row: Rect, pane: Pane) {
    let palette = app.palette();
    let insights = insights::count(app);
    let has_sql = has_sql(app);
    let tabs = TABS.into_iter().filter(|(tab, _)| has_sql || *tab != Tab::Sql);
    let names = tabs.map(|(tab, name)| match tab {
        Tab::Insights if insights > 0 => (tab, format!("{name} {insights}")),
        _ => (tab, name.to_owned()),
    });
    buttons(app, ui, row, pane);
    let width = |name: &str| {
        ui.painter().layout_no_wrap(name.to_owned(), theme::strong(), palette.text).size().x + 17.0
    };
    let (names, hidden) = that_fit(names.collect(), pane.tab(app), row.width() - BUTTONS, width);
    let mut left = row.left();
    for (tab, name) in names {
        let on = pane.tab(app) == tab && app.settings.lower_open;
        let font = if on { theme::strong() } else { theme::body() };
        let rect = Rect::from_min_size(pos2(left, row.top() + 1.0), vec2(width(&name), ROW - 2.0));
        left = rect.right();
        let response = ui.interact(rect, Id::unique(("tab", pane, tab)), Sense::click());
        response.widget_info(|| egui::WidgetInfo::selected(egui::Role::Tab, true, on, &name));
        let color = if on || response.hovered() { palette.text } else { palette.dim };
        ui.painter().text(rect.center(), Align2::CENTER_CENTER, &name, font, color);
        if on {
            let mark = Rect::from_min_size(
                pos2(rect.left() + 8.0, rect.bottom() - 1.0),
                vec2(rect.width() - 16.0, 2.0),
            );
            ui.painter().rect_filled(mark, 1.0, palette.accent);
        }
        if response.clicked() {
            pane.choose(app, tab);
        }
        response.context_menu(|ui| {
            if ui.button("Open in the second pane").clicked() {
                app.settings.side = app.settings.side.or(Some(app.settings.tab));
                Pane::Second.choose(app, tab);
            }
        });
    }
    if !hidden.is_empty() {
        more(app, ui, left + 4.0, row, pane, &hidden);
    }
}

/// A tab as it is called.
type Named = (Tab, String);

/// As many tabs as there is room for, always with the chosen one; and the others.
fn that_fit(
    names: Vec<Named>,
    chosen: Tab,
    room: f32,
    width: impl Fn(&str) -> f32,
) -> (Vec<Named>, Vec<Named>) {
    if names.iter().map(|(_, name)| width(name)).sum::<f32>() <= room {
        return (names, Vec::new());
    }
    let kept = names.iter().find(|(tab, _)| *tab == chosen).map_or(0.0, |(_, name)| width(name));
    let mut used = MORE + kept;
    let mut is_full = false;
    names.into_iter().partition(|(tab, name)| {
        if *tab == chosen {
            return true;
        }
        used += width(name);
        is_full |= used > room;
        !is_full
    })
}

/// The tabs that have no room, at the end of the row.
fn more(app: &mut App, ui: &mut Ui, left: f32, row: Rect, pane: Pane, hidden: &[Named]) {
    let area = Rect::from_min_size(pos2(left, row.top() + 4.0), vec2(MORE, ROW - 8.0));
    let mut ui = ui.new_child(UiBuilder::new().id_salt(("tabs", pane)).max_rect(area));
    ui.menu_button("more ▾", |ui| {
        for (tab, name) in hidden {
            if ui.button(name).clicked() {
                pane.choose(app, *tab);
                ui.close();
            }
        }
    });
}

/// What can be done with a pane, at the end of its row.
fn buttons(app: &mut App, ui: &mut Ui, row: Rect, pane: Pane) {
    let area = Rect::from_min_max(pos2(row.right() - BUTTONS, row.top() + 4.0), row.max - vec2(0.0, 4.0));
    let layout = egui::Layout::right_to_left(egui::Align::Center);
    let mut ui = ui.new_child(UiBuilder::new().id_salt(("pane", pane)).max_rect(area).layout(layout));
    ui.spacing_mut().item_spacing.x = 4.0;
    let dim = app.palette().dim;
    let mut button = |text: &str, hint: &str| {
        ui.add(egui::Button::new(egui::RichText::new(text).color(dim)).frame(false))
            .on_hover_text(hint)
            .clicked()
    };
    match (pane, app.settings.side) {
        (Pane::Second, _) => {
            if button("×", "Close this pane") {
                app.settings.side = None;
            }
            if button("⇄", "Change places") {
                Pane::Second.choose(app, app.settings.tab);
            }
        }
        (Pane::First, side) => {
            let open = app.settings.lower_open;
            if side.is_none() && button(if open { "▾" } else { "▴" }, "Show or hide the lower views (Ctrl+J)")
            {
                app.settings.lower_open = !open;
            }
            if side.is_none()
                && row.width() >= SPLIT
                && button("split", "A second view beside this one (Ctrl+\\)")
            {
                toggle_side(app);
            }
        }
    }
}

/// A small switch in a row above a view.
pub(crate) fn choice<T: PartialEq + Copy>(ui: &mut Ui, current: &mut T, all: &[(T, &str)]) -> bool {
    let before = *current;
    // Not in a part of its own: that would not go on in the next row where a row wraps.
    let spacing = std::mem::replace(&mut ui.spacing_mut().item_spacing.x, 1.0);
    for (value, name) in all {
        if ui.selectable_label(*current == *value, *name).clicked() {
            *current = *value;
        }
    }
    ui.spacing_mut().item_spacing.x = spacing;
    *current != before
}

/// Dim words in the middle of an empty view.
pub(crate) fn nothing(app: &App, ui: &Ui, rect: Rect, text: &str) {
    centered(app, ui, rect, text, theme::body());
}

/// Words that wrap, in the middle of a view. Gives where they end.
fn centered(app: &App, ui: &Ui, rect: Rect, text: &str, font: egui::FontId) -> f32 {
    let dim = app.palette().dim;
    let mut job = egui::text::LayoutJob::simple(text.to_owned(), font, dim, rect.width());
    job.halign = egui::Align::Center;
    let galley = ui.painter().layout_job(job);
    let top = rect.center() - vec2(0.0, galley.size().y / 2.0);
    let bottom = top.y + galley.size().y;
    ui.painter().galley(top, galley, dim);
    bottom
}

/// Says that a file cannot tell something, in place of drawing zero.
pub(crate) fn not_in_file(app: &App, ui: &Ui, rect: Rect, what: &str, instead: &str) {
    let above = rect.translate(vec2(0.0, -10.0));
    let bottom = centered(app, ui, above, &format!("{what}: not in this file"), theme::body());
    // Lines of its own height from the middle of the first one on.
    let below = rect.translate(vec2(0.0, bottom + 12.0 - rect.center().y));
    centered(app, ui, below, instead, theme::small());
}
