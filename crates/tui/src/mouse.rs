//! What the mouse does: everything it can do, a key can too.

use std::sync::Arc;

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use crate::app::{App, Mode};
use crate::document::Subject;
use crate::keys::{Action, KEYS, View};
use crate::list::List;
use crate::views::ranks::Places;
use crate::views::{self, timeline_layout};

/// Rows that a notch of the wheel moves.
const WHEEL: isize = 3;

impl App {
    /// Does what the mouse asks.
    pub fn mouse(&mut self, event: MouseEvent) {
        if !matches!(self.mode, Mode::Normal) || self.panes.is_empty() {
            return;
        }
        let at = Position::new(event.column, event.row);
        match event.kind {
            MouseEventKind::Down(MouseButton::Left) => self.click(at),
            MouseEventKind::Drag(MouseButton::Left) if self.view() == View::Timeline => self.drag(at),
            MouseEventKind::Up(MouseButton::Left) => self.screen.dragging = false,
            MouseEventKind::ScrollUp => self.wheel(at, -1),
            MouseEventKind::ScrollDown => self.wheel(at, 1),
            _ => return,
        }
        self.refresh();
    }

    fn click(&mut self, at: Position) {
        let had_message = self.message.take().is_some();
        if at.y + 1 == self.screen.size.1 {
            // A message is in the place of the keys.
            let hints = crate::draw::hints(self, self.screen.size.0).into_iter();
            let hit =
                hints.filter(|_| !had_message).find(|hint| (hint.x..hint.x + hint.width).contains(&at.x));
            if let Some(hint) = hit {
                self.act(hint.action);
            }
            return;
        }
        if at.y == 1 && self.has_tabs() {
            let hit = crate::draw::tabs(self, self.screen.size.0)
                .into_iter()
                .find(|(_, x, text)| (*x..x + text.len() as u16).contains(&at.x));
            if let Some((view, ..)) = hit {
                self.act(Action::View(view));
            }
            return;
        }
        if !self.is_whole_screen() {
            let hit = self.panes.iter().position(|pane| pane.area.contains(at));
            let Some(hit) = hit else { return };
            self.pair.active = hit;
        }
        if self.view() == View::Timeline {
            self.click_chart(at);
        } else if self.view() == View::Flame {
            self.click_flame(at);
        } else if let Some(file) = self.heat_at(at) {
            self.files.ranks.select(file);
        } else {
            let lines = match self.view() {
                View::Ranks => Places::new(self.body(), &self.files.ranks).lines,
                View::Segments => self.pane().map_or(1, |pane| pane.segments.lines(pane.area)),
                _ => 1,
            };
            let view = self.view();
            let is_sorted = KEYS.iter().any(|row| row.action == Action::Sort && row.is_for(view, false));
            let Some((first, list, len)) = self.list_at() else { return };
            if is_sorted && at.y + 1 == first {
                return self.act(Action::Sort);
            }
            let Some(row) = at.y.checked_sub(first).and_then(|row| list.at(row / lines, len)) else { return };
            if list.selected == row {
                self.act(Action::Enter);
            } else {
                list.selected = row;
            }
        }
    }

    /// A click on a column puts the cursor there, and one on the cursor opens it; one on the whole run shows that part of
    /// it, and one on what to know first opens more of it.
    fn click_chart(&mut self, at: Position) {
        let run = self.run_note();
        let Some(pane) = self.panes.get_mut(self.pair.active) else { return };
        let parts = timeline_layout(pane.area, pane.shape);
        let chart = parts.chart;
        if parts.notes.contains(at) {
            let opened =
                views::chart::opened_by_note(pane, run.as_deref(), usize::from(at.y - parts.notes.y));
            if let Some(view) = opened {
                self.act(Action::View(view));
            }
            return;
        }
        if parts.minimap.contains(at) {
            let doc = Arc::clone(&pane.doc);
            let share = (f64::from(at.x - parts.minimap.x) + 0.5) / f64::from(parts.minimap.width);
            return pane.timeline.center(Subject { doc: &doc, device: pane.device }, share);
        }
        if !chart.contains(at) {
            return;
        }
        let (column, columns) = (usize::from(at.x - chart.x), usize::from(chart.width));
        if pane.timeline.is_at(column, columns) {
            self.act(Action::Enter);
        } else {
            let doc = Arc::clone(&pane.doc);
            pane.timeline.point(Subject { doc: &doc, device: pane.device }, column, columns);
        }
    }

    fn drag(&mut self, at: Position) {
        let Some(pane) = self.panes.get_mut(self.pair.active) else { return };
        let chart = timeline_layout(pane.area, pane.shape).chart;
        if chart.contains(at) {
            let doc = Arc::clone(&pane.doc);
            let subject = Subject { doc: &doc, device: pane.device };
            // A drag marks a range: from where it began to the cursor.
            if !std::mem::replace(&mut self.screen.dragging, true) {
                pane.scope.mark = Some(pane.timeline.at());
            }
            pane.timeline.point(subject, (at.x - chart.x).into(), chart.width.into());
        }
    }

    fn click_flame(&mut self, at: Position) {
        let Some(pane) = self.panes.get(self.pair.active) else { return };
        let views::flame::Layout { graph, lines, top } = views::flame::Layout::new(pane);
        let Some(depth) = at.y.checked_sub(graph.y).map(|row| u32::from(row / lines) + top) else { return };
        let cells = views::flame::cells(pane, graph.width, depth + 1);
        let x = at.x.saturating_sub(graph.x);
        let hit = cells.iter().find(|cell| cell.depth == depth && (cell.x..cell.x + cell.width).contains(&x));
        let Some(node) = hit.map(|cell| cell.node) else { return };
        if node == pane.calls.flame_at {
            self.act(Action::Enter);
        } else if let Some(pane) = self.panes.get_mut(self.pair.active) {
            pane.calls.flame_at = node;
        }
    }

    fn wheel(&mut self, at: Position, towards: isize) {
        if self.view() == View::Timeline {
            let hit = self.panes.iter().position(|pane| pane.area.contains(at)).unwrap_or(self.pair.active);
            self.pair.active = hit;
            let Some(pane) = self.panes.get_mut(hit) else { return };
            let doc = Arc::clone(&pane.doc);
            let subject = Subject { doc: &doc, device: pane.device };
            let chart = timeline_layout(pane.area, pane.shape).chart;
            let column = usize::from(at.x.saturating_sub(chart.x).min(chart.width.saturating_sub(1)));
            let factor = if towards < 0 { 0.8 } else { 1.25 };
            pane.timeline.zoom_at(subject, column, chart.width.into(), factor);
        } else if let Some((_, list, len)) = self.list_at() {
            list.step(towards * WHEEL, len);
        } else {
            self.act(if towards < 0 { Action::Up } else { Action::Down });
        }
    }

    /// The file of the cell of the heat map at a place.
    fn heat_at(&self, at: Position) -> Option<usize> {
        let ranks = &self.files.ranks;
        let map = Places::new(self.body(), ranks).map;
        let heat = ranks.heat.as_ref().filter(|_| self.view() == View::Ranks && map.contains(at))?;
        views::heat::file_at(map, heat, at)
    }

    /// The list of the view: the line of its first row, its place, and its length.
    fn list_at(&mut self) -> Option<(u16, &mut List, usize)> {
        let body = self.body();
        let view = self.view();
        match view {
            View::Ranks => {
                return Some((body.y + 2, &mut self.files.ranks.list, self.files.ranks.rows.len()));
            }
            View::Diff => {
                let tree = &mut self.diff.tree;
                return Some((body.y + 2, &mut tree.list, tree.rows.len()));
            }
            _ => {}
        }
        let pane = self.panes.get_mut(self.pair.active)?;
        let top = pane.area.y;
        let insights = pane.subject().insights().len();
        Some(match view {
            View::Tree => (top + 2, &mut pane.calls.tree.list, pane.calls.tree.rows.len()),
            View::Allocations => (top + 3, &mut pane.allocations.list, pane.allocations.rows.len()),
            View::Segments => (top + 2, &mut pane.segments.list, pane.segments.rows.len()),
            View::Events => {
                let len = pane.events.len();
                (top + 2, &mut pane.events.list, len)
            }
            View::Pools => (top + 2, &mut pane.pools.list, pane.pools.rows.len()),
            View::Insights => (top, &mut pane.insights, insights),
            View::WhatIf => {
                let (first, rows) = (views::whatif::first_row(pane), pane.whatif.rows());
                (first, &mut pane.whatif.list, rows)
            }
            _ => return None,
        })
    }
}
