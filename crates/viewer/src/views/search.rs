//! The search box: results below it, and everything else dimmed while it is open.

use egui::{Key, Ui};
use vramscope_engine::{Hit, Request, Response};
use vramscope_format::{bytes, count};

use crate::app::App;
use crate::color;
use crate::desk::Slot;
use crate::theme;

/// What is searched for.
#[derive(Default)]
pub(crate) struct Search {
    pub(crate) text: String,
    /// Put the cursor into the box.
    pub(crate) focus: bool,
    /// Which result is next.
    chosen: usize,
    asked: String,
}

/// The stacks that fit, while there is a search.
pub(crate) fn found(app: &App) -> Option<Vec<u32>> {
    if app.parts.search.text.trim().is_empty() {
        return None;
    }
    let answer = app.desk.look(Slot::Search)?;
    match &*answer.response {
        Response::Search(results) if !results.stacks.is_empty() => Some(results.stacks.clone()),
        _ => None,
    }
}

/// The box in the top bar.
pub(crate) fn field(app: &mut App, ui: &mut Ui) {
    let id = egui::Id::unique("search");
    let edit = egui::TextEdit::singleline(&mut app.parts.search.text)
        .id(id)
        .hint_text("Search lines, phases, 0x…, events   /")
        .desired_width(230.0)
        .font(theme::body());
    let response = ui.add(edit);
    if std::mem::take(&mut app.parts.search.focus) {
        response.request_focus();
    }
    if response.has_focus() && ui.input(|input| input.key_pressed(Key::Escape)) {
        app.parts.search.text.clear();
        response.surrender_focus();
    }
    let Some((of, _)) = app.device() else { return };
    let text = app.parts.search.text.trim().to_owned();
    if text != app.parts.search.asked {
        app.parts.search.asked.clone_from(&text);
        app.parts.search.chosen = 0;
        app.colors_version += 1;
    }
    if text.is_empty() {
        app.desk.forget(Slot::Search);
        return;
    }
    let Some(answer) = app.desk.want(Slot::Search, Request::Search { of, text }) else { return };
    if answer.version > app.parts.search_version {
        app.parts.search_version = answer.version;
        app.colors_version += 1;
    }
    let Response::Search(results) = &*answer.response else { return };
    if response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter)) {
        choose(app, &results.hits);
        response.request_focus();
    }
    let open = response.has_focus();
    egui::Popup::from_response(&response).open(open).width(420.0).show(|ui| {
        list(app, ui, results);
    });
}

/// Goes to the next result, or the one before.
pub(crate) fn step(app: &mut App, forward: bool) {
    let Some(answer) = app.desk.look(Slot::Search) else { return };
    let Response::Search(results) = &*answer.response else { return };
    let hits = results.hits.len().max(1);
    let chosen = &mut app.parts.search.chosen;
    *chosen = if forward { (*chosen + 1) % hits } else { (*chosen + hits - 1) % hits };
    choose(app, &results.hits);
}

fn choose(app: &mut App, hits: &[Hit]) {
    if let Some(hit) = hits.get(app.parts.search.chosen) {
        go(app, hit);
    }
}

fn go(app: &mut App, hit: &Hit) {
    match hit {
        Hit::Line { largest, .. } => app.select_and_show(*largest),
        Hit::Address { alloc, .. } => app.select_and_show(*alloc),
        Hit::Event(event) => app.jump(event + 1, None),
        Hit::Phase { first, .. } => {
            app.set_cursor(first.0);
            if app.settings.axis == vramscope_engine::Axis::Events {
                app.show_stretch(f64::from(first.0), f64::from(first.1));
            }
        }
    }
}

fn list(app: &mut App, ui: &mut Ui, results: &vramscope_engine::SearchResults) {
    let palette = app.palette();
    let (n, sum) = results.found;
    let heading = if results.hits.is_empty() {
        "Nothing fits".to_owned()
    } else {
        format!("{} allocations, {} in all", count(n), bytes(sum as i64))
    };
    ui.label(egui::RichText::new(heading).font(theme::small()).color(palette.dim));
    egui::ScrollArea::vertical().max_height(320.0).show(ui, |ui| {
        for (at, hit) in results.hits.iter().enumerate() {
            let (text, amount, line) = match hit {
                Hit::Line { place, count: n, bytes: sum, line, .. } => {
                    (place.clone(), format!("{} × {}", count(*n), bytes(*sum as i64)), *line)
                }
                Hit::Phase { name, count: n, .. } => (format!("phase {name}"), format!("{} ×", count(*n)), 0),
                Hit::Event(event) => (format!("event {}", count(*event)), String::new(), 0),
                Hit::Address { requested, place, opened, .. } => {
                    (place.clone(), format!("{} at event {}", bytes(*requested as i64), count(*opened)), 0)
                }
            };
            let (rect, response) =
                ui.allocate_exact_size(egui::vec2(ui.available_width(), 20.0), egui::Sense::click());
            if response.hovered() || at == app.parts.search.chosen {
                ui.painter().rect_filled(rect, 3.0, palette.raised);
            }
            let painter = ui.painter_at(rect);
            painter.rect_filled(
                egui::Rect::from_center_size(
                    rect.left_center() + egui::vec2(10.0, 0.0),
                    egui::vec2(8.0, 8.0),
                ),
                2.0,
                color::of_line(line, 1),
            );
            let amount = painter.layout_no_wrap(amount, theme::mono(), palette.dim);
            let right = rect.right() - 6.0 - amount.size().x;
            painter.galley(egui::pos2(right, rect.center().y - amount.size().y / 2.0), amount, palette.dim);
            let room = egui::Rect::from_min_max(rect.min, egui::pos2(right - 8.0, rect.bottom()));
            painter.with_clip_rect(room).text(
                rect.left_center() + egui::vec2(22.0, 0.0),
                egui::Align2::LEFT_CENTER,
                text,
                theme::mono(),
                palette.text,
            );
            if response.clicked() {
                app.parts.search.chosen = at;
                go(app, hit);
            }
        }
    });
}
