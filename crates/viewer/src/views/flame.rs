//! The flame graph: live bytes at the cursor, or bytes times lifetime over what is shown.

use egui::{Align2, Rect, RichText, Sense, Ui, pos2, vec2};
use vramscope_analysis::Moment;
use vramscope_analysis::pictures::Axis;
use vramscope_analysis::query::Pattern;
use vramscope_engine::{AskTile, AskTree, Label, Tree, Weigh};
use vramscope_format::{elide_place, fit_end, plural, share, size};

use crate::app::App;
use crate::requests::Slot;
use crate::theme::{self, Palette, blend};
use crate::views::lower::{choice, nothing};
use crate::views::tooltip;

const ROW: f32 = 19.0;
/// Narrower blocks have no text.
const LEAST_COLUMNS: usize = 5;

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
    ui.horizontal_wrapped(|ui| {
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
            .hint_text("highlight: regex")
            .desired_width(120.0);
        ui.add(edit);
        if !summary.has.stacks {
            ui.label(RichText::new("Python frames: not in this file").color(palette.dim));
        }
        breadcrumb(app, ui);
    });
    let weigh = if app.parts.flame.lifetime {
        lifetime(app, summary.last())
    } else {
        Weigh::Live(app.selection.cursor)
    };
    let (inverted, own) = (app.parts.flame.inverted, app.settings.own_frames);
    let Some(answer) = app.requests.want(Slot::Flame, AskTree { of, weigh, inverted, own }) else { return };
    let tree = &*answer.value;
    let top = ui.min_rect().bottom().max(body.top() + 24.0) + 4.0;
    let area = Rect::from_min_max(pos2(body.left(), top), body.max);
    if tree.nodes.first().is_none_or(|root| root.bytes == 0) {
        nothing(app, ui, area, "Nothing is live at the cursor.");
        return;
    }
    graph(app, ui, area, tree, &palette);
}

/// The stretch that is shown, in moments.
fn lifetime(app: &App, last: Moment) -> Weigh {
    let view = &app.camera.view;
    let (from, to) = match view.axis {
        Axis::Events => (Moment(view.x.0 as u32), Moment(view.x.1.ceil() as u32).min(last)),
        Axis::Time => {
            // The columns of the picture know their moments.
            let tile = app.requests.look::<AskTile>(Slot::Timeline);
            tile.and_then(|tile| tile.value.moments()).unwrap_or((Moment::START, last))
        }
    };
    Weigh::Lifetime(from, to)
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

fn label_of(tree: &Tree, node: u32) -> Option<&Label> {
    tree.labels.get(tree.nodes.get(node as usize)?.label as usize)
}

/// What a node is called.
fn name_of(tree: &Tree, node: u32) -> String {
    label_of(tree, node).map_or_else(String::new, |label| label.at.short())
}

fn graph(app: &mut App, ui: &mut Ui, area: Rect, tree: &Tree, palette: &Palette) {
    // The node that was drilled into, as far as its path is still there.
    let mut focus = 0;
    for name in &app.parts.flame.path {
        let Some(node) = tree.nodes.get(focus as usize) else { break };
        match node.children.iter().find(|&&child| name_of(tree, child) == *name) {
            Some(&child) => focus = child,
            None => break,
        }
    }
    let response = ui.interact(area, egui::Id::unique("flame"), Sense::click());
    response.widget_info(|| {
        let children =
            tree.nodes.get(focus as usize).map(|node| node.children.as_slice()).unwrap_or_default();
        let words: Vec<String> = children.iter().take(6).map(|&child| name_of(tree, child).clone()).collect();
        let words = format!("Flame graph: {}", words.join(", "));
        egui::WidgetInfo::labeled(egui::Role::Image, true, words)
    });
    let depth = deepest(tree, focus) as f32 * ROW;
    if response.contains_pointer() {
        let turned = ui.input(|input| input.smooth_scroll_delta().y);
        let most = (depth - area.height() + 8.0).max(0.0);
        app.parts.flame.scroll = (app.parts.flame.scroll - turned).clamp(0.0, most);
    }
    let painter = ui.painter_at(area);
    let typed = app.parts.flame.filter.trim();
    let pattern = Pattern::lenient(typed).filter(|_| !typed.is_empty());
    let is_lifetime = app.parts.flame.lifetime;
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
            let lit = pointer.is_some_and(|at| rect.contains(at));
            let matches = pattern.as_ref().is_none_or(|pattern| {
                label_of(tree, at).is_some_and(|label| pattern.is_match(&label.at.full()))
            });
            block(&painter, rect, tree, at, Look { lit, matches, is_lifetime }, palette);
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
    let place = label_of(tree, at).filter(|label| label.at.line > 0);
    let place =
        place.map_or_else(String::new, |label| fit_end(&format!("{}:{}", label.at.file, label.at.line), 64));
    let lines = [
        (label_of(tree, at).map_or_else(String::new, |label| label.at.name.clone()), true),
        (format!("{}   {}", amount(node.bytes, is_lifetime), share(node.bytes, whole)), true),
        (
            format!("{}, {} of its own", plural(node.count, "allocation"), amount(node.own, is_lifetime)),
            false,
        ),
        (place, false),
    ];
    if let Some(pointer) = pointer {
        tooltip::card(app, ui, pointer, &lines);
    }
    if response.clicked() {
        if at == focus {
            app.parts.flame.path.pop();
        } else {
            app.parts.flame.path.extend(path.iter().map(|&node| name_of(tree, node)));
        }
        app.parts.flame.scroll = 0.0;
    }
}

/// Bytes, or bytes times the events that they lived.
fn amount(n: u64, is_lifetime: bool) -> String {
    if is_lifetime { format!("{} × events", size(n)) } else { size(n) }
}

/// How a block looks.
#[derive(Clone, Copy)]
struct Look {
    lit: bool,
    matches: bool,
    is_lifetime: bool,
}

fn block(painter: &egui::Painter, rect: Rect, tree: &Tree, at: u32, look: Look, palette: &Palette) {
    let number = label_of(tree, at).map_or_else(Default::default, |label| label.color);
    let mut fill = if at == 0 { palette.raised } else { palette.of_line(number, 0) };
    if !look.matches {
        fill = blend(fill, palette.ground, 0.78);
    }
    if look.lit {
        fill = blend(fill, if palette.dark { egui::Color32::WHITE } else { egui::Color32::BLACK }, 0.18);
    }
    painter.rect_filled(rect, 1.5, fill);
    if rect.width() > 34.0 {
        let (name, font) = (name_of(tree, at), theme::tick());
        let bytes = tree.nodes.get(at as usize).map_or(0, |node| node.bytes);
        let columns = theme::columns(painter, &font, rect.width() - 10.0);
        // A few letters say nothing.
        if columns < LEAST_COLUMNS {
            return;
        }
        let amount = format!("   {}", amount(bytes, look.is_lifetime));
        // The amount gives way before the name does.
        let whole = name.chars().count() + amount.chars().count();
        let text = if whole <= columns { name + &amount } else { elide_place(&name, columns) };
        let color = if at == 0 { palette.text } else { Palette::on(fill) };
        painter.text(rect.left_center() + vec2(5.0, 0.0), Align2::LEFT_CENTER, text, font, color);
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
