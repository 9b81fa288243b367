//! Everything that can be done, with its key: the palette, the help and the keys are made from one table.

use egui::{Context, Event, Key, Modifiers};
use vramscope_engine::color::ColorBy;

use crate::app::App;
use crate::views::{Tab, search};

/// Something that can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Fit,
    FitBytes,
    LockBytes,
    Isolate,
    ShowAll,
    ZoomSelected,
    Peak,
    Oom,
    Axis,
    Back,
    Forward,
    StepBack,
    StepForward,
    Search,
    NextHit,
    LastHit,
    Open,
    Close,
    Summary,
    StopReading,
    Palette,
    Help,
    Copy,
    CopyLink,
    Note,
    NextNote,
    Theme,
    Scheme,
    Motion,
    Details,
    Sidebar,
    Lower,
    Split,
    Capacity,
    Pools,
    NextDevice,
    LastDevice,
    SavePicture,
    SaveData,
    ClearRuler,
    Tab(Tab),
    Color(ColorBy),
}

const PLAIN: Modifiers = Modifiers::NONE;
const CTRL: Modifiers = Modifiers::COMMAND;
const ALT: Modifiers = Modifiers::ALT;
const SHIFT: Modifiers = Modifiers::SHIFT;

/// A command with its name and its key.
type Entry = (Command, &'static str, Option<(Modifiers, Key)>);

/// Every command.
pub(crate) const TABLE: &[Entry] = &[
    (Command::Fit, "Show the whole run", Some((PLAIN, Key::F))),
    (Command::FitBytes, "Fit the bytes to what is shown", Some((SHIFT, Key::F))),
    (Command::LockBytes, "Let the bytes follow what is shown, or lock them", Some((PLAIN, Key::Y))),
    (Command::Isolate, "Show only the line of the selection", Some((PLAIN, Key::I))),
    (Command::ShowAll, "Show all memory again", Some((SHIFT, Key::I))),
    (Command::ZoomSelected, "Show the whole life of the selection", Some((PLAIN, Key::Z))),
    (Command::Peak, "Go to the peak", Some((PLAIN, Key::P))),
    (Command::Oom, "Go to the next failed allocation", Some((PLAIN, Key::O))),
    (Command::Axis, "Switch between events and time", Some((PLAIN, Key::T))),
    (Command::Back, "Undo: back to what was shown before", Some((ALT, Key::ArrowLeft))),
    (Command::Forward, "Forward again", Some((ALT, Key::ArrowRight))),
    (Command::StepBack, "Cursor one event back", Some((PLAIN, Key::Comma))),
    (Command::StepForward, "Cursor one event on", Some((PLAIN, Key::Period))),
    (Command::Search, "Search", Some((PLAIN, Key::Slash))),
    (Command::NextHit, "Next result", Some((PLAIN, Key::N))),
    (Command::LastHit, "Result before", Some((SHIFT, Key::N))),
    (Command::Open, "Open files", Some((CTRL, Key::O))),
    (Command::Close, "Close the file", Some((SHIFT, Key::X))),
    (Command::Summary, "Show the summary of this report", None),
    (Command::StopReading, "Stop reading files", None),
    (Command::Palette, "All commands", Some((CTRL, Key::K))),
    (Command::Help, "Keys", Some((PLAIN, Key::Questionmark))),
    (Command::Copy, "Copy the selection", None),
    (Command::CopyLink, "Copy a link to what is shown, with its notes", Some((PLAIN, Key::L))),
    (Command::Note, "Pin a note at the cursor, or change it", Some((PLAIN, Key::M))),
    (Command::NextNote, "Go to the next note", Some((SHIFT, Key::M))),
    (Command::Theme, "Light or dark", Some((SHIFT, Key::T))),
    (Command::Scheme, "Color-blind safe colors, or the usual ones", None),
    (Command::Motion, "Glide when the view moves, or jump (reduced motion)", None),
    (Command::Details, "Show or hide the details", Some((CTRL, Key::D))),
    (Command::Sidebar, "Show or hide the ranks", Some((CTRL, Key::B))),
    (Command::Lower, "Show or hide the lower views", Some((CTRL, Key::J))),
    (Command::Split, "A second view beside the lower one", Some((CTRL, Key::Backslash))),
    (Command::Capacity, "Set the capacity of the device", None),
    (Command::Pools, "Private pools as envelopes, or not", Some((SHIFT, Key::P))),
    (Command::NextDevice, "Next rank", Some((PLAIN, Key::CloseBracket))),
    (Command::LastDevice, "Rank before", Some((PLAIN, Key::OpenBracket))),
    (Command::SavePicture, "Save the window as PNG", Some((CTRL, Key::S))),
    (Command::SaveData, "Save the data behind the lower view as CSV", Some((CTRL, Key::E))),
    (Command::ClearRuler, "Remove the ruler", None),
    (Command::Tab(Tab::Segments), "Segments", Some((PLAIN, Key::Num1))),
    (Command::Tab(Tab::State), "State", Some((PLAIN, Key::Num2))),
    (Command::Tab(Tab::Flame), "Flame", Some((PLAIN, Key::Num3))),
    (Command::Tab(Tab::Tree), "Tree", Some((PLAIN, Key::Num4))),
    (Command::Tab(Tab::Lifetimes), "Lifetimes", Some((PLAIN, Key::Num5))),
    (Command::Tab(Tab::Tables), "Tables", Some((PLAIN, Key::Num6))),
    (Command::Tab(Tab::Insights), "Insights", Some((PLAIN, Key::Num7))),
    (Command::Tab(Tab::Compare), "Compare", Some((PLAIN, Key::Num8))),
    (Command::Tab(Tab::Settings), "Settings and verdict", Some((PLAIN, Key::Num9))),
    (Command::Tab(Tab::Events), "Events", Some((PLAIN, Key::E))),
    (Command::Tab(Tab::Breakdown), "Modules, phases, steps, pools, fragmentation", Some((PLAIN, Key::B))),
    (Command::Tab(Tab::WhatIf), "What if: other allocator settings, simulated", Some((PLAIN, Key::Num0))),
    (Command::Tab(Tab::Sql), "SQL over the open files, where it is built in", Some((PLAIN, Key::Q))),
    (Command::Color(ColorBy::Stack), "Color by stack", None),
    (Command::Color(ColorBy::Size), "Color by size", None),
    (Command::Color(ColorBy::Lifetime), "Color by lifetime", None),
    (Command::Color(ColorBy::Category), "Color by category", None),
    (Command::Color(ColorBy::Pool), "Color by pool", None),
    (Command::Color(ColorBy::Stream), "Color by stream", None),
];

/// What the mouse and held keys do.
pub(crate) const GESTURES: &[(&str, &str)] = &[
    ("W A S D, arrows", "zoom in and out, left, right; with Shift the bytes"),
    ("wheel", "zoom at the pointer; Shift bytes only, Ctrl both"),
    ("drag", "pan"),
    ("Ctrl + drag", "zoom to a box"),
    ("Shift + drag", "mark a range; also a drag along the axis"),
    ("R + drag", "measure bytes and time; Esc removes the ruler"),
    ("click", "select an allocation and set the cursor"),
    ("double click", "show the whole run"),
    ("Ctrl + click on a rank", "show it beside"),
];

/// Whether a key means something here. A page keeps these from the browser, and leaves it all others.
#[cfg(any(target_arch = "wasm32", test))]
pub(crate) fn is_taken(modifiers: Modifiers, key: Key) -> bool {
    TABLE.iter().any(|(.., taken)| taken.is_some_and(|(with, k)| k == key && modifiers.matches_exact(with)))
}

/// How a key is written.
pub(crate) fn key_text(key: (Modifiers, Key)) -> String {
    let mut text = String::new();
    for (on, name) in [(key.0.command, "Ctrl+"), (key.0.alt, "Alt+"), (key.0.shift, "Shift+")] {
        if on {
            text += name;
        }
    }
    text + match key.1 {
        Key::ArrowLeft => "←",
        Key::ArrowRight => "→",
        other => other.symbol_or_name(),
    }
}

/// Zoom and movement per second while a key is down.
const SPEED: f64 = 1.6;

/// Does what keys say, unless somebody is typing.
pub(crate) fn keys(app: &mut App, ctx: &Context) {
    let typing = ctx.egui_wants_keyboard_input();
    if ctx.input(|input| input.key_pressed(Key::Escape)) && !typing {
        escape(app);
    }
    let copied = ctx.input(|input| input.events.iter().any(|event| matches!(event, Event::Copy)));
    if copied && !typing && !ctx.plugin::<egui::text_selection::LabelSelectionState>().lock().has_selection()
    {
        Command::Copy.run(app, ctx);
    }
    for &(command, _, key) in TABLE {
        let Some((modifiers, key)) = key else { continue };
        // Letters go to the text field that has the focus.
        if typing && !modifiers.command && !modifiers.alt {
            continue;
        }
        let is_it = |event: &Event| match event {
            // The question mark is somewhere else on every keyboard.
            Event::Key { key: pressed, pressed: true, modifiers: with, .. } => {
                *pressed == key && (with.matches_exact(modifiers) || key == Key::Questionmark)
            }
            _ => false,
        };
        let pressed = ctx.input_mut(|input| {
            let all = input.events.len();
            input.events.retain(|event| !is_it(event));
            all != input.events.len()
        });
        if pressed {
            command.run(app, ctx);
        }
    }
    for (button, back) in [(egui::PointerButton::Extra1, true), (egui::PointerButton::Extra2, false)] {
        if ctx.input(|input| input.pointer.button_pressed(button)) {
            app.go(back);
        }
    }
    if !typing {
        steer(app, ctx);
    }
    let dropped = ctx.input(|input| input.raw.dropped_files.clone());
    if !dropped.is_empty() {
        app.requests
            .host
            .open(dropped.iter().map(|file| file.path().to_string_lossy().into_owned()).collect());
    }
}

/// WASD and arrows, as long as they are down.
fn steer(app: &mut App, ctx: &Context) {
    let (held, shift, dt) = ctx.input(|input| {
        let held = |keys: [Key; 2]| if keys.iter().any(|key| input.key_down(*key)) { 1.0 } else { 0.0 };
        let free = !(input.modifiers.command || input.modifiers.alt);
        let zoom = held([Key::W, Key::ArrowUp]) - held([Key::S, Key::ArrowDown]);
        let side = held([Key::D, Key::ArrowRight]) - held([Key::A, Key::ArrowLeft]);
        (
            (zoom * f64::from(free), side * f64::from(free)),
            input.modifiers.shift,
            f64::from(input.stable_dt.min(0.05)),
        )
    });
    if held == (0.0, 0.0) || app.device().is_none() {
        return;
    }
    let factor = (-SPEED * dt * held.0).exp();
    let mut view = app.camera.view;
    let middle = (view.x.0 + view.x.1) / 2.0;
    if shift {
        app.camera.locked = true;
        view.y = (view.y.0, view.y.0 + (view.y.1 - view.y.0) * factor);
        view = view.moved(0.0, held.1 * SPEED * dt * 0.5);
    } else {
        view.x = (middle + (view.x.0 - middle) * factor, middle + (view.x.1 - middle) * factor);
        view = view.moved(held.1 * SPEED * dt * 0.5, 0.0);
    }
    app.set_view(view);
    ctx.request_repaint();
}

fn escape(app: &mut App) {
    let parts = &mut app.parts;
    if parts.help || parts.palette.is_some() || parts.start.open {
        (parts.help, parts.palette, parts.start.open) = (false, None, false);
    } else if app.selection.ruler.take().is_some() || app.selection.range.take().is_some() {
    } else if !parts.search.text.is_empty() {
        parts.search.text.clear();
    } else if app.selection.alloc.is_none() {
        app.show_all();
    } else {
        app.selection.alloc = None;
    }
}

impl Command {
    /// The heading that its key stands under.
    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::Fit
            | Self::FitBytes
            | Self::LockBytes
            | Self::ZoomSelected
            | Self::Isolate
            | Self::ShowAll
            | Self::Axis
            | Self::Pools => "THE CHART",
            Self::Peak
            | Self::Oom
            | Self::Back
            | Self::Forward
            | Self::StepBack
            | Self::StepForward
            | Self::Search
            | Self::NextHit
            | Self::LastHit
            | Self::NextDevice
            | Self::LastDevice
            | Self::NextNote => "GOING PLACES",
            Self::Tab(_) | Self::Color(_) => "VIEWS",
            _ => "THE WINDOW",
        }
    }

    pub(crate) fn run(self, app: &mut App, ctx: &Context) {
        let Some((_, summary)) = app.device() else {
            match self {
                Self::Open => app.choose_files(),
                Self::Help => app.parts.help = !app.parts.help,
                Self::Theme => app.toggle_theme(ctx),
                Self::Scheme => app.toggle_scheme(ctx),
                Self::Motion => app.settings.motion = Some(!app.glides()),
                _ => {}
            }
            return;
        };
        match self {
            Self::Fit => app.fit(),
            Self::FitBytes => app.camera.locked = false,
            Self::LockBytes => app.camera.locked = !app.camera.locked,
            Self::ShowAll => {
                app.show_all();
            }
            Self::Isolate => app.isolate_selected(),
            Self::ZoomSelected => app.zoom_to_selected(),
            Self::Peak => {
                let counter = app.settings.counter;
                app.jump(summary.peak(counter).at, Some(summary.peak_time(counter)));
            }
            Self::Oom => {
                match summary.ooms.iter().find(|oom| oom.at > app.selection.cursor).or(summary.ooms.first()) {
                    Some(oom) => app.jump(oom.at, Some(oom.time)),
                    None => app.say("No allocation failed in this recording".into()),
                }
            }
            Self::Axis => app.toggle_axis(),
            Self::Back => app.go(true),
            Self::Forward => app.go(false),
            Self::StepBack => app.step(-1),
            Self::StepForward => app.step(1),
            Self::Search => app.parts.search.focus = true,
            Self::NextHit => search::step(app, true),
            Self::LastHit => search::step(app, false),
            Self::Open => app.choose_files(),
            Self::Close if app.requests.host.takes_files() => app.close(app.files.current),
            Self::Close => app.say("The files of this page are those that it came with".into()),
            Self::Summary if app.requests.host.has_summary() => app.requests.host.show_summary(),
            Self::Summary => app.say("Only a report has a summary: vramscope report".into()),
            Self::StopReading => app.requests.host.cancel(),
            Self::Palette => app.parts.palette = Some(String::new()),
            Self::Help => app.parts.help = !app.parts.help,
            Self::Copy => app.copy_selection(ctx),
            Self::CopyLink => {
                let link = app.link().map(|link| app.requests.host.address(&link));
                ctx.copy_text(link.unwrap_or_default());
                app.say("The link is copied".into());
            }
            Self::Note => app.edit_note(),
            Self::NextNote => app.next_note(),
            Self::Theme => app.toggle_theme(ctx),
            Self::Scheme => app.toggle_scheme(ctx),
            Self::Motion => app.settings.motion = Some(!app.glides()),
            Self::Details => app.settings.details = !app.settings.details,
            Self::Sidebar => app.settings.sidebar = !app.settings.sidebar,
            Self::Pools => app.settings.pools = !app.settings.pools,
            Self::NextDevice => app.focus((app.files.current + 1) % app.files.devices.len().max(1)),
            Self::LastDevice => {
                app.focus(
                    (app.files.current + app.files.devices.len().max(1) - 1) % app.files.devices.len().max(1),
                );
            }
            Self::SavePicture => app.take_picture(ctx),
            Self::SaveData => app.save_data(),
            Self::ClearRuler => app.selection.ruler = None,
            Self::Lower => app.settings.lower_open = !app.settings.lower_open,
            Self::Split => super::views::lower::toggle_side(app),
            Self::Capacity => app.open_tab(Tab::Settings),
            Self::Tab(tab) => app.open_tab(tab),
            Self::Color(by) => app.color_by(by),
        }
    }
}
