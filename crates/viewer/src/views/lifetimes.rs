//! Lifetimes as bars, grouped: who lives how long, and together with whom.

use egui::{Align2, Rect, RichText, ScrollArea, Sense, Ui, pos2, vec2};
use vramscope_engine::{Axis, Filter, GroupBy, LifetimeRow, Owner, Request, Response, Scope};
use vramscope_format::{bytes, count};

use crate::app::App;
use crate::color;
use crate::desk::Slot;
use crate::theme;
use crate::view::duration;
use crate::views::lower::choice;
use crate::views::tables::{selected_life, shown_moments};
use crate::views::{GUTTER, tooltip};

const ROW: f32 = 15.0;
const AROUND: u32 = 300;

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
}

pub(crate) fn show(app: &mut App, ui: &mut Ui, body: Rect) {
    let Some((of, summary)) = app.device() else { return };
    let palette = app.palette();
    ui.horizontal(|ui| {
        let part = &mut app.parts.lifetimes;
        ui.label(RichText::new("by").color(palette.dim));
        let groups = [
            (GroupBy::Line, "line"),
            (GroupBy::Operator, "operator"),
            (GroupBy::Stack, "stack"),
            (GroupBy::Category, "category"),
            (GroupBy::Phase, "phase"),
        ];
        let mut group = group_of(part.group, summary.told.stacks);
        let mut changed = choice(ui, &mut group, &groups);
        if changed {
            part.group = Some(group);
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
        changed |= ui.add(edit).changed();
        if changed {
            part.first = 0;
        }
    });
    let part = &app.parts.lifetimes;
    let shown = || shown_moments(app).map_or(Scope::All, |(from, to)| Scope::Overlap(from, to));
    let scope = match part.when {
        When::Shown => shown(),
        When::Cursor => Scope::LiveAt(app.cursor),
        When::Selected => selected_life(app).map_or_else(shown, |(from, to)| Scope::Overlap(from, to)),
    };
    let group = group_of(part.group, summary.told.stacks);
    let filter = Filter { scope, text: part.text.trim().to_owned(), stack: None };
    let request = Request::Lifetimes { of, filter, group, first: part.first, count: AROUND };
    let Some(answer) = app.desk.want(Slot::Lifetimes, request) else { return };
    let Response::Lifetimes(page) = &*answer.response else { return };
    ui.spacing_mut().item_spacing.y = 0.0;
    let mut seen = 0..0;
    let plot_x = body.left() + GUTTER..=body.right();
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
                    LifetimeRow::Group { label, count: n, bytes: sum } => {
                        let s = if *n == 1 { "" } else { "s" };
                        let text = format!("{label}   {} allocation{s}, {}", count(*n), bytes(*sum as i64));
                        ui.painter().hline(rect.x_range(), rect.top(), palette.hairline());
                        ui.painter().text(
                            rect.left_center(),
                            Align2::LEFT_CENTER,
                            text,
                            theme::small(),
                            palette.text,
                        );
                    }
                    LifetimeRow::Bar { owner, released, time, place } => {
                        bar(
                            app,
                            ui,
                            rect,
                            plot,
                            &response,
                            owner,
                            *released,
                            *time,
                            place,
                            summary.events,
                            summary.time,
                        );
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

#[expect(clippy::too_many_arguments, reason = "what a bar shows")]
fn bar(
    app: &mut App,
    ui: &Ui,
    rect: Rect,
    plot: Rect,
    response: &egui::Response,
    owner: &Owner,
    released: u32,
    time: (i64, i64),
    place: &str,
    events: u32,
    clock: Option<(i64, i64)>,
) {
    let palette = app.palette();
    let painter = ui.painter_at(rect);
    painter.text(
        pos2(plot.left() - 8.0, rect.center().y),
        Align2::RIGHT_CENTER,
        bytes(owner.requested as i64),
        theme::tick(),
        palette.dim,
    );
    let (from, to) = match app.view.axis {
        Axis::Events => (f64::from(owner.opened), f64::from(owner.closed.min(events + 1))),
        Axis::Time => (time.0 as f64, time.1 as f64),
    };
    let (left, right) =
        (app.view.screen_x(plot, from).max(plot.left()), app.view.screen_x(plot, to).min(plot.right()));
    let painter = painter.with_clip_rect(plot.intersect(ui.clip_rect()));
    let shape =
        Rect::from_min_max(pos2(left, rect.top() + 2.0), pos2(right.max(left + 1.5), rect.bottom() - 2.0));
    let fill = color::of_line(owner.line, owner.alloc);
    painter.rect_filled(shape, 1.5, fill);
    if app.view.axis == Axis::Events && released < owner.closed {
        let gone = app.view.screen_x(plot, f64::from(released)).max(left);
        let waits = Rect::from_min_max(pos2(gone, shape.top()), shape.max);
        painter.rect_filled(waits, 0.0, palette.ground.gamma_multiply(0.5));
    }
    if app.selected == Some(owner.alloc) {
        painter.rect_stroke(
            shape.expand(1.0),
            1.5,
            egui::Stroke::new(1.5, palette.select),
            egui::StrokeKind::Outside,
        );
    }
    if let Some(at) = response.hover_pos() {
        app.hovered = Some(owner.alloc);
        let when = clock.map_or_else(String::new, |(origin, _)| {
            format!(
                "{} to {}",
                vramscope_format::clock(origin + time.0),
                vramscope_format::clock(origin + time.1)
            )
        });
        let lived = if clock.is_some() { duration(time.1 - time.0) } else { String::new() };
        let lines =
            [(bytes(owner.requested as i64), true), (place.to_owned(), true), (when, false), (lived, false)];
        tooltip::card(app, ui, at, &lines);
    }
    if response.clicked() {
        app.selected = Some(owner.alloc);
    }
}
