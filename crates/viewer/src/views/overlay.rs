//! What lies over the window for a moment: the keys, and the palette of commands.

use egui::{Align2, Key, RichText, Ui, vec2};

use crate::app::App;
use crate::commands::{Command, GESTURES, TABLE, key_text};
use crate::theme;

pub(crate) fn show(app: &mut App, ui: &Ui) {
    help(app, ui);
    palette(app, ui);
}

fn help(app: &mut App, ui: &Ui) {
    if !app.parts.help {
        return;
    }
    let colors = app.palette();
    let mut open = true;
    egui::Window::new("Keys")
        .open(&mut open)
        .anchor(Align2::CENTER_CENTER, vec2(0.0, 0.0))
        .collapsible(false)
        .resizable(false)
        .show(ui.ctx(), |ui| {
            let row = |ui: &mut Ui, key: String, text: &str| {
                ui.label(RichText::new(key).font(theme::mono()).color(colors.accent));
                ui.label(text);
                ui.end_row();
            };
            ui.columns(2, |columns| {
                egui::Grid::new("gestures").spacing(vec2(16.0, 6.0)).show(&mut columns[0], |ui| {
                    for (key, text) in GESTURES {
                        row(ui, (*key).to_owned(), text);
                    }
                    for &(_, name, key) in TABLE.iter().filter(|(_, _, key)| key.is_some()).take(8) {
                        row(ui, key.map(key_text).unwrap_or_default(), name);
                    }
                });
                egui::Grid::new("keys").spacing(vec2(16.0, 6.0)).show(&mut columns[1], |ui| {
                    for &(_, name, key) in TABLE.iter().filter(|(_, _, key)| key.is_some()).skip(8) {
                        row(ui, key.map(key_text).unwrap_or_default(), name);
                    }
                });
            });
        });
    app.parts.help &= open;
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
