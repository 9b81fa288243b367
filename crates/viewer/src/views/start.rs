//! The start screen: one drop target, what was open before, the demo, and how to record a snapshot.

use egui::{Align, Layout, RichText, Sense, Ui, vec2};

use crate::app::App;
use crate::theme;

const RECORD: &str = "torch.cuda.memory._record_memory_history()\n# … the part to look into …\ntorch.cuda.memory._dump_snapshot(\"snapshot.pickle\")";

/// What the start screen keeps.
#[derive(Default)]
pub(crate) struct Start {
    /// Whether the window for opening files is shown over a recording.
    pub(crate) open: bool,
    folder: String,
    /// What is in the folder, which is read when it is gone to: a frame waits for no disk.
    listed: Option<Listed>,
}

/// What is in a folder.
struct Listed {
    /// The folder as it was asked for, and as it is called.
    asked: String,
    folder: String,
    /// Names, and whether each is a folder.
    entries: Vec<(String, bool)>,
}

/// Height of a name in the window for opening files.
const LINE: f32 = 18.0;

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    let width = 620.0_f32.min(ui.available_width() - 32.0);
    ui.with_layout(Layout::top_down(Align::Center), |ui| {
        ui.set_width(ui.available_width());
        ui.add_space((ui.available_height() * 0.12).max(16.0));
        ui.allocate_ui_with_layout(vec2(width, 0.0), Layout::top_down(Align::Min), |ui| {
            ui.label(
                RichText::new("What is in my GPU's memory, why, and what do I do about it?")
                    .font(theme::big()),
            );
            ui.add_space(16.0);
            let takes_files = app.requests.host.takes_files();
            if !app.files.reading.is_empty() {
                progress(app, ui);
            } else if takes_files {
                target(app, ui);
            } else if app.files.failed.is_empty() {
                ui.label(RichText::new("The recording is being opened …").color(palette.dim));
            }
            for (name, message) in app.files.failed.clone() {
                ui.add_space(8.0);
                ui.label(RichText::new(name).font(theme::strong()).color(palette.danger));
                ui.add(egui::Label::new(RichText::new(message).color(palette.text)).wrap().selectable(true));
            }
            if !takes_files {
                return;
            }
            ui.add_space(16.0);
            open_list(app, ui);
            ui.add_space(16.0);
            ui.label(RichText::new("RECORD ONE").font(theme::small()).color(palette.dim));
            egui::Frame::new().fill(palette.raised).inner_margin(10).corner_radius(4).show(ui, |ui| {
                ui.set_width(width - 20.0);
                ui.add(egui::Label::new(RichText::new(RECORD).font(theme::mono())).selectable(true));
            });
            ui.add_space(8.0);
            ui.label(RichText::new("Nothing leaves this machine.").color(palette.dim));
        });
    });
}

fn target(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 110.0), Sense::hover());
    let hovering = ui.input(|input| !input.raw.hovered_files.is_empty());
    let color = if hovering { palette.accent } else { palette.dim };
    let corners =
        [rect.left_top(), rect.right_top(), rect.right_bottom(), rect.left_bottom(), rect.left_top()];
    ui.painter().extend(egui::Shape::dashed_line(&corners, egui::Stroke::new(1.0, color), 6.0, 4.0));
    let centre = rect.center();
    let painter = ui.painter();
    painter.text(
        centre - vec2(0.0, 10.0),
        egui::Align2::CENTER_CENTER,
        "Drop snapshots or a folder of ranks here",
        theme::strong(),
        palette.text,
    );
    painter.text(
        centre + vec2(0.0, 12.0),
        egui::Align2::CENTER_CENTER,
        ".pickle, .json, .html; also packed with gzip, zstd or xz",
        theme::body(),
        palette.dim,
    );
}

/// Files on their way, with what is read of each.
pub(crate) fn progress(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    for reading in &app.files.reading {
        let share = reading.share();
        ui.horizontal(|ui| {
            ui.label(RichText::new(&reading.name).font(theme::mono()));
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                let text = reading.progress();
                ui.label(RichText::new(text).font(theme::mono()).color(palette.dim));
            });
        });
        let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 4.0), Sense::hover());
        ui.painter().rect_filled(rect, 2.0, palette.line);
        let done = egui::Rect::from_min_size(rect.min, vec2(rect.width() * share, 4.0));
        ui.painter().rect_filled(done, 2.0, palette.accent);
        ui.add_space(4.0);
    }
    if ui.button("Cancel").clicked() {
        app.requests.host.cancel();
    }
}

/// The demo, recent files, and a list of what is in a folder.
fn open_list(app: &mut App, ui: &mut Ui) {
    let palette = app.palette();
    ui.horizontal(|ui| {
        if ui.button("Open the demo").clicked() {
            app.requests.host.open_demo();
        }
        if ui.button("Browse…").clicked() {
            app.choose_files();
        }
        if cfg!(target_arch = "wasm32") && ui.button("Open a folder…").clicked() {
            app.requests.host.pick(true);
        }
    });
    let recent = app.requests.host.recent();
    if !recent.is_empty() {
        ui.add_space(12.0);
        ui.label(RichText::new("RECENT").font(theme::small()).color(palette.dim));
        for path in recent.into_iter().take(8) {
            if ui.link(RichText::new(&path).font(theme::mono())).clicked() {
                app.requests.host.open(vec![path]);
            }
        }
    }
}

/// The window for opening more files: folders and files to click through.
pub(crate) fn browser(app: &mut App, ui: &Ui) {
    let listed = app.parts.start.listed.take();
    if !app.parts.start.open {
        return;
    }
    let asked = app.parts.start.folder.clone();
    let listed = listed.filter(|listed| listed.asked == asked).or_else(|| {
        let (folder, entries) = app.requests.host.list(&asked)?;
        Some(Listed { asked, folder, entries })
    });
    let Some(listed) = listed else { return };
    let Listed { folder, entries, .. } = &listed;
    let palette = app.palette();
    let mut open = true;
    let window = egui::Window::new("Open").open(&mut open).default_size([520.0, 420.0]).collapsible(false);
    let middle = ui.ctx().content_rect().center();
    window.pivot(egui::Align2::CENTER_CENTER).default_pos(middle).show(ui.ctx(), |ui| {
        ui.horizontal(|ui| {
            let mut typed = folder.clone();
            let edit = egui::TextEdit::singleline(&mut typed)
                .desired_width(ui.available_width() - 120.0)
                .font(theme::mono());
            if ui.add(edit).changed() {
                app.parts.start.folder = typed;
            }
            if ui.button("Open folder").clicked() {
                app.requests.host.open(vec![folder.clone()]);
                app.parts.start.open = false;
            }
        });
        ui.add_space(4.0);
        let up = folder.rsplit_once('/').map(|(up, _)| if up.is_empty() { "/" } else { up }.to_owned());
        if let Some(up) = up
            && ui.link(RichText::new("..").font(theme::mono())).clicked()
        {
            app.parts.start.folder = up;
        }
        ui.spacing_mut().item_spacing.y = 0.0;
        let area = egui::ScrollArea::vertical().auto_shrink([false, false]);
        area.show_rows(ui, LINE, entries.len(), |ui, seen| {
            for (name, is_folder) in entries.get(seen).unwrap_or_default() {
                let text = if *is_folder { format!("{name}/") } else { name.clone() };
                let color = if *is_folder { palette.dim } else { palette.text };
                let line = vec2(ui.available_width(), LINE);
                let link = ui.allocate_ui_with_layout(line, Layout::left_to_right(Align::Center), |ui| {
                    ui.set_min_height(LINE);
                    ui.link(RichText::new(text).font(theme::mono()).color(color))
                });
                if link.inner.clicked() {
                    let path = format!("{}/{name}", folder.trim_end_matches('/'));
                    if *is_folder {
                        app.parts.start.folder = path;
                    } else {
                        app.requests.host.open(vec![path]);
                        app.parts.start.open = false;
                    }
                }
            }
        });
    });
    app.parts.start.open &= open;
    app.parts.start.listed = Some(listed);
}
