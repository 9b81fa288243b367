//! What the colors say: live bytes and share of each at the moment under the pointer, else at the cursor.
//!
//! Pointing at an entry previews it in the picture, a click shows it alone, another click shows everything again.

use std::collections::BTreeMap;

use egui::{Align2, Rect, RichText, ScrollArea, Sense, Ui, pos2, vec2};
use vramscope_engine::color::ColorBy;
use vramscope_engine::{AskHere, AskTile, By, Group, Here, Source, Tile, Which};
use vramscope_format::{elide_place, fit, share, size};

use crate::app::App;
use crate::color;
use crate::requests::Slot;
use crate::theme::{self, Palette};
use crate::views::ranks::heading;

/// Height of an entry.
const ROW: f32 = 22.0;
/// What pale colors mean.
const PALE: &str = "pale: at times";
/// Lines that are worth listing.
const MOST_LINES: usize = 40;
/// Narrower lists have no room for shares in words.
const WIDE: f32 = 190.0;

/// What the legend keeps between frames.
#[derive(Clone, Default)]
pub(crate) struct Legend {
    /// Which picture the hatchings are of.
    version: u64,
    /// Whether there are hatched pixels, of which kinds.
    awaiting: bool,
    idle: bool,
    /// Whether there are pale pixels.
    pale: bool,
    /// Groups that were seen, so that entries stay in place while the moment changes.
    seen: Option<(Source, By, BTreeMap<Group, String>)>,
    /// The group under the pointer.
    pub(crate) preview: Option<Group>,
}

/// What live bytes are added up by, for a meaning of colors.
fn by(color: ColorBy) -> Option<By> {
    match color {
        ColorBy::Stack => Some(By::Line),
        ColorBy::Category => Some(By::Category),
        ColorBy::Pool => Some(By::Pool),
        ColorBy::Stream => Some(By::Stream),
        ColorBy::Size | ColorBy::Lifetime => None,
    }
}

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    let Some((of, summary)) = app.device() else { return };
    let mut preview = None;
    match by(app.color()) {
        Some(by) => {
            // Lines are sorted by bytes: they stay where they are while the pointer moves.
            let at = match by {
                By::Line => app.selection.cursor,
                _ => app.parts.last_hover.unwrap_or(app.selection.cursor),
            };
            let place = if at == app.selection.cursor { "AT THE CURSOR" } else { "AT THE POINTER" };
            heading(app, ui, &format!("{} {place}", app.color().name().to_uppercase()));
            if by == By::Line && !summary.has.stacks {
                let text = "Python frames: not in this file. Operators, where it has them:";
                ui.add(egui::Label::new(RichText::new(text).font(theme::small()).color(palette.dim)).wrap());
            }
            let ask = AskHere { of, at, counter: app.settings.counter, by, only: Which::default() };
            let answer = app.requests.want(Slot::Legend, ask);
            if let Some(answer) = answer.filter(|answer| (answer.request.of, answer.request.by) == (of, by)) {
                preview = groups(app, ui, (of, by), &answer.value);
            }
        }
        None => {
            heading(app, ui, &format!("COLOR BY {}", app.color().name().to_uppercase()));
            for (color, name) in app.coloring(None, summary.last()).legend(&summary) {
                swatch(ui, color::rgb(color), &name, &palette);
            }
        }
    }
    hatchings(app, ui);
    if app.parts.legend.preview != preview {
        app.parts.legend.preview = preview;
        app.colors_version += 1;
        ui.ctx().request_repaint();
    }
}

/// A bar of all groups, and an entry for each. Gives the one under the pointer.
fn groups(app: &mut App, ui: &mut Ui, of: (Source, By), here: &Here) -> Option<Group> {
    let rows: Vec<(Group, String, u64)> = match of.1 {
        By::Line => here
            .rows
            .iter()
            .take(MOST_LINES)
            .filter_map(|row| Some((row.group.clone()?, row.name.clone(), row.sum.bytes)))
            .collect(),
        _ => in_place(app, of, here),
    };
    let all = here.all.bytes;
    bar(app, ui, &rows, all);
    let mut under = None;
    ScrollArea::vertical().id_salt("legend").auto_shrink([false, true]).show(ui, |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        for (group, name, bytes) in rows {
            let entry = Entry { group: Some(&group), name: &name, bytes, all };
            let response = entry.show(app, ui);
            if response.hovered() {
                under = Some(group.clone());
            }
            if response.clicked() {
                app.isolate(group, &name);
            }
        }
    });
    // What is alone needs no preview of itself.
    under.filter(|_| app.isolated.is_none())
}

/// The groups in an order that does not depend on the moment.
fn in_place(app: &mut App, (of, by): (Source, By), here: &Here) -> Vec<(Group, String, u64)> {
    let seen = &mut app.parts.legend.seen;
    if seen.as_ref().is_none_or(|(source, known, _)| (*source, *known) != (of, by)) {
        *seen = Some((of, by, BTreeMap::new()));
    }
    let Some((_, _, seen)) = seen else { return Vec::new() };
    for row in &here.rows {
        if let Some(group) = &row.group {
            seen.entry(group.clone()).or_insert_with(|| row.name.clone());
        }
    }
    let bytes = |group: &Group| {
        here.rows.iter().find(|row| row.group.as_ref() == Some(group)).map_or(0, |row| row.sum.bytes)
    };
    seen.iter().map(|(group, name)| (group.clone(), name.clone(), bytes(group))).collect()
}

/// Shares of all that is live, one beside the other.
fn bar(app: &App, ui: &mut Ui, rows: &[(Group, String, u64)], all: u64) {
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 10.0), Sense::hover());
    let painter = ui.painter_at(rect);
    painter.rect_filled(rect, 2.0, app.palette().line);
    let mut left = rect.left();
    for (group, _, bytes) in rows {
        let wide = rect.width() * (*bytes as f64 / all.max(1) as f64) as f32;
        let part = Rect::from_min_size(pos2(left, rect.top()), vec2(wide, rect.height()));
        painter.rect_filled(part, 0.0, app.palette().of_group(group));
        left += wide;
    }
    ui.add_space(4.0);
}

/// A group with its bytes and its share.
pub(crate) struct Entry<'a> {
    pub(crate) group: Option<&'a Group>,
    pub(crate) name: &'a str,
    pub(crate) bytes: u64,
    pub(crate) all: u64,
}

impl Entry<'_> {
    pub(crate) fn show(&self, app: &App, ui: &mut Ui) -> egui::Response {
        let palette = app.palette();
        let sense = if self.group.is_some() { Sense::click() } else { Sense::hover() };
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), sense);
        let alone = self.group.is_some_and(|group| app.is_isolated(group));
        let painter = ui.painter_at(rect);
        if alone || response.hovered() && self.group.is_some() {
            painter.rect_filled(rect, 3.0, palette.raised);
        }
        if alone {
            painter.rect_filled(Rect::from_min_size(rect.min, vec2(2.0, rect.height())), 1.0, palette.select);
        }
        let color = self.group.map_or(palette.dim, |group| palette.of_group(group));
        let chip = Rect::from_center_size(rect.left_center() + vec2(9.0, 0.0), vec2(9.0, 9.0));
        painter.rect_filled(chip, 2.0, color);
        let strong = if self.bytes == 0 { palette.dim } else { palette.text };
        let mut right = rect.right() - 4.0;
        let mut put = |text: String, color, room: f32| {
            let at = pos2(right, rect.center().y);
            painter.text(at, Align2::RIGHT_CENTER, text, theme::tick(), color);
            right -= room;
        };
        if rect.width() > WIDE {
            put(share(self.bytes, self.all), palette.dim, 38.0);
        }
        put(size(self.bytes), strong, 62.0);
        let left = rect.left() + 20.0;
        let columns = theme::columns(&painter, &theme::tick(), right - left);
        let shown = match self.group {
            Some(Group::Line(_) | Group::Stack(_)) => elide_place(self.name, columns),
            _ => fit(self.name, columns),
        };
        painter.text(pos2(left, rect.center().y), Align2::LEFT_CENTER, shown, theme::tick(), strong);
        let action = match (alone, self.group) {
            (true, _) => "\nClick to show all memory again",
            (false, Some(_)) => "\nClick to show it alone",
            (false, None) => "",
        };
        response.widget_info(|| {
            let text = format!("{} {}", self.name, size(self.bytes));
            egui::WidgetInfo::selected(egui::Role::Button, true, alone, text)
        });
        let shares = format!("{}, {}", size(self.bytes), share(self.bytes, self.all));
        response.on_hover_text(format!("{}\n{shares}{action}", self.name))
    }
}

/// What hatching in the picture means, where there is any.
fn hatchings(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    let Some(answer) = app.requests.look::<AskTile>(Slot::Timeline) else { return };
    let legend = &mut app.parts.legend;
    if legend.version != answer.version {
        legend.version = answer.version;
        (legend.awaiting, legend.idle) = hatched(&answer.value);
        legend.pale = has_pale(&answer.value);
    }
    if legend.pale {
        let color = theme::blend(palette.dim, palette.ground, 0.5);
        swatch(ui, color, PALE, &palette).on_hover_text(
            "Above the lowest moment of a column of pixels, up to its highest one: a part of the time that the column \
             stands for. Zoom in to see when.",
        );
    }
    let all = [(legend.awaiting, "awaiting free"), (legend.idle, super::timeline::IDLE)];
    for (_, name) in all.into_iter().filter(|(is_there, _)| *is_there) {
        hatching(ui, name, &palette);
    }
}

/// Whether a picture has blocks that await their free, and idle memory of pools.
fn hatched(tile: &Tile) -> (bool, bool) {
    let awaiting = tile.owners.iter().any(|owner| owner.awaiting);
    (awaiting, tile.cells.iter().any(|&cell| cell >= Tile::FIRST_IDLE))
}

/// Whether a picture has memory that is in use for a part of a column only.
fn has_pale(tile: &Tile) -> bool {
    let columns = tile.cells.chunks(tile.height.max(1) as usize).enumerate();
    columns.into_iter().any(|(x, column)| column.get(tile.solid(x)).is_some_and(|cell| *cell != 0))
}

/// What a color on a ramp means.
fn swatch(ui: &mut Ui, color: egui::Color32, name: &str, palette: &Palette) -> egui::Response {
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 19.0), Sense::hover());
    let painter = ui.painter_at(rect);
    let chip = Rect::from_center_size(rect.left_center() + vec2(9.0, 0.0), vec2(9.0, 9.0));
    painter.rect_filled(chip, 2.0, color);
    words_beside(ui, rect, name, palette);
    response
}

/// What a swatch means, as much of it as there is room for.
fn words_beside(ui: &Ui, rect: Rect, name: &str, palette: &Palette) {
    let painter = ui.painter_at(rect);
    let at = rect.left_center() + vec2(20.0, 0.0);
    let name = fit(name, theme::columns(&painter, &theme::tick(), rect.right() - at.x));
    painter.text(at, Align2::LEFT_CENTER, name, theme::tick(), palette.text);
}

/// What hatching in the picture means.
fn hatching(ui: &mut Ui, name: &str, palette: &Palette) {
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 19.0), Sense::hover());
    let swatch = Rect::from_center_size(rect.left_center() + vec2(9.0, 0.0), vec2(9.0, 9.0));
    let painter = ui.painter_at(swatch);
    painter.rect_filled(swatch, 2.0, palette.hole);
    for n in -1..3 {
        let x = swatch.left() + n as f32 * 4.0;
        let line = [pos2(x, swatch.bottom()), pos2(x + 9.0, swatch.top())];
        painter.line_segment(line, egui::Stroke::new(1.0, palette.dim));
    }
    words_beside(ui, rect, name, palette);
    response.on_hover_text(name);
}
