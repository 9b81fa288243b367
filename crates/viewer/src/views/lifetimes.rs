//! Lifetimes, grouped: which groups take memory for how long, and their members as bars.
//!
//! Groups are folded, the most bytes × lifetime first, each with a strip of what it takes when, on the axis of the
//! timeline above.

use std::collections::BTreeSet;

use egui::{Align2, Rect, RichText, Role, ScrollArea, Sense, Ui, WidgetInfo, pos2, vec2};
use vramscope_analysis::pictures::Axis;
use vramscope_analysis::query::FILTER_GRAMMAR;
use vramscope_analysis::{GroupBy, Moment};
use vramscope_engine::{AskLifetimes, Group, LifetimeRow, Owner, Scope, Stretch, Summary, Which};
use vramscope_format::{clock, duration, elide_place, fit, size};

use crate::app::App;
use crate::color;
use crate::requests::Slot;
use crate::theme;
use crate::views::lower::choice;
use crate::views::tables::{selected_life, shown_moments};
use crate::views::{GUTTER, tooltip};

const ROW: f32 = 16.0;
/// Rows that are requested at once.
const AROUND: u32 = 160;
/// Points that a column of a strip is wide.
const COLUMN: f32 = 2.0;
/// Room for what can be done with a group, at the end of its row.
const ACTIONS: f32 = 76.0;

/// Which allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum When {
    #[default]
    Shown,
    Cursor,
    Selected,
}

fn group_of(chosen: Option<GroupBy>, stacks: bool) -> GroupBy {
    chosen.unwrap_or(if stacks { GroupBy::Line } else { GroupBy::Operator })
}

/// What the chart keeps.
#[derive(Default)]
pub(crate) struct Lifetimes {
    /// What was chosen; operators where there are no lines.
    group: Option<GroupBy>,
    when: When,
    text: String,
    first: u32,
    /// The groups whose members are listed.
    open: BTreeSet<u64>,
}

pub(crate) fn show(app: &mut App, ui: &mut Ui, body: Rect) {
    let Some((of, summary)) = app.device() else { return };
    let palette = app.palette();
    ui.horizontal_wrapped(|ui| {
        let part = &mut app.parts.lifetimes;
        ui.label(RichText::new("by").color(palette.dim));
        let groups = [
            (GroupBy::Line, "line"),
            (GroupBy::Operator, "operator"),
            (GroupBy::Stack, "stack"),
            (GroupBy::Category, "category"),
            (GroupBy::Phase, "phase"),
        ];
        let mut group = group_of(part.group, summary.has.stacks);
        let mut changed = choice(ui, &mut group, &groups);
        if changed {
            part.group = Some(group);
            part.open.clear();
        }
        ui.add_space(8.0);
        let whens = [
            (When::Shown, "in the view"),
            (When::Cursor, "live at the cursor"),
            (When::Selected, "with the selection"),
        ];
        changed |= choice(ui, &mut part.when, &whens);
        ui.add_space(8.0);
        let edit = egui::TextEdit::singleline(&mut part.text).hint_text("filter").desired_width(140.0);
        changed |= ui.add(edit).on_hover_text(FILTER_GRAMMAR).changed();
        if !part.open.is_empty() && ui.button("fold all").clicked() {
            part.open.clear();
            changed = true;
        }
        if changed {
            part.first = 0;
        }
    });
    let part = &app.parts.lifetimes;
    let shown = || shown_moments(app).map_or(Scope::All, |(from, to)| Scope::Overlap(from, to));
    let scope = match part.when {
        When::Shown => shown(),
        When::Cursor => Scope::LiveAt(app.selection.cursor),
        When::Selected => selected_life(app).map_or_else(shown, |(from, to)| Scope::Overlap(from, to)),
    };
    let group = group_of(part.group, summary.has.stacks);
    let which = Which { scope, text: part.text.trim().to_owned(), group: None };
    let plot_x = body.left() + GUTTER..=body.right();
    let wide = plot_x.end() - plot_x.start();
    let stretch =
        Stretch { axis: app.camera.view.axis, x: app.camera.view.x, width: (wide / COLUMN).max(1.0) as u32 };
    let open = part.open.iter().copied().collect();
    let request = AskLifetimes { of, which, group, open, stretch, first: part.first, count: AROUND };
    let Some(answer) = app.requests.want(Slot::Lifetimes, request) else { return };
    let page = &*answer.value;
    if let Some(problem) = &page.problem {
        ui.label(RichText::new(problem).color(palette.dim));
    }
    ui.spacing_mut().item_spacing.y = 0.0;
    let mut seen = 0..0;
    // What the answer is of: a strip moves with its stretch until there is a new one.
    let answered = answer.request.stretch;
    ScrollArea::vertical().auto_shrink([false, false]).show_rows(
        ui,
        ROW,
        page.total as usize,
        |ui, range| {
            seen = range.clone();
            for at in range {
                let (rect, response) =
                    ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
                let Some(row) = (at as u32).checked_sub(page.first).and_then(|at| page.rows.get(at as usize))
                else {
                    continue;
                };
                let plot = Rect::from_x_y_ranges(plot_x.clone(), rect.y_range());
                match row {
                    LifetimeRow::Group { .. } => head(app, ui, rect, &response, row),
                    LifetimeRow::Strip { levels, most, group } => {
                        let strip = Strip { levels, most: *most, group: group.as_ref(), stretch: answered };
                        strip.show(app, ui, (rect, plot));
                        let words = || format!("at most {}", size(*most));
                        response.widget_info(|| WidgetInfo::labeled(Role::Image, true, words()));
                    }
                    LifetimeRow::Bar { owner, released, time, place } => {
                        let bar = Bar { owner, released: *released, time: *time, place };
                        bar.show(app, ui, (rect, plot), &response, &summary);
                        let words = || format!("{}, {place}", size(owner.requested));
                        response.widget_info(|| WidgetInfo::labeled(Role::Row, true, words()));
                    }
                }
            }
        },
    );
    let (first, last) = (page.first as usize, page.first as usize + page.rows.len());
    if seen.start < first || seen.end > last {
        app.parts.lifetimes.first = (seen.start as u32).saturating_sub(AROUND / 4);
        ui.ctx().request_repaint();
    }
}

/// The name of a group, how much it is, and what can be done with it. A click lists its members.
fn head(app: &mut App, ui: &mut Ui, rect: Rect, response: &egui::Response, row: &LifetimeRow) {
    let LifetimeRow::Group { key, label, sum, weight, open, group, life, time } = row else { return };
    let palette = app.palette();
    let painter = ui.painter_at(rect);
    if response.hovered() {
        painter.rect_filled(rect, 2.0, palette.raised);
    }
    painter.hline(rect.x_range(), rect.top(), palette.hairline());
    let font = theme::tick();
    let amounts = format!("{}, {} × events", sum.words(), size(*weight));
    let room = theme::columns(&painter, &font, rect.width() - ACTIONS - 40.0);
    let name = elide_place(label, room.saturating_sub(amounts.chars().count()).max(12));
    let fold = if *open { "▾" } else { "▸" };
    let at = painter.text(rect.left_center(), Align2::LEFT_CENTER, fold, font.clone(), palette.dim);
    let at = pos2(at.left() + 14.0, rect.center().y);
    let at = painter.text(at, Align2::LEFT_CENTER, name, font.clone(), palette.text);
    let after = pos2(at.right() + 16.0, rect.center().y);
    let room = theme::columns(&painter, &font, rect.right() - ACTIONS - after.x);
    painter.text(after, Align2::LEFT_CENTER, fit(&amounts, room), font, palette.dim);
    let action = |ui: &mut Ui, right: f32, text: &str, hint: &str| {
        let place = Rect::from_min_max(pos2(right - 36.0, rect.top()), pos2(right, rect.bottom()));
        let button = egui::Button::new(RichText::new(text).font(theme::small()).color(palette.accent));
        ui.put(place, button.frame(false).min_size(vec2(0.0, 0.0))).on_hover_text(hint).clicked()
    };
    if action(ui, rect.right(), "fit", "Shows all of the time that this group lives") {
        let last = app.device().map_or(0.0, |(_, summary)| summary.length(app.camera.view.axis));
        let (from, to) = match app.camera.view.axis {
            Axis::Events => (f64::from(life.0.0), life.1.map(|at| f64::from(at.0))),
            Axis::Time => (time.0 as f64, time.1.map(|time| time as f64)),
        };
        app.show_stretch(from, to.unwrap_or(last));
    } else if let Some(group) = group
        && action(
            ui,
            rect.right() - 38.0,
            "alone",
            "Shows this group alone in the timeline, and all memory again",
        )
    {
        app.isolate(group.clone(), label);
    } else if response.clicked() {
        let opened = &mut app.parts.lifetimes.open;
        if !opened.remove(key) {
            opened.insert(*key);
        }
    }
    response.widget_info(|| WidgetInfo::selected(Role::Button, true, *open, format!("{label}, {amounts}")));
}

/// What a group takes when, the highest of it as high as the row.
struct Strip<'a> {
    levels: &'a [u8],
    most: u64,
    group: Option<&'a Group>,
    stretch: Stretch,
}

impl Strip<'_> {
    fn show(&self, app: &App, ui: &Ui, (rect, plot): (Rect, Rect)) {
        let (palette, view) = (app.palette(), app.camera.view);
        let at = pos2(plot.left() - 8.0, rect.center().y);
        let painter = ui.painter_at(rect);
        painter.text(at, Align2::RIGHT_CENTER, size(self.most), theme::tick(), palette.dim);
        if self.stretch.axis != view.axis {
            return;
        }
        let fill = self.group.map_or(palette.dim, |group| palette.of_group(group));
        let (from, wide) = (self.stretch.x.0, self.stretch.x.1 - self.stretch.x.0);
        let column = |n: usize| {
            let x = from + wide * n as f64 / self.levels.len().max(1) as f64;
            view.screen_x(plot, x).clamp(plot.left(), plot.right())
        };
        let (bottom, high) = (rect.bottom() - 1.0, rect.height() - 3.0);
        let mut mesh = egui::Mesh::default();
        let mut n = 0;
        for run in self.levels.chunk_by(|a, b| a == b) {
            let level = f32::from(run[0]) / 255.0;
            if level > 0.0 {
                let top = bottom - (high * level).max(1.0);
                let part = Rect::from_min_max(pos2(column(n), top), pos2(column(n + run.len()), bottom));
                mesh.add_colored_rect(part, fill);
            }
            n += run.len();
        }
        let painter = painter.with_clip_rect(plot.intersect(ui.clip_rect()));
        painter.hline(plot.x_range(), bottom, palette.hairline());
        painter.add(egui::Shape::mesh(mesh));
    }
}

/// One allocation.
struct Bar<'a> {
    owner: &'a Owner,
    released: Option<Moment>,
    time: (i64, Option<i64>),
    place: &'a str,
}

impl Bar<'_> {
    fn show(
        &self,
        app: &mut App,
        ui: &Ui,
        (rect, plot): (Rect, Rect),
        response: &egui::Response,
        summary: &Summary,
    ) {
        let (palette, view, owner) = (app.palette(), app.camera.view, self.owner);
        let painter = ui.painter_at(rect);
        let at = pos2(plot.left() - 8.0, rect.center().y);
        painter.text(at, Align2::RIGHT_CENTER, size(owner.requested), theme::tick(), palette.dim);
        let (from, to) = match view.axis {
            Axis::Events => (f64::from(owner.opened.0), owner.closed.map(|at| f64::from(at.0))),
            Axis::Time => (self.time.0 as f64, self.time.1.map(|time| time as f64)),
        };
        let to_known = to;
        let to = to.unwrap_or_else(|| summary.length(view.axis));
        let left = view.screen_x(plot, from).max(plot.left());
        let right = view.screen_x(plot, to).min(plot.right());
        let painter = painter.with_clip_rect(plot.intersect(ui.clip_rect()));
        let shape = Rect::from_min_max(
            pos2(left, rect.top() + 2.0),
            pos2(right.max(left + 1.5), rect.bottom() - 2.0),
        );
        let fill = color::rgb(app.coloring(None, summary.last()).of(owner));
        painter.rect_filled(shape, 1.5, fill);
        if to_known.is_none() {
            // It has no end: what is drawn runs on.
            let tip = pos2((shape.right() + 5.0).min(plot.right()), shape.center().y);
            let arrow = vec![shape.right_top(), tip, shape.right_bottom()];
            painter.add(egui::Shape::convex_polygon(arrow, fill, egui::Stroke::NONE));
        }
        if let Some(released) =
            self.released.filter(|_| view.axis == Axis::Events && self.released != owner.closed)
        {
            let gone = view.screen_x(plot, f64::from(released.0)).max(left);
            let waits = Rect::from_min_max(pos2(gone, shape.top()), shape.max);
            painter.rect_filled(waits, 0.0, palette.ground.gamma_multiply(0.5));
        }
        if app.selection.alloc == Some(owner.alloc) {
            let stroke = egui::Stroke::new(1.5, palette.select);
            painter.rect_stroke(shape.expand(1.0), 1.5, stroke, egui::StrokeKind::Outside);
        }
        if let Some(at) = response.hover_pos() {
            app.selection.hovered = Some(owner.alloc);
            let (when, lived) = self.words(summary);
            let lines =
                [(size(owner.requested), true), (self.place.to_owned(), true), (when, false), (lived, false)];
            tooltip::card(app, ui, at, &lines);
        }
        if response.clicked() {
            app.selection.alloc = Some(owner.alloc);
        }
    }

    /// From when to when it lived, and how long.
    fn words(&self, summary: &Summary) -> (String, String) {
        let Some((origin, span)) = summary.time else { return (self.owner.life(), String::new()) };
        let (from, to) = self.time;
        let begins = clock(origin.saturating_add(from));
        match to {
            Some(to) => (
                format!("{begins} to {}", clock(origin.saturating_add(to))),
                duration(to.saturating_sub(from)),
            ),
            None => (
                format!("{begins}, live at the end"),
                format!("at least {}", duration(span.saturating_sub(from))),
            ),
        }
    }
}
