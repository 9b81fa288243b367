//! The call tree at the cursor: rows that open, heaviest first.

use std::collections::HashSet;

use egui::{Align2, Rect, ScrollArea, Sense, Ui, pos2, vec2};
use vramscope_engine::{AskTree, Tree, Weigh};
use vramscope_format::{count, elide_place, size};

use crate::app::App;
use crate::requests::Slot;
use crate::theme::{self, Palette};
use crate::views::lower::choice;

pub(crate) const ROW: f32 = 21.0;
/// How far rows are moved to the right per call.
pub(crate) const STEP: f32 = 14.0;
/// Room that the name of a call has, however deep it is.
pub(crate) const NAME: f32 = 140.0;
/// Rows that are at least so wide have a bar of the share, and a count.
const WITH_BAR: f32 = 480.0;

/// What the tree keeps: which rows are open, by the names from the root down.
#[derive(Default)]
pub(crate) struct CallTree {
    inverted: bool,
    closed: HashSet<u64>,
    opened: HashSet<u64>,
}

/// A row of an open tree.
struct Row {
    node: u32,
    depth: usize,
    path: u64,
    is_open: bool,
}

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let Some((of, _)) = app.device() else { return };
    ui.horizontal_wrapped(|ui| {
        choice(ui, &mut app.parts.tree.inverted, &[(false, "callers first"), (true, "inverted")]);
        ui.add_space(8.0);
        ui.checkbox(&mut app.settings.own_frames, "own frames only");
    });
    let (inverted, own) = (app.parts.tree.inverted, app.settings.own_frames);
    let request = AskTree { of, weigh: Weigh::Live(app.selection.cursor), inverted, own };
    let Some(answer) = app.requests.want(Slot::Tree, request) else { return };
    let tree = &*answer.value;
    let rows = rows(&app.parts.tree, tree);
    let whole = tree.nodes.first().map_or(1, |root| root.bytes).max(1);
    ui.spacing_mut().item_spacing.y = 0.0;
    ScrollArea::vertical().auto_shrink([false, false]).show_rows(ui, ROW, rows.len(), |ui, range| {
        for row in rows.get(range).unwrap_or_default() {
            line(app, ui, tree, row, whole);
        }
    });
}

fn hash(path: u64, label: u32) -> u64 {
    (path ^ u64::from(label)).wrapping_mul(0x100_0000_01b3).rotate_left(17)
}

/// Rows that can be seen. The heaviest way down is open until somebody closes it.
fn rows(state: &CallTree, tree: &Tree) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut open = vec![(0_u32, 0_usize, 7_u64, true)];
    while let Some((at, depth, path, heavy)) = open.pop() {
        let Some(node) = tree.nodes.get(at as usize) else { continue };
        let path = hash(path, node.label);
        let is_open = state.opened.contains(&path) || heavy && !state.closed.contains(&path);
        rows.push(Row { node: at, depth, path, is_open: is_open && !node.children.is_empty() });
        if is_open {
            let children = node.children.iter().enumerate().rev();
            open.extend(children.map(|(n, &child)| (child, depth + 1, path, heavy && n == 0)));
        }
    }
    rows
}

fn line(app: &mut App, ui: &mut Ui, tree: &Tree, row: &Row, whole: u64) {
    let palette = app.palette();
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
    let Some(node) = tree.nodes.get(row.node as usize) else { return };
    let Some(label) = tree.labels.get(node.label as usize) else { return };
    let words = || format!("{}, {}", label.at.short(), size(node.bytes));
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::TreeItem, true, words()));
    let painter = ui.painter_at(rect);
    if response.hovered() {
        painter.rect_filled(rect, 2.0, palette.raised);
    }
    let share = node.bytes as f32 / whole as f32;
    numbers(&painter, rect, &size(node.bytes), share, &count(node.count), &palette, palette.accent);
    let begin = rect.left() + if rect.width() >= WITH_BAR { 250.0 } else { 94.0 };
    let deepest = ((rect.right() - begin - NAME) / STEP).max(0.0);
    let left = begin + (row.depth as f32).min(deepest) * STEP;
    let mark = if node.children.is_empty() {
        ""
    } else if row.is_open {
        "▾"
    } else {
        "▸"
    };
    painter.text(pos2(left, rect.center().y), Align2::LEFT_CENTER, mark, theme::tick(), palette.dim);
    let chip = Rect::from_center_size(pos2(left + 18.0, rect.center().y), vec2(7.0, 7.0));
    painter.rect_filled(chip, 2.0, palette.of_line(label.color, 1));
    let at = pos2(left + 28.0, rect.center().y);
    let name =
        elide_place(&label.at.short(), theme::columns(&painter, &theme::mono(), rect.right() - at.x - 8.0));
    painter.text(at, Align2::LEFT_CENTER, name, theme::mono(), palette.text);
    if response.clicked() {
        let state = &mut app.parts.tree;
        if row.is_open {
            state.opened.remove(&row.path);
            state.closed.insert(row.path);
        } else {
            state.closed.remove(&row.path);
            state.opened.insert(row.path);
        }
    }
}

/// Bytes, the share as a bar, and how many, in columns.
pub(crate) fn numbers(
    painter: &egui::Painter,
    rect: Rect,
    amount: &str,
    share: f32,
    many: &str,
    palette: &Palette,
    color: egui::Color32,
) {
    let y = rect.center().y;
    painter.text(pos2(rect.left() + 82.0, y), Align2::RIGHT_CENTER, amount, theme::mono(), palette.text);
    if rect.width() < WITH_BAR {
        return;
    }
    let bar = Rect::from_min_size(pos2(rect.left() + 92.0, y - 3.0), vec2(90.0, 6.0));
    painter.rect_filled(bar, 2.0, palette.line);
    let part = Rect::from_min_size(bar.min, vec2(bar.width() * share.clamp(0.0, 1.0), bar.height()));
    painter.rect_filled(part, 2.0, color.gamma_multiply(0.85));
    painter.text(pos2(rect.left() + 238.0, y), Align2::RIGHT_CENTER, many, theme::tick(), palette.dim);
}
