//! Two files or two moments side by side: what grew, as a tree.

use std::collections::HashSet;

use egui::{Align2, ComboBox, Rect, RichText, ScrollArea, Sense, Ui, pos2, vec2};
use vramscope_analysis::Moment;
use vramscope_engine::{AskDiff, DiffTree, DiffTreeNode};
use vramscope_format::{elide_place, signed, size};

use crate::app::App;
use crate::requests::Slot;
use crate::theme;
use crate::views::lower::nothing;
use crate::views::tree::{NAME, ROW, STEP};

/// What is compared.
#[derive(Default)]
pub(crate) struct Compare {
    /// Another device; the same one if `None`.
    pub(crate) other: Option<usize>,
    /// The moment before; the start if `None`.
    pub(crate) before: Option<Moment>,
    toggled: HashSet<Vec<u32>>,
}

pub(crate) fn show(app: &mut App, ui: &mut Ui, body: Rect) {
    let Some((of, _)) = app.device() else { return };
    let palette = app.palette();
    let other = app.parts.compare.other.filter(|&at| at != app.files.current).and_then(|at| {
        let device = app.files.devices.get(at)?;
        Some((at, device.source, device.summary.clone()?))
    });
    let before = match &other {
        // Two files at the peak of each, unless a moment was chosen.
        Some((_, source, summary)) => {
            (*source, app.parts.compare.before.unwrap_or(summary.peak(app.settings.counter).at))
        }
        None => (of, app.parts.compare.before.unwrap_or(Moment::START)),
    };
    let after = (of, app.selection.cursor);
    ui.horizontal_wrapped(|ui| {
        let label = ui.label(RichText::new("before").color(palette.dim));
        let name = other.as_ref().map_or("this recording".to_owned(), |(at, ..)| app.name_of(*at));
        let mut chosen = app.parts.compare.other;
        let combo = ComboBox::from_id_salt("other").width(150.0).selected_text(name).show_ui(ui, |ui| {
            ui.selectable_value(&mut chosen, None, "this recording");
            for (at, device) in app.files.devices.iter().enumerate() {
                if let Some(summary) = device.summary.as_ref().filter(|_| at != app.files.current) {
                    ui.selectable_value(&mut chosen, Some(at), format!("{} {}", device.name, summary.file));
                }
            }
        });
        combo.response.labelled_by(label.id);
        if chosen != app.parts.compare.other {
            app.parts.compare.other = chosen;
            app.parts.compare.before = None;
        }
        ui.label(RichText::new(before.1.words()).font(theme::mono()));
        if other.is_none() && ui.button("Set to the cursor").clicked() {
            app.parts.compare.before = Some(app.selection.cursor);
        }
        ui.label(RichText::new("after").color(palette.dim));
        ui.label(
            RichText::new(format!("{} {}", app.name_of(app.files.current), after.1.words()))
                .font(theme::mono()),
        );
        ui.checkbox(&mut app.settings.own_frames, "own frames only");
    });
    let own = app.settings.own_frames;
    let Some(answer) = app.requests.want(Slot::Diff, AskDiff { before, after, own }) else { return };
    let tree = &*answer.value;
    if tree.nodes.first().is_none_or(|root| root.before == root.after && root.children.is_empty()) {
        nothing(app, ui, body, "Nothing differs.");
        return;
    }
    rows(app, ui, tree);
}

/// Rows that are at least so wide have the bar of the change, and the amounts before and after.
const WITH_BAR: f32 = 420.0;
const WITH_AMOUNTS: f32 = 560.0;

fn change(node: &DiffTreeNode) -> i64 {
    signed(node.after.bytes) - signed(node.before.bytes)
}

fn rows(app: &mut App, ui: &mut Ui, tree: &DiffTree) {
    let largest = tree.nodes.iter().map(|node| change(node).unsigned_abs()).max().unwrap_or(1).max(1);
    let mut rows = Vec::new();
    let mut open = vec![(0_u32, 0_usize, Vec::new(), true)];
    while let Some((at, depth, path, heavy)) = open.pop() {
        let Some(node) = tree.nodes.get(at as usize) else { continue };
        let toggled = app.parts.compare.toggled.contains(&path);
        let is_open = heavy != toggled && !node.children.is_empty();
        if is_open {
            for (n, &child) in node.children.iter().enumerate().rev() {
                let Some(node) = tree.nodes.get(child as usize).filter(|node| node.before != node.after)
                else {
                    continue;
                };
                let mut path = path.clone();
                path.push(node.label);
                open.push((child, depth + 1, path, heavy && n == 0));
            }
        }
        rows.push((at, depth, path, is_open));
    }
    ui.spacing_mut().item_spacing.y = 0.0;
    ScrollArea::vertical().auto_shrink([false, false]).show_rows(ui, ROW, rows.len(), |ui, range| {
        for (at, depth, path, is_open) in rows.get(range).unwrap_or_default() {
            if line(app, ui, tree, *at, *depth, *is_open, largest) && !app.parts.compare.toggled.remove(path)
            {
                app.parts.compare.toggled.insert(path.clone());
            }
        }
    });
}

fn line(app: &App, ui: &mut Ui, tree: &DiffTree, at: u32, depth: usize, is_open: bool, largest: u64) -> bool {
    let palette = app.palette();
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
    let Some(node) = tree.nodes.get(at as usize) else { return false };
    let Some(label) = tree.labels.get(node.label as usize) else { return false };
    let words = || format!("{}, {}", label.at.short(), vramscope_format::change(change(node)));
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::TreeItem, true, words()));
    let painter = ui.painter_at(rect);
    if response.hovered() {
        painter.rect_filled(rect, 2.0, palette.raised);
    }
    let (y, change) = (rect.center().y, change(node));
    let color = if change > 0 { palette.danger } else { palette.fine };
    let text = vramscope_format::change(change);
    painter.text(pos2(rect.left() + 92.0, y), Align2::RIGHT_CENTER, text, theme::mono(), color);
    let mut right = rect.left() + 104.0;
    if rect.width() >= WITH_BAR {
        // Grown to the right of the middle, shrunk to the left.
        let (middle, half) = (right + 56.0, 52.0);
        let long = half * (change.unsigned_abs() as f64 / largest as f64) as f32;
        let bar = if change > 0 { middle..=middle + long } else { middle - long..=middle };
        painter.vline(middle, rect.y_range(), palette.hairline());
        painter.rect_filled(Rect::from_x_y_ranges(bar, y - 3.0..=y + 3.0), 1.0, color.gamma_multiply(0.8));
        right += 120.0;
    }
    if rect.width() >= WITH_AMOUNTS {
        let amounts = format!("{} → {}", size(node.before.bytes), size(node.after.bytes));
        right += 148.0;
        painter.text(pos2(right, y), Align2::RIGHT_CENTER, amounts, theme::tick(), palette.dim);
        right += 12.0;
    }
    // Lines that begin far to the right leave room for a name all the same.
    let deepest = ((rect.right() - right - NAME) / STEP).max(0.0);
    let left = right + (depth as f32).min(deepest) * STEP;
    let mark = if node.children.is_empty() {
        ""
    } else if is_open {
        "▾"
    } else {
        "▸"
    };
    painter.text(pos2(left, y), Align2::LEFT_CENTER, mark, theme::tick(), palette.dim);
    painter.rect_filled(
        Rect::from_center_size(pos2(left + 18.0, y), vec2(7.0, 7.0)),
        2.0,
        palette.of_line(label.color, 1),
    );
    let columns = theme::columns(&painter, &theme::mono(), rect.right() - left - 36.0);
    let name = elide_place(&label.at.short(), columns);
    painter.text(pos2(left + 28.0, y), Align2::LEFT_CENTER, name, theme::mono(), palette.text);
    response.clicked()
}
