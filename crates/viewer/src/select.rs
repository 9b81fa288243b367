//! One selection everywhere: choosing it, finding it, copying it.

use egui::Context;
use vramscope_analysis::pictures::Axis;
use vramscope_analysis::{AllocIdx, Moment};
use vramscope_engine::color::Scheme;
use vramscope_engine::{AskDetails, Details, Group};
use vramscope_snapshot::StackId;

use crate::app::App;
use crate::requests::Slot;
use crate::view::View;
use crate::views::tables::{Tables, When};
use crate::views::{Tab, detail};

/// A range measured with the ruler, in units of the axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ruler {
    pub(crate) from: (f64, f64),
    pub(crate) to: (f64, f64),
    pub(crate) axis: Axis,
}

/// A part of the axis that was marked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) axis: Axis,
    pub(crate) x: (f64, f64),
}

/// What is selected and pointed at.
#[derive(Default)]
pub(crate) struct Selection {
    pub(crate) alloc: Option<AllocIdx>,
    pub(crate) hovered: Option<AllocIdx>,
    /// The moment that every view shows.
    pub(crate) cursor: Moment,
    /// The moment under the pointer.
    pub(crate) hover_at: Option<Moment>,
    pub(crate) ruler: Option<Ruler>,
    pub(crate) range: Option<Range>,
}

impl App {
    /// The details of the selection, once they are here.
    pub(crate) fn selected_details(&self) -> Option<std::sync::Arc<Details>> {
        let details = self.requests.look::<AskDetails>(Slot::Details)?.value;
        (self.selection.alloc == Some(details.owner.alloc)).then_some(details)
    }

    /// Selects an allocation, and moves the view if it lives elsewhere.
    pub(crate) fn select_and_show(&mut self, alloc: AllocIdx) {
        self.selection.alloc = Some(alloc);
        self.parts.reveal = Some((alloc, false));
    }

    /// Shows the whole life of the selection.
    pub(crate) fn zoom_to_selected(&mut self) {
        if let Some(alloc) = self.selection.alloc {
            self.parts.reveal = Some((alloc, true));
        }
    }

    /// Moves the view once it is known when the selection lives.
    pub(crate) fn reveal(&mut self) {
        let (Some((alloc, zoom)), Some((of, summary))) = (self.parts.reveal, self.device()) else { return };
        let Some(answer) =
            self.requests.want(Slot::Details, AskDetails { of, alloc, at: self.selection.cursor })
        else {
            return;
        };
        let details = &*answer.value;
        if details.owner.alloc != alloc {
            return;
        }
        self.parts.reveal = None;
        let (from, to) = match (self.settings.axis, summary.time) {
            (Axis::Time, Some((origin, span))) => {
                let at = |n: usize, none: i64| {
                    details.times[n].map_or(none, |time| time.saturating_sub(origin)) as f64
                };
                (at(0, 0), at(2, span))
            }
            _ => {
                let end = details.owner.closed.unwrap_or(summary.last());
                (f64::from(details.owner.opened.0), f64::from(end.0))
            }
        };
        if zoom {
            self.show_stretch(from, to);
            return;
        }
        let (owner, cursor) = (&details.owner, self.selection.cursor);
        if cursor < owner.opened || owner.closed.is_some_and(|closed| closed <= cursor) {
            self.selection.cursor = owner.opened;
        }
        let wide = self.camera.view.x.1 - self.camera.view.x.0;
        if to < self.camera.view.x.0 || from > self.camera.view.x.1 {
            self.glide(View { x: (from - wide * 0.2, from + wide * 0.8), ..self.camera.view });
        }
    }

    /// Everything about the selection as text.
    pub(crate) fn copy_selection(&mut self, ctx: &Context) {
        if let Some(details) = self.selected_details() {
            ctx.copy_text(detail::as_text(&details));
            self.say("Copied the selection".into());
        }
    }

    pub(crate) fn toggle_theme(&mut self, ctx: &Context) {
        self.settings.dark = Some(!self.is_dark());
        self.set_theme(ctx);
    }

    /// Lets files be chosen: by what the host has for that, else by a list of folders.
    pub(crate) fn choose_files(&mut self) {
        if !self.requests.host.takes_files() {
            self.say("Files are opened where this page comes from".into());
        } else if !self.requests.host.pick(false) {
            self.parts.start.open = true;
        }
    }

    /// Sets the colors of lines and of kinds of memory.
    pub(crate) fn set_scheme(&mut self, ctx: &Context, scheme: Scheme) {
        self.settings.scheme = scheme;
        crate::theme::paint(ctx, scheme);
        self.colors_version += 1;
    }

    pub(crate) fn toggle_scheme(&mut self, ctx: &Context) {
        let other = if self.settings.scheme == Scheme::Safe { Scheme::Standard } else { Scheme::Safe };
        self.set_scheme(ctx, other);
    }

    /// All allocations of a stack, in the table.
    pub(crate) fn show_stack_in_table(&mut self, stack: StackId) {
        // All of them: whatever the table was limited to before.
        self.parts.tables = Tables::of(Some(stack), When::All);
        self.open_tab(Tab::Tables);
    }

    /// All that lives while the selection does, in the table.
    pub(crate) fn show_overlap_in_table(&mut self) {
        self.parts.tables = Tables::of(None, When::Selected);
        self.open_tab(Tab::Tables);
    }

    /// Shows only the line of the selection; everything again if it is alone already.
    pub(crate) fn isolate_selected(&mut self) {
        match self.selected_details() {
            Some(details) => {
                let owner = &details.owner;
                let line = owner.line != vramscope_engine::LineId(0);
                let group = if line { Group::Line(owner.line) } else { Group::Stack(owner.stack) };
                self.isolate(group, &details.place);
            }
            None => self.say("Select an allocation first: its line is shown alone".into()),
        }
    }

    /// Two moments of this recording in the compare view.
    pub(crate) fn compare_moments(&mut self, before: Moment, after: Moment) {
        self.parts.compare.other = None;
        self.parts.compare.before = Some(before);
        self.set_cursor(after);
    }

    /// Two devices side by side in the compare view.
    pub(crate) fn compare_with(&mut self, device: usize) {
        self.parts.compare.other = Some(device);
        self.open_tab(Tab::Compare);
    }
}
