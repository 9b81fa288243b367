//! Lists of many millions of rows.
//!
//! A scroll area places a row by its distance from the first one, in 32-bit numbers: beyond some hundred thousand rows these
//! are not exact any more, and rows would lie on each other. Longer lists count rows instead, and have a bar of their own.

use std::ops::Range;

use egui::{Rect, ScrollArea, Sense, Ui, UiBuilder, pos2, vec2};

use crate::views::tree::ROW;

/// Rows that a scroll area places exactly: to a quarter of a point.
const EXACT: usize = (4_194_304.0 / ROW) as usize;

const BAR: f32 = 10.0;
const LEAST_HANDLE: f32 = 24.0;

/// A list of rows that are all equally high.
pub(crate) struct Long {
    /// What it is called among others.
    pub(crate) name: &'static str,
    /// Rows in all.
    pub(crate) total: usize,
    pub(crate) height: f32,
    /// The row that comes into the middle, if it is to move.
    pub(crate) to: Option<usize>,
}

impl Long {
    /// Shows the rows that can be seen.
    pub(crate) fn show(self, ui: &mut Ui, add: impl FnOnce(&mut Ui, Range<usize>)) {
        if self.total > EXACT {
            return self.counted(ui, add);
        }
        // Egui's own least height would push what is below the rows out of a low view.
        let mut area = ScrollArea::vertical()
            .id_salt(self.name)
            .auto_shrink([false, false])
            .max_height(self.height)
            .min_scrolled_height(ROW);
        if let Some(row) = self.to {
            let middle = (self.height / ROW / 2.0).floor();
            area = area.vertical_scroll_offset(((row as f32 - middle) * ROW).max(0.0));
        }
        area.show_rows(ui, ROW, self.total, add);
    }

    fn counted(&self, ui: &mut Ui, add: impl FnOnce(&mut Ui, Range<usize>)) {
        let (area, _) = ui.allocate_exact_size(vec2(ui.available_width(), self.height), Sense::hover());
        let (inside, bar) = area.split_left_right_at_x(area.right() - BAR);
        let id = ui.scope_id().with(self.name);
        let seen = f64::from(area.height() / ROW);
        let last = (self.total as f64 - seen).max(0.0);
        // The first row, and how much of it is above.
        let mut top: f64 = ui.data(|data| data.get_temp(id)).unwrap_or_default();
        if let Some(row) = self.to {
            top = row as f64 - (seen / 2.0).floor();
        }
        if ui.rect_contains_pointer(area) {
            let turned = ui.input_mut(|input| std::mem::take(&mut input.smooth_scroll_delta.y));
            top -= f64::from(turned / ROW);
        }
        top = self.bar(ui, bar, (top, last)).clamp(0.0, last);
        ui.data_mut(|data| data.insert_temp(id, top));

        let first = top.floor();
        let above = (top - first) as f32 * ROW;
        let rows = first as usize..(first as usize + seen.ceil() as usize + 1).min(self.total);
        let place = Rect::from_min_size(inside.min - vec2(0.0, above), inside.size() + vec2(0.0, 2.0 * ROW));
        let mut content = ui.new_child(UiBuilder::new().id_salt(self.name).max_rect(place));
        content.shrink_clip_rect(inside);
        add(&mut content, rows);
    }

    /// Where the list is in all of it. Pressing or dragging goes elsewhere.
    fn bar(&self, ui: &Ui, bar: Rect, (mut top, last): (f64, f64)) -> f64 {
        let response = ui.interact(bar, ui.scope_id().with((self.name, "bar")), Sense::click_and_drag());
        let share = bar.height() / ROW / self.total as f32;
        let handle = (bar.height() * share).max(LEAST_HANDLE).min(bar.height());
        let room = f64::from(bar.height() - handle);
        if let Some(at) = response.interact_pointer_pos()
            && room > 0.0
        {
            top = f64::from(at.y - bar.top() - handle / 2.0) / room * last;
        }
        let down = if last > 0.0 { (top / last).clamp(0.0, 1.0) * room } else { 0.0 };
        let style = ui.style().interact(&response);
        let left = pos2(bar.left() + 3.0, bar.top() + down as f32);
        ui.painter().rect_filled(bar, 3.0, ui.visuals().extreme_bg_color);
        ui.painter().rect_filled(
            Rect::from_min_size(left, vec2(BAR - 4.0, handle)),
            3.0,
            style.fg_stroke.color,
        );
        response.widget_info(|| {
            let shown = format!("from row {} of {}", top.max(0.0) as u64, self.total);
            egui::WidgetInfo::labeled(egui::Role::ScrollBar, true, shown)
        });
        top
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use egui::{Event, Modifiers, MouseWheelUnit, TouchPhase, vec2};
    use egui_kittest::Harness;

    use super::*;

    /// As many as a trace of 10 GB has events.
    const TOTAL: usize = 80_000_000;

    /// A list that goes to the row in `to`; `seen` is what it shows, and where.
    struct List {
        harness: Harness<'static>,
        to: Rc<Cell<Option<usize>>>,
        seen: Rc<RefCell<Vec<(usize, Rect)>>>,
    }

    impl List {
        fn new(total: usize) -> Self {
            let (to, seen) = (Rc::new(Cell::new(None)), Rc::new(RefCell::new(Vec::new())));
            let (told, shown) = (Rc::clone(&to), Rc::clone(&seen));
            let harness = Harness::builder().with_size(vec2(300.0, 400.0)).build_ui(move |ui| {
                ui.spacing_mut().item_spacing.y = 0.0;
                let list = Long { name: "list", total, height: ui.available_height(), to: told.take() };
                list.show(ui, |ui, rows| {
                    shown.borrow_mut().clear();
                    for row in rows {
                        let (rect, _) = ui.allocate_exact_size(vec2(100.0, ROW), Sense::click());
                        shown.borrow_mut().push((row, rect));
                    }
                });
            });
            Self { harness, to, seen }
        }

        /// The rows that are shown, which must stand below each other.
        fn rows(&self) -> Vec<usize> {
            let seen = self.seen.borrow();
            for pair in seen.windows(2) {
                assert!(
                    (pair[1].1.top() - pair[0].1.bottom()).abs() < 0.3,
                    "rows {} and {}",
                    pair[0].0,
                    pair[1].0
                );
            }
            seen.iter().map(|(row, _)| *row).collect()
        }

        fn go(&mut self, row: usize) -> Vec<usize> {
            self.to.set(Some(row));
            self.harness.run_steps(2);
            self.rows()
        }

        fn turn(&mut self, rows: f32) -> Vec<usize> {
            self.harness.hover_at(pos2(150.0, 200.0));
            self.harness.event(Event::MouseWheel {
                unit: MouseWheelUnit::Point,
                delta: vec2(0.0, rows * ROW),
                modifiers: Modifiers::NONE,
                phase: TouchPhase::Move,
                source: egui::MouseWheelSource::Wheel,
            });
            self.harness.run_steps(40);
            self.rows()
        }
    }

    #[test]
    fn rows_of_any_number_stand_below_each_other() {
        for total in [TOTAL, 1000] {
            let mut list = List::new(total);
            list.harness.run_steps(2);
            assert_eq!(list.rows()[0], 0);
            let middle = list.go(total / 2);
            let at = middle.iter().position(|row| *row == total / 2).unwrap();
            assert!(at.abs_diff(middle.len() / 2) <= 2, "row {} of {}", at, middle.len());
            let later = list.turn(-30.0);
            assert!(later[0].abs_diff(middle[0] + 30) <= 1, "{} after {}", later[0], middle[0]);
            assert_eq!(list.go(total).last(), Some(&(total - 1)));
            assert_eq!(list.turn(-30.0).last(), Some(&(total - 1)), "the end is the end");
        }
    }

    #[test]
    fn the_bar_goes_to_any_part() {
        let mut list = List::new(TOTAL);
        list.harness.run_steps(2);
        let (left, right) = (list.rows()[0], list.seen.borrow()[0].1.right());
        assert!(right < 290.0 && left == 0);
        let bar = |y: f32| pos2(287.0, y);
        list.harness.hover_at(bar(200.0));
        list.harness.step();
        list.harness.drag_at(bar(200.0));
        list.harness.step();
        list.harness.drop_at(bar(200.0));
        list.harness.run_steps(2);
        let half = list.rows()[0] as f64 / TOTAL as f64;
        assert!((0.45..0.55).contains(&half), "{half}");
    }
}
