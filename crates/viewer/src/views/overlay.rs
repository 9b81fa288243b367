//! What lies over the window for a moment: the keys, and the palette of commands.

use egui::{Align2, Key, RichText, Ui, vec2};

use crate::app::App;
use crate::commands::{Command, GESTURES, TABLE, key_text};
use crate::theme;

pub(crate) fn show(app: &mut App, ui: &Ui) {
    help(app, ui);
    palette(app, ui);
    crate::notes::editor(app, ui.ctx());
}

/// The keys in groups, in as many columns as there is room for.
fn help(app: &mut App, ui: &Ui) {
    if !app.parts.help {
        return;
    }
    let colors = app.palette();
    let mut open = true;
    let screen = ui.ctx().content_rect();
    let columns = ((screen.width() - 80.0) / COLUMN).floor().clamp(1.0, 3.0) as usize;
    egui::Window::new("Keys")
        .open(&mut open)
        .anchor(Align2::CENTER_CENTER, vec2(0.0, 0.0))
        .collapsible(false)
        .auto_sized()
        .show(ui.ctx(), |ui| {
            let size = vec2(COLUMN * columns as f32, screen.height() - 120.0);
            egui::ScrollArea::vertical().max_height(size.y).auto_shrink([true, true]).show(ui, |ui| {
                ui.set_width(size.x);
                ui.horizontal_top(|ui| {
                    for groups in in_columns(&groups(), columns) {
                        ui.vertical(|ui| {
                            ui.set_width(COLUMN - 16.0);
                            for group in groups {
                                keys_of(ui, group, &colors);
                            }
                        });
                    }
                });
            });
        });
    app.parts.help &= open;
}

/// Width of a column of keys.
const COLUMN: f32 = 340.0;

/// Keys that belong together: a heading, and for each what it does.
type Group = (&'static str, Vec<(String, &'static str)>);

fn groups() -> Vec<Group> {
    let gestures = GESTURES.iter().map(|(key, text)| ((*key).to_owned(), *text)).collect();
    let mut groups: Vec<Group> = vec![("MOUSE AND MOVEMENT", gestures)];
    for &(command, name, key) in TABLE {
        let Some(key) = key else { continue };
        let title = command.group();
        match groups.iter_mut().find(|(known, _)| *known == title) {
            Some((_, keys)) => keys.push((key_text(key), name)),
            None => groups.push((title, vec![(key_text(key), name)])),
        }
    }
    groups
}

/// Groups in columns of about the same length, in order.
fn in_columns(groups: &[Group], columns: usize) -> Vec<Vec<&Group>> {
    let rows = |group: &Group| group.1.len() + 2;
    let each = groups.iter().map(rows).sum::<usize>().div_ceil(columns);
    let mut placed: Vec<Vec<&Group>> = vec![Vec::new()];
    let mut used = 0;
    for group in groups {
        if used > 0 && used + rows(group) / 2 > each && placed.len() < columns {
            placed.push(Vec::new());
            used = 0;
        }
        used += rows(group);
        if let Some(last) = placed.last_mut() {
            last.push(group);
        }
    }
    placed
}

fn keys_of(ui: &mut Ui, (title, keys): &Group, colors: &theme::Palette) {
    ui.label(RichText::new(*title).font(theme::small()).color(colors.dim));
    egui::Grid::new(title).num_columns(2).min_col_width(84.0).spacing(vec2(12.0, 4.0)).show(ui, |ui| {
        for (key, text) in keys {
            ui.label(RichText::new(key).font(theme::mono()).color(colors.accent));
            ui.add(egui::Label::new(*text).wrap());
            ui.end_row();
        }
    });
    ui.add_space(10.0);
}

fn palette(app: &mut App, ui: &Ui) {
    let Some(mut text) = app.parts.palette.take() else { return };
    let colors = app.palette();
    let mut chosen: Option<Command> = None;
    let mut close = ui.input(|input| input.key_pressed(Key::Escape));
    egui::Window::new("commands")
        .title_bar(false)
        .anchor(Align2::CENTER_TOP, vec2(0.0, 80.0))
        .fixed_size([420.0, 360.0])
        .show(ui.ctx(), |ui| {
            let edit = egui::TextEdit::singleline(&mut text)
                .hint_text("What do you want to do?")
                .desired_width(f32::INFINITY);
            let response = ui.add(edit);
            response.request_focus();
            let wanted = text.to_lowercase();
            let fits = |name: &str| wanted.split_whitespace().all(|word| name.to_lowercase().contains(word));
            let found: Vec<_> = TABLE.iter().filter(|(_, name, _)| fits(name)).collect();
            if ui.input(|input| input.key_pressed(Key::Enter)) {
                chosen = found.first().map(|(command, ..)| *command);
                close = true;
            }
            ui.add_space(4.0);
            egui::ScrollArea::vertical().max_height(300.0).show(ui, |ui| {
                for (at, (command, name, key)) in found.into_iter().enumerate() {
                    let (rect, response) =
                        ui.allocate_exact_size(vec2(ui.available_width(), 22.0), egui::Sense::click());
                    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::MenuItem, true, name));
                    if response.hovered() || at == 0 {
                        ui.painter().rect_filled(rect, 3.0, colors.raised);
                    }
                    let painter = ui.painter_at(rect);
                    painter.text(
                        rect.left_center() + vec2(8.0, 0.0),
                        Align2::LEFT_CENTER,
                        name,
                        theme::body(),
                        colors.text,
                    );
                    let key = key.map(key_text).unwrap_or_default();
                    painter.text(
                        rect.right_center() - vec2(8.0, 0.0),
                        Align2::RIGHT_CENTER,
                        key,
                        theme::mono(),
                        colors.dim,
                    );
                    if response.clicked() {
                        chosen = Some(*command);
                        close = true;
                    }
                }
            });
        });
    if !close {
        app.parts.palette = Some(text);
    }
    if let Some(command) = chosen {
        command.run(app, ui.ctx());
    }
}
