//! The flame graph: live bytes at the cursor, or bytes times lifetime over what is shown.

use egui::{Align2, Rect, RichText, Sense, Ui, pos2, vec2};
use vramscope_engine::{Axis, Request, Response, Tree, Weigh};
use vramscope_format::{bytes, count};

use crate::app::App;
use crate::color;
use crate::desk::Slot;
use crate::theme::{self, Palette, blend};
use crate::views::lower::{choice, nothing};
use crate::views::tooltip;

const ROW: f32 = 19.0;

/// What the flame graph keeps.
#[derive(Default)]
pub(crate) struct Flame {
    lifetime: bool,
    inverted: bool,
    /// Labels from the root to the node that was drilled into.
    path: Vec<String>,
    filter: String,
    scroll: f32,
}

pub(crate) fn show(app: &mut App, ui: &mut Ui, body: Rect) {
    let Some((of, summary)) = app.device() else { return };
    let palette = app.palette();
    ui.horizontal(|ui| {
        choice(
            ui,
            &mut app.parts.flame.lifetime,
            &[(false, "live at the cursor"), (true, "bytes × lifetime")],
        );
        ui.add_space(8.0);
        if choice(ui, &mut app.parts.flame.inverted, &[(false, "callers first"), (true, "inverted")]) {
            app.parts.flame.path.clear();
        }
        ui.add_space(8.0);
        ui.checkbox(&mut app.settings.own_frames, "own frames only");
        ui.add_space(8.0);
        let edit = egui::TextEdit::singleline(&mut app.parts.flame.filter)
            .hint_text("highlight")
            .desired_width(120.0);
        ui.add(edit);
        if !summary.told.stacks {
            ui.label(RichText::new("Python frames: not in this file").color(palette.dim));
        }
        breadcrumb(app, ui);
    });
    let weigh =
        if app.parts.flame.lifetime { lifetime(app, summary.events) } else { Weigh::Live(app.cursor) };
    let (inverted, own) = (app.parts.flame.inverted, app.settings.own_frames);
    let Some(answer) = app.desk.want(Slot::Flame, Request::Tree { of, weigh, inverted, own }) else { return };
    let Response::Tree(tree) = &*answer.response else { return };
    let area = Rect::from_min_max(pos2(body.left(), body.top() + 28.0), body.max);
    if tree.nodes.first().is_none_or(|root| root.bytes == 0) {
        nothing(app, ui, area, "Nothing lives here.");
        return;
    }
    graph(app, ui, area, tree, &palette);
}

/// The stretch that is shown, in moments.
fn lifetime(app: &App, events: u32) -> Weigh {
    match app.view.axis {
        Axis::Events => Weigh::Lifetime(app.view.x.0 as u32, (app.view.x.1.ceil() as u32).min(events)),
        Axis::Time => {
            // The columns of the picture know their moments.
            let shown = app.desk.look(Slot::Timeline).and_then(|answer| match &*answer.response {
                Response::Tile(tile) => {
                    let mut known = tile.shown.iter().copied().filter(|&at| at != u32::MAX);
                    Some((known.next()?, known.next_back()?))
                }
                _ => None,
            });
            let (from, to) = shown.unwrap_or((0, events));
            Weigh::Lifetime(from, to)
        }
    }
}

fn breadcrumb(app: &mut App, ui: &mut Ui) {
    if app.parts.flame.path.is_empty() {
        return;
    }
    let palette = app.palette();
    let mut keep = None;
    if ui.link("all").clicked() {
        keep = Some(0);
    }
    let path = app.parts.flame.path.clone();
    let skipped = path.len().saturating_sub(3);
    if skipped > 0 {
        ui.label(RichText::new("› …").color(palette.dim));
    }
    for (depth, name) in path.iter().enumerate().skip(skipped) {
        ui.label(RichText::new("›").color(palette.dim));
        if ui.link(RichText::new(name).font(theme::mono())).clicked() {
            keep = Some(depth + 1);
        }
    }
    if let Some(keep) = keep {
        app.parts.flame.path.truncate(keep);
    }
}

/// What a node is called, by its label.
pub(crate) fn label(tree: &Tree, node: u32) -> String {
    let label = tree.nodes.get(node as usize).and_then(|node| tree.labels.get(node.label as usize));
    label.map_or_else(String::new, place)
}

pub(crate) fn place(label: &vramscope_engine::Label) -> String {
    if label.line == 0 {
        return label.name.clone();
    }
    let file = label.file.rsplit(['/', '\\']).next().unwrap_or(&label.file);
    format!("{} {file}:{}", label.name, label.line)
}

fn graph(app: &mut App, ui: &mut Ui, area: Rect, tree: &Tree, palette: &Palette) {
    // The node that was drilled into, as far as its path is still there.
    let mut focus = 0;
    for name in &app.parts.flame.path {
        let Some(node) = tree.nodes.get(focus as usize) else { break };
        match node.children.iter().find(|&&child| label(tree, child) == *name) {
            Some(&child) => focus = child,
            None => break,
        }
    }
    let response = ui.interact(area, egui::Id::unique("flame"), Sense::click());
    let depth = deepest(tree, focus) as f32 * ROW;
    if response.contains_pointer() {
        let turned = ui.input(|input| input.smooth_scroll_delta().y);
        let most = (depth - area.height() + 8.0).max(0.0);
        app.parts.flame.scroll = (app.parts.flame.scroll - turned).clamp(0.0, most);
    }
    let painter = ui.painter_at(area);
    let filter = app.parts.flame.filter.to_lowercase();
    let whole = tree.nodes[focus as usize].bytes.max(1);
    let pointer = response.hover_pos();
    let mut under = None;
    let top = area.top() - app.parts.flame.scroll;
    let mut open = vec![(focus, area.left(), area.width(), top, Vec::new())];
    while let Some((at, left, width, top, path)) = open.pop() {
        let Some(node) = tree.nodes.get(at as usize) else { continue };
        let rect = Rect::from_min_size(pos2(left, top), vec2((width - 1.0).max(0.5), ROW - 1.0));
        if top > area.bottom() {
            continue;
        }
        if rect.bottom() > area.top() {
            let name = label(tree, at);
            let lit = pointer.is_some_and(|at| rect.contains(at));
            let fits = !filter.is_empty() && name.to_lowercase().contains(&filter);
            block(&painter, rect, tree, at, &name, lit, filter.is_empty() || fits, palette);
            if lit {
                under = Some((at, path.clone()));
            }
        }
        let mut x = left;
        for &child in &node.children {
            let Some(bytes) = tree.nodes.get(child as usize).map(|child| child.bytes) else { continue };
            let wide = width * (bytes as f64 / node.bytes.max(1) as f64) as f32;
            if wide >= 0.6 {
                let mut path = path.clone();
                path.push(child);
                open.push((child, x, wide, top + ROW, path));
            }
            x += wide;
        }
    }
    let Some((at, path)) = under else { return };
    let node = &tree.nodes[at as usize];
    let label_of = tree.labels.get(node.label as usize);
    let unit = |n: u64| {
        if app.parts.flame.lifetime { format!("{} × events", bytes(n as i64)) } else { bytes(n as i64) }
    };
    let lines = [
        (label_of.map_or_else(String::new, |label| label.name.clone()), true),
        (format!("{}   {:.1} %", unit(node.bytes), node.bytes as f64 / whole as f64 * 100.0), true),
        (format!("{} allocations, {} of its own", count(node.count), unit(node.own)), false),
        (label_of.map_or_else(String::new, |label| format!("{}:{}", label.file, label.line)), false),
    ];
    if let Some(pointer) = pointer {
        tooltip::card(app, ui, pointer, &lines);
    }
    if response.clicked() {
        if at == focus {
            app.parts.flame.path.pop();
        } else {
            app.parts.flame.path.extend(path.iter().map(|&node| label(tree, node)));
        }
        app.parts.flame.scroll = 0.0;
    }
}

#[expect(clippy::too_many_arguments, reason = "what a block looks like")]
fn block(
    painter: &egui::Painter,
    rect: Rect,
    tree: &Tree,
    at: u32,
    name: &str,
    lit: bool,
    fits: bool,
    palette: &Palette,
) {
    let number = tree
        .nodes
        .get(at as usize)
        .and_then(|node| tree.labels.get(node.label as usize))
        .map_or(0, |l| l.color);
    let mut fill = if at == 0 { palette.raised } else { color::of_line(number, 0) };
    if !fits {
        fill = blend(fill, palette.ground, 0.78);
    }
    if lit {
        fill = blend(fill, if palette.dark { egui::Color32::WHITE } else { egui::Color32::BLACK }, 0.18);
    }
    painter.rect_filled(rect, 1.5, fill);
    if rect.width() > 34.0 {
        let size = tree.nodes.get(at as usize).map_or(0, |node| node.bytes);
        let text =
            if rect.width() > 150.0 { format!("{name}   {}", bytes(size as i64)) } else { name.to_owned() };
        let color = if at == 0 { palette.text } else { Palette::on(fill) };
        let clip = painter.with_clip_rect(rect.shrink2(vec2(4.0, 0.0)).intersect(painter.clip_rect()));
        clip.text(rect.left_center() + vec2(5.0, 0.0), Align2::LEFT_CENTER, text, theme::tick(), color);
    }
}

fn deepest(tree: &Tree, from: u32) -> usize {
    let mut most = 0;
    let mut open = vec![(from, 1)];
    while let Some((at, depth)) = open.pop() {
        most = most.max(depth);
        if let Some(node) = tree.nodes.get(at as usize) {
            open.extend(node.children.iter().map(|&child| (child, depth + 1)));
        }
    }
    most
}
