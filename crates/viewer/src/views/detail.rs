//! The panel of details: all about the selected allocation, to read and to copy. It stays while the pointer moves.

use egui::{Align2, RichText, ScrollArea, Sense, Ui, vec2};
use vramscope_analysis::Moment;
use vramscope_engine::{AskDetails, Details, FrameInfo, Group, Neighbour, Owner};
use vramscope_format::{Units, clock, count, duration, fit, plural, size, stream};

use crate::app::App;
use crate::requests::Slot;
use crate::theme;
use crate::views::here;
use crate::views::ranks::heading;

pub(crate) fn show(app: &mut App, ui: &mut Ui) {
    ui.set_min_width(ui.available_width());
    let Some((of, _)) = app.device() else { return };
    let Some(alloc) = app.selection.alloc else {
        return here::show(app, ui);
    };
    let answer = app.requests.want(Slot::Details, AskDetails { of, alloc, at: app.selection.cursor });
    let Some(answer) = answer else { return };
    let details = answer.value;
    ScrollArea::vertical().id_salt("details").auto_shrink([false, false]).show(ui, |ui| {
        ui.set_width(ui.available_width());
        allocation(app, ui, &details);
    });
}

pub(crate) fn share_bar(ui: &mut Ui, name: &str, part: u64, whole: u64, palette: &theme::Palette) {
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 22.0), Sense::hover());
    let painter = ui.painter_at(rect);
    let share = (part as f32 / whole as f32).clamp(0.0, 1.0);
    let bar = egui::Rect::from_min_size(rect.left_bottom() - vec2(0.0, 4.0), vec2(rect.width() * share, 2.0));
    painter.rect_filled(bar, 1.0, palette.accent.gamma_multiply(0.8));
    let at = rect.right_center() - vec2(0.0, 2.0);
    let amount = painter.text(at, Align2::RIGHT_CENTER, size(part), theme::mono(), palette.text);
    let room = painter.with_clip_rect(rect.with_max_x(amount.left() - 6.0));
    let name = fit(name, ((amount.left() - 6.0 - rect.left()) / 6.8) as usize);
    room.text(rect.left_center() - vec2(0.0, 2.0), Align2::LEFT_CENTER, name, theme::body(), palette.dim);
}

/// A name, a value that can be copied, and something dim after it.
pub(crate) fn pair(app: &App, ui: &mut Ui, name: &str, value: &str, more: &str) {
    let palette = app.palette();
    ui.horizontal_top(|ui| {
        ui.spacing_mut().item_spacing.x = 6.0;
        let (rect, _) = ui.allocate_exact_size(vec2(72.0, 16.0), Sense::hover());
        ui.painter().text(rect.left_center(), Align2::LEFT_CENTER, name, theme::body(), palette.dim);
        ui.vertical(|ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            ui.add(
                egui::Label::new(RichText::new(value).font(theme::mono()).color(palette.text))
                    .wrap()
                    .selectable(true),
            );
            if !more.is_empty() {
                ui.add(
                    egui::Label::new(RichText::new(more).font(theme::tick()).color(palette.dim))
                        .wrap()
                        .selectable(true),
                );
            }
        });
    });
}

/// A name and a value that shows all with the same value alone. Says whether it was clicked.
fn linked(app: &App, ui: &mut Ui, name: &str, value: &str) -> bool {
    let palette = app.palette();
    let row = ui.horizontal_top(|ui| {
        ui.spacing_mut().item_spacing.x = 6.0;
        let (rect, _) = ui.allocate_exact_size(vec2(72.0, 16.0), Sense::hover());
        ui.painter().text(rect.left_center(), Align2::LEFT_CENTER, name, theme::body(), palette.dim);
        // In a row of its own, words would not wrap.
        let link = egui::Link::new(RichText::new(value).font(theme::mono()).color(palette.accent));
        ui.vertical(|ui| ui.add(link).on_hover_text(format!("Show only this {name}")).clicked()).inner
    });
    row.inner
}

fn allocation(app: &mut App, ui: &mut Ui, details: &Details) {
    let palette = app.palette();
    ui.horizontal(|ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(12.0, 18.0), Sense::hover());
        ui.painter().rect_filled(
            egui::Rect::from_center_size(rect.center(), vec2(11.0, 11.0)),
            2.0,
            palette.of_line(details.owner.line, details.owner.alloc.0),
        );
        ui.label(RichText::new(size(details.owner.requested)).font(theme::big()).color(palette.text));
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            if ui.button("×").on_hover_text("Clear the selection (Esc)").clicked() {
                app.selection.alloc = None;
            }
            if ui.button("Copy").on_hover_text("Copy everything here (Ctrl+C)").clicked() {
                let text = as_text(details);
                ui.ctx().copy_text(text);
                app.say("Copied".into());
            }
            if ui.button("Zoom").on_hover_text("Show its whole life (z)").clicked() {
                app.zoom_to_selected();
            }
        });
    });
    let place = egui::Link::new(RichText::new(&details.place).font(theme::mono()).color(palette.accent));
    if ui.add(place).on_hover_text("Show only this line (i)").clicked() {
        app.isolate_selected();
    }
    ui.add_space(8.0);
    let has = app.device().map(|(_, summary)| summary.has).unwrap_or_default();
    let none = "not in this file";
    let requested = Units::Bytes.size(details.owner.requested);
    pair(app, ui, "requested", if has.requested { &requested } else { none }, "");
    let over = details.size.saturating_sub(details.owner.requested);
    let block = format!("{}{}", if details.estimated { "≈ " } else { "" }, Units::Bytes.size(details.size));
    pair(
        app,
        ui,
        "block",
        &block,
        &if over > 0 { format!("{} more than requested", size(over)) } else { String::new() },
    );
    for shape in details.shapes.iter().take(3) {
        pair(app, ui, "shape?", shape, "");
    }
    if !details.category.is_empty() {
        let words = details.known_by.beside(&details.category);
        if linked(app, ui, "category", &words) {
            app.isolate(Group::Category(details.category_number), &details.category);
        }
    }
    if let Some(module) = &details.module
        && linked(app, ui, "module", module)
    {
        app.isolate(Group::Module(module.clone()), module);
    }
    if let Some(step) = details.step {
        pair(app, ui, "step", &count(step), "");
    }
    let address = format!("{:#x}", details.addr);
    pair(app, ui, "address", if has.addresses { &address } else { none }, &segment(details));
    pair(app, ui, "pool", if has.addresses { &details.pool } else { none }, "");
    pair(app, ui, "stream", &stream(details.stream), "");
    ui.add_space(8.0);
    life(app, ui, details);
    if details.neighbours.iter().any(Option::is_some) {
        ui.add_space(8.0);
        heading(app, ui, "NEIGHBORS");
        for (name, neighbour) in ["before", "after"].into_iter().zip(&details.neighbours) {
            beside(app, ui, name, neighbour.as_ref());
        }
    }
    tenants(app, ui, details);
    ui.add_space(8.0);
    heading(app, ui, "SAME STACK");
    pair(app, ui, "in all", &details.same_stack.words(), "");
    pair(app, ui, "live now", &details.same_stack_live.words(), "");
    if ui.link("Show all of them in the table").clicked() {
        app.show_stack_in_table(details.owner.stack);
    }
    if ui.link("Show what lives at the same time").clicked() {
        app.show_overlap_in_table();
    }
    for (name, text) in &details.notes {
        ui.add_space(8.0);
        heading(app, ui, &name.to_uppercase());
        ui.add(egui::Label::new(RichText::new(text).font(theme::mono())).wrap().selectable(true));
    }
    ui.add_space(10.0);
    stack(app, ui, "STACK", &details.frames);
    if !details.free_frames.is_empty() {
        ui.add_space(8.0);
        stack(app, ui, "FREED AT", &details.free_frames);
    }
}

/// Who had this address before and after, as bars over the run; a click selects one.
fn tenants(app: &mut App, ui: &mut Ui, details: &Details) {
    let Some((_, summary)) = app.device() else { return };
    if details.tenants.len() < 2 {
        return;
    }
    let palette = app.palette();
    ui.add_space(8.0);
    heading(app, ui, &format!("THIS ADDRESS: {}", plural(details.tenancies, "tenant").to_uppercase()));
    let mut chosen = None;
    ui.scope(|ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        let from = details.tenants.first().map_or(0, |tenant| tenant.owner.opened.0);
        let end = |owner: &Owner| owner.closed.unwrap_or(summary.last()).0;
        let to = details.tenants.iter().map(|tenant| end(&tenant.owner)).max().unwrap_or(from + 1);
        for tenant in &details.tenants {
            let owner = &tenant.owner;
            let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 24.0), Sense::click());
            let painter = ui.painter_at(rect);
            let own = owner.alloc == details.owner.alloc;
            let words = || format!("{}, {}", size(owner.requested), owner.life());
            response
                .widget_info(|| egui::WidgetInfo::selected(egui::Role::ListBoxOption, true, own, words()));
            if own || response.hovered() {
                painter.rect_filled(rect, 3.0, palette.raised);
            }
            let x = |at: u32| {
                let share = f64::from(at.saturating_sub(from)) / f64::from(to.saturating_sub(from).max(1));
                rect.left() + 4.0 + (rect.width() - 8.0) * share as f32
            };
            let (left, right) = (x(owner.opened.0), x(end(owner)));
            let y = rect.bottom() - 5.0;
            let bar = egui::Rect::from_x_y_ranges(left..=right.max(left + 2.0), y..=y + 3.0);
            let color = if own { palette.select } else { palette.of_line(owner.line, 1) };
            painter.rect_filled(bar, 1.0, color);
            let at = rect.right_center() - vec2(4.0, 3.0);
            let size = size(owner.requested);
            let amount = painter.text(at, Align2::RIGHT_CENTER, size, theme::tick(), palette.dim);
            let room = theme::columns(&painter, &theme::tick(), amount.left() - rect.left() - 12.0);
            let place = vramscope_format::elide_place(&tenant.place, room);
            let at = rect.left_center() + vec2(4.0, -3.0);
            painter.text(at, Align2::LEFT_CENTER, place, theme::tick(), palette.text);
            if response.on_hover_text(owner.life()).clicked() && !own {
                chosen = Some(owner.alloc);
            }
        }
    });
    if let Some(alloc) = chosen {
        app.select_and_show(alloc);
    }
}

fn segment(details: &Details) -> String {
    details.segment.map_or_else(String::new, |(addr, bytes)| {
        format!("{} into a segment of {}", size(details.addr.saturating_sub(addr)), size(bytes))
    })
}

fn life(app: &mut App, ui: &mut Ui, details: &Details) {
    heading(app, ui, "LIFE");
    let Some((_, summary)) = app.device() else { return };
    let (owner, times) = (&details.owner, &details.times);
    let time = |n: usize| times[n].map_or_else(String::new, clock);
    let event =
        |at: Moment| at.event().map_or_else(|| at.words(), |event| format!("event {}", count(event.0)));
    pair(app, ui, "allocated", &event(owner.opened), &time(0));
    if let Some(released) = details.released.filter(|_| details.released != owner.closed) {
        pair(app, ui, "released", &event(released), &time(1));
    }
    let freed = owner.closed.map_or_else(|| "live at the end".into(), event);
    pair(app, ui, "freed", &freed, &time(2));
    let real = match (times[0], times[2], summary.time) {
        (Some(from), Some(to), _) => duration(to.saturating_sub(from)),
        (Some(from), None, Some((origin, span))) => {
            format!("at least {}", duration(origin.saturating_add(span).saturating_sub(from)))
        }
        _ => String::new(),
    };
    pair(app, ui, "lived", &plural(owner.events(summary.last()), "event"), &real);
    if !details.phases.is_empty() {
        pair(app, ui, "in phase", &details.phases.join(" › "), "");
    }
}

fn beside(app: &mut App, ui: &mut Ui, name: &str, neighbour: Option<&Neighbour>) {
    let Some(neighbour) = neighbour else {
        pair(app, ui, name, "the end of the segment", "");
        return;
    };
    ui.horizontal_top(|ui| {
        pair(app, ui, name, &size(neighbour.size), &neighbour.place);
        if let Some(alloc) = neighbour.alloc {
            ui.with_layout(egui::Layout::right_to_left(egui::Align::Min), |ui| {
                if ui.link("select").clicked() {
                    app.selection.alloc = Some(alloc);
                }
            });
        }
    });
}

/// Frames, innermost first; runs of internal ones folded into a line that opens them.
fn stack(app: &mut App, ui: &mut Ui, title: &str, frames: &[FrameInfo]) {
    let palette = app.palette();
    heading(app, ui, title);
    let has_stacks = app.device().is_some_and(|(_, summary)| summary.has.stacks);
    if !has_stacks {
        ui.label(RichText::new("Python frames: not in this file").color(palette.dim));
    } else if frames.is_empty() {
        ui.label(RichText::new("No stack was recorded.").color(palette.dim));
    }
    let id = egui::Id::unique(("unfolded", title));
    let unfolded = ui.data(|data| data.get_temp::<bool>(id)).unwrap_or_default();
    for run in frames.chunk_by(|a, b| a.internal == b.internal) {
        let internal = run.first().is_some_and(|frame| frame.internal);
        if internal && !unfolded && run.len() > 1 {
            let text = format!("… {}", plural(run.len(), "internal frame"));
            if ui.link(RichText::new(text).font(theme::mono()).color(palette.dim)).clicked() {
                ui.data_mut(|data| data.insert_temp(id, true));
            }
            continue;
        }
        for frame in run {
            frame_line(ui, frame, &palette);
        }
    }
    if unfolded && ui.link(RichText::new("fold internal frames").color(palette.dim)).clicked() {
        ui.data_mut(|data| data.insert_temp(id, false));
    }
}

fn frame_line(ui: &mut Ui, frame: &FrameInfo, palette: &theme::Palette) {
    let color = if frame.internal { palette.dim } else { palette.text };
    let mut job = egui::text::LayoutJob::default();
    let format = |color| egui::TextFormat { font_id: theme::mono(), color, ..egui::TextFormat::default() };
    let at = &frame.at;
    job.append(&at.name, 0.0, format(color));
    let place = if at.line == 0 { at.file.clone() } else { format!("{}:{}", at.file, at.line) };
    job.append(
        &format!("\n{place}"),
        0.0,
        egui::TextFormat { font_id: theme::tick(), ..format(palette.dim) },
    );
    if let Some(fx) = &frame.fx {
        let format = egui::TextFormat { font_id: theme::tick(), ..format(palette.dim) };
        job.append(&format!("\ntorch.fx: {fx}"), 0.0, format);
    }
    job.wrap.break_anywhere = true;
    ui.add(egui::Label::new(job).wrap().selectable(true));
    ui.add_space(2.0);
}

/// Everything about an allocation as text that can be pasted.
pub(crate) fn as_text(details: &Details) -> String {
    let owner = &details.owner;
    let mut lines = vec![
        format!("{} ({} bytes) at {:#x}", size(owner.requested), owner.requested, details.addr),
        details.place.clone(),
        format!("block of {} bytes, pool {}, stream {}", details.size, details.pool, stream(details.stream)),
        owner.life(),
        String::new(),
    ];
    lines.extend(details.frames.iter().map(|frame| frame.at.full()));
    lines.join("\n")
}
