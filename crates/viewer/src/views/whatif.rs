//! The same run under other allocator settings: a small form, a table, and the simulated segments beside the real ones.
//! The curve of the selected setting lies over the timeline.

use std::collections::HashMap;
use std::sync::Arc;

use egui::{Align2, Rect, RichText, ScrollArea, Sense, Ui, UiBuilder, pos2, vec2};
use vramscope_analysis::whatif::{Limit, Remark, Row, Tone, Under};
use vramscope_engine::{
    AskSimulable, AskSimulated, AskSimulatedCurve, AskSimulatedMap, AskState, MapRange, Request, Response,
    SimulatedRange, Source, Stretch, Trial, Trials,
};
use vramscope_format::{bytes, fit, plural, size};

use crate::app::App;
use crate::requests::Slot;
use crate::theme::{self, Palette};
use crate::views::lower::not_in_file;
use crate::views::{Tab, ranks};

const ROW: f32 = 22.0;
/// Columns of the table: what each says, and how wide it is.
const COLUMNS: [(&str, f32); 5] =
    [("peak reserved", 96.0), ("", 64.0), ("gap at most", 84.0), ("device calls", 90.0), ("retries", 54.0)];
/// Room for how a setting ends, which is what one looks for: it stands beside the name.
const RESULT: f32 = 168.0;
/// A narrower pane has no room for segments beside the table.
const BOTH: f32 = 760.0;
/// Room for the size of a segment.
const SIZES: f32 = 70.0;

/// What the view keeps.
#[derive(Default)]
pub(crate) struct WhatIf {
    /// By device: its settings, and which of them is selected.
    devices: HashMap<Source, (Trials, Option<usize>)>,
    /// The form as it is typed.
    settings: String,
    limit: String,
    problem: Option<String>,
    stopped: bool,
}

impl WhatIf {
    /// Whether some order of some setting is not simulated yet, or nothing is known at all.
    #[cfg(test)]
    pub(crate) fn is_unfinished(&self, of: Source) -> bool {
        let Some((trials, _)) = self.devices.get(&of) else { return true };
        let (done, all) = trials.progress();
        done < all || trials.about().is_none()
    }

    /// The recording and what is simulated.
    pub(crate) fn rows(&self, of: Source) -> Vec<&Row> {
        let Some((trials, _)) = self.devices.get(&of) else { return Vec::new() };
        let recorded = trials.about().filter(|about| about.refused.is_none()).map(|about| &about.recorded);
        let simulated = trials.all().iter().filter_map(|trial| Some(&trial.simulated()?.row));
        recorded.into_iter().chain(simulated).collect()
    }

    /// The settings that are selected, if they can be simulated.
    fn selected(&self, of: Source) -> Option<&Trial> {
        let (trials, selected) = self.devices.get(&of)?;
        trials.all().get((*selected)?)
    }
}

/// Whether the view is in sight.
fn is_open(app: &App) -> bool {
    let settings = &app.settings;
    settings.lower_open && (settings.tab == Tab::WhatIf || settings.side == Some(Tab::WhatIf))
}

/// Reserved bytes under some settings: what these are called, and the highest level of each column.
pub(crate) struct Levels {
    pub(crate) name: String,
    pub(crate) stretch: Stretch,
    pub(crate) levels: Arc<Vec<Option<u64>>>,
}

/// Reserved bytes under the selected settings over a stretch, while the view is in sight.
pub(crate) fn curve(app: &mut App, of: Source, stretch: Stretch) -> Option<Levels> {
    if !is_open(app) {
        return None;
    }
    let trial = app.parts.whatif.selected(of).filter(|trial| trial.simulated().is_some())?;
    let (name, under) = (trial.under.name().to_owned(), trial.under.clone());
    let ask = AskSimulatedCurve { of, under: under.clone(), stretch };
    let answer = app.requests.want(Slot::SimulatedCurve, ask)?;
    let is_same = (answer.request.of, &answer.request.under) == (of, &under);
    is_same.then_some(Levels { name, stretch: answer.request.stretch, levels: answer.value })
}

pub(crate) fn show(app: &mut App, ui: &mut Ui, body: Rect) {
    let Some((of, summary)) = app.device() else { return };
    if !summary.has.addresses {
        let advice = "Record a snapshot to simulate other allocator settings.";
        return not_in_file(app, ui, body, "Requests with their addresses", advice);
    }
    advance(app, of);
    let both = body.width() >= BOTH;
    let middle = body.left() + if both { (body.width() * 0.66).round() } else { body.width() + 12.0 };
    let part = |ui: &mut Ui, name: &str, rect: Rect| {
        let mut part = ui.new_child(UiBuilder::new().id_salt(name).max_rect(rect));
        part.set_clip_rect(rect.expand(2.0).intersect(ui.clip_rect()));
        part
    };
    let left = Rect::from_min_max(body.min, pos2(middle - 12.0, body.bottom()));
    let right = Rect::from_min_max(pos2(middle + 4.0, body.top()), body.max);
    let mut above = part(ui, "form", left);
    form(app, &mut above, of);
    // A part of its own: what is too wide for the form must not make the text below wider.
    let below = Rect::from_min_max(pos2(left.left(), above.min_rect().bottom() + 4.0), left.max);
    settings(app, &mut part(ui, "settings", below), of);
    if both {
        segments(app, &mut part(ui, "segments", right), of, right);
    }
}

/// Takes in what has come, and requests what comes next.
fn advance(app: &mut App, of: Source) {
    let (trials, selected) = app.parts.whatif.devices.entry(of).or_default();
    let about = app.requests.look::<AskSimulable>(Slot::Simulable).filter(|answer| answer.fresh);
    if let Some(answer) = about.filter(|answer| answer.request.of == of) {
        let request = Request::from(answer.request);
        if trials.next(of, None).as_ref() == Some(&request) {
            trials.receive(&request, &Response::Simulable(answer.value));
            // Something to see at once.
            *selected = selected.or(Some(0)).filter(|&at| at < trials.all().len());
        }
    }
    if let Some(answer) = app.requests.look::<AskSimulated>(Slot::Simulated)
        && answer.request.of == of
    {
        trials.receive(&answer.request.into(), &Response::Simulated(answer.value));
    }
    if app.parts.whatif.stopped {
        return;
    }
    match trials.next(of, *selected) {
        Some(Request::Simulable(ask)) => {
            app.requests.want(Slot::Simulable, ask);
        }
        Some(Request::Simulated(ask)) => {
            app.requests.want(Slot::Simulated, ask);
        }
        _ => {}
    }
}

fn color(palette: &Palette, tone: Tone) -> egui::Color32 {
    match tone {
        Tone::Plain => palette.dim,
        Tone::Fine => palette.fine,
        Tone::Warning => palette.select,
        Tone::Bad => palette.danger,
    }
}

/// Settings and a limit, as they are typed.
fn form(app: &mut App, ui: &mut Ui, of: Source) {
    let palette = app.palette();
    let whatif = &mut app.parts.whatif;
    let Some((trials, selected)) = whatif.devices.get_mut(&of) else { return };
    let mut submitted = false;
    ui.horizontal_wrapped(|ui| {
        let label = ui.label(RichText::new("settings").color(palette.dim));
        let room = (ui.available_width() - 350.0).clamp(160.0, 420.0);
        let edit = egui::TextEdit::singleline(&mut whatif.settings)
            .hint_text("max_split_size_mb:128")
            .font(theme::mono())
            .desired_width(room);
        let settings = ui
            .add(edit)
            .labelled_by(label.id)
            .on_hover_text("As in PYTORCH_CUDA_ALLOC_CONF; empty for the defaults");
        let label = ui.label(RichText::new("limit").color(palette.dim));
        let edit = egui::TextEdit::singleline(&mut whatif.limit).hint_text("as recorded").desired_width(90.0);
        let limit = ui.add(edit).labelled_by(label.id).on_hover_text("A size like 80GiB, or none");
        let enter = ui.input(|input| input.key_pressed(egui::Key::Enter));
        submitted = ui.button("Simulate").clicked() || enter && (settings.lost_focus() || limit.lost_focus());
        if settings.changed() || limit.changed() {
            // What is wrong is said while it is typed.
            let typed = Under { settings: whatif.settings.clone(), ..Under::default() };
            let settings = typed.check().map_err(|error| error.to_string());
            whatif.problem = settings.and(whatif.limit.parse::<Limit>().map(|_| ())).err();
        }
        let ((done, all), is_known) = (trials.progress(), trials.about().is_some());
        if whatif.stopped {
            if ui.button("Go on").clicked() {
                whatif.stopped = false;
            }
        } else if done < all || !is_known {
            let words = if is_known { format!("{done} of {all}") } else { "…".into() };
            ui.label(RichText::new(words).font(theme::tick()).color(palette.dim));
            if ui.button("Cancel").on_hover_text("Stop simulating").clicked() {
                whatif.stopped = true;
                // Another request for its place ends the one that is under way.
                app.requests.want(Slot::Simulated, AskSimulable { of, limit: Limit::Recorded });
            }
        }
    });
    if submitted {
        whatif.stopped = false;
        let result = whatif.limit.parse().map(|limit| trials.set_limit(limit));
        let result = result.and_then(|()| trials.add(&whatif.settings));
        match result {
            Ok(row) => (*selected, whatif.problem) = (Some(row), None),
            Err(problem) => whatif.problem = Some(problem),
        }
    }
    if let Some(problem) = &whatif.problem {
        ui.add(egui::Label::new(RichText::new(problem).color(palette.select)).wrap());
    }
}

/// How far the simulation can be trusted, the recording, and the settings, a row each.
fn settings(app: &mut App, ui: &mut Ui, of: Source) {
    let palette = app.palette();
    let Some((trials, selected)) = app.parts.whatif.devices.get(&of) else { return };
    let (trials, mut selected) = (trials.clone(), *selected);
    let Some(about) = trials.about() else {
        ui.label(
            RichText::new("Reading the requests out of the trace and checking them against it…")
                .color(palette.dim),
        );
        return;
    };
    if let Some(refused) = &about.refused {
        ui.add(egui::Label::new(RichText::new(refused).color(palette.select)).wrap().selectable(true));
        return;
    }
    let facts: Vec<&str> = about
        .about
        .iter()
        .filter(|remark| remark.tone == Tone::Plain)
        .map(|remark| remark.text.as_str())
        .collect();
    ui.add(egui::Label::new(RichText::new(facts.join(" · ")).color(palette.dim)).wrap());
    for Remark { tone, text } in about.about.iter().filter(|remark| remark.tone != Tone::Plain) {
        ui.add(egui::Label::new(RichText::new(text).color(color(&palette, *tone))).wrap().selectable(true));
    }
    ui.spacing_mut().item_spacing.y = 0.0;
    ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
        let table = Table::new(ui, &trials);
        table.heading(ui, &palette);
        if table.line(ui, "recording", Some(&about.recorded), "", selected.is_none(), &palette) {
            selected = None;
        }
        for (at, trial) in trials.all().iter().enumerate() {
            let progress = match &trial.answer {
                None if app.parts.whatif.stopped => "canceled".to_owned(),
                None => "simulating…".to_owned(),
                Some(answer) => match (&answer.problem, answer.orders) {
                    (Some(problem), _) => problem.clone(),
                    (None, (done, all)) if done < all => format!("{done} of {all} orders"),
                    _ => String::new(),
                },
            };
            let row = trial.simulated().map(|answer| &answer.row);
            if table.line(ui, trial.under.name(), row, &progress, selected == Some(at), &palette) {
                selected = Some(at);
            }
        }
        let chosen = selected.and_then(|at| trials.all().get(at)).and_then(Trial::simulated);
        if let Some(answer) = chosen {
            ui.add_space(6.0);
            // The result again: its column may be too narrow for it.
            let Row { result, confidence, .. } = &answer.row;
            let text = RichText::new(format!("{}; {}", result.text, confidence.text));
            let text = text.color(color(&palette, confidence.tone));
            ui.add(egui::Label::new(text).wrap().selectable(true));
        }
    });
    if let Some((_, place)) = app.parts.whatif.devices.get_mut(&of) {
        *place = selected;
    }
}

/// Where the columns of the table are.
struct Table {
    names: f32,
    /// Rows of [`COLUMNS`].
    columns: Vec<usize>,
}

impl Table {
    fn new(ui: &Ui, trials: &Trials) -> Self {
        let width = |name: &str| {
            ui.painter().layout_no_wrap(name.to_owned(), theme::mono(), egui::Color32::PLACEHOLDER).size().x
        };
        let widest = trials.all().iter().map(|trial| width(trial.under.name())).fold(80.0, f32::max) + 14.0;
        let room = ui.available_width() - RESULT;
        let names = widest.min((room * 0.5).max(110.0));
        let mut left = room - names;
        let has_room = |&at: &usize| {
            left -= COLUMNS[at].1;
            left >= 0.0
        };
        Self { names, columns: (0..COLUMNS.len()).take_while(has_room).collect() }
    }

    /// Where the result begins, and what each column says and where it ends.
    fn ends(&self, left: f32) -> (f32, Vec<(usize, f32)>) {
        let result = left + self.names;
        let mut end = result + RESULT;
        let ends = self.columns.iter().map(|&at| {
            end += COLUMNS[at].1;
            (at, end)
        });
        (result, ends.collect())
    }

    fn heading(&self, ui: &mut Ui, palette: &Palette) {
        let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
        let (painter, y) = (ui.painter_at(rect), rect.center().y);
        let (result, ends) = self.ends(rect.left());
        let put = |x: f32, align: Align2, text: &str| {
            painter.text(pos2(x, y), align, text, theme::small(), palette.dim);
        };
        put(rect.left() + 6.0, Align2::LEFT_CENTER, "settings");
        put(result, Align2::LEFT_CENTER, "result");
        for (at, end) in ends {
            put(end, Align2::RIGHT_CENTER, COLUMNS[at].0);
        }
    }

    /// A row. Says whether it was clicked.
    fn line(
        &self,
        ui: &mut Ui,
        name: &str,
        row: Option<&Row>,
        progress: &str,
        on: bool,
        palette: &Palette,
    ) -> bool {
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
        response.widget_info(|| egui::WidgetInfo::selected(egui::Role::ListBoxOption, true, on, name));
        let (painter, y) = (ui.painter_at(rect), rect.center().y);
        if on || response.hovered() {
            let fill = if on { ui.visuals().selection.bg_fill } else { palette.raised };
            painter.rect_filled(rect, 2.0, fill);
        }
        let letters = theme::columns(&painter, &theme::mono(), self.names - 6.0);
        let at = pos2(rect.left() + 6.0, y);
        painter.text(at, Align2::LEFT_CENTER, fit(name, letters), theme::mono(), palette.text);
        let (left, ends) = self.ends(rect.left());
        if let Some(row) = row {
            let retries = row.retries.map(|retries| retries.to_string()).unwrap_or_default();
            let calls = format!("{} + {}", row.device_calls.0, row.device_calls.1);
            let cells = [size(row.reserved_peak), row.change.clone(), size(row.gap), calls, retries];
            for (at, end) in ends {
                painter.text(pos2(end, y), Align2::RIGHT_CENTER, &cells[at], theme::mono(), palette.text);
            }
            let color = match row.result.tone {
                Tone::Plain => palette.text,
                tone => color(palette, tone),
            };
            let words = match progress {
                "" => row.result.text.clone(),
                progress => format!("{}, {progress}", row.result.text),
            };
            let words = fit(&words, (RESULT / 6.4) as usize);
            painter.text(pos2(left, y), Align2::LEFT_CENTER, words, theme::body(), color);
        } else {
            let words = fit(progress, (RESULT / 5.6) as usize);
            painter.text(pos2(left, y), Align2::LEFT_CENTER, words, theme::small(), palette.dim);
        }
        let words = row.map_or(["", ""], |row| [&row.result.text, &row.confidence.text]);
        let words: Vec<&str> =
            words.into_iter().chain([progress]).filter(|words| !words.is_empty()).collect();
        response.on_hover_text(format!("{name}\n{}", words.join("\n"))).clicked()
    }
}

/// A segment as what is in use of it: bytes from its beginning, and how many.
struct Bar {
    size: u64,
    expandable: bool,
    used: Vec<(u64, u64)>,
}

impl Bar {
    fn recorded(range: &MapRange) -> Self {
        let used = range.blocks.iter().map(|block| (block.addr.saturating_sub(range.addr), block.size));
        Self { size: range.size, expandable: range.expandable, used: used.collect() }
    }

    fn simulated(range: &SimulatedRange) -> Self {
        Self { size: range.size, expandable: range.expandable, used: range.used.clone() }
    }
}

/// The segments at the cursor: recorded on the left, simulated on the right, to the same scale.
fn segments(app: &mut App, ui: &mut Ui, of: Source, body: Rect) {
    let palette = app.palette();
    let at = app.selection.cursor;
    let recorded = app.requests.want(Slot::State, AskState { of, at, categories: false });
    let recorded = recorded.filter(|answer| answer.request.of == of).map(|answer| answer.value);
    let under = app.parts.whatif.selected(of).filter(|trial| trial.simulated().is_some());
    let simulated = under.map(|trial| trial.under.clone()).and_then(|under| {
        let ask = AskSimulatedMap { of, under: under.clone(), at };
        let answer = app.requests.want(Slot::SimulatedMap, ask)?;
        ((answer.request.of, &answer.request.under) == (of, &under)).then_some(answer.value)
    });
    ranks::heading(app, ui, &format!("SEGMENTS {}", at.words().to_uppercase()));
    let words = |count: usize, reserved: String, late: bool| {
        let late = if late { ", where it ended" } else { "" };
        format!("{}, {reserved} reserved{late}", plural(count, "segment"))
    };
    let sides = [
        (
            "recorded",
            palette.accent,
            recorded.as_ref().map(|map| {
                let bars: Vec<Bar> = map.ranges.iter().map(Bar::recorded).collect();
                (words(bars.len(), bytes(map.counters.reserved), false), bars)
            }),
        ),
        (
            "simulated",
            palette.select,
            simulated.as_ref().map(|map| {
                let bars: Vec<Bar> = map.ranges.iter().map(Bar::simulated).collect();
                (words(bars.len(), size(map.reserved), map.ended), bars)
            }),
        ),
    ];
    let all = sides.iter().filter_map(|(_, _, side)| side.as_ref()).flat_map(|(_, bars)| bars);
    let largest = all.map(|bar| bar.size).max().unwrap_or(1).max(1);
    let half = ((body.width() - 12.0) / 2.0).max(40.0);
    let top = ui.cursor().top();
    for (number, (name, color, side)) in sides.into_iter().enumerate() {
        let left = body.left() + number as f32 * (half + 12.0);
        let rect = Rect::from_min_max(pos2(left, top), pos2(left + half, body.bottom()));
        let mut ui = ui.new_child(UiBuilder::new().id_salt(name).max_rect(rect));
        let (words, mut bars) = side.unwrap_or_else(|| ("…".into(), Vec::new()));
        ui.label(RichText::new(name).color(color));
        ui.add(egui::Label::new(RichText::new(words).font(theme::small()).color(palette.dim)).truncate());
        bars.sort_by_key(|bar| std::cmp::Reverse(bar.size));
        ui.spacing_mut().item_spacing.y = 0.0;
        ScrollArea::vertical().auto_shrink([false, false]).show_rows(
            &mut ui,
            16.0,
            bars.len(),
            |ui, rows| {
                for bar in bars.get(rows).unwrap_or_default() {
                    draw_bar(ui, bar, largest, color, &palette);
                }
            },
        );
    }
}

fn draw_bar(ui: &mut Ui, bar: &Bar, largest: u64, color: egui::Color32, palette: &Palette) {
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 16.0), Sense::hover());
    let painter = ui.painter_at(rect);
    let at = pos2(rect.left() + SIZES - 8.0, rect.center().y);
    painter.text(at, Align2::RIGHT_CENTER, size(bar.size), theme::tick(), palette.dim);
    let room = rect.width() - SIZES - 10.0;
    let wide = (room * (bar.size as f64 / largest as f64) as f32).max(4.0);
    let area = Rect::from_min_size(pos2(rect.left() + SIZES, rect.top() + 2.0), vec2(wide, 12.0));
    painter.rect_filled(area, 1.0, palette.hole);
    let x = |bytes: u64| area.left() + (bytes as f64 / bar.size.max(1) as f64) as f32 * wide;
    let mut last = f32::MIN;
    for &(start, size) in &bar.used {
        let (left, right) = (x(start), x(start.saturating_add(size)));
        // Blocks that end in a pixel that is painted add nothing.
        if right <= last + 0.5 {
            continue;
        }
        last = right;
        let block = Rect::from_x_y_ranges(left..=(right - 0.5).max(left + 0.5), area.y_range());
        painter.rect_filled(block, 0.0, color.gamma_multiply(0.75));
    }
    let used: u64 = bar.used.iter().fold(0, |sum, (_, size)| sum.saturating_add(*size));
    let kind = if bar.expandable { "expandable segment" } else { "segment" };
    response.on_hover_text(format!("{kind} of {}, {} in use", size(bar.size), size(used)));
}
