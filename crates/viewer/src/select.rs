//! One selection everywhere: choosing it, finding it, copying it.

use egui::Context;
use vramscope_engine::{Axis, Request, Response};

use crate::app::App;
use crate::desk::Slot;
use crate::view::View;
use crate::views::tables::When;
use crate::views::{Tab, detail};

impl App {
    /// Selects an allocation, and moves the view if it lives elsewhere.
    pub(crate) fn select_and_show(&mut self, alloc: u32) {
        self.selected = Some(alloc);
        self.parts.reveal = Some((alloc, false));
    }

    /// Shows the whole life of the selection.
    pub(crate) fn zoom_to_selected(&mut self) {
        if let Some(alloc) = self.selected {
            self.parts.reveal = Some((alloc, true));
        }
    }

    /// Moves the view once it is known when the selection lives.
    pub(crate) fn reveal(&mut self) {
        let (Some((alloc, zoom)), Some((of, summary))) = (self.parts.reveal, self.device()) else { return };
        let Some(answer) = self.desk.want(Slot::Details, Request::Details { of, alloc, at: self.cursor })
        else {
            return;
        };
        let Response::Details(details) = &*answer.response else { return };
        if details.alloc != alloc {
            return;
        }
        self.parts.reveal = None;
        let (from, to) = match (self.settings.axis, summary.time) {
            (Axis::Time, Some((origin, span))) => {
                let at = |n: usize, none: i64| details.times[n].map_or(none, |time| time - origin) as f64;
                (at(0, 0), at(2, span))
            }
            _ => (f64::from(details.opened), f64::from(details.closed.min(summary.events))),
        };
        if zoom {
            self.show_stretch(from, to);
            return;
        }
        let lives = |at: u32| details.opened <= at && at < details.closed;
        if !lives(self.cursor) {
            self.cursor = details.opened;
        }
        let wide = self.view.x.1 - self.view.x.0;
        if to < self.view.x.0 || from > self.view.x.1 {
            self.glide(View { x: (from - wide * 0.2, from + wide * 0.8), ..self.view });
        }
    }

    /// Everything about the selection as text.
    pub(crate) fn copy_selection(&mut self, ctx: &Context) {
        let Some(answer) = self.desk.look(Slot::Details) else { return };
        if let Response::Details(details) = &*answer.response
            && self.selected == Some(details.alloc)
        {
            ctx.copy_text(detail::as_text(details));
            self.say("Copied the selection".into());
        }
    }

    pub(crate) fn toggle_theme(&mut self, ctx: &Context) {
        self.settings.dark = !self.settings.dark;
        ctx.set_theme(if self.settings.dark { egui::Theme::Dark } else { egui::Theme::Light });
        self.colors_version += 1;
    }

    /// All allocations of a stack, in the table.
    pub(crate) fn show_stack_in_table(&mut self, stack: u32) {
        self.parts.tables.stack = Some(stack);
        self.open_tab(Tab::Tables);
    }

    /// All that lives while the selection does, in the table.
    pub(crate) fn show_overlap_in_table(&mut self) {
        self.parts.tables.stack = None;
        self.parts.tables.by_stack = false;
        self.parts.tables.when = When::Selected;
        self.open_tab(Tab::Tables);
    }

    /// Two devices side by side in the compare view.
    pub(crate) fn compare_with(&mut self, device: usize) {
        self.parts.compare.other = Some(device);
        self.open_tab(Tab::Compare);
    }
}
