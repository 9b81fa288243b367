//! The search box: moments, filters, addresses and phases, in the words of `analysis::query`. Results are listed below
//! it, and everything else is dimmed.

use std::sync::Arc;

use egui::{Key, Ui};
use vramscope_analysis::pictures::Axis;
use vramscope_engine::{AskSearch, Hit, LineId, SearchResults};
use vramscope_format::{plural, size};

use crate::app::App;
use crate::requests::Slot;
use crate::theme;

/// Width of the results.
const WIDTH: f32 = 480.0;
/// Width of the box.
const SEARCH: f32 = 270.0;

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

/// The stacks that match, while there is a search.
pub(crate) fn found(app: &App) -> Option<Arc<SearchResults>> {
    if app.parts.search.text.trim().is_empty() {
        return None;
    }
    app.requests
        .look::<AskSearch>(Slot::Search)
        .map(|answer| answer.value)
        .filter(|found| !found.stacks.is_empty())
}

/// The box in the top bar.
pub(crate) fn field(app: &mut App, ui: &mut Ui) {
    if !app.parts.search.text.is_empty()
        && ui.add(egui::Button::new("×").frame(false)).on_hover_text("Clear the search (Esc)").clicked()
    {
        app.parts.search.text.clear();
    }
    let id = egui::Id::unique("search");
    let edit = egui::TextEdit::singleline(&mut app.parts.search.text)
        .id(id)
        .hint_text("line, phase, peak, 0x…, size>=20MiB  /")
        .desired_width((ui.available_width() - 20.0).clamp(40.0, SEARCH))
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
        app.requests.forget(Slot::Search);
        return;
    }
    let Some(answer) = app.requests.want(Slot::Search, AskSearch { of, text }) else { return };
    if answer.version > app.parts.search_version {
        app.parts.search_version = answer.version;
        app.colors_version += 1;
    }
    let results = &*answer.value;
    if response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter)) {
        choose(app, &results.hits);
        response.request_focus();
    }
    let open = response.has_focus();
    let wide = WIDTH.min(ui.ctx().content_rect().width() - 24.0);
    egui::Popup::from_response(&response).open(open).width(wide).show(|ui| {
        ui.set_width(wide);
        list(app, ui, results);
    });
}

/// Goes to the next result, or the one before.
pub(crate) fn step(app: &mut App, forward: bool) {
    let Some(answer) = app.requests.look::<AskSearch>(Slot::Search) else { return };
    let results = &*answer.value;
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
        Hit::Address { owner, .. } => app.select_and_show(owner.alloc),
        Hit::Moment { at, time } => app.jump(*at, Some(*time)),
        Hit::Phase { first, time, .. } => {
            app.set_cursor(first.0);
            match app.settings.axis {
                Axis::Events => app.show_stretch(f64::from(first.0.0), f64::from(first.1.0)),
                Axis::Time => app.show_stretch(time.0 as f64, time.1 as f64),
            }
        }
    }
}

/// What a result says at the left and at the right, and its color.
fn row(hit: &Hit) -> (String, String, LineId) {
    match hit {
        Hit::Moment { at, .. } => ("Go to".into(), at.words(), LineId::default()),
        Hit::Line { place, sum, line, .. } => (place.clone(), sum.words(), *line),
        Hit::Phase { name, count, .. } => (format!("phase {name}"), plural(*count, "time"), LineId::of(name)),
        Hit::Address { owner, addr, place } => {
            (format!("{addr:#x} {place}"), format!("{}, {}", size(owner.requested), owner.life()), owner.line)
        }
    }
}

fn list(app: &mut App, ui: &mut Ui, results: &SearchResults) {
    let palette = app.palette();
    let heading = match &results.problem {
        Some(problem) => problem.clone(),
        None if results.hits.is_empty() => "Nothing matches".to_owned(),
        None if results.found.count == 0 => String::new(),
        None => results.found.words(),
    };
    if !heading.is_empty() {
        ui.add(egui::Label::new(egui::RichText::new(heading).font(theme::small()).color(palette.dim)).wrap());
    }
    egui::ScrollArea::vertical().max_height(320.0).auto_shrink([false, true]).show(ui, |ui| {
        for (at, hit) in results.hits.iter().enumerate() {
            let (text, amount, line) = row(hit);
            let (rect, response) =
                ui.allocate_exact_size(egui::vec2(ui.available_width(), 20.0), egui::Sense::click());
            let chosen = at == app.parts.search.chosen;
            response
                .widget_info(|| egui::WidgetInfo::selected(egui::Role::ListBoxOption, true, chosen, &text));
            if response.hovered() || chosen {
                ui.painter().rect_filled(rect, 3.0, palette.raised);
            }
            let painter = ui.painter_at(rect);
            let chip = rect.left_center() + egui::vec2(10.0, 0.0);
            painter.rect_filled(
                egui::Rect::from_center_size(chip, egui::vec2(8.0, 8.0)),
                2.0,
                palette.of_line(line, 1),
            );
            let amount = painter.layout_no_wrap(amount, theme::mono(), palette.dim);
            let right = rect.right() - 6.0 - amount.size().x;
            painter.galley(egui::pos2(right, rect.center().y - amount.size().y / 2.0), amount, palette.dim);
            let left = rect.left() + 22.0;
            let columns = theme::columns(&painter, &theme::mono(), right - 8.0 - left);
            let text = vramscope_format::elide_place(&text, columns);
            let at_left = egui::pos2(left, rect.center().y);
            painter.text(at_left, egui::Align2::LEFT_CENTER, text, theme::mono(), palette.text);
            if response.clicked() {
                app.parts.search.chosen = at;
                go(app, hit);
            }
        }
    });
}
