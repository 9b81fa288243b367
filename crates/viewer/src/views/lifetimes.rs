//! Lifetimes as bars, grouped: who lives how long, and together with whom.

use egui::{Align2, Rect, RichText, ScrollArea, Sense, Ui, pos2, vec2};
use vramscope_analysis::pictures::Axis;
use vramscope_analysis::query::FILTER_GRAMMAR;
use vramscope_analysis::{GroupBy, Moment};
use vramscope_engine::{AskLifetimes, LifetimeRow, Owner, Scope, Summary, Which};
use vramscope_format::{clock, duration, size};

use crate::app::App;
use crate::color;
use crate::requests::Slot;
use crate::theme;
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
    let request = AskLifetimes { of, which, group, first: part.first, count: AROUND };
    let Some(answer) = app.requests.want(Slot::Lifetimes, request) else { return };
    let page = &*answer.value;
    if let Some(problem) = &page.problem {
        ui.label(RichText::new(problem).color(palette.dim));
    }
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
                    LifetimeRow::Group { label, sum } => {
                        let text = format!("{label}   {}", sum.words());
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
                        let bar = Bar { owner, released: *released, time: *time, place };
                        bar.show(app, ui, (rect, plot), &response, &summary);
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
        let to = to.unwrap_or_else(|| summary.length(view.axis));
        let left = view.screen_x(plot, from).max(plot.left());
        let right = view.screen_x(plot, to).min(plot.right());
        let painter = painter.with_clip_rect(plot.intersect(ui.clip_rect()));
        let shape = Rect::from_min_max(
            pos2(left, rect.top() + 2.0),
            pos2(right.max(left + 1.5), rect.bottom() - 2.0),
        );
        painter.rect_filled(shape, 1.5, color::of_line(owner.line, owner.alloc.0));
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
