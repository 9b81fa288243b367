//! Many ranks in the side bar: all of them as a heat map, and those that stand out by name.

use std::sync::Arc;

use egui::{Align2, ColorImage, Rect, RichText, Sense, TextureHandle, TextureOptions, Ui, pos2, vec2};
use vramscope_analysis::HeatMap;
use vramscope_engine::color::ramp;
use vramscope_engine::{FleetView, OddRank};
use vramscope_format::{bytes, change, count, plural};

use crate::app::App;
use crate::color::rgb;
use crate::theme;

/// Ranks that stand out which have a row.
const MOST_ROWS: usize = 24;
/// The height of such a row.
const ROW: f32 = 20.0;
/// Room for the marks of ranks that stand out, right of the map.
const MARKS: f32 = 12.0;
/// The height of the colors of the scale.
const SCALE: f32 = 6.0;

/// The heat map as it was painted last.
#[derive(Default)]
pub(crate) struct Painted {
    texture: Option<TextureHandle>,
    version: u64,
}

impl Painted {
    /// Paints the map again if it has changed.
    fn texture(&mut self, ctx: &egui::Context, map: &HeatMap, version: u64) -> Option<&TextureHandle> {
        if self.texture.is_none() || self.version != version {
            let columns = map.rows.iter().map(|row| row.cells.len()).max()?;
            let cell = |row: &vramscope_analysis::HeatRow, column: usize| {
                let cell = row.cells.get(column).copied().flatten();
                let shade = |bytes: i64| rgb(ramp(map.share(bytes) as f32));
                cell.map_or(egui::Color32::TRANSPARENT, |cell| shade(cell.bytes))
            };
            let row = |row| (0..columns).map(move |column| cell(row, column));
            let image = ColorImage::new([columns, map.rows.len()], map.rows.iter().flat_map(row).collect());
            self.texture = Some(ctx.load_texture("ranks", image, TextureOptions::NEAREST));
            self.version = version;
        }
        self.texture.as_ref()
    }
}

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let Some(fleet) = &app.files.fleet else { return };
    let (view, version) = (Arc::clone(&fleet.view), fleet.version);
    let palette = app.palette();
    let how_many = match view.known {
        known if known == view.files => plural(known, "rank"),
        known => format!("{} of {} read", count(known), plural(view.files, "rank")),
    };
    let odd = match view.odd_count {
        0 => "none stands out".to_owned(),
        1 => "1 stands out".to_owned(),
        n => format!("{} stand out", count(n)),
    };
    ui.label(RichText::new(format!("{how_many} · {odd}")).font(theme::body()).color(palette.text));
    ui.add_space(4.0);
    if let Some(map) = &view.map {
        heat(app, ui, map, &view, version);
    }
    for odd in view.odd.iter().take(MOST_ROWS) {
        row(app, ui, odd);
    }
    let left = view.odd_count.saturating_sub(MOST_ROWS);
    if left > 0 {
        let words = format!("{} more; vramscope ranks --json lists all", count(left));
        ui.label(RichText::new(words).font(theme::small()).color(palette.dim));
    }
    ui.add_space(8.0);
}

/// The map: a click opens the rank with the highest peak of a cell.
fn heat(app: &mut App, ui: &mut Ui, map: &HeatMap, view: &FleetView, version: u64) {
    let palette = app.palette();
    let title = egui::Label::new(RichText::new(&map.title).font(theme::small()).color(palette.dim));
    ui.add(title.wrap().selectable(false));
    let high = (ui.ctx().content_rect().height() * 0.24).clamp(80.0, 256.0);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), high), Sense::click());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, &map.title));
    let picture = rect.with_max_x(rect.right() - MARKS);
    let painter = ui.painter_at(rect);
    painter.rect_filled(picture, 2.0, palette.line);
    if let Some(texture) = app.parts.fleet.texture(ui.ctx(), map, version) {
        let whole = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
        painter.image(texture.id(), picture, whole, egui::Color32::WHITE);
    }
    let row_height = picture.height() / map.rows.len().max(1) as f32;
    let mut last = f32::MIN;
    for (number, row) in map.rows.iter().enumerate() {
        let y = picture.top() + (number as f32 + 0.5) * row_height;
        // Marks that would lie on each other are one.
        if y - last > 8.0 && view.odd.iter().any(|odd| row.has(odd.rank)) {
            let at = pos2(rect.right() - 1.0, y);
            painter.text(at, Align2::RIGHT_CENTER, "◂", theme::small(), palette.select);
            last = y;
        }
    }
    scale(app, ui, map);
    let Some(at) = response.hover_pos().filter(|at| picture.contains(*at)) else { return };
    let share = (at - picture.min) / picture.size();
    let row = map.rows.get((share.y * map.rows.len() as f32) as usize);
    let Some((row, cells)) = row.map(|row| (row, &row.cells)) else { return };
    let column = (share.x * cells.len() as f32) as usize;
    let Some(cell) = cells.get(column).copied().flatten() else { return };
    let name = app.files.fleet.as_ref().and_then(|fleet| fleet.names.get(cell.input));
    let odd = view.odd.iter().find(|odd| odd.file == cell.input);
    let mut words = format!("{}\n{}", name.map_or("", String::as_str), bytes(cell.bytes));
    if row.ranks.0 != row.ranks.1 {
        words += &format!(", the highest of ranks {}", row.label());
    }
    if let Some(odd) = odd {
        words += &format!("\n{}", odd.words);
    }
    if response.on_hover_text(words).clicked() {
        app.show_file(cell.input);
    }
}

/// What the colors of the map mean.
fn scale(app: &App, ui: &mut Ui, map: &HeatMap) {
    let palette = app.palette();
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 18.0), Sense::hover());
    let painter = ui.painter_at(rect);
    let text = |at, align, words: String| painter.text(at, align, words, theme::tick(), palette.dim);
    let low = text(rect.left_center(), Align2::LEFT_CENTER, bytes(map.range.0));
    let right = pos2(rect.right() - MARKS, rect.center().y);
    let high = text(right, Align2::RIGHT_CENTER, bytes(map.range.1));
    let room = Rect::from_min_max(
        pos2(low.right() + 6.0, rect.center().y - SCALE / 2.0),
        pos2(high.left() - 6.0, rect.center().y + SCALE / 2.0),
    );
    let steps = 16;
    for step in 0..steps {
        let edge = |step: i32| room.left() + room.width() * step as f32 / steps as f32;
        let part = Rect::from_x_y_ranges(edge(step)..=edge(step + 1), room.y_range());
        painter.rect_filled(part, 0.0, rgb(ramp((step as f32 + 0.5) / steps as f32)));
    }
}

/// A rank that stands out: a click opens it.
fn row(app: &mut App, ui: &mut Ui, odd: &OddRank) {
    let palette = app.palette();
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
    let name =
        app.files.fleet.as_ref().and_then(|fleet| fleet.names.get(odd.file).cloned()).unwrap_or_default();
    let is_current = app.files.device_of(&name) == Some(app.files.current);
    let painter = ui.painter_at(rect.expand(4.0));
    if response.hovered() || is_current {
        painter.rect_filled(rect.expand2(vec2(4.0, 0.0)), 3.0, palette.raised);
    }
    let file = name.rsplit(['/', '\\']).next().unwrap_or(&name).to_owned();
    let label = odd.rank.map_or(file, |rank| format!("rank {rank}"));
    let about = format!("{label} stands out: {}", odd.words);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, about.clone()));
    let off = painter.text(
        rect.right_center() - vec2(2.0, 0.0),
        Align2::RIGHT_CENTER,
        format!("▲ {}", change(odd.off)),
        theme::mono(),
        palette.select,
    );
    let left = ui.painter_at(rect.with_max_x(off.left() - 6.0));
    let at = rect.left_center() + vec2(4.0, 0.0);
    left.text(at, Align2::LEFT_CENTER, label, theme::body(), palette.text);
    let words = format!("{name}\n{}", odd.reason());
    if response.on_hover_text(words).clicked() {
        app.show_file(odd.file);
    }
}
