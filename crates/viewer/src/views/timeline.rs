//! The memory timeline: stacked allocations, what is held, the capacity, failed allocations, the peak.

use std::sync::Arc;

use egui::{Align2, Id, Painter, Pos2, Rect, Sense, Stroke, Ui, pos2, vec2};
use vramscope_analysis::categories::DEFAULT_CATEGORIES;
use vramscope_analysis::{AllocIdx, Counters, Moment};
use vramscope_engine::color::Coloring;
use vramscope_engine::{
    Ask, AskCurve, AskLevels, AskTile, Curve, Group, LineId, Owner, Source, Stretch, Summary, Tile, Which,
};
use vramscope_format::bytes;

use crate::app::App;
use crate::picture::Painted;
use crate::requests::{Answer, Slot};
use crate::theme::Palette;
use crate::view::View;
use crate::views::marks::{self, tag};
use crate::views::{GUTTER, Tab, axes, input, outline, range, tooltip};

/// What hatched memory is.
pub(crate) const IDLE: &str = "idle in a private pool";
/// Height of the numbers below.
const NUMBERS: f32 = 22.0;
/// How much coarser the first picture after a step is, each way.
const COARSE: u32 = 6;

/// What the pointer is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Drag {
    #[default]
    None,
    Pan,
    Box(Pos2),
    Measure,
    /// Marks a range from here.
    Range(f64),
}

/// What the timeline keeps between frames.
pub(crate) struct Timeline {
    base: Painted,
    coarse: Painted,
    sharp: Painted,
    beside: Painted,
    pub(crate) drag: Drag,
    /// The outline of the hovered allocation, with what it was made from.
    pub(crate) outline: Option<(u64, AllocIdx, Vec<[Pos2; 2]>)>,
    pub(crate) labels: super::labels::Labels,
    /// The allocation whose menu is open, with its line.
    menu: Option<(Owner, String)>,
    /// Where the picture is drawn.
    pub(crate) plot: Rect,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            base: Painted::default(),
            coarse: Painted::default(),
            sharp: Painted::default(),
            beside: Painted::default(),
            drag: Drag::None,
            outline: None,
            labels: super::labels::Labels::default(),
            menu: None,
            plot: Rect::NOTHING,
        }
    }
}

pub(crate) fn show(app: &mut App, ui: &mut Ui, rect: Rect) {
    let Some((of, summary)) = app.device() else { return };
    let plot = Rect::from_min_max(
        pos2(rect.left() + GUTTER, rect.top()),
        pos2(rect.right(), rect.bottom() - NUMBERS),
    );
    if plot.width() < 20.0 || plot.height() < 20.0 {
        return;
    }
    let plot = snapped(plot, ui.pixels_per_point());
    app.parts.timeline.plot = plot;
    let response = ui.interact(plot, Id::unique("timeline"), Sense::click_and_drag());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, app.words_of_timeline()));
    input::timeline(app, ui, plot, &response);

    range::axis(app, ui, plot, rect);

    let palette = app.palette();
    let painter = ui.painter_at(Rect::from_min_max(rect.min, rect.max).expand(1.0));
    let inside = painter.with_clip_rect(plot);
    axes::bytes(&painter, &app.camera.view, plot, &palette);
    axes::lines(&inside, &app.camera.view, plot, &palette);
    axes::numbers(&painter, &app.camera.view, plot, &palette);

    let curve = curve(app, of, plot, ui.pixels_per_point());
    if app.isolated.is_some() {
        levels(app, of, plot, ui.pixels_per_point());
        ghost(app, &inside, curve.as_deref(), plot);
    }
    let tile = pictures(app, ui, of, &summary, plot, &inside);
    let simulated = simulated(app, of, plot, ui.pixels_per_point());
    let placed = marks::draw(&inside, app, &summary, (curve.as_deref(), simulated), plot, &palette);
    if let Some(tile) = &tile {
        let view = app.camera.view;
        let mut labels = std::mem::take(&mut app.parts.timeline.labels);
        labels.draw(&inside, tile, (&view, plot), &placed.words, &app.coloring(None, summary.last()));
        app.parts.timeline.labels = labels;
        if !failure(app, ui, &placed.failures, &response) {
            hover(app, ui, &inside, tile, plot, &response, &palette);
        }
        menu(app, &response);
    }
    if app.files.beside.is_some() {
        named(app, &inside, app.files.current, plot);
    }
    outline::selected(app, &inside, of, plot, &palette);
    range::band(app, &inside, plot);
    cursor_line(app, &inside, plot, &palette);
    range::ruler(app, &inside, plot, &palette);
    if let Drag::Box(from) = app.parts.timeline.drag
        && let Some(to) = response.hover_pos().or(ui.input(|input| input.pointer.latest_pos()))
    {
        let rect = Rect::from_two_pos(from, to).intersect(plot);
        inside.rect_filled(rect, 0.0, palette.accent.gamma_multiply(0.12));
        inside.rect_stroke(rect, 0.0, Stroke::new(1.0, palette.accent), egui::StrokeKind::Inside);
    }
}

/// The level of what is alone, for its number and for the axis of bytes.
fn levels(app: &mut App, of: Source, plot: Rect, scale: f32) {
    let (view, counter, only) = (app.camera.view, app.settings.counter, app.only());
    let stretch = Stretch { axis: view.axis, x: view.x, width: (plot.width() * scale).round() as u32 };
    app.requests.want(Slot::Levels, AskLevels { of, counter, stretch, only });
}

/// All memory as a faint area behind what is alone.
fn ghost(app: &App, painter: &Painter, curve: Option<&Curve>, plot: Rect) {
    let Some(curve) = curve.filter(|curve| curve.stretch.axis == app.camera.view.axis) else { return };
    let counter = app.settings.counter;
    let line = steps(&app.camera.view, plot, curve, |counters| counters[counter]);
    let palette = app.palette();
    let mut mesh = egui::Mesh::default();
    let fill = palette.dim.gamma_multiply(if palette.dark { 0.10 } else { 0.12 });
    for pair in line.chunks_exact(2) {
        let top = pair[0].y.max(plot.top());
        mesh.add_colored_rect(Rect::from_min_max(pos2(pair[0].x, top), pos2(pair[1].x, plot.bottom())), fill);
    }
    painter.add(egui::Shape::mesh(mesh));
    painter.line(line, Stroke::new(1.0, palette.dim.gamma_multiply(0.5)));
}

/// A rectangle on whole pixels, so that a picture is drawn pixel by pixel.
pub(crate) fn snapped(rect: Rect, scale: f32) -> Rect {
    let snap = |at: Pos2| pos2((at.x * scale).round() / scale, (at.y * scale).round() / scale);
    Rect::from_min_max(snap(rect.min), snap(rect.max))
}

/// A tile on the screen.
pub(crate) struct Shown {
    pub(crate) tile: Arc<Tile>,
    pub(crate) version: u64,
}

impl Shown {
    pub(crate) fn new<A: Ask<Answer = Tile>>(answer: Answer<A>) -> Self {
        Self { tile: answer.value, version: answer.version }
    }

    /// Where the tile lies in a view.
    pub(crate) fn rect(&self, view: &View, plot: Rect) -> Rect {
        let tile = &self.tile;
        Rect::from_min_max(
            view.screen(plot, tile.stretch.x.0, tile.y.1),
            view.screen(plot, tile.stretch.x.1, tile.y.0),
        )
    }

    /// The column and row under a point.
    pub(crate) fn pixel(&self, view: &View, plot: Rect, at: Pos2) -> Option<(usize, usize)> {
        let tile = &self.tile;
        let (x, y) = view.point(plot, at);
        let column =
            (x - tile.stretch.x.0) / (tile.stretch.x.1 - tile.stretch.x.0) * f64::from(tile.stretch.width);
        let row = (y - tile.y.0) / (tile.y.1 - tile.y.0) * f64::from(tile.height);
        (column >= 0.0
            && row >= 0.0
            && column < f64::from(tile.stretch.width)
            && row < f64::from(tile.height))
        .then_some((column as usize, row as usize))
    }
}

/// Asks for the picture of what is shown, coarse first, and draws the best that is there.
fn pictures(
    app: &mut App,
    ui: &Ui,
    of: Source,
    summary: &Summary,
    plot: Rect,
    painter: &Painter,
) -> Option<Shown> {
    let scale = ui.pixels_per_point();
    let (width, height) = ((plot.width() * scale).round() as u32, (plot.height() * scale).round() as u32);
    let (view, counter, pools) = (app.camera.view, app.settings.counter, app.settings.pools);
    // The first picture does not wait for categories: it is gray until they are known.
    let categories = app.has_categories();
    let only = app.only();
    let request = |view: &View, width: u32, height: u32| AskTile {
        of,
        counter,
        stretch: Stretch { axis: view.axis, x: view.x, width },
        y: view.y,
        height,
        pools,
        categories,
        only: only.clone(),
    };
    let whole = View::whole(summary, view.axis, counter);
    let sharp = app.requests.want(Slot::Timeline, request(&view, width, height));
    let is_sharp = sharp.as_ref().is_some_and(|answer| answer.fresh);
    let coarse = if is_sharp {
        None
    } else {
        let (width, height) = (width.div_ceil(COARSE), height.div_ceil(COARSE));
        app.requests.want(Slot::Coarse, request(&view, width, height))
    };
    let base = match app.isolated {
        None => app.requests.want(Slot::Base, request(&whole, 600, 200)),
        Some(_) => None,
    };

    let search = super::search::found(app);
    let preview = app.parts.legend.preview.clone();
    let found = search.as_ref().map(|found| found.stacks.as_slice());
    let coloring = Coloring { focus: preview.as_ref(), ..app.coloring(found, summary.last()) };
    let colors = app.colors_version;
    let parts = &mut app.parts.timeline;
    // From the least to the best: what lies under is seen only where nothing better is.
    let same = |answer: &Answer<AskTile>| {
        let ask = &answer.request;
        (ask.of, ask.counter, ask.stretch.axis, ask.pools) == (of, counter, view.axis, pools)
    };
    // What was alone before, or everything, stays until there is a picture of what is alone now.
    let is_new = |answer: &Answer<AskTile>| answer.request.only == only;
    let wait = !coarse.as_ref().is_some_and(|answer| answer.fresh);

    let layers = [
        (base.filter(|_| !is_sharp), &mut parts.base, "base"),
        (sharp.clone().filter(|answer| !answer.fresh && (wait || is_new(answer))), &mut parts.sharp, "sharp"),
        (coarse.filter(|answer| answer.fresh), &mut parts.coarse, "coarse"),
    ];
    let mut best = None;
    for (answer, painted, name) in layers {
        if let Some(shown) = answer.filter(same).map(Shown::new) {
            painted.update(ui.ctx(), name, &shown.tile, shown.version, colors, &coloring);
            painted.draw(painter, shown.rect(&view, plot));
            best = Some(shown);
        }
    }
    if let Some(shown) = sharp.filter(|answer| answer.fresh).map(Shown::new) {
        parts.sharp.update(ui.ctx(), "sharp", &shown.tile, shown.version, colors, &coloring);
        parts.sharp.draw(painter, plot);
        best = Some(shown);
    }
    best
}

fn curve(app: &mut App, of: Source, plot: Rect, scale: f32) -> Option<Arc<Curve>> {
    let stretch = Stretch {
        axis: app.camera.view.axis,
        x: app.camera.view.x,
        width: (plot.width() * scale).round() as u32,
    };
    let answer = app.requests.want(Slot::Curve, AskCurve { of, stretch })?;
    (answer.request.of == of).then_some(answer.value)
}

/// What the selected settings would have reserved: their name, and the line.
fn simulated(app: &mut App, of: Source, plot: Rect, scale: f32) -> Option<(String, Vec<Pos2>)> {
    let view = app.camera.view;
    let stretch = Stretch { axis: view.axis, x: view.x, width: (plot.width() * scale).round() as u32 };
    let super::whatif::Levels { name, stretch, levels } = super::whatif::curve(app, of, stretch)?;
    let levels = levels.iter().map(|level| level.map(|bytes| bytes as f64));
    (stretch.axis == view.axis).then(|| (name, stairs(&view, plot, stretch, levels)))
}

/// Steps of a counter, as a line.
pub(crate) fn steps(view: &View, plot: Rect, curve: &Curve, value: impl Fn(&Counters) -> i64) -> Vec<Pos2> {
    let levels = curve.most.iter().map(|numbers| numbers.as_ref().map(|numbers| value(numbers) as f64));
    stairs(view, plot, curve.stretch, levels)
}

/// A level in each column, as a line.
fn stairs(view: &View, plot: Rect, stretch: Stretch, levels: impl Iterator<Item = Option<f64>>) -> Vec<Pos2> {
    let mut points: Vec<Pos2> = Vec::new();
    let wide = (stretch.x.1 - stretch.x.0) / f64::from(stretch.width.max(1));
    for (column, level) in levels.enumerate() {
        let Some(level) = level else { continue };
        let x = stretch.x.0 + column as f64 * wide;
        let y = view.screen_y(plot, level);
        let (left, right) = (view.screen_x(plot, x), view.screen_x(plot, x + wide));
        match points.last_mut() {
            Some(last) if last.y == y => last.x = right,
            _ => points.extend([pos2(left, y), pos2(right, y)]),
        }
    }
    points
}

/// The name of a failed allocation under the pointer: a click shows the map of memory at that moment. Says whether there
/// is one.
fn failure(app: &mut App, ui: &Ui, failures: &[(Rect, Moment)], response: &egui::Response) -> bool {
    let under = response.hover_pos().and_then(|at| failures.iter().find(|(rect, _)| rect.contains(at)));
    let Some(&(_, at)) = under else { return false };
    ui.ctx().set_cursor_icon(egui::CursorIcon::PointingHand);
    if response.clicked() {
        app.set_cursor(at);
        app.open_tab(Tab::State);
    }
    true
}

/// What is under the pointer: its outline, its tooltip, and a click selects it.
fn hover(
    app: &mut App,
    ui: &Ui,
    painter: &Painter,
    shown: &Shown,
    plot: Rect,
    response: &egui::Response,
    palette: &Palette,
) {
    let Some(at) = response.hover_pos().filter(|at| plot.contains(*at)) else { return };
    let tile = &*shown.tile;
    let Some((column, row)) = shown.pixel(&app.camera.view, plot, at) else { return };
    let moment = tile.shown.get(column).copied().flatten();
    app.selection.hover_at = moment;
    let owner = tile.owner(column, row).copied();
    app.selection.hovered = owner.map(|owner| owner.alloc);
    if let Some(envelope) = tile.idle(column, row)
        && let Some((_, summary)) = app.device()
    {
        let name = summary.envelopes.get(envelope as usize).cloned().unwrap_or_default();
        tooltip::card(app, ui, at, &[(name, true), (IDLE.into(), false)]);
    }
    if app.parts.timeline.drag == Drag::None {
        let x = at.x.round() + 0.5;
        painter.vline(x, plot.y_range(), Stroke::new(1.0, palette.text.gamma_multiply(0.18)));
        if let Some(owner) = &owner {
            point_out(app, ui, painter, shown, plot, at, owner);
        }
    }
    if response.clicked() {
        app.selection.alloc = owner.map(|owner| owner.alloc);
        if let Some(moment) = moment {
            app.set_cursor(moment);
        }
    }
    if response.secondary_clicked() {
        app.parts.timeline.menu = owner.map(|owner| (owner, tile.line(owner.line).to_owned()));
    }
}

/// What can be done with the allocation that was clicked with the other button.
fn menu(app: &mut App, response: &egui::Response) {
    let Some((owner, line)) = app.parts.timeline.menu.clone() else { return };
    response.context_menu(|ui| {
        let category = DEFAULT_CATEGORIES.get(usize::from(owner.category)).copied();
        let mut groups = vec![(Group::Stack(owner.stack), "this stack".to_owned(), line.clone())];
        if owner.line != LineId(0) {
            groups.insert(0, (Group::Line(owner.line), line.clone(), line.clone()));
        }
        if let Some(name) = category {
            groups.push((Group::Category(owner.category), name.to_owned(), name.to_owned()));
        }
        for (group, label, name) in groups {
            if ui.button(format!("Show only {label}")).clicked() {
                app.isolate(group, &name);
            }
        }
        if app.isolated.is_some() && ui.button("Show all memory").clicked() {
            app.show_all();
        }
        ui.separator();
        if ui.button("Show its whole life").clicked() {
            app.selection.alloc = Some(owner.alloc);
            app.zoom_to_selected();
        }
        if ui.button("List all of this stack").clicked() {
            app.show_stack_in_table(owner.stack);
        }
    });
}

fn cursor_line(app: &mut App, painter: &Painter, plot: Rect, palette: &Palette) {
    let Some(x) = app.cursor_x() else { return };
    let x = app.camera.view.screen_x(plot, x).round() + 0.5;
    if (plot.left()..=plot.right()).contains(&x) {
        painter.vline(x, plot.y_range(), Stroke::new(1.0, palette.accent));
        let top = plot.top();
        let points = vec![pos2(x - 4.0, top), pos2(x + 4.0, top), pos2(x, top + 6.0)];
        painter.add(egui::Shape::convex_polygon(points, palette.accent, Stroke::NONE));
    }
}

/// Which rank a picture is of, where there are two.
fn named(app: &App, painter: &Painter, device: usize, plot: Rect) {
    let Some(summary) = app.files.devices.get(device).and_then(|device| device.summary.as_ref()) else {
        return;
    };
    let (palette, peak) = (app.palette(), bytes(summary.peak(app.settings.counter).bytes));
    let name = format!("{}   peak {peak}", app.name_of(device));
    tag(painter, plot.left_top() + vec2(8.0, 6.0), Align2::LEFT_TOP, &name, palette.text, &palette);
}

/// Another rank below, in the same scale: the same stretch, the same bytes to a pixel.
pub(crate) fn beside(app: &mut App, ui: &mut Ui, rect: Rect, other: usize) {
    let Some(device) = app.files.devices.get(other) else { return };
    let (of, Some(summary)) = (device.source, device.summary.clone()) else { return };
    let palette = app.palette();
    let plot = Rect::from_min_max(
        pos2(rect.left() + GUTTER, rect.top()),
        pos2(rect.right(), rect.bottom() - NUMBERS),
    );
    let plot = snapped(plot, ui.pixels_per_point());
    let painter = ui.painter_at(rect.expand(1.0));
    axes::bytes(&painter, &app.camera.view, plot, &palette);
    axes::numbers(&painter, &app.camera.view, plot, &palette);
    let scale = ui.pixels_per_point();
    let request = AskTile {
        of,
        counter: app.settings.counter,
        stretch: Stretch {
            axis: app.camera.view.axis,
            x: app.camera.view.x,
            width: (plot.width() * scale).round() as u32,
        },
        y: app.camera.view.y,
        height: (plot.height() * scale).round() as u32,
        pools: app.settings.pools,
        categories: app.has_categories(),
        only: Which::default(),
    };
    let inside = painter.with_clip_rect(plot);
    let colors = app.colors_version;
    let answer = app.requests.want(Slot::Beside, request);
    let shown = answer.filter(|answer| answer.request.of == of).map(Shown::new);
    if let Some(shown) = &shown {
        let coloring = app.coloring(None, summary.last());
        let painted = &mut app.parts.timeline.beside;
        painted.update(ui.ctx(), "beside", &shown.tile, shown.version, colors, &coloring);
        painted.draw(&inside, shown.rect(&app.camera.view, plot));
    }
    named(app, &inside, other, plot);
    let response = ui.interact(plot, Id::unique("beside"), Sense::click_and_drag());
    let name = format!("Memory timeline of {}", app.name_of(other));
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, &name));
    if response.dragged() {
        let moved = response.drag_delta();
        app.set_view(
            app.camera.view.moved(f64::from(-moved.x / plot.width()), f64::from(moved.y / plot.height())),
        );
    }
    if response.contains_pointer() {
        input::wheel(app, ui, plot);
    }
    if response.double_clicked() {
        app.files.beside = None;
    }
    if let Some(shown) = &shown {
        under_pointer(app, ui, &inside, shown, plot, &response, other);
    }
}

/// What is under the pointer in the other rank; a click goes there and selects it.
fn under_pointer(
    app: &mut App,
    ui: &Ui,
    painter: &Painter,
    shown: &Shown,
    plot: Rect,
    response: &egui::Response,
    other: usize,
) {
    let Some(at) = response.hover_pos().filter(|at| plot.contains(*at)) else { return };
    let Some((column, row)) = shown.pixel(&app.camera.view, plot, at) else { return };
    let tile = &shown.tile;
    let owner = tile.owner(column, row).copied();
    if let Some(owner) = &owner {
        point_out(app, ui, painter, shown, plot, at, owner);
    }
    if response.clicked() {
        app.swap_to(other);
        app.selection.alloc = owner.map(|owner| owner.alloc);
        if let Some(moment) = tile.shown.get(column).copied().flatten() {
            app.set_cursor(moment);
        }
    }
}

/// Outlines the allocation under the pointer and shows its card.
fn point_out(app: &mut App, ui: &Ui, painter: &Painter, shown: &Shown, plot: Rect, at: Pos2, owner: &Owner) {
    let palette = app.palette();
    outline::hovered(&mut app.parts.timeline, painter, shown, &app.camera.view, plot, owner.alloc, &palette);
    tooltip::show(app, ui, at, owner, shown.tile.line(owner.line));
}
