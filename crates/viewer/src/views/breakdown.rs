//! Tables that answer one question each: modules, phases, steps, pools, fragmentation.

use egui::{Align2, Rect, RichText, ScrollArea, Sense, Ui, pos2, vec2};
use vramscope_analysis::pictures::Axis;
use vramscope_engine::{AskReport, Report, ReportOf, ReportRow};
use vramscope_format::fit_middle;

use crate::app::App;
use crate::requests::Slot;
use crate::theme;
use crate::views::lower::choice;
use crate::views::tree::ROW;

pub(crate) const ALL: [(ReportOf, &str); 5] = [
    (ReportOf::Modules, "modules"),
    (ReportOf::Phases, "phases"),
    (ReportOf::Steps, "steps"),
    (ReportOf::Pools, "pools"),
    (ReportOf::Fragmentation, "fragmentation"),
];

/// The least room of a name.
const NAME: f32 = 150.0;

/// What the tables keep.
#[derive(Default)]
pub(crate) struct Breakdown {
    pub(crate) what: ReportOf,
    /// The column that rows are sorted by, the greatest first; in their own order if `None`.
    sort: Option<usize>,
}

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let Some((of, _)) = app.device() else { return };
    let palette = app.palette();
    ui.horizontal_wrapped(|ui| {
        if choice(ui, &mut app.parts.breakdown.what, &ALL) {
            app.parts.breakdown.sort = None;
        }
    });
    let what = app.parts.breakdown.what;
    let at = match what {
        ReportOf::Modules | ReportOf::Pools => app.selection.cursor,
        // The others are about the whole recording.
        _ => vramscope_analysis::Moment::START,
    };
    let Some(answer) = app.requests.want(Slot::Report, AskReport { of, what, at }) else { return };
    if answer.request.what != what || answer.request.of != of {
        return;
    }
    let report = &*answer.value;
    let words = RichText::new(&report.heading).color(palette.dim);
    ui.add(egui::Label::new(words).wrap().selectable(true));
    if !report.rows.is_empty() {
        table(app, ui, report);
    }
}

/// How wide each column is: as its widest words; the last that do not fit are left out.
fn widths(report: &Report, room: f32) -> Vec<f32> {
    let letters = |text: &str| vramscope_format::width(text) as f32 * 6.7 + 18.0;
    let mut widths: Vec<f32> = report.columns.iter().map(|name| letters(name)).collect();
    for row in report.rows.iter().take(400) {
        for (width, (_, words)) in widths.iter_mut().zip(&row.cells) {
            *width = width.max(letters(words));
        }
    }
    let mut left = room - NAME;
    let fit = widths.iter().take_while(|width| {
        left -= **width;
        left >= 0.0
    });
    let fit = fit.count();
    widths.truncate(fit);
    widths
}

fn table(app: &mut App, ui: &mut Ui, report: &Report) {
    let palette = app.palette();
    let widths = widths(report, ui.available_width() - 16.0);
    let mut order: Vec<usize> = (0..report.rows.len()).collect();
    if let Some(column) = app.parts.breakdown.sort {
        let key = |row: &ReportRow| row.cells.get(column).map_or(0, |(value, _)| *value);
        order.sort_by_key(|&row| std::cmp::Reverse(key(&report.rows[row])));
    }
    ui.spacing_mut().item_spacing.y = 0.0;
    let (head, _) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
    let painter = ui.painter_at(head);
    let mut right = head.left();
    for (n, width) in widths.iter().enumerate() {
        right += width;
        let cell = Rect::from_x_y_ranges(right - width..=right, head.y_range());
        let response = ui.interact(cell, ui.scope_id().with(("column", n)), Sense::click());
        let on = app.parts.breakdown.sort == Some(n);
        let name = &report.columns[n];
        response.widget_info(|| egui::WidgetInfo::selected(egui::Role::ColumnHeader, true, on, name));
        let color = if on || response.hovered() { palette.text } else { palette.dim };
        let text = format!("{}{}", report.columns[n], if on { " ▾" } else { "" });
        painter.text(cell.right_center(), Align2::RIGHT_CENTER, text, theme::small(), color);
        if response.clicked() {
            app.parts.breakdown.sort = if on { None } else { Some(n) };
        }
    }
    let at = pos2(right + 14.0, head.center().y);
    painter.text(at, Align2::LEFT_CENTER, &report.name, theme::small(), palette.dim);
    painter.hline(head.x_range(), head.bottom() - 0.5, palette.hairline());
    let note = if report.note.is_empty() { 0.0 } else { 18.0 };
    let room = (ui.available_height() - note).max(ROW);
    let area = ScrollArea::vertical().id_salt("report").auto_shrink([false, false]).max_height(room);
    area.show_rows(ui, ROW, order.len(), |ui, rows| {
        for at in rows {
            if let Some(row) = order.get(at).and_then(|&at| report.rows.get(at)) {
                line(app, ui, row, &widths);
            }
        }
    });
    if note > 0.0 {
        let words = RichText::new(&report.note).font(theme::small()).color(palette.dim);
        ui.add(egui::Label::new(words).truncate());
    }
}

fn line(app: &mut App, ui: &mut Ui, row: &ReportRow, widths: &[f32]) {
    let palette = app.palette();
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
    let painter = ui.painter_at(rect);
    let words = || {
        let cells: Vec<&str> = row.cells.iter().map(|(_, words)| words.as_str()).collect();
        format!("{}, {}", row.name, cells.join(", "))
    };
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Row, true, words()));
    let alone = row.group.as_ref().is_some_and(|group| app.is_isolated(group));
    if alone || response.hovered() {
        painter.rect_filled(rect, 2.0, palette.raised);
    }
    let mut right = rect.left();
    for (n, (width, (_, words))) in widths.iter().zip(&row.cells).enumerate() {
        right += width;
        let color = if n == 0 { palette.text } else { palette.dim };
        painter.text(pos2(right, rect.center().y), Align2::RIGHT_CENTER, words, theme::tick(), color);
    }
    let left = right + 14.0;
    let bar = Rect::from_min_size(
        pos2(left, rect.bottom() - 3.0),
        vec2((rect.right() - left - 8.0).max(0.0) * row.share, 2.0),
    );
    painter.rect_filled(bar, 1.0, palette.accent.gamma_multiply(0.7));
    let left = left + row.depth as f32 * 12.0;
    let columns = theme::columns(&painter, &theme::mono(), rect.right() - left - 4.0);
    let name = fit_middle(&row.name, 0, columns);
    let color = if alone { palette.select } else { palette.text };
    painter.text(pos2(left, rect.center().y - 1.0), Align2::LEFT_CENTER, name, theme::mono(), color);
    let action = match (&row.group, row.when) {
        (Some(_), _) => "Click to show it alone",
        (None, Some(_)) => "Click to go there",
        (None, None) => "",
    };
    let response = response.on_hover_text(format!("{}\n{action}", row.name));
    if !response.clicked() {
        return;
    }
    if let Some(at) = row.at {
        app.set_cursor(at);
    }
    if let Some(group) = &row.group {
        app.isolate(group.clone(), &row.name);
    } else if let Some((from, to)) = row.when.filter(|(from, to)| from < to) {
        match app.settings.axis {
            Axis::Events => app.show_stretch(f64::from(from.0), f64::from(to.0)),
            Axis::Time => app.show_stretch(row.time.0 as f64, row.time.1 as f64),
        }
    }
}
