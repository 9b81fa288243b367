//! What is here: the moment at the cursor, and what is live then by line and category; or what a marked range did.

use egui::{RichText, ScrollArea, Ui};
use vramscope_analysis::Counter;
use vramscope_engine::color::ColorBy;
use vramscope_engine::{AskHere, AskMoment, AskRange, By, RangeChange, Which};
use vramscope_format::{Units, bytes, change, clock, plural, share, since, size};

use crate::app::App;
use crate::requests::Slot;
use crate::theme;
use crate::views::detail::{pair, share_bar};
use crate::views::legend::Entry;
use crate::views::ranks::heading;
use crate::views::{Tab, range};

/// Lines that are worth listing.
const MOST: usize = 12;

impl App {
    /// What happened in the marked range, once it is known.
    pub(crate) fn marked_change(&self) -> Option<std::sync::Arc<RangeChange>> {
        let range = self.marked()?;
        let answer = self.requests.look::<AskRange>(Slot::Range)?;
        (answer.request.x == range.x && answer.request.axis == range.axis).then_some(answer.value)
    }
}

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    ScrollArea::vertical().id_salt("here").auto_shrink([false, false]).show(ui, |ui| {
        ui.set_width(ui.available_width());
        match app.marked() {
            Some(_) => marked(app, ui),
            None => moment(app, ui),
        }
    });
}

/// The moment at the cursor.
fn moment(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    let Some((_, summary)) = app.device() else { return };
    heading(app, ui, "AT THE CURSOR");
    let Some(answer) = app.requests.look::<AskMoment>(Slot::Cursor) else { return };
    let (info, counter) = (answer.value, app.settings.counter);
    ui.label(RichText::new(bytes(info.counters[counter])).font(theme::big()).color(palette.text));
    let words = format!("{} {}", summary.name_of(counter), info.at.words());
    ui.add(egui::Label::new(RichText::new(words).color(palette.dim)).wrap());
    ui.add_space(6.0);
    for which in Counter::ALL.into_iter().filter(|which| *which != counter) {
        if summary.tells(which) {
            let value = info.counters[which];
            pair(app, ui, which.name(), &bytes(value), "");
        } else {
            pair(app, ui, which.name(), "not in this file", "");
        }
    }
    headroom(app, ui, info.counters.reserved);
    pair(app, ui, "live", &plural(info.live, "allocation"), "");
    if !info.event.is_empty() {
        pair(app, ui, "event", &info.event, "");
    }
    if !info.phases.is_empty() {
        pair(app, ui, "phase", &info.phases.join(" › "), "");
    }
    if let (Some(time), Some((origin, _))) = (info.time, summary.time) {
        pair(app, ui, "time", &since(time.saturating_sub(origin), 3), &clock(time));
    }
    live(app, ui);
    if !info.gap.is_empty() && summary.has.reserved {
        ui.add_space(10.0);
        heading(app, ui, "RESERVED BUT NOT REQUESTED");
        let total = info.counters.reserved.saturating_sub(info.counters.requested).max(0);
        ui.label(RichText::new(bytes(total)).font(theme::strong()).color(palette.text))
            .on_hover_text(Units::Bytes.bytes(total));
        for (name, part) in &info.gap {
            share_bar(ui, name, *part, total.max(1) as u64, &palette);
        }
    }
    ui.add_space(12.0);
    let hint =
        "Click an allocation for its stack, its life and its neighbors. Drag along the axis to mark a range.";
    ui.add(egui::Label::new(RichText::new(hint).color(palette.dim)).wrap());
}

/// What the device has left.
fn headroom(app: &App, ui: &mut Ui, reserved: i64) {
    let Some(capacity) = app.capacity() else { return };
    let free = capacity.saturating_sub(u64::try_from(reserved).unwrap_or(0));
    let of = format!("{} of {}", share(free, capacity), size(capacity));
    pair(app, ui, "headroom", &size(free), &of);
}

/// What is live, by line, and by category where the legend does not say that.
fn live(app: &mut App, ui: &mut Ui) {
    let Some((of, _)) = app.device() else { return };
    let mut lists = vec![(By::Line, Slot::HereLines, "TOP LINES HERE")];
    if app.color() != ColorBy::Category {
        lists.insert(0, (By::Category, Slot::HereCategories, "CATEGORIES HERE"));
    }
    for (by, slot, title) in lists {
        let at = app.selection.cursor;
        let ask = AskHere { of, at, counter: app.settings.counter, by, only: Which::default() };
        let Some(answer) = app.requests.want(slot, ask) else { continue };
        let here = answer.value;
        if here.rows.is_empty() {
            continue;
        }
        ui.add_space(10.0);
        heading(app, ui, title);
        ui.scope(|ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            for row in here.rows.iter().take(MOST) {
                let entry = Entry {
                    group: row.group.as_ref(),
                    name: &row.name,
                    bytes: row.sum.bytes,
                    all: here.all.bytes,
                };
                if entry.show(app, ui).clicked()
                    && let Some(group) = &row.group
                {
                    app.isolate(group.clone(), &row.name);
                }
            }
        });
    }
}

/// What the marked range did.
fn marked(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    let (Some((of, _)), Some(marked)) = (app.device(), app.marked()) else { return };
    app.requests.want(Slot::Range, AskRange { of, axis: marked.axis, x: marked.x });
    ui.horizontal(|ui| {
        heading(app, ui, "MARKED RANGE");
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            if ui.button("×").on_hover_text("Remove the range (Esc)").clicked() {
                app.selection.range = None;
            }
        });
    });
    let Some(span) = app.marked_change() else { return };
    ui.label(RichText::new(change(span.net)).font(theme::big()).color(palette.text));
    ui.label(RichText::new(range::length(marked.axis, marked.x)).color(palette.dim));
    ui.add_space(6.0);
    pair(app, ui, "from", &span.from.words(), "");
    pair(app, ui, "to", &span.to.words(), "");
    pair(app, ui, "allocated", &span.allocated.words(), "");
    pair(app, ui, "freed", &span.freed.words(), "");
    pair(app, ui, "peak", &bytes(span.peak.bytes), &span.peak.at.words());
    ui.add_space(4.0);
    ui.horizontal_wrapped(|ui| {
        if ui.button("Zoom to it").clicked() {
            app.show_stretch(marked.x.0, marked.x.1);
        }
        if ui.button("Compare its ends").on_hover_text("What grew, as a tree").clicked() {
            app.compare_moments(span.from, span.to);
            app.open_tab(Tab::Compare);
        }
        if ui.button("Go to its peak").clicked() {
            app.set_cursor(span.peak.at);
        }
    });
    ui.add_space(10.0);
    heading(app, ui, "CHANGE BY LINE");
    let most = span.lines.iter().map(|line| line.net.unsigned_abs()).max().unwrap_or(1);
    for line in &span.lines {
        if grown(app, ui, &line.place, line.net, most) {
            app.isolate(line.group.clone(), &line.place);
        }
    }
}

/// A line with how far it grew. Says whether it was clicked.
fn grown(app: &App, ui: &mut Ui, place: &str, net: i64, most: u64) -> bool {
    let palette = app.palette();
    let size = egui::vec2(ui.available_width(), 24.0);
    let (rect, response) = ui.allocate_exact_size(size, egui::Sense::click());
    let words = || format!("{place}, {}", change(net));
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, words()));
    let painter = ui.painter_at(rect);
    if response.hovered() {
        painter.rect_filled(rect, 3.0, palette.raised);
    }
    let color = if net > 0 { palette.danger } else { palette.fine };
    let amount = painter.layout_no_wrap(change(net), theme::tick(), color);
    let right = rect.right() - 4.0 - amount.size().x;
    let middle = rect.center().y - 3.0;
    painter.galley(egui::pos2(right, middle - amount.size().y / 2.0), amount, color);
    let columns = theme::columns(&painter, &theme::tick(), right - 10.0 - rect.left());
    let text = vramscope_format::elide_place(place, columns);
    let at = egui::pos2(rect.left() + 4.0, middle);
    painter.text(at, egui::Align2::LEFT_CENTER, text, theme::tick(), palette.text);
    let wide = (rect.width() - 8.0) * (net.unsigned_abs() as f64 / most.max(1) as f64) as f32;
    let bar = egui::Rect::from_min_size(rect.left_bottom() + egui::vec2(4.0, -4.0), egui::vec2(wide, 2.0));
    painter.rect_filled(bar, 1.0, color.gamma_multiply(0.8));
    response.on_hover_text(format!("{place}\nClick to show it alone")).clicked()
}
